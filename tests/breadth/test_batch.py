# SPDX-License-Identifier: Apache-2.0
"""RunBatch and `crisol batch`: many programs, each in a sandbox of its own."""
import collections
import json
import os
import queue
import subprocess
import time

import grpc
import pytest

import services as crisol
from conftest import SLOTS
from relay import Relay
from sandboxd_service import load_stubs

pb, pb_grpc = load_stubs()
# The whole of it is 1,000 programs of 64 clients; CRISOL_BATCH_PROGRAMS=1000 CRISOL_BATCH_CLIENTS=64.
PROGRAMS = int(os.environ.get("CRISOL_BATCH_PROGRAMS", "96"))
CLIENTS = int(os.environ.get("CRISOL_BATCH_CLIENTS", "12"))


@pytest.fixture(scope="module", name="stub")
def make_stub(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        yield pb_grpc.SandboxServiceStub(channel)


def python(code, **fields):
    return pb.ExecuteRequest(runtime="python", code=code, **fields)


def item(key, request):
    return pb.RunBatchRequest(id=key, request=request)


def answers(stub, items):
    return list(stub.RunBatch(iter(items), timeout=60 * crisol.SLOWNESS))


def lines(*items):
    return "\n".join(json.dumps(item) for item in items).encode()


def batch(services, items, *flags, **options):
    done = services.crisol("batch", *flags, stdin=items if isinstance(items, bytes) else lines(*items), **options)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def runs_something(services):
    try:
        return crisol.has_box(services.sandboxd_pids())
    except (FileNotFoundError, ProcessLookupError):  # a process ended while it was looked at
        return True


# ---- the service ----

def test_each_item_has_one_answer_under_its_id(stub):
    items = [item(f"key {i}", python(f"print({i}); raise SystemExit({i % 3})")) for i in range(12)]
    found = {answer.id: answer.response for answer in answers(stub, items)}
    assert len(found) == 12
    for i in range(12):
        assert found[f"key {i}"].stdout_data == b"%d\n" % i and found[f"key {i}"].result.exit_code == i % 3


def test_what_is_wrong_with_an_item_ends_no_other(stub):
    bad = [item("a", python("pass", limits=pb.Limits(open_files=1), request_id="!")), pb.RunBatchRequest(id="b"),
           item("c" * 129, python("pass")), item("d", pb.ExecuteRequest(runtime="cobol", code="x")),
           item("e", python("pass", limits=pb.Limits(output_bytes=2 << 20))), item("f", python("print('fine')"))]
    found = {answer.id: answer for answer in answers(stub, bad)}
    assert found["a"].error.code_name == "INVALID_ARGUMENT"
    assert [text.split(":")[0] for text in found["a"].error.violations] == ["request_id", "limits.open_files"]
    assert "request" in found["b"].error.message and "128" in found[""].error.message
    assert found["d"].error.code_name == "NOT_FOUND" and "output_bytes" in found["e"].error.message
    assert found["f"].response.stdout_data == b"fine\n" and not found["f"].HasField("error")


def test_an_item_has_five_seconds_unless_it_asks(stub):
    plain, asked = answers(stub, [item("", python("pass"))] * 1)[0], \
        answers(stub, [item("", python("pass", limits=pb.Limits(wall_time_ms=7000)))])[0]
    policy = plain.response.result.policy
    assert (policy.limits.wall_time_ms, policy.limits.cpu_time_ms, list(policy.requested)) == (5000, 5000, [])
    assert asked.response.result.policy.limits.wall_time_ms == 7000


def test_an_answer_that_no_client_takes_is_an_error_of_its_item(stub):
    big = python("import sys; sys.stdout.buffer.write(b'\\xff' * (1 << 20))", output_text=True)
    found = {answer.id: answer for answer in answers(stub, [item("big", big), item("small", python("pass"))])}
    assert found["big"].error.reason == "ANSWER_TOO_LARGE" and found["big"].error.retry_after_ms == 0
    assert found["small"].response.result.verdict.code == pb.VERDICT_CODE_OK


def test_a_stream_has_a_bounded_number_in_hand(stub):
    """The stream holds back what is more than two for each slot, so nothing of it is refused."""
    items = [item(str(i), python("pass")) for i in range(60)]
    assert [answer.error.message for answer in answers(stub, items) if answer.HasField("error")] == []


def test_a_retry_on_another_stream_gets_the_first_answer(stub):
    request = python("import os; print(os.urandom(8).hex())", request_id="batch-again")
    first, again = answers(stub, [item("x", request)])[0], answers(stub, [item("y", request)])[0]
    assert first.response == again.response and (first.id, again.id) == ("x", "y")


def test_a_broken_stream_kills_what_runs(services, stub):
    feed = queue.Queue()
    feed.put(item("x", python("import time; time.sleep(50)", limits=pb.Limits(wall_time_ms=60000))))
    call = stub.RunBatch(iter(feed.get, None), timeout=60)
    crisol.wait_for(lambda: runs_something(services), 10, "it runs")
    call.cancel()
    feed.put(None)
    crisol.wait_for(lambda: not runs_something(services), 2, "it is dead")


def test_a_message_that_cannot_be_read_kills_what_runs(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        feed = queue.Queue()
        feed.put(item("x", python("import time; time.sleep(50)", limits=pb.Limits(wall_time_ms=60000))).SerializeToString())
        call = channel.stream_stream("/crisol.sandbox.v1.SandboxService/RunBatch")(iter(feed.get, None), timeout=60)
        crisol.wait_for(lambda: runs_something(services), 10, "it runs")
        feed.put(b"\x0a\x01\xff")
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        feed.put(None)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        crisol.wait_for(lambda: not runs_something(services), 2, "it is dead")


# ---- the command ----

def test_wrong_lines_are_named_and_nothing_is_lost(services):
    text = b'{"id":"a","request":{"code":"print(1)"}}\n\nnonsense\n{"id":"c","request":{"foo":1}}\n' \
           b'{"request":{"runtime":"cobol","code":"x"}}\n{"id":"e","request":{"code":"' + b"#" * (5 << 20) + b'"}}\n' \
           b'{"id":"f","request":{"code":"raise SystemExit(3)"}}'
    done, found = batch(services, text, "--ordered")
    assert [answer["id"] for answer in found] == ["a", "3", "4", "5", "6", "f"]
    assert found[0]["response"]["stdout_text"] == "1\n" and found[5]["response"]["result"]["exit_code"] == 3
    assert [answer["error"]["code_name"] for answer in found[1:5]] == ["INVALID_ARGUMENT"] * 2 + ["NOT_FOUND"] + \
        ["INVALID_ARGUMENT"]
    for number in (3, 4, 5, 6):
        assert f"crisol: line {number}: ".encode() in done.stderr
    assert b"6 lines" in done.stderr and b"2 ran, 4 were wrong" in done.stderr
    assert done.returncode == 1


def test_one_program_against_many_inputs(services, tmp_path):
    program = tmp_path / "square.py"
    program.write_text("print(int(input()) ** 2)\n")
    done, found = batch(services, [{"id": str(i), "request": {"stdin_text": f"{i}\n"}} for i in range(8)],
                        "--program", str(program))
    assert done.returncode == 0, done.stderr.decode()
    assert {answer["id"]: answer["response"]["stdout_text"] for answer in found} == {
        str(i): f"{i * i}\n" for i in range(8)}


def test_answers_come_while_the_input_is_open(services):
    call = subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "batch"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"CRISOL_SANDBOX": services.sandbox})
    for i in range(3):
        call.stdin.write(lines({"request": {"code": f"print({i})"}}) + b"\n")
        call.stdin.flush()
        assert json.loads(call.stdout.readline())["response"]["stdout_text"] == f"{i}\n"
    call.stdin.close()
    assert call.stdout.read() == b"" and call.wait(90 * crisol.SLOWNESS) == 0
    call.stdout.close()


def test_a_service_that_is_not_there_is_125(services, tmp_path):
    done, found = batch(services, [{"request": {"code": "pass"}}], "--sandbox", f"unix:{tmp_path}/none.sock")
    assert done.returncode == 125 and b"none.sock" in done.stderr
    assert found[0]["error"]["code_name"] == "UNAVAILABLE"


def test_broken_streams_lose_nothing(services, tmp_path):
    path = str(tmp_path / "relay.sock")
    with Relay(path, services.socket, cut_after=20000, cuts=3) as relay:
        done, found = batch(services, [{"id": f"k{i}", "request": {"code": f"print({i})"}} for i in range(48)],
                            "--sandbox", "unix:" + path)
    assert relay.cuts == 3 and done.returncode == 0, done.stderr.decode()
    assert sorted((answer["id"], answer["response"]["stdout_text"]) for answer in found) == sorted(
        (f"k{i}", f"{i}\n") for i in range(48))
    assert len({answer["response"]["result"]["execution_id"] for answer in found}) == 48


def test_a_restart_of_the_service_loses_nothing():
    with crisol.Services(with_agent=False) as running:
        items = lines(*({"id": f"k{i}", "request": {"runtime": "shell", "code": f"sleep 0.2; echo {i}"}} for i in range(12)))
        with subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env={"CRISOL_SANDBOX": running.sandbox}) as call:
            call.stdin.write(items)
            call.stdin.close()
            found = [call.stdout.readline()]  # it is in the middle
            assert running.sandboxd.stop() == 0
            running.start_sandboxd()
            found += call.stdout.readlines()
            assert call.wait(60 * crisol.SLOWNESS) == 0
    answers_by_id = {answer["id"]: answer["response"]["stdout_text"] for answer in map(json.loads, found)}
    assert len(found) == 12 and answers_by_id == {f"k{i}": f"{i}\n" for i in range(12)}


# ---- many clients ----

# What is run, and what becomes of it: code, fields of the request, verdict, exit code.
KINDS = [
    ("print('{me}')", {}, "OK", 0),
    ("import sys; print('{me}'); sys.exit(7)", {}, "NONZERO_EXIT", 7),
    ("import time; print('{me}', flush=True); time.sleep(0.2)", {}, "OK", 0),
    ("import time; print('{me}', flush=True); time.sleep(9)", {"limits": {"wall_time_ms": 400}}, "WALL_TIME_LIMIT", 0),
    ("import os; print('{me}', flush=True); os.kill(os.getpid(), 11)", {}, "SIGNALED", 0),
    ("print('{me}', flush=True); x = bytearray(300 << 20)", {}, "MEMORY_LIMIT", 0),
    ("print('{me}', flush=True)\nwhile True: print('y' * 4096)", {"limits": {"output_bytes": 65536}}, "OUTPUT_LIMIT", 0),
    ("import sys; print(sys.stdin.read())", {"stdin_text": "{me}"}, "OK", 0),
]


# What is not about time has enough of it on a machine that is busy with others: the five seconds of an item are not.
PATIENT = {"wall_time_ms": 150000, "cpu_time_ms": 150000}


def program(number):
    code, fields, _, _ = KINDS[number % len(KINDS)]
    fields = {name: value.replace("{me}", f"<{number}>") if isinstance(value, str) else value
              for name, value in fields.items()}
    fields["limits"] = {**PATIENT, **fields.get("limits", {})}
    return {"id": f"p{number}", "request": {"runtime": "python", "code": code.replace("{me}", f"<{number}>"), **fields}}


def check(answer):
    """The verdict of this very program, and the output of no other."""
    number = int(answer["id"][1:])
    _, _, verdict, exit_code = KINDS[number % len(KINDS)]
    result = answer["response"]["result"]
    assert result["verdict"]["code"] == "VERDICT_CODE_" + verdict, (answer["id"], result["summary"])
    assert result["exit_code"] == exit_code
    # A slow machine may reach the wall limit before the first word.
    nothing = [""] if verdict == "WALL_TIME_LIMIT" else []
    assert answer["response"]["stdout_text"].split("\n")[0] in [f"<{number}>", *nothing]
    timing = result["timing"]
    return verdict, sum(timing[name] for name in ("prepare_us", "run_us", "kill_us", "collect_us")) / 1e6


def remains(state):
    """What does not depend on which processes they are: templates are made anew now and then."""
    return state.processes, state.cgroups, state.namespaces, state.files, state.mounts


def test_many_clients_with_many_programs(services, tmp_path):
    before = crisol.settled(services)
    begin = time.monotonic()
    assert services.crisol("exec", "--runtime", "shell", "--", "true").returncode == 0
    start_s = time.monotonic() - begin  # of one client, alone
    calls, begin = [], time.monotonic()
    for client in range(CLIENTS):
        source, target = tmp_path / f"in{client}", tmp_path / f"out{client}"
        source.write_bytes(lines(*(program(number) for number in range(client, PROGRAMS, CLIENTS))))
        with open(target, "wb") as out, open(tmp_path / f"err{client}", "wb") as err:
            # What is full of other clients' programs for a minute is still no reason to give up.
            calls.append(subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "batch", "--give-up-s", "600", str(source)],
                                          stdout=out, stderr=err, env={"CRISOL_SANDBOX": services.sandbox}))
    codes = [call.wait(600 * max(1, PROGRAMS // 96)) for call in calls]
    seconds = time.monotonic() - begin
    found = [json.loads(line) for client in range(CLIENTS)
             for line in (tmp_path / f"out{client}").read_bytes().splitlines()]
    assert codes == [0] * CLIENTS, (tmp_path / f"err{codes.index(next(filter(None, codes)))}").read_text()
    assert sorted(answer["id"] for answer in found) == sorted(f"p{number}" for number in range(PROGRAMS))
    checked = [check(answer) for answer in found]
    counts = collections.Counter(verdict for verdict, _ in checked)
    assert counts == collections.Counter(KINDS[number % len(KINDS)][2] for number in range(PROGRAMS))
    share = sum(busy for _, busy in checked) / SLOTS
    print(f"\n{PROGRAMS} programs of {CLIENTS} clients on {SLOTS} slots: {seconds:.1f} s, sum/slots {share:.1f} s, "
          f"ratio {seconds / share:.2f}; {dict(counts)}")
    # A second for the start of the clients, where that is quick, and for the last program, beside which slots are idle.
    assert seconds <= (1.3 * share + max(1, CLIENTS * start_s)) * crisol.SLOWNESS
    assert remains(crisol.settled(services)) == remains(before)
