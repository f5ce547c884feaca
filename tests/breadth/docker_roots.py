# SPDX-License-Identifier: Apache-2.0
"""Runtimes with a root file system of their own, on docker: handed to the engine once, run there, removed when they are stale.

Not of the native backend: CMakeLists.txt names it for docker.
"""
import os
import subprocess

import grpc
import services as crisol
from sandbox_calls import pb, services as stubs
from test_runtime_build import make_place, runtime, say, write  # noqa: F401  (a fixture among them)

SANDBOXD = os.path.join(crisol.BIN, "sandboxd")


def serve(state, flags):
    return crisol.Services(with_agent=False, ready_seconds=120,
                           sandboxd_flags=[f"--state-dir={state}", "--slots=2", "--pool=0", *flags])


def collect_garbage(state, flags):
    """Says how many images were removed."""
    kept = [flag for flag in flags if flag.startswith(("--docker-socket", "--docker-base"))]
    done = subprocess.run([SANDBOXD, "gc", f"--state-dir={state}", *kept], capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout.split(" and ")[1].split()[0])


def listed(address):
    with grpc.insecure_channel(address) as channel:
        found = stubs.SandboxServiceStub(channel).ListRuntimes(pb.ListRuntimesRequest(), timeout=90).runtimes
        return {runtime.name: runtime for runtime in found}


def test_a_registered_root_is_an_image_until_it_is_removed(place, tmp_path, backend_flags):
    state = tmp_path / "state"
    digests = {version: runtime("build", write(place, version, f"build.folder = {version}"), state=state).split()[1]
               for version in ("one", "two")}
    with serve(state, backend_flags) as running:
        for version in ("one", "two"):
            answer = say(running.sandbox, f"say:{version}")
            assert answer.stdout_data.decode() == f"hi\n{version}\n", answer.result.summary
            assert answer.result.policy.backend == pb.BACKEND_DOCKER
            assert answer.result.policy.rootfs_digest == digests[version]
        found = listed(running.sandbox)
        assert found["say:one"].rootfs_digest == digests["one"] and not found["python"].rootfs_digest
        with grpc.insecure_channel(running.sandbox) as channel:  # and nothing else is in it
            answer = stubs.SandboxServiceStub(channel).Run(
                pb.RunRequest(runtime="say:one", command=["/usr/bin/python3", "-c", ""]), timeout=60)
        assert answer.result.verdict.code == pb.VERDICT_CODE_EXEC_FAILED
        assert running.sandboxd.log().count("handing a root file system") == 2
    assert collect_garbage(state, backend_flags) == 0
    runtime("remove", "say:one", state=state)
    assert collect_garbage(state, backend_flags) == 2  # the root, and what sandbox-init was laid on
    with serve(state, backend_flags) as running:
        assert say(running.sandbox, "say:two").stdout_data == b"hi\ntwo\n"
        assert "say:one" not in listed(running.sandbox)
        assert "handing a root file system" not in running.sandboxd.log()
