# SPDX-License-Identifier: Apache-2.0
"""Attach: the output of a broken stream is taken up again, and what is lost is counted."""
import threading
import time

import grpc
import pytest

import services as crisol
from sandboxd_service import load_stubs
from test_sandboxes import make_new_house, refusal, verdict  # noqa: F401  (a fixture among them)

pb, pb_grpc = load_stubs()
TIMEOUT = 60 * crisol.SLOWNESS
KIB = 1 << 10


@pytest.fixture(scope="module", name="house")
def make_house(new_house):
    with new_house() as running:
        yield running


class Reader:
    """What came of one stream, and what it said was lost."""

    def __init__(self, stream, wrapped, at=(0, 0)):
        self.stream, self.wrapped = stream, wrapped
        self.at = {1: at[0], 2: at[1]}
        self.text, self.lost, self.result, self.kinds, self.id = {1: b"", 2: b""}, {1: 0, 2: 0}, None, [], None

    def take(self):
        answer = next(self.stream, None)
        if answer is None:
            return None
        event = answer.event if self.wrapped else answer
        assert event.seq == len(self.kinds) and self.id in (None, event.execution_id)
        self.id = event.execution_id
        kind = event.WhichOneof("event")
        self.kinds.append(kind)
        if kind == "output":
            assert event.output.offset == self.at[event.output.stream]
            self.at[event.output.stream] += len(event.output.data)
            self.text[event.output.stream] += event.output.data
        elif kind == "lost":
            assert event.lost.offset == self.at[event.lost.stream]
            self.at[event.lost.stream] += event.lost.lost_bytes
            self.lost[event.lost.stream] += event.lost.lost_bytes
        elif kind == "result":
            self.result = event.result
        return kind

    def until(self, condition):
        while not condition(self):
            assert self.take(), (self.kinds, self.text)
        return self

    def end(self):
        while self.take():
            pass
        return self.result


def execute(caller, code, resume=None, **fields):
    request = pb.ExecuteRequest(runtime="shell", code=code, resume=resume or pb.ResumeOptions(grace_ms=10000), **fields)
    return Reader(caller.stub.Execute(request, **caller.options), False)


def attach(caller, execution, at=(0, 0)):
    request = pb.AttachRequest(execution_id=execution, stdout_offset=at[0], stderr_offset=at[1])
    return Reader(caller.stub.Attach(request, **caller.options), True, at)


def test_a_broken_stream_is_taken_up_where_it_was(house):
    first = execute(house.root, "for i in 1 2 3 4 5 6 7 8; do echo line $i; echo e $i >&2; sleep 0.2; done; exit 3", limits=pb.Limits(wall_time_ms=60000))
    first.until(lambda reader: b"line 2\n" in reader.text[1])
    first.stream.cancel()
    again = attach(house.root, first.id, (first.at[1], first.at[2]))
    result = again.end()
    assert again.kinds[0] == "started" and again.kinds[-1] == "result" and result.exit_code == 3 and again.lost == {1: 0, 2: 0}
    assert first.text[1] + again.text[1] == b"".join(b"line %d\n" % i for i in range(1, 9))
    assert first.text[2] + again.text[2] == b"".join(b"e %d\n" % i for i in range(1, 9))
    # And once more from the beginning, after its end.
    whole = attach(house.root, first.id)
    assert whole.end().summary == result.summary and len(whole.text[1]) == 56


def test_what_the_ring_no_longer_has_is_counted(house):
    total = 900_000
    code = f"echo ready; read x < /dev/null; head -c {total - 6} /dev/zero | tr '\\0' x; echo done >&2"
    first = execute(house.root, code, pb.ResumeOptions(grace_ms=20000, ring_bytes=64 * KIB))
    first.until(lambda reader: reader.kinds == ["started"])
    first.stream.cancel()
    # The program goes on and ends, although nobody reads.
    crisol.wait_for(lambda: f"run ended execution={first.id}" in house.sandboxd.log(), 20, "the run has ended")
    again = attach(house.root, first.id)
    again.end()
    assert verdict(again.result) == "OK" and again.text[2] == b"done\n"
    assert again.lost == {1: total - 64 * KIB, 2: 0} and len(again.text[1]) == 64 * KIB and again.at[1] == total


def test_a_reader_loses_nothing_however_slow_he_is(house):
    total = 16 << 20  # more than lies on the way to him
    first = execute(house.root, f"head -c {total} /dev/zero | tr '\\0' y", pb.ResumeOptions(ring_bytes=64 * KIB),
                    limits=pb.Limits(output_bytes=20 << 20, wall_time_ms=60000, cpu_millicores=1000))
    first.until(lambda reader: len(reader.text[1]) > 0)
    time.sleep(1)
    assert verdict(first.end()) == "OK" and len(first.text[1]) == total and first.lost[1] == 0


def test_one_reader_at_a_time(house):
    first = execute(house.root, "while :; do echo x; sleep 0.05; done", limits=pb.Limits(wall_time_ms=60000))
    first.until(lambda reader: reader.text[1])
    second = attach(house.root, first.id, (0, 0)).until(lambda reader: len(reader.text[1]) > 10)
    assert refusal(first.end) == ("ABORTED", "ATTACHED_ELSEWHERE")
    assert house.root.stub.Cancel(pb.CancelRequest(execution_id=first.id), timeout=TIMEOUT).found
    assert verdict(second.end()) == "CANCELLED"


def test_it_is_its_callers_alone_and_forgotten_in_the_end(house):
    first = execute(house.root, "echo x", pb.ResumeOptions(grace_ms=5000))
    first.end()
    unknown = ("NOT_FOUND", "EXECUTION_NOT_FOUND")
    assert refusal(attach(house.other, first.id).end) == unknown
    assert refusal(attach(house.root, "0" * 32).end) == unknown
    assert refusal(attach(house.root, first.id, (3, 0)).end)[0] == "OUT_OF_RANGE"
    assert verdict(attach(house.root, first.id).end()) == "OK"
    plain = Reader(house.root.stub.Execute(pb.ExecuteRequest(runtime="shell", code="echo x"), **house.root.options), False)
    plain.end()
    assert refusal(attach(house.root, plain.id).end) == unknown
    crisol.wait_for(lambda: is_forgotten(house, first.id), 10, "it is forgotten")
    assert refusal(attach(house.root, first.id).end) == unknown


def test_nobody_comes_and_the_program_is_killed(house):
    first = execute(house.root, "echo up; sleep 60", pb.ResumeOptions(grace_ms=1000), limits=pb.Limits(wall_time_ms=50000))
    first.until(lambda reader: reader.text[1])
    assert house.programs()
    first.stream.cancel()
    crisol.wait_for(lambda: not house.programs(), 10, "the program was killed")
    crisol.wait_for(lambda: is_forgotten(house, first.id), 10, "it is forgotten")


def is_forgotten(house, execution):
    """Its grace counts from its end, and looking does not lengthen it."""
    try:
        attach(house.root, execution).end()
        return False
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.NOT_FOUND


def test_limits_hold_without_a_reader(house):
    first = execute(house.root, "echo up; sleep 60", limits=pb.Limits(wall_time_ms=2500))
    first.until(lambda reader: reader.text[1])
    first.stream.cancel()
    time.sleep(2.5)
    assert verdict(attach(house.root, first.id).end()) == "WALL_TIME_LIMIT"
    first = execute(house.root, "yes", limits=pb.Limits(output_bytes=100000))
    first.until(lambda reader: reader.text[1])
    first.stream.cancel()
    again = attach(house.root, first.id)
    assert verdict(again.end()) == "OUTPUT_LIMIT" and again.at[1] == 100000


def test_text_is_cut_between_characters(house):
    first = execute(house.root, "printf '\\303'; sleep 0.6; printf '\\274\\n'", output_text=True)
    first.until(lambda reader: reader.kinds[-1:] == ["started"])
    first.stream.cancel()
    again = attach(house.root, first.id)
    again.end()
    assert again.text[1].decode() == "ü\n" and again.kinds.count("output") == 1


def test_a_call_in_a_sandbox_can_be_taken_up(house):
    box = house.root.create()
    request = pb.ExecuteInSandboxRequest(sandbox_id=box.sandbox_id, request=pb.ExecuteRequest(
        code="import time\nx = 1\nprint('a')\ntime.sleep(1)\nprint('b')", resume=pb.ResumeOptions()))
    first = Reader(house.root.stub.ExecuteInSandbox(request, **house.root.options), True)
    first.until(lambda reader: reader.text[1])
    first.stream.cancel()
    again = attach(house.root, first.id, (2, 0))
    assert again.end().sandbox.is_state_kept and again.text[1] == b"b\n"
    assert house.root.run(box, "print(x)")[0] == "1\n"
    house.root.delete(box)


@pytest.mark.parametrize("fields, expected", [
    ({"resume": pb.ResumeOptions(grace_ms=99)}, ["resume.grace_ms"]),
    ({"resume": pb.ResumeOptions(ring_bytes=1000)}, ["resume.ring_bytes"]),
    ({"resume": pb.ResumeOptions(), "request_id": "a"}, ["resume"]),
    ({"resume": pb.ResumeOptions(), "output": pb.OutputOptions(on_overflow=pb.OVERFLOW_POLICY_HEAD_TAIL)}, ["resume"]),
])
def test_a_bad_request_names_its_field(house, fields, expected):
    request = pb.ExecuteRequest(runtime="shell", code="true", **fields)
    assert refusal(lambda: list(house.root.stub.Execute(request, **house.root.options))) == ("INVALID_ARGUMENT", expected)


def test_run_has_no_stream_to_take_up(house):
    request = pb.RunRequest(runtime="shell", code="true", resume=pb.ResumeOptions())
    assert refusal(lambda: house.root.stub.Run(request, timeout=TIMEOUT)) == ("INVALID_ARGUMENT", ["resume"])
    assert refusal(lambda: list(house.root.stub.Attach(pb.AttachRequest(), timeout=TIMEOUT))) == ("INVALID_ARGUMENT", ["execution_id"])


def test_their_number_is_bounded(house):
    calls = [execute(house.other, "sleep 20") for _ in range(16)]
    try:
        crisol.wait_for(lambda: refused(house.other), 10, "the seventeenth is refused")
    finally:
        for call in calls:
            call.stream.cancel()
    crisol.wait_for(lambda: not house.programs(), 30, "all are killed")


def refused(caller):
    try:
        execute(caller, "true", pb.ResumeOptions(grace_ms=100)).end()
        return False
    except grpc.RpcError:
        return refusal(execute(caller, "true", pb.ResumeOptions(grace_ms=100)).end) == ("RESOURCE_EXHAUSTED", "RESUME_QUOTA")


def test_many_breaks_lose_no_byte(house):
    """A stream that breaks again and again, taken up each time, is whole."""
    first = execute(house.root, "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i + 1)); [ $((i % 100)) -ne 0 ] || sleep 0.1; done; echo end >&2",
                    limits=pb.Limits(wall_time_ms=60000))
    first.until(lambda reader: reader.text[1])
    text, at, breaks = first.text[1], [first.at[1], first.at[2]], 0
    threading.Thread(target=first.stream.cancel).start()
    while True:
        reader = attach(house.root, first.id, at)
        try:
            reader.until(lambda reader: reader.result is not None or reader.text[1] or reader.text[2])
        finally:
            text += reader.text[1]
            at = [reader.at[1], reader.at[2]]
        if reader.result is not None:
            break
        reader.stream.cancel()
        breaks += 1
    assert text == b"".join(b"%d\n" % i for i in range(3000)) and breaks > 2
