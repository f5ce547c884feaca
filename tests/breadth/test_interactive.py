# SPDX-License-Identifier: Apache-2.0
"""ExecuteInteractive and `crisol shell`: live input, signals, and a terminal."""
import fcntl
import os
import pty
import queue
import select
import signal
import struct
import subprocess
import termios
import time

import grpc
import pytest

import services as crisol
from sandboxd_service import load_stubs
from test_sandboxes import refusal, verdict

pb, pb_grpc = load_stubs()
TIMEOUT = 60 * crisol.SLOWNESS
REQUEST = pb.ExecuteInteractiveRequest
MIB = 1 << 20
BACKEND = os.environ.get("CRISOL_BACKEND", "native")


class Session:
    """One interactive call: messages go in by a queue, events are collected."""

    def __init__(self, stub, start, terminal=None):
        self.queue = queue.Queue()
        self.queue.put(REQUEST(start=start, terminal=terminal))
        self.events, self.output, self.result = [], {1: b"", 2: b"", 3: b""}, None
        self.stream = stub.ExecuteInteractive(iter(self.queue.get, None), timeout=TIMEOUT)

    def send(self, **fields):
        self.queue.put(REQUEST(**fields))

    def take(self):
        """The next event; None at the end."""
        event = next((answer.event for answer in self.stream), None)
        if event is not None:
            self.events.append(event)
            if event.WhichOneof("event") == "output":
                assert event.output.offset == len(self.output[event.output.stream])
                self.output[event.output.stream] += event.output.data
            if event.WhichOneof("event") == "result":
                self.result = event.result
        return event

    def until(self, text, stream=1):
        while text not in self.output[stream]:
            assert self.take() is not None, (self.output, self.result and self.result.summary)
        return self.output[stream]

    def end(self):
        while self.take() is not None:
            pass
        self.queue.put(None)
        return self.result


@pytest.fixture(scope="module", name="stub")
def make_stub(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        yield pb_grpc.SandboxServiceStub(channel)


def shell(code, **fields):
    return pb.ExecuteRequest(runtime="shell", code=code, **fields)


# ---- pipes ----

def test_input_comes_while_it_runs(stub):
    call = Session(stub, shell("echo ready; while read x; do echo got $x; done; echo end; exit 4", stdin_text="zero\n"))
    call.until(b"ready\ngot zero\n")
    for word in (b"one", b"two"):
        call.send(stdin_data=word + b"\n")
        call.until(b"got " + word + b"\n")
    call.send(close_stdin=True)
    result = call.end()
    assert call.output[1] == b"ready\ngot zero\ngot one\ngot two\nend\n" and result.exit_code == 4
    assert [event.seq for event in call.events] == list(range(len(call.events)))
    assert call.events[0].WhichOneof("event") == "started" and call.events[-1].WhichOneof("event") == "result"


def test_the_end_of_the_sending_side_closes_input(stub):
    call = Session(stub, pb.ExecuteRequest(runtime="python", code="import sys; print(len(sys.stdin.read()))"))
    for _ in range(40):
        call.send(stdin_data=b"x" * 65536)
    call.queue.put(None)
    assert verdict(call.end()) == "OK" and call.output[1] == b"%d\n" % (40 * 65536)


def test_a_program_that_does_not_read_holds_the_client_back_and_wall_time_counts(stub):
    call = Session(stub, shell("sleep 30", limits=pb.Limits(wall_time_ms=1500)))
    for _ in range(300):
        call.send(stdin_data=b"x" * 65536)
    assert verdict(call.end()) == "WALL_TIME_LIMIT"
    assert not call.queue.empty()


def test_input_that_nobody_reads_any_more_is_dropped(stub):
    call = Session(stub, shell("exec <&-; echo closed; sleep 1; echo end"))
    call.until(b"closed\n")
    for _ in range(30):
        call.send(stdin_data=b"x" * 65536)
    assert verdict(call.end()) == "OK" and call.output[1] == b"closed\nend\n"


@pytest.mark.parametrize("flags", [{}, {"workspace_bytes": 32 * MIB}])  # a box that waited, and one that was made for it
def test_signals_reach_the_program_and_its_children(stub, flags):
    code = ("import signal, subprocess, sys\ngot = []\nsignal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
            "child = subprocess.Popen(['/bin/sh', '-c', 'trap \"echo child; exit 9\" USR1; echo up; while :; do sleep 0.05; done'])\n"
            "print(child.wait(), got)\nsys.exit(5)")
    call = Session(stub, pb.ExecuteRequest(runtime="python", code=code, limits=pb.Limits(**flags)))
    call.until(b"up\n")
    call.send(signal=int(signal.SIGUSR1))
    result = call.end()
    assert call.output[1] == b"up\nchild\n9 [1]\n" and result.exit_code == 5
    # A child of the shell that has not begun its own program yet drops the signal.
    call = Session(stub, shell("echo up; exec sleep 20"))
    call.until(b"up\n")
    call.send(signal=int(signal.SIGINT))
    result = call.end()
    assert (verdict(result), result.signal) == ("SIGNALED", int(signal.SIGINT))


def test_input_that_is_not_read_keeps_no_signal_back(stub):
    call = Session(stub, shell("trap 'echo caught; exit 6' USR1; echo up; while :; do sleep 0.05; done"))
    call.until(b"up\n")
    for _ in range(10):
        call.send(stdin_data=b"x" * 16384)  # more than a pipe takes, less than what holds the client back
    call.send(signal=int(signal.SIGUSR1))
    assert call.end().exit_code == 6 and call.output[1] == b"up\ncaught\n"


def test_a_signal_before_the_start_is_kept_for_it(stub):
    call = Session(stub, shell("sleep 20"))
    call.send(signal=int(signal.SIGKILL))
    assert (verdict(call.end()), call.result.signal) == ("SIGNALED", 9)


# ---- a terminal ----

def test_a_terminal_echoes_and_tells_its_size(stub):
    call = Session(stub, shell("test -t 0 && test -t 1 && test -t 2 && stty size; while read x; do echo =$x; done; echo end"),
                   pb.TerminalSize(columns=91, rows=33))
    call.until(b"33 91\r\n", 3)
    call.send(stdin_data=b"hi\n")
    assert call.until(b"=hi\r\n", 3) == b"33 91\r\nhi\r\n=hi\r\n"  # typed, echoed, answered
    call.send(close_stdin=True)
    assert verdict(call.end()) == "OK" and call.output[3].endswith(b"end\r\n") and not call.output[1] and not call.output[2]


def test_a_new_size_is_a_signal(stub):
    call = Session(stub, shell("trap 'stty size; exit 3' WINCH; echo up; while :; do sleep 0.05; done"),
                   pb.TerminalSize(columns=80, rows=24))
    call.until(b"up\r\n", 3)
    call.send(resize=pb.TerminalSize(columns=132, rows=50))
    assert call.end().exit_code == 3 and call.output[3].endswith(b"50 132\r\n")


def test_a_typed_control_c_interrupts(stub):
    call = Session(stub, pb.ExecuteRequest(runtime="python", code=(
        "import time\ntry:\n    print('up')\n    time.sleep(20)\nexcept KeyboardInterrupt:\n    print('interrupted')")),
        pb.TerminalSize(columns=80, rows=24))
    call.until(b"up\r\n", 3)
    call.send(stdin_data=b"\x03")
    assert verdict(call.end()) == "OK" and call.output[3].endswith(b"interrupted\r\n")


def test_the_last_words_of_a_terminal_arrive(stub):
    for _ in range(5):
        call = Session(stub, shell("seq 1 20000"), pb.TerminalSize(columns=80, rows=24))
        assert verdict(call.end()) == "OK"
        assert call.output[3] == b"".join(b"%d\r\n" % i for i in range(1, 20001))


def test_a_program_without_its_terminal_costs_nothing(stub):
    call = Session(stub, shell("exec <&- >&- 2>&-; sleep 1.2"), pb.TerminalSize(columns=80, rows=24))
    result = call.end()
    assert verdict(result) == "OK" and result.usage.cpu_total_us < 400_000


def test_limits_hold_with_a_terminal(stub):
    for code, limits, expected in (("yes", pb.Limits(output_bytes=5000), "OUTPUT_LIMIT"),
                                   ("cat", pb.Limits(wall_time_ms=500), "WALL_TIME_LIMIT")):
        call = Session(stub, shell(code, limits=limits), pb.TerminalSize(columns=80, rows=24))
        assert verdict(call.end()) == expected


def test_a_terminal_is_no_door(stub):
    code = ("import fcntl, os, sys, termios\ntry:\n    fcntl.ioctl(0, termios.TIOCSTI, b'x')\nexcept OSError as e:\n    print(e.errno)\n"
            "for path in ('/dev/tty', '/dev/ptmx', '/dev/pts/0', '/proc/self/fd/0'):\n    try:\n        os.open(path, os.O_RDWR)\n"
            "        print('opened', path)\n    except OSError as e:\n        print(e.errno)")
    call = Session(stub, pb.ExecuteRequest(runtime="python", code=code), pb.TerminalSize(columns=80, rows=24))
    assert verdict(call.end()) == "OK"
    if BACKEND == "docker":  # whose engine gives each container a devpts of its own: there is no door to type through
        assert call.output[3].startswith(b"1\r\n"), call.output[3]
    else:
        assert call.output[3] == b"1\r\n2\r\n2\r\n2\r\n13\r\n", call.output[3]


def test_few_open_files_are_enough(stub):
    call = Session(stub, shell("test -t 1 && echo fine", limits=pb.Limits(open_files=16)), pb.TerminalSize(columns=80, rows=24))
    assert verdict(call.end()) == "OK" and call.output[3] == b"fine\r\n"


# ---- what is wrong ----

@pytest.mark.parametrize("messages, expected", [
    ([REQUEST(stdin_data=b"x")], ["start"]),
    ([], ["start"]),
    ([REQUEST(start=shell("true", request_id="a"))], ["start.request_id"]),
    ([REQUEST(start=shell("true", resume=pb.ResumeOptions()))], ["start.resume"]),
    ([REQUEST(start=shell("sleep 9")), REQUEST(signal=0)], ["signal"]),
    ([REQUEST(start=shell("true"), terminal=pb.TerminalSize(columns=0, rows=1))], ["terminal"]),
    ([REQUEST(start=pb.ExecuteRequest(runtime="shell"))], ["start.code"]),
    ([REQUEST(start=shell("sleep 9")), REQUEST(start=shell("true"))], ["start"]),
    ([REQUEST(start=shell("sleep 9")), REQUEST(signal=65)], ["signal"]),
    ([REQUEST(start=shell("sleep 9")), REQUEST(resize=pb.TerminalSize(columns=1, rows=1))], ["resize"]),
    ([REQUEST(start=shell("sleep 9")), REQUEST(stdin_data=b"x" * 65537)], ["stdin_data"]),
])
def test_a_bad_message_names_its_field_and_ends_the_program(services, stub, messages, expected):
    assert refusal(lambda: list(stub.ExecuteInteractive(iter(messages), timeout=TIMEOUT))) == ("INVALID_ARGUMENT", expected)
    crisol.wait_for(lambda: not crisol.has_box(services.sandboxd_pids()), 10, "the program has ended")


def test_a_client_that_goes_away_ends_the_program(services, stub):
    call = Session(stub, shell("echo up; cat"), pb.TerminalSize(columns=80, rows=24))
    call.until(b"up\r\n", 3)
    call.stream.cancel()
    crisol.wait_for(lambda: not crisol.has_box(services.sandboxd_pids()), 10, "the program has ended")


# ---- crisol shell ----

class Terminal:
    """`crisol shell` on a terminal of our own."""

    def __init__(self, services, *argv):
        self.master, slave = pty.openpty()
        self.resize(100, 40)
        env = {"PATH": "/usr/bin:/bin", "CRISOL_SANDBOX": services.sandbox, "TERM": "xterm"}
        self.before = termios.tcgetattr(slave)
        self.popen = subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "shell", *argv], stdin=slave, stdout=slave,
                                      stderr=slave, env=env, start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave = slave
        self.seen = b""

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def until(self, text):
        deadline = time.monotonic() + 90 * crisol.SLOWNESS
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65536)

    def end(self):
        code = self.popen.wait(90 * crisol.SLOWNESS)
        assert termios.tcgetattr(self.slave) == self.before  # no raw terminal is left behind
        os.close(self.master)
        os.close(self.slave)
        return code


def test_shell_is_a_shell(services):
    terminal = Terminal(services)
    terminal.until(b"$ ")
    terminal.type(b"echo $TERM $((6 * 7)); stty size\n")
    terminal.until(b"xterm 42\r\n")
    terminal.until(b"40 100\r\n")
    terminal.resize(60, 20)
    crisol.wait_for(lambda: (terminal.type(b"stty size\n"), time.sleep(0.2), select_read(terminal))[2] or b"20 60\r\n" in terminal.seen,
                    10, "the new size has arrived")
    terminal.type(b"sleep 30\n")
    time.sleep(0.5)
    terminal.type(b"\x03")
    terminal.type(b"exit 17\n")
    assert terminal.end() == 17


def select_read(terminal):
    while select.select([terminal.master], [], [], 0)[0]:
        terminal.seen += os.read(terminal.master, 65536)
    return b"20 60\r\n" in terminal.seen


def test_what_was_typed_for_the_program_is_no_input_of_the_callers_shell(services):
    terminal = Terminal(services, "--", "/bin/sh", "-c", "stty -echo; echo up; exec sleep 60")
    terminal.until(b"up\r\n")
    os.set_blocking(terminal.master, False)
    typed, deadline = 0, time.monotonic() + 90 * crisol.SLOWNESS
    # Until nobody takes any more: the program does not read, so the client does not, either.
    while select.select([], [terminal.master], [], 1)[1]:
        assert time.monotonic() < deadline, typed
        try:
            typed += os.write(terminal.master, b"echo typed\n" * 100)
        except BlockingIOError:
            time.sleep(0.05)
    terminal.popen.terminate()
    assert terminal.popen.wait(90 * crisol.SLOWNESS) == 128 + signal.SIGTERM
    assert not select.select([terminal.slave], [], [], 0.5)[0], os.read(terminal.slave, 65536)
    assert terminal.end() == 128 + signal.SIGTERM


def test_shell_with_a_command_and_a_limit(services):
    terminal = Terminal(services, "--wall-ms", "3000", "--", "/usr/bin/python3", "-c", "input('> ')")
    terminal.until(b"> ")
    terminal.until(b"crisol: WALL_TIME_LIMIT")
    assert terminal.end() == 124


def test_shell_with_pipes(services):
    done = services.crisol("shell", "--", "/bin/cat", stdin=b"through\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"through\n", b"")
    assert services.crisol("shell", "--", "/nothing").returncode == 127
    assert services.crisol("shell", "extra").returncode == 125
