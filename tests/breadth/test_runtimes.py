# SPDX-License-Identifier: Apache-2.0
"""Every runtime that is offered here does what its language does: seven programs each, with the limits that stop them."""
import os

import grpc
import pytest
from languages import ALWAYS_BUILT, COMPILED, LANGUAGES, OWN_MEMORY_LIMIT, SLOW_AT_MEMORY_LIMIT, START_MIB, START_MS
from sandbox_calls import pb, services as stubs

MIB = 1 << 20
OK, NONZERO = pb.VERDICT_CODE_OK, pb.VERDICT_CODE_NONZERO_EXIT
COMPILE_ERROR = pb.VERDICT_CODE_COMPILE_ERROR
BACKEND = os.environ.get("CRISOL_BACKEND", "native")
IS_BUILT = "CRISOL_STATE_DIR" in os.environ  # by scripts/runtimes.sh: each language has a root of its own
# What scripts/deps.sh installs, and what the image of scripts/image.sh --languages has.
ALWAYS = set(LANGUAGES) if IS_BUILT else \
    {"c", "c++", "node", "pytest", "python", "shell"} | ({"go", "java"} if BACKEND == "native" else set())
# A host may have more of the languages; all of them are tried by scripts/runtimes.sh, on both backends.
TRIED = sorted(set(LANGUAGES) - (set() if IS_BUILT else ALWAYS_BUILT))
# What is not about time has enough of it on a machine that is busy with others.
PATIENT = pb.Limits(wall_time_ms=150000, cpu_time_ms=150000)
LEAST_MEMORY = {"native": 4 * MIB, "docker": 8 * MIB}[BACKEND]  # an engine takes no less than 6


@pytest.fixture(scope="module")
def stub(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        yield stubs.SandboxServiceStub(channel)


@pytest.fixture(scope="module")
def offered(stub):
    return {runtime.name: runtime for runtime in stub.ListRuntimes(pb.ListRuntimesRequest(), timeout=90).runtimes}


def run(stub, runtime, code="", **fields):
    # Nothing here is about time but where it says so, and compilers and virtual machines start slowly from a cold disk.
    fields.setdefault("limits", pb.Limits(wall_time_ms=120000))
    if runtime in COMPILED and "command" not in fields:
        fields.setdefault("compile_limits", pb.Limits(wall_time_ms=120000))
    answer = stub.Run(pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields), timeout=300)
    print(f"\n{runtime}: {answer.result.summary} {answer.result.compile.output_text[-300:]}")
    return answer


def name_of(answer):
    return pb.VerdictCode.Name(answer.result.verdict.code).removeprefix("VERDICT_CODE_")


def test_every_runtime_that_the_host_has_is_offered(offered):
    assert ALWAYS <= set(offered), "scripts/deps.sh test installs what is missing"
    for name, runtime in offered.items():
        assert bool(runtime.compile_argv) == (name in COMPILED)
        assert (runtime.default_compile_limits.memory_bytes > 0) == (name in COMPILED)
        assert not IS_BUILT or bool(runtime.rootfs_digest) == (name not in {"pytest", "python", "shell"})


@pytest.mark.parametrize("language", TRIED)
def test_programs_of_a_language(stub, offered, language):
    if language not in offered:
        pytest.skip("its tools are not here")
    programs = LANGUAGES[language]
    answer = run(stub, language, programs["hello"], limits=PATIENT)
    assert name_of(answer) == "OK" and ("hello" in answer.stdout_text or language == "pytest")
    assert answer.result.phase == pb.PHASE_RUN
    assert answer.result.HasField("compile") == (language in COMPILED)
    if "echo" in programs:
        assert run(stub, language, programs["echo"], stdin_text="one\ntwo\n", limits=PATIENT).stdout_text == "one\ntwo\n"
    answer = run(stub, language, programs["threads"], limits=PATIENT)
    assert name_of(answer) == "OK" and ("28" in answer.stdout_text or language == "pytest")
    if "files" not in programs:
        return
    answer = run(stub, language, programs["files"], limits=PATIENT, files=[pb.InputFile(path="in.txt", text="in and out")],
                 collect=[pb.CollectSpec(path="out.txt", required=True)])
    assert name_of(answer) == "OK" and answer.result.files[0].data == b"IN AND OUT"


@pytest.mark.parametrize("language", TRIED)
def test_programs_that_are_wrong_or_take_too_much(stub, offered, language):
    if language not in offered:
        pytest.skip("its tools are not here")
    programs = LANGUAGES[language]
    answer = run(stub, language, programs["broken"]) if "broken" in programs else None
    if language in COMPILED:
        assert name_of(answer) == "COMPILE_ERROR" and answer.result.phase == pb.PHASE_COMPILE
        assert "missing" in answer.result.compile.output_text and answer.result.compile.exit_code != 0
        assert answer.result.summary.startswith("COMPILE_ERROR: ") and answer.stdout_data == b""
    elif answer:
        assert name_of(answer) == "NONZERO_EXIT" and answer.result.phase == pb.PHASE_RUN
    wall_ms = 1500 + START_MS.get(language, 0)
    answer = run(stub, language, programs["loop"], limits=pb.Limits(wall_time_ms=wall_ms, cpu_time_ms=60000))
    assert name_of(answer) == "WALL_TIME_LIMIT" and answer.result.limit_hit.value == wall_ms
    memory = (96 + START_MIB.get(language, 0)) * MIB
    answer = run(stub, language, programs["memory"], limits=pb.Limits(memory_bytes=memory, wall_time_ms=150000, cpu_time_ms=150000))
    assert name_of(answer) in {"MEMORY_LIMIT"} | ({"NONZERO_EXIT", "SIGNALED"} if language in OWN_MEMORY_LIMIT else set()) | \
        ({"WALL_TIME_LIMIT"} if language in SLOW_AT_MEMORY_LIMIT else set())


def test_the_compile_stage_has_limits_and_a_sandbox_of_its_own(stub):
    source = "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"left\", \"r\"); return f ? 1 : 0; }"
    answer = run(stub, "c", source, limits=pb.Limits(memory_bytes=LEAST_MEMORY, processes=1, wall_time_ms=20000),
                 compile_limits=pb.Limits(memory_bytes=256 * MIB, wall_time_ms=120000))
    assert name_of(answer) == "OK"
    assert answer.result.compile.limits.memory_bytes == 256 * MIB
    assert answer.result.policy.limits.memory_bytes == LEAST_MEMORY
    assert answer.result.compile.usage.wall_us > 0 and answer.result.compile.timing.run_us > 0
    answer = run(stub, "c", source, compile_limits=pb.Limits(wall_time_ms=1))
    assert name_of(answer) == "WALL_TIME_LIMIT" and answer.result.phase == pb.PHASE_COMPILE
    assert answer.result.limit_hit.value == 1
    # A header that never ends is stopped where the program's own limits would not.
    answer = run(stub, "c", '#include "/dev/zero"\n', compile_limits=pb.Limits(memory_bytes=64 * MIB))
    assert name_of(answer) in {"MEMORY_LIMIT", "COMPILE_ERROR", "CPU_TIME_LIMIT", "WALL_TIME_LIMIT"}
    assert answer.result.phase == pb.PHASE_COMPILE
    answer = run(stub, "c", '#include "/etc/shadow"\nint main(void) { return 0; }')
    assert name_of(answer) == "COMPILE_ERROR"
    # An image has its own one, and nobody may read it.
    assert ("Permission denied" if BACKEND == "docker" or IS_BUILT else "No such file") in answer.result.compile.output_text


def test_what_a_compiler_says_is_kept_and_cut_in_the_middle(stub):
    answer = run(stub, "c", "int main(void) { int unused; return 0 }\n" + "\n".join(f"int x{i} = y{i};" for i in range(4000)),
                 compile_limits=pb.Limits(wall_time_ms=150000, cpu_time_ms=150000))
    output = answer.result.compile.output
    assert name_of(answer) == "COMPILE_ERROR" and answer.result.compile.is_truncated
    assert b"main.c" in output and 16 << 10 < len(output) <= 64 << 10


def test_streams_and_files_of_two_stages(stub):
    files = [pb.InputFile(path="main.c", text='#include "two.h"\nint main(void) { return two() - 2; }'),
             pb.InputFile(path="two.c", text='#include "two.h"\nint two(void) { return 2; }'),
             pb.InputFile(path="two.h", text="int two(void);")]
    assert name_of(run(stub, "c", files=files)) == "OK"
    events = list(stub.Execute(pb.ExecuteRequest(runtime="c", code=LANGUAGES["c"]["hello"]), timeout=200))
    assert [event.WhichOneof("event") for event in events] == ["started", "output", "result"]
    assert [event.seq for event in events] == [0, 1, 2] and len({event.execution_id for event in events}) == 1
    events = list(stub.Execute(pb.ExecuteRequest(runtime="c", code="int main("), timeout=200))
    assert [event.WhichOneof("event") for event in events] == ["result"]
    assert events[0].result.verdict.code == COMPILE_ERROR


def test_a_command_is_run_as_it_is(stub):
    answer = run(stub, "c", command=["/usr/bin/gcc", "--version"])
    assert name_of(answer) == "OK" and "gcc" in answer.stdout_text and not answer.result.HasField("compile")


@pytest.mark.parametrize("fields, field", [
    ({"compile_limits": pb.Limits(output_bytes=1000)}, "compile_limits.output_bytes"),
    ({"compile_limits": pb.Limits(memory_bytes=1 << 50)}, "compile_limits.memory_bytes"),
    ({"files": [pb.InputFile(path="main", text="x")]}, "files[0].path"),
    ({"runtime": "python", "compile_limits": pb.Limits(wall_time_ms=1)}, "compile_limits"),
    ({"runtime": "python", "keep_compiled": True}, "keep_compiled"),
    ({"runtime": "python", "compiled": "0" * 64}, "compiled"),
    ({"compiled": "0" * 64}, "compiled"),
])
def test_bad_requests_name_the_field(stub, fields, field):
    request = {"runtime": "c", "code": "int main(void) { return 0; }", **fields}
    with pytest.raises(grpc.RpcError) as caught:
        stub.Run(pb.RunRequest(**request), timeout=90)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT and caught.value.details().startswith(field)


def test_cancel_ends_the_compile_stage(stub):
    deep = "\n".join(f"#define A{i} A{i - 1} + A{i - 1}" for i in range(1, 30))
    source = f"#define A0 1\n{deep}\nint main(void) {{ return A29; }}"
    call = stub.Run.future(pb.RunRequest(runtime="c", code=source, request_id="slow"), timeout=200)
    found = False
    while not found and not call.done():
        found = stub.Cancel(pb.CancelRequest(request_id="slow"), timeout=90).found
    result = call.result().result
    assert result.verdict.code == pb.VERDICT_CODE_CANCELLED and result.phase == pb.PHASE_COMPILE
    assert result.request_id == "slow" and len(result.execution_id) == 32
