#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything in a box ends with its run, whoever dies first."""
import os
import signal
import threading
import time

import lab
from lab import CANCELLED, MIB, OK, SIGNALED, WALL, grpc, pb, services

LOST = pb.VERDICT_CODE_SANDBOX_LOST


def named(mark):
    """pids of processes whose command line has the mark."""
    return [pid for pid, (_, command) in lab.host.processes().items() if mark in command]


class Kill(lab.Suite):
    slots = 4

    def gone(self, command, seconds=3):
        lab.host.wait_for(lambda: not named(command), seconds, f"'{command}' is dead")

    def running(self, code, **fields):
        """Starts a shell program and waits for its first output; returns the stream."""
        stream = self.stub.Execute(pb.ExecuteRequest(runtime="shell", code="echo up\n" + code, limits=pb.Limits(
            wall_time_ms=60000)), timeout=fields.pop("timeout", 60), **fields)
        for event in stream:
            if event.WhichOneof("event") == "output":
                return stream
        raise AssertionError("no output")

    def test_sandbox_26_security_11_signals_to_everybody_stop_only_the_program(self):
        began = time.monotonic()
        for code, verdict, wall_ms in (("kill -STOP 0; sleep 9", WALL, 400), ("kill -STOP -1; sleep 9", WALL, 400),
                                       ("kill -STOP $$", WALL, 400), ("kill -9 -1; exit 0", OK, 20000),
                                       ("kill -9 1; kill -15 1; kill -STOP 1; exit 0", OK, 20000), ("kill -9 0", SIGNALED, 20000)):
            result = self.shell(code, limits={"wall_time_ms": wall_ms}).result
            self.assertEqual(result.verdict.code, verdict, (code, result.summary))
        self.assertLess(time.monotonic() - began, 60)
        self.must(OK, self.run_code("pass"))

    def test_sandbox_27_security_16_25_a_busy_program_is_dead_when_its_verdict_comes(self):
        command = lab.host.own_sleep()
        result = self.shell(f"{command} & while :; do :; done", limits={"wall_time_ms": 400}).result
        self.assertEqual(result.verdict.code, WALL)
        self.gone(command, 0.5)

    def test_sandbox_28_nobody_survives_and_nothing_is_written_later(self):
        command = lab.host.own_sleep()
        code = (f"setsid nohup {command} >/dev/null 2>&1 &\n( ( {command} & ) & )\n"
                "(while :; do date +%s%N > clock; done) &\nsleep 0.1; exit 0")
        result = self.must(OK, self.shell(code, collect=[pb.CollectSpec(path="clock")]))
        self.assertGreaterEqual(result.usage.killed_leftovers, 3)
        self.gone(command, 0.5)

    def test_sandbox_29_security_34_a_child_that_holds_the_pipe_holds_nobody(self):
        command = lab.host.own_sleep()
        # The shell between may itself be on its way out yet, and is killed and counted then.
        for code, most in ((f"{command} & echo hi", 1), (f"setsid {command} & echo hi", 1),
                           (f"(({command} &) &); echo hi", 2)):
            began = time.monotonic()
            answer = self.shell(code, limits={"wall_time_ms": 60000})
            took = time.monotonic() - began
            result = self.must(OK, answer)
            self.assertEqual(answer.stdout_data, b"hi\n")
            self.assertIn(result.usage.killed_leftovers, range(1, most + 1))
            self.assertLess(took, 30)  # the child would go on for minutes
            self.assertLess(result.timing.kill_us, 5000000)

    def test_sandbox_30_a_deadline_and_a_broken_connection_kill_the_program(self):
        commands = [lab.host.own_sleep() for _ in range(3)]
        # The start counts as well, and on docker others start beside it.
        stream = self.running(f"exec {commands[0]}", timeout=5 if lab.BACKEND == "native" else 15)
        with self.assertRaises(grpc.RpcError) as caught:
            list(stream)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.gone(commands[0], 1)
        stream = self.running(f"exec {commands[1]}")
        stream.cancel()
        self.gone(commands[1], 1)
        channel = grpc.insecure_channel(f"unix:{self.service.socket}")
        stream = services.SandboxServiceStub(channel).Execute(pb.ExecuteRequest(
            runtime="shell", code=f"echo; exec {commands[2]}", limits=pb.Limits(wall_time_ms=60000)))
        next(stream)
        next(stream)
        channel.close()  # GOAWAY and the end of the socket
        self.gone(commands[2], 1)

    def test_a_client_that_vanishes_in_any_phase_leaves_nothing(self):
        self.must(OK, self.run_code("pass"))
        pids = [self.service.process.pid, self.service.child("sandboxd-front")]
        state = lambda: (len(self.service.family()), [lab.host.count_fds(pid) for pid in pids])  # noqa: E731
        before = lab.host.settled(state)
        command = lab.host.own_sleep()
        request = pb.ExecuteRequest(runtime="shell", code=f"head -c 200000 /dev/zero; {command}",
                                    collect=[pb.CollectSpec(path="main.sh")], files=[pb.InputFile(
                                        path="big", data=bytes(MIB))], request_id="")
        for i in range(40):  # from before the request has arrived until the program runs, and while it waits
            streams = [self.stub.Execute(request, timeout=90) for _ in range(1 + i % 6)]
            threading.Event().wait(i * 0.002)
            for stream in streams:
                stream.cancel()
        self.gone(command)
        lab.host.wait_for(lambda: state() <= before, 10, f"nothing is left: {before}")
        self.must(OK, self.run_code("pass"))

    def test_cancel_ends_a_waiting_and_a_running_one(self):
        streams = [self.running(lab.host.own_sleep()) for _ in range(self.slots)]
        waiting = self.stub.Run.future(pb.RunRequest(runtime="shell", code="echo never", request_id="waits"), timeout=90)
        lab.host.wait_for(lambda: self.stub.Cancel(pb.CancelRequest(request_id="waits")).found, 5, "it waits")
        self.assertEqual(waiting.result().result.verdict.code, CANCELLED)
        self.assertEqual(waiting.result().stdout_data, b"")
        for stream in streams:
            stream.cancel()

    def test_security_12_a_set_id_program_is_killed_like_any_other(self):
        command = lab.host.own_sleep()
        self.must(WALL, self.shell(f"cp /usr/bin/sleep s; chmod 6755 s; ./s 9 & {command}", limits={"wall_time_ms": 300}))
        self.gone(command, 0.5)


class Faults(lab.unittest.TestCase):
    """Those that kill parts of sandboxd have one of their own."""

    def test_sandbox_31_33_a_killed_supervisor_leaves_nothing_and_the_next_start_works(self):
        command = lab.host.own_sleep()
        with lab.start(slots=8) as service:
            stub = services.SandboxServiceStub(service.channel)
            streams = [stub.Execute(pb.ExecuteRequest(runtime="shell", code=f"echo; {command}", limits=pb.Limits(wall_time_ms=60000)),
                                    timeout=60) for _ in range(8)]
            for stream in streams:
                next(stream)
                next(stream)
            family, backend = service.family(), service.child(f"sandboxd-{lab.BACKEND}")
            service.process.kill()
            service.process.wait(90)
            lab.host.wait_for(lambda: not named(command), 1, "every program is dead")
            lab.host.wait_for(lambda: not family & set(lab.host.processes()), 5, "everything has ended")
            for stream in streams:
                try:
                    end = list(stream)[-1].result.verdict.code
                except grpc.RpcError as error:
                    end = error.code()
                self.assertIn(end, (LOST, grpc.StatusCode.UNAVAILABLE))
            with lab.start() as again:
                self.assertEqual(lab.host.control_groups(backend), set())
                stub = services.SandboxServiceStub(again.channel)
                self.assertEqual(stub.Run(pb.RunRequest(runtime="shell", code="true"), timeout=60).result.verdict.code, OK)

    def test_sandbox_32_a_backend_that_dies_at_any_moment_leaves_no_program_behind(self):
        command = lab.host.own_sleep()
        with lab.start() as service:
            stub = services.SandboxServiceStub(service.channel)
            for i in range(6):  # the restart is slower each time
                service.wait_ready(1 + i)
                backend = service.child(f"sandboxd-{lab.BACKEND}")
                call = stub.Run.future(pb.RunRequest(runtime="shell", code=command), timeout=90)
                threading.Event().wait(0.0015 * i)
                os.kill(backend, signal.SIGKILL)
                lab.host.wait_for(lambda: not named(command), 1, "the program is dead")
                try:
                    self.assertEqual(call.result().result.verdict.code, LOST)
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
            service.wait_ready(7)
            self.assertFalse(named(command))
            self.assertEqual(stub.Run(pb.RunRequest(runtime="shell", code="true"), timeout=60).result.verdict.code, OK)


if __name__ == "__main__":
    lab.main()
