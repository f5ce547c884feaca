# SPDX-License-Identifier: Apache-2.0
"""Contents that are stored once and named by digest: files, and what a compile stage made."""
import hashlib
import os
import subprocess
import sys
import threading

import grpc
import pytest
import services as crisol
from sandbox_calls import pb, services as stubs
from test_sandboxes import refusal

COUNT = 'int main(int argc, char **argv) { return argc - 1; }'


@pytest.fixture(scope="module")
def stub(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        yield stubs.SandboxServiceStub(channel)


def store(stub, data, size=65536):
    pieces = [data[at:at + size] for at in range(0, len(data), size)]
    return stub.WriteArtifact(iter(pb.WriteArtifactRequest(data=piece) for piece in pieces), timeout=60)


def refused(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_a_file_is_stored_once_and_used_by_digest(stub):
    data = os.urandom(200_000)
    stored = store(stub, data)
    assert (stored.digest, stored.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert store(stub, data, 1000).digest == stored.digest
    code = "import hashlib, os\nprint(hashlib.sha256(open('d/x', 'rb').read()).hexdigest(), oct(os.stat('d/x').st_mode & 0o777))"
    for _ in range(3):
        answer = stub.Run(pb.RunRequest(runtime="python", code=code, files=[
            pb.InputFile(path="d/x", artifact=stored.digest, mode=0o600)]), timeout=60)
        assert answer.stdout_data.decode().split() == [stored.digest, "0o600"], answer.result.summary
    listed = stub.ListArtifacts(pb.ListArtifactsRequest(), timeout=90)
    assert [item.digest for item in listed.artifacts].count(stored.digest) == 1
    assert 0 < listed.artifacts[0].remaining_ms <= 3_600_000
    assert stub.DeleteArtifact(pb.DeleteArtifactRequest(digest=stored.digest), timeout=90).found
    assert not stub.DeleteArtifact(pb.DeleteArtifactRequest(digest=stored.digest), timeout=90).found
    code, details = refused(lambda: stub.Run(pb.RunRequest(runtime="python", code="1", files=[
        pb.InputFile(path="x", artifact=stored.digest)]), timeout=90))
    assert code == grpc.StatusCode.NOT_FOUND and "files[0].artifact" in details


def test_compile_once_run_many(stub):
    first = stub.Run(pb.RunRequest(runtime="c", code=COUNT, keep_compiled=True), timeout=60).result
    assert first.verdict.code == pb.VERDICT_CODE_OK and len(first.compile.artifact) == 64
    for args in ([], ["a"], ["a", "b"]):
        result = stub.Run(pb.RunRequest(runtime="c", compiled=first.compile.artifact, args=args), timeout=60).result
        assert result.exit_code == len(args) and result.phase == pb.PHASE_RUN and not result.HasField("compile")
    # It is what a stage of that runtime left, and of no other; and nothing that was only stored.
    stored = store(stub, b"not what a compiler made")
    for runtime, digest in (("java", first.compile.artifact), ("c", stored.digest)):
        code, details = refused(lambda r=runtime, d=digest: stub.Run(pb.RunRequest(runtime=r, compiled=d), timeout=90))
        assert code == grpc.StatusCode.INVALID_ARGUMENT and details.startswith("compiled: "), details
    code, details = refused(lambda: stub.Run(pb.RunRequest(runtime="c", compiled="0" * 64), timeout=90))
    assert code == grpc.StatusCode.NOT_FOUND and "compile again" in details
    result = stub.Run(pb.RunRequest(runtime="c", compiled=first.compile.artifact, files=[
        pb.InputFile(path="data.txt", text="x")]), timeout=60).result
    assert result.verdict.code == pb.VERDICT_CODE_OK


def test_what_is_stored_is_bounded(stub):
    code, _ = refused(lambda: store(stub, bytes((8 << 20) + 1)))
    assert code == grpc.StatusCode.OUT_OF_RANGE
    code, details = refused(lambda: store(stub, bytes(70_000), 70_000))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and details.startswith("data: ")
    digests = []
    with pytest.raises(grpc.RpcError) as caught:
        for number in range(10):
            digests.append(store(stub, bytes([number]) * (8 << 20)).digest)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and 7 <= len(digests) <= 8
    for digest in digests:
        assert stub.DeleteArtifact(pb.DeleteArtifactRequest(digest=digest), timeout=90).found
    assert store(stub, b"room again").size_bytes == 10


def test_one_caller_writes_few_at_one_time(stub):
    """Half of one is memory, too: those that never come to their end are counted, and given up when their call is."""
    done = threading.Event()

    def endless():
        yield pb.WriteArtifactRequest(data=b"half")
        done.wait(60 * crisol.SLOWNESS)
    calls = [stub.WriteArtifact.future(endless(), timeout=60 * crisol.SLOWNESS) for _ in range(5)]
    try:
        ended = crisol.wait_for(lambda: [call for call in calls if call.done()], 30, "one of the five is refused")
        assert [refusal(call.result) for call in ended] == [("RESOURCE_EXHAUSTED", "UPLOADS")]
        assert refusal(lambda: store(stub, b"x")) == ("RESOURCE_EXHAUSTED", "UPLOADS")
    finally:
        for call in calls:
            call.cancel()
        done.set()

    def is_free():
        try:
            return store(stub, b"whole").size_bytes == 5
        except grpc.RpcError:
            return False
    crisol.wait_for(is_free, 30, "calls that were given up count no more")


def test_one_caller_does_not_see_what_another_stored(services):
    """The second caller is another user of the host."""
    with grpc.insecure_channel(services.sandbox) as channel:
        stored = store(stubs.SandboxServiceStub(channel), b"mine alone")
    program = ("import sys; sys.path[:0] = {paths!r}; import os; os.setgid({uid}); os.setuid({uid}); import grpc;"
               "from sandbox_calls import pb, services as stubs; s = stubs.SandboxServiceStub(grpc.insecure_channel({address!r}));"
               "print(len(s.ListArtifacts(pb.ListArtifactsRequest(), timeout=90).artifacts));"
               "print(s.DeleteArtifact(pb.DeleteArtifactRequest(digest={digest!r}), timeout=90).found);\n"
               "try: s.Run(pb.RunRequest(runtime='python', code='1', files=[pb.InputFile(path='x', artifact={digest!r})]), timeout=90)\n"
               "except grpc.RpcError as error: print(error.code().name)")
    text = program.format(paths=sys.path, uid=crisol.SERVICE_UID, address=services.sandbox, digest=stored.digest)
    done = subprocess.run([sys.executable, "-B", "-c", text], capture_output=True, text=True, timeout=60, check=True,
                          env={**os.environ, "CRISOL_BUILD": crisol.BUILD})
    assert done.stdout.split() == ["0", "False", "NOT_FOUND"], done.stderr
    with grpc.insecure_channel(services.sandbox) as channel:
        listed = stubs.SandboxServiceStub(channel).ListArtifacts(pb.ListArtifactsRequest(), timeout=90)
    assert stored.digest in [item.digest for item in listed.artifacts]
