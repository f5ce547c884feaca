#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Other ways of the docker backend: containers that wait for runs, an engine at the end of a tunnel, gVisor."""
import concurrent.futures
import os
import signal
import subprocess
import time
import unittest

import grpc

import docker_test as calls
import engine as docker
import sandboxd_service as lab

pb, services = calls.pb, calls.services
setUpModule, tearDownModule = calls.setUpModule, calls.tearDownModule


class Tcp(unittest.TestCase):
    """An engine that is reached by TCP: what is known of a box was read inside, and each verdict says so."""

    @classmethod
    def setUpClass(cls):
        address = f"tcp://127.0.0.1:{calls.ENGINE.port}"
        cls.service = calls.DockerService("--backend=docker", f"--docker-socket={address}", f"--docker-base={docker.BASE}",
                                    "--docker-pull=never", "--pool=0", slots=2)
        cls.service.__enter__()
        cls.stub = services.SandboxServiceStub(cls.service.channel)
        calls.await_versions(cls.service, cls.stub)

    @classmethod
    def tearDownClass(cls):
        lab.wait_for(calls.no_containers, 30, "no container at the end")
        cls.service.__exit__(None, None, None)

    def run_it(self, code="", runtime="python", **fields):
        answer = self.stub.Run(pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields), timeout=120)
        self.assertEqual(answer.result.verdict.confidence, pb.CONFIDENCE_INFERRED,
                         answer.result.summary + self.service.log()[-2000:])
        return answer

    verdict = calls.Shared.verdict

    def test_sandboxes_that_live_on_are_refused_by_name(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.CreateSandbox(pb.CreateSandboxRequest(runtime="python"), timeout=90)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("--docker-evidence=inside", caught.exception.details())
        self.assertIn("Execute runs one", caught.exception.details())

    def test_hello_files_and_counters(self):
        code = ("import os, sys\nprint(sys.stdin.read(), open('d/x').read(), open('r').read())\n"
                "for n in range(3): open(f'out{n}', 'w').write('x' * 100000 * n)\nx = bytearray(20 << 20)\nsys.exit(3)")
        answer = self.run_it(code, stdin_text="in" * 100000, collect=[pb.CollectSpec(glob="out*")],
                             files=[pb.InputFile(path="d/x", text="file"),
                                    pb.InputFile(path="r", text="read", read_only=True)])
        self.verdict(answer, pb.VERDICT_CODE_NONZERO_EXIT)
        self.assertEqual((answer.result.exit_code, answer.stdout_text), (3, "in" * 100000 + " file read\n"))
        self.assertEqual([(file.path, len(file.data)) for file in answer.result.files],
                         [("out0", 0), ("out1", 100000), ("out2", 200000)])
        usage = answer.result.usage
        self.assertGreater(usage.memory_peak_bytes, 20 << 20)
        self.assertGreater(usage.cpu_total_us, 1000)
        self.assertGreaterEqual(usage.workspace_bytes, 300000)
        self.assertEqual(usage.memory_source, "read inside the sandbox")
        control, = [control for control in answer.result.policy.controls if control.name == "rootfs"]
        self.assertEqual(control.enforcement, pb.ENFORCEMENT_PARTIAL)
        self.assertIn("the program's own", control.detail)

    def test_limits(self):
        memory = "x = [bytearray(8 << 20) for _ in range(64)]"
        child = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', '{memory}'])\ntime.sleep(50)"
        grandchild = f"import os, time\nos.system(\"python3 -c '{memory}' & wait\"); time.sleep(50)"
        for code in (memory, child, grandchild):
            answer = self.run_it(code, limits=pb.Limits(wall_time_ms=60000))
            self.verdict(answer, pb.VERDICT_CODE_MEMORY_LIMIT)
            self.assertLess(answer.result.usage.wall_us, 40000000)
        answer = self.run_it("open('kept', 'w').write('x')\nprint('begin', flush=True)\nwhile True: pass",
                             limits=pb.Limits(wall_time_ms=4000), collect=[pb.CollectSpec(path="kept")])
        self.verdict(answer, pb.VERDICT_CODE_WALL_TIME_LIMIT)
        self.assertEqual((answer.stdout_text, answer.result.files[0].data), ("begin\n", b"x"))
        self.assertLess(answer.result.timing.kill_us, 5000000)
        self.verdict(self.run_it("while True: pass", limits=pb.Limits(cpu_time_ms=300, cpu_millicores=1000)),
                     pb.VERDICT_CODE_CPU_TIME_LIMIT)
        answer = self.run_it("import sys\nfor _ in range(40): sys.stdout.write('x' * 100000)")
        self.verdict(answer, pb.VERDICT_CODE_OUTPUT_LIMIT)
        self.assertEqual(len(answer.stdout_data), 1 << 20)
        answer = self.run_it("import os, time\nfor _ in range(99):\n    if os.fork() == 0: time.sleep(60)")
        self.verdict(answer, pb.VERDICT_CODE_PROCESS_LIMIT)
        self.assertEqual(answer.result.usage.killed_leftovers, 63)
        small = pb.Limits(workspace_bytes=8 << 20, file_size_bytes=1 << 20)
        self.verdict(self.run_it("for n in range(9): open(f'{n}', 'wb').write(bytes(1000000))", limits=small),
                     pb.VERDICT_CODE_DISK_LIMIT)
        for place in ("x", "/tmp/x", "/dev/shm/x"):
            self.verdict(self.run_it(f"f = open('{place}', 'wb', 0)\nwhile True: f.write(bytes(100000))",
                                     limits=pb.Limits(file_size_bytes=1 << 19)), pb.VERDICT_CODE_FILE_SIZE_LIMIT)

    def test_a_forbidden_call_of_a_child_is_named(self):
        code = ("import ctypes, os, time\nopen('kept', 'w').write('x')\nprint('begin', flush=True)\n"
                "if os.fork() == 0: ctypes.CDLL(None).ptrace(0, 0, 0, 0)\ntime.sleep(9)")
        answer = self.run_it(code, collect=[pb.CollectSpec(path="kept")])
        self.verdict(answer, pb.VERDICT_CODE_SECURITY_VIOLATION)
        self.assertEqual((answer.result.forbidden_call, answer.stdout_text, answer.result.files[0].data),
                         ("ptrace", "begin\n", b"x"))

    def test_cancel_ends_it_and_a_container_removed_by_hand_is_a_lost_sandbox(self):
        with calls.Shared.running(self) as call:
            call.cancel()
            lab.wait_for(calls.no_containers, 30, "the container is gone")
        with calls.Shared.running(self) as call:
            container, = calls.ENGINE.containers()
            calls.ENGINE.ask("DELETE", f"/containers/{container['Id']}?force=1")
            result = [event.result for event in call if event.WhichOneof("event") == "result"][0]
        self.assertEqual((result.verdict.code, result.verdict.confidence),
                         (pb.VERDICT_CODE_SANDBOX_LOST, pb.CONFIDENCE_INFERRED), result.summary)


class Pool(unittest.TestCase):
    """Containers that are started ahead; tests/conformance/pool_test.py compares what a program sees."""

    @staticmethod
    def waiting(before=frozenset()):
        """Ids of those that wait, when there are as many as there are to be, and others than before."""
        found = {one["Id"] for one in calls.ENGINE.containers() if one["State"] == "running"}
        return found if len(found) == len(calls.ENGINE.containers()) == 2 and found != before else None

    @classmethod
    def settled(cls):
        """Those two once they stay: one that has served is still listed until it is removed."""
        def look():
            found = cls.waiting()
            time.sleep(2)
            return found if found == cls.waiting() else None
        return lab.wait_for(look, 60, "two wait and stay")

    def hit(self, stub, code="print(1)", **fields):
        def ask():
            answer = stub.Run(pb.RunRequest(runtime="python", code=code, **fields), timeout=120)
            return answer if answer.result.timing.is_pool_hit else None
        return lab.wait_for(ask, 20, "a container that waits is taken")

    def test_a_container_serves_once_and_one_that_dies_is_replaced(self):
        with calls.DockerService(*calls.flags(pool="0,plain=2"), slots=2) as service:
            stub = services.SandboxServiceStub(service.channel)
            calls.await_versions(service, stub)
            before = self.settled()
            self.assertEqual(self.hit(stub).result.verdict.code, calls.OK)
            after = lab.wait_for(lambda: self.waiting(before), 20, "two wait again")
            self.assertEqual(len(before & after), 1)
            for container in after:
                calls.ENGINE.ask("DELETE", f"/containers/{container}?force=1")
            replaced = lab.wait_for(lambda: self.waiting(after), 20, "two others wait")
            self.assertFalse(replaced & after)
            self.assertIn("a box of the pool died, making another", service.log())
            limits = pb.Limits(memory_bytes=64 << 20, processes=8, open_files=100, wall_time_ms=9000)
            answer = self.hit(stub, "import os, time\nfor _ in range(20): os.fork() or time.sleep(9)", limits=limits)
            self.assertEqual(answer.result.verdict.code, pb.VERDICT_CODE_PROCESS_LIMIT, answer.result.summary)
            self.assertEqual(answer.result.usage.killed_leftovers, 7)
            answer = self.hit(stub, "while True: pass", limits=pb.Limits(wall_time_ms=500))
            self.assertEqual(answer.result.verdict.code, pb.VERDICT_CODE_WALL_TIME_LIMIT, answer.result.summary)
            pool = stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).pool
            self.assertEqual(pool.slots, 2)
            self.assertGreaterEqual(pool.hits, 3)
        self.assertTrue(calls.no_containers(), "a stop leaves none")

    def test_who_survives_a_death_has_a_pool_again(self):
        with calls.DockerService(*calls.flags(pool="0,plain=2"), slots=2) as service:
            stub = services.SandboxServiceStub(service.channel)
            calls.await_versions(service, stub)
            before = lab.wait_for(self.waiting, 20, "two wait")
            os.kill(service.child("sandboxd-docker"), signal.SIGKILL)
            after = lab.wait_for(lambda: (self.waiting() or before) - before or None, 20, "others wait")
            self.assertEqual(len(after), 2)
            self.hit(stub)
            calls.ENGINE.kill()
            calls.ENGINE.start()
            lab.wait_for(lambda: (self.waiting() or after) - after or None, 40, "others wait, of the engine that is back")
            self.hit(stub)


class Preload(unittest.TestCase):
    """Interpreters that wait in containers; tests/conformance/modes_test.py compares what they make of programs."""

    MODES = {"python": pb.START_MODE_PRELOAD, "pytest": pb.START_MODE_PRELOAD_DEEP}
    TEST = "def test():\n    pass\n"

    @classmethod
    def setUpClass(cls):
        cls.service = calls.DockerService(*calls.flags(pool="0,plain=1,python=1,pytest=1"), slots=2)
        cls.service.__enter__()
        cls.stub = services.SandboxServiceStub(cls.service.channel)
        calls.await_versions(cls.service, cls.stub)

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)
        assert calls.no_containers(), "a stop leaves none"

    def wait_full(self):
        def is_full():
            pool = self.stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).pool
            return pool.ready == pool.slots == 3
        lab.wait_for(is_full, 60, "an interpreter of each kind waits")

    def run_it(self, runtime="python", code="", **fields):
        return self.stub.Run(pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields), timeout=120)

    def hit(self, runtime="python", code="", **fields):
        """The answer of a run whose interpreter had waited."""
        self.wait_full()
        answer = self.run_it(runtime, code, **fields)
        self.assertEqual((answer.result.timing.start_mode, answer.result.timing.is_pool_hit),
                         (self.MODES[runtime], True), answer.result.summary)
        return answer

    call_in = calls.Shared.call_in

    def test_a_sandbox_that_lives_on_takes_a_container_that_waits(self):
        self.wait_full()
        box = self.stub.CreateSandbox(pb.CreateSandboxRequest(runtime="python", limits=pb.Limits(open_files=40)), timeout=90).sandbox
        code = "import resource\nn = globals().get('n', 0) + 1\nprint(n, resource.getrlimit(resource.RLIMIT_NOFILE))"
        out, result = self.call_in(box, code=code)
        self.assertEqual((out, result.timing.is_pool_hit, result.timing.start_mode),
                         ("1 (40, 40)\n", True, pb.START_MODE_COLD), result.summary)
        for expected in ("2 (40, 40)\n", "3 (40, 40)\n"):
            out, result = self.call_in(box, code=code)
            self.assertEqual((out, result.sandbox.is_state_new), (expected, False), result.summary)
        self.assertTrue(self.stub.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=box.sandbox_id), timeout=90).found)

    def test_each_serves_one_run_and_leaves_nothing_to_the_next(self):
        code = ("import os, sys\nprint(sum(len(os.listdir(f)) for f in ('/workspace', '/tmp', '/dev/shm')), "
                "hasattr(os, 'mark'))\n"
                "os.mark = 1\nfor f in ('/workspace', '/tmp', '/dev/shm'): open(f + '/mark', 'w').close()\n")
        for _ in range(2):
            answer = self.hit(code=code)
            self.assertEqual((answer.result.exit_code, answer.stdout_text), (0, "1 False\n"), answer.stderr_text)

    def test_who_finds_none_takes_what_there_is(self):
        self.wait_full()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: self.run_it(code="import time; time.sleep(0.5); print(1)"), range(2)))
        self.assertEqual([answer.stdout_text for answer in answers], ["1\n", "1\n"])
        self.assertEqual(sorted((answer.result.timing.start_mode, answer.result.timing.is_pool_hit) for answer in answers),
                         [(pb.START_MODE_COLD, True), (pb.START_MODE_PRELOAD, True)])

    def test_limits_of_the_request_are_in_force(self):
        limits = pb.Limits(open_files=40, file_size_bytes=1 << 20, memory_bytes=64 << 20, processes=9, wall_time_ms=6000)
        names = "('NOFILE', 'FSIZE', 'STACK', 'CORE')"
        code = f"import resource as r\nprint(*[r.getrlimit(getattr(r, 'RLIMIT_' + n)) for n in {names}])"
        answer = self.hit(code=code, limits=limits)
        self.assertEqual(answer.stdout_text, f"(40, 40) ({1 << 20}, {1 << 20}) ({8 << 20}, {8 << 20}) (0, 0)\n")
        for code, verdict in (("x = [bytearray(4 << 20) for _ in range(64)]", pb.VERDICT_CODE_MEMORY_LIMIT),
                              ("import os, time\nfor _ in range(20): os.fork() or time.sleep(9)",
                               pb.VERDICT_CODE_PROCESS_LIMIT),
                              ("while True: pass", pb.VERDICT_CODE_WALL_TIME_LIMIT),
                              ("f = open('x', 'wb', 0)\nwhile True: f.write(bytes(100000))",
                               pb.VERDICT_CODE_FILE_SIZE_LIMIT)):
            result = self.hit(code=code, limits=limits).result
            self.assertEqual(pb.VerdictCode.Name(result.verdict.code), pb.VerdictCode.Name(verdict), result.summary)

    def test_what_it_took_to_start_is_not_the_program_s(self):
        own = self.run_it("pytest", self.TEST, env={"NAME": "value"}).result  # for which nothing was started
        self.assertEqual(own.timing.start_mode, pb.START_MODE_COLD)
        usage = self.hit("pytest", self.TEST).result.usage
        self.assertLess(usage.cpu_total_us, max(150000, own.usage.cpu_total_us / 2))
        self.assertLess(usage.memory_peak_bytes, 40 << 20)

    def test_what_it_was_not_started_for_gets_its_own(self):
        self.wait_full()
        for fields in ({"env": {"NAME": "value"}}, {"limits": pb.Limits(stack_bytes=16 << 20)}):
            result = self.run_it(code="pass", **fields).result
            self.assertEqual((result.exit_code, result.timing.start_mode), (0, pb.START_MODE_COLD), fields)
        # What waits has taken more than that already.
        result = self.run_it("pytest", self.TEST, limits=pb.Limits(memory_bytes=12 << 20)).result
        self.assertEqual((result.verdict.code, result.timing.start_mode),
                         (pb.VERDICT_CODE_MEMORY_LIMIT, pb.START_MODE_COLD), result.summary)

    def test_the_program_cannot_reach_who_speaks_for_it(self):
        code = ("import os, signal\nfor act in (lambda: os.open('/proc/1/mem', 0), lambda: os.listdir('/proc/1/fd'), "
                "lambda: os.kill(1, signal.SIGSTOP)):\n    try: print(act())\n    except OSError as e: print(e.errno)\n"
                "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)))\n"
                "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('Seccomp:', 'NoNewPrivs', 'CapEff'))])")
        cold = self.run_it(code=code, env={"NAME": "value"})
        warm = self.hit(code=code)
        self.assertEqual(warm.stdout_text, cold.stdout_text)
        self.assertEqual(warm.stdout_text.splitlines()[0], "13")

    def test_one_that_dies_while_it_waits_is_replaced(self):
        self.wait_full()
        found = [int(pid) for pid, command in calls.ENGINE.processes() if command.startswith("/usr/bin/python3 -I -B -m pytest")]
        self.assertEqual(len(found), 1)
        os.kill(found[0], signal.SIGKILL)
        lab.wait_for(lambda: "a box of the pool died, making another kind=pytest" in self.service.log(), 20, "it is missed")
        # What the front hears of it comes behind the line in the log.
        lab.wait_for(lambda: self.run_it("pytest", self.TEST).result.timing.start_mode == self.MODES["pytest"], 30, "another waits")

    def test_an_image_whose_interpreter_does_not_start_costs_speed_only(self):
        """Its packages are broken: what says so is logged, and the plain ones serve."""
        name = "crisol-broken:1"
        # `import pytest` still works, so that no build wants to install it.
        calls.ENGINE.build(name, f"FROM {docker.BASE}\nRUN echo 'raise ImportError(\"broken on purpose\")' "
                                 ">/usr/lib/python3/dist-packages/pytest/__main__.py\n")
        with calls.DockerService("--backend=docker", f"--docker-socket={calls.ENGINE.socket}", f"--docker-base={name}",
                                 "--docker-pull=never", "--pool=0,plain=1,pytest=1", slots=2) as service:
            lab.wait_for(lambda: "no interpreter waits in a box of the pool kind=pytest" in service.log(), 60, "it is said")
            self.assertIn("broken on purpose", service.log())
            stub = services.SandboxServiceStub(service.channel)
            answer = stub.Run(pb.RunRequest(runtime="shell", code="echo 1"), timeout=120)
            self.assertEqual((answer.result.exit_code, answer.stdout_data), (0, b"1\n"))


@unittest.skipUnless(docker.shutil.which("runsc"), "no runsc: scripts/deps.sh engine")
class Gvisor(unittest.TestCase):
    """A runtime with a kernel of its own, of which the host sees no files: read inside, too."""

    def test_programs_run_on_another_kernel_and_its_limits_hold(self):
        with calls.DockerService(*calls.flags("--docker-runtime=runsc"), slots=2) as service:
            self.assertIn("runtime=runsc evidence=inside", service.log())
            stub = services.SandboxServiceStub(service.channel)
            for code, verdict in (("import os; print(open('/proc/version').read(), os.uname().release)", calls.OK),
                                  ("raise SystemExit(7)", pb.VERDICT_CODE_NONZERO_EXIT),
                                  ("x = [bytearray(8 << 20) for _ in range(64)]", pb.VERDICT_CODE_MEMORY_LIMIT),
                                  ("print('begin', flush=True)\nwhile True: pass", pb.VERDICT_CODE_WALL_TIME_LIMIT)):
                answer = stub.Run(pb.RunRequest(runtime="python", code=code, limits=pb.Limits(wall_time_ms=8000)), timeout=90)
                self.assertEqual((answer.result.verdict.code, answer.result.verdict.confidence),
                                 (verdict, pb.CONFIDENCE_INFERRED), answer.result.summary)
                if verdict == calls.OK:
                    self.assertNotIn(os.uname().release.encode(), answer.stdout_data)


class Settings(unittest.TestCase):
    """What a start makes of the address."""

    def check(self, *flags):
        done = subprocess.run([os.path.join(calls.crisol.BIN, "sandboxd"), "check", "--backend=docker", *flags],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_check_says_where_it_looks_and_repeats_no_password(self):
        self.assertIn("PASS  evidence (--docker-evidence): outside", self.check(f"--docker-socket={calls.ENGINE.socket}")[1])
        self.assertIn("PASS  evidence (--docker-evidence): inside; every verdict says INFERRED",
                      self.check(f"--docker-socket=tcp://127.0.0.1:{calls.ENGINE.port}")[1])
        for address in ("tcp://me:secret@127.0.0.1:2375", "tcp://secret.invalid:2375"):
            status, text = self.check(f"--docker-socket={address}")
            self.assertNotEqual(status, 0)
            self.assertIn("--docker-socket: t", text)
            self.assertNotIn("secret", text)


if __name__ == "__main__":
    unittest.main()
