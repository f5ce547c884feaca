#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The docker backend as callers see it: the real services, a real engine, no network."""
import json
import os
import signal
import subprocess
import threading
import time
import unittest

import grpc

import engine as docker
import exposition
import sandboxd_service as lab
import services as crisol

lab.need_root()
pb, services = lab.load_stubs()

OK = pb.VERDICT_CODE_OK
ENGINE = docker.Engine()


def setUpModule():
    ENGINE.__enter__()
    ENGINE.load_base()


def tearDownModule():
    ENGINE.__exit__(None, None, None)


def flags(*more, pool="0"):
    """Without a pool there are no containers but those of runs."""
    return ["--backend=docker", f"--docker-socket={ENGINE.socket}", f"--docker-base={docker.BASE}",
            "--docker-pull=never", f"--pool={pool}", *more]


def no_containers():
    return not ENGINE.containers()


def await_versions(service, stub):
    """The service runs something, and asks each runtime for its version, behind its start; an image need not have it."""
    runtimes = len(stub.ListRuntimes(pb.ListRuntimesRequest()).runtimes)
    lab.wait_for(lambda: service.log().count("caller=self") > runtimes, 60, "versions")


def answer_of(result):
    """As of Run, for what only has a result."""
    return pb.RunResponse(result=result)


class DockerService(lab.Service):
    """The first start builds the image."""

    ready_seconds = 120


HYBRID = "cgroups in hybrid mode not supported"


class CrunService(DockerService):
    """crun refuses hosts with both versions of control groups; sandboxd then says so and does not serve."""

    def wait_ready(self, count):
        lab.wait_for(lambda: "sandboxd ready" in self.log() or HYBRID in self.log(), self.ready_seconds, "ready or refused")


class Shared(unittest.TestCase):
    """Cases that share one service."""

    @classmethod
    def setUpClass(cls):
        cls.service = DockerService(*flags("--metrics=127.0.0.1:0"), slots=2)
        cls.service.__enter__()
        cls.metrics = "127.0.0.1:" + cls.service.server.match(r" metrics address=\S+ port=(\d+)").group(1)
        cls.stub = services.SandboxServiceStub(cls.service.channel)
        await_versions(cls.service, cls.stub)
        cls.run_it(cls, "1")
        lab.wait_for(no_containers, 30, "no container at the beginning")

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def run_it(self, code="", runtime="python", timeout=120, **fields):
        return self.stub.Run(pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields), timeout=timeout)

    def verdict(self, answer, code):
        self.assertEqual(pb.VerdictCode.Name(answer.result.verdict.code), pb.VerdictCode.Name(code),
                         answer.result.summary + answer.stderr_text[-500:])

    def print_of(self, code, **fields):
        answer = self.run_it(code, **fields)
        self.verdict(answer, OK)
        return answer.stdout_text

    def refuse(self, status, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.Run(pb.RunRequest(**fields), timeout=90)
        self.assertEqual(caught.exception.code(), status, caught.exception.details())
        return caught.exception.details()

    # ---- what is counted ----

    def test_metrics_tell_of_the_engine_and_count_its_runs(self):
        def read():
            return exposition.scrape(self.metrics)[1]
        before = read()
        self.assertEqual(exposition.value(before, "sandboxd_backend_up", backend="docker"), 1)
        self.assertEqual(exposition.value(before, "sandboxd_quarantined_containers"), 0)
        self.print_of("print('x' * 99)")
        self.verdict(self.run_it("import sys; sys.exit(3)"), pb.VERDICT_CODE_NONZERO_EXIT)
        self.verdict(self.run_it("x = bytearray(200 << 20)", limits=pb.Limits(memory_bytes=32 << 20)), pb.VERDICT_CODE_MEMORY_LIMIT)
        after = read()

        def grown(name, **labels):
            return exposition.value(after, name, **labels) - exposition.value(before, name, **labels)
        for verdict in ("ok", "nonzero_exit", "memory_limit"):
            self.assertEqual(grown("sandboxd_executions_total", verdict=verdict), 1, verdict)
        self.assertEqual(grown("sandboxd_runtime_executions_total", runtime="python"), 3)
        self.assertEqual(grown("sandboxd_output_bytes_total", stream="stdout"), 100)
        for histogram in ("sandboxd_start_seconds", "sandboxd_execution_seconds", "sandboxd_queue_wait_seconds"):
            self.assertEqual(grown(f"{histogram}_count"), 3, histogram)
        self.assertGreater(grown("sandboxd_start_seconds_sum"), 0.01)  # a container takes its time
        self.assertEqual(grown("sandboxd_backend_starts_total"), 0)

    # ---- what works ----

    def test_says_hello_and_says_docker(self):
        answer = self.run_it("print('hello')")
        self.verdict(answer, OK)
        self.assertEqual(answer.stdout_text, "hello\n")
        self.assertEqual(answer.result.policy.backend, pb.BACKEND_DOCKER)
        self.assertEqual(answer.result.verdict.confidence, pb.CONFIDENCE_MEASURED)
        self.assertGreater(answer.result.usage.cpu_total_us, 1000)
        self.assertGreater(answer.result.usage.memory_peak_bytes, 1 << 20)

    def test_exit_code_signal_and_exec_failure(self):
        answer = self.run_it("import sys; sys.exit(137)")
        self.verdict(answer, pb.VERDICT_CODE_NONZERO_EXIT)
        self.assertEqual(answer.result.exit_code, 137)
        answer = self.run_it("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        self.verdict(answer, pb.VERDICT_CODE_SIGNALED)
        self.assertEqual(answer.result.signal, 11)
        answer = self.run_it(command=["/usr/bin/nothing"])
        self.verdict(answer, pb.VERDICT_CODE_EXEC_FAILED)

    def test_stdin_arguments_environment_and_files(self):
        code = "import sys, os; print(sys.stdin.read(), sys.argv[1:], os.environ['A'], open('d/x').read())"
        answer = self.run_it(code, stdin_text="in" * 100000, args=["a b"], env={"A": "1"},
                             files=[pb.InputFile(path="d/x", text="file")])
        self.verdict(answer, OK)
        self.assertEqual(answer.stdout_text, "in" * 100000 + " ['a b'] 1 file\n")

    def test_output_of_every_small_size_on_both_streams(self):
        for size in (0, 1, 7, 8, 9):
            answer = self.run_it("import os\n"
                                 f"os.write(1, bytes([1, 0, 0, 0] * 4)[:{size}]); os.write(2, b'x' * {size})")
            self.assertEqual(answer.stdout_data, bytes([1, 0, 0, 0] * 4)[:size])
            self.assertEqual(answer.stderr_data, b"x" * size)

    def test_a_mebibyte_arrives_byte_for_byte(self):
        data = bytes(range(256)) * 4096
        answer = self.run_it("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4096)")
        self.verdict(answer, OK)
        self.assertEqual(answer.stdout_data, data)

    def test_pytest_report_and_read_only_tests(self):
        test = ("import os, pytest\nfrom solution import add\n"
                "def test_add():\n    assert add(2, 2) == 4\n"
                "def test_mine_is_read_only():\n"
                "    for act in (lambda: open('test_solution.py', 'a'), lambda: os.unlink('test_solution.py'),\n"
                "                lambda: os.rename('test_solution.py', 'x'), lambda: os.chmod('test_solution.py', 0o777)):\n"
                "        with pytest.raises(PermissionError):\n            act()\n"
                "    open('new', 'w').close()\n")
        files = [pb.InputFile(path="solution.py", text="def add(a, b):\n    return a + b\n"),
                 pb.InputFile(path="test_solution.py", text=test, read_only=True)]
        answer = self.run_it(runtime="pytest", files=files)
        self.verdict(answer, OK)
        self.assertTrue(answer.result.test_report.is_present)
        self.assertEqual(answer.result.test_report.passed, 2)

    def test_collects_files_also_after_a_kill(self):
        code = "open('out.txt', 'w').write('kept')\nwhile True: pass"
        answer = self.run_it(code, limits=pb.Limits(wall_time_ms=4000), collect=[pb.CollectSpec(path="out.txt")])
        self.verdict(answer, pb.VERDICT_CODE_WALL_TIME_LIMIT)
        self.assertEqual(answer.result.files[0].data, b"kept")

    def test_honest_programs_find_what_they_need(self):
        code = ("import multiprocessing, threading, sqlite3, asyncio, tempfile, socket\n"
                "multiprocessing.Lock(); multiprocessing.Queue()\n"
                "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
                "sqlite3.connect('a.db').execute('create table t (x)')\n"
                "tempfile.NamedTemporaryFile()\n"
                "server = socket.create_server(('127.0.0.1', 0)); socket.create_connection(server.getsockname())\n"
                "asyncio.run(asyncio.sleep(0)); print('fine')")
        self.assertEqual(self.print_of(code), "thread\nfine\n")

    # ---- limits ----

    def test_memory_limit_is_measured_outside(self):
        for child in (False, True):
            code = "x = [bytearray(8 << 20) for _ in range(64)]"
            if child:
                code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '{code}'])\nprint('alive')"
            answer = self.run_it(code)
            self.verdict(answer, pb.VERDICT_CODE_MEMORY_LIMIT)
            self.assertGreaterEqual(answer.result.usage.oom_kills, 1)

    def test_wall_limit_and_partial_output(self):
        began = time.monotonic()
        answer = self.run_it("print('begin', flush=True)\nwhile True: pass", limits=pb.Limits(wall_time_ms=4000))
        self.verdict(answer, pb.VERDICT_CODE_WALL_TIME_LIMIT)
        self.assertEqual(answer.stdout_text, "begin\n")
        self.assertLess(time.monotonic() - began, 60)

    def test_cpu_limit(self):
        answer = self.run_it("while True: pass", limits=pb.Limits(cpu_time_ms=300, cpu_millicores=1000))
        self.verdict(answer, pb.VERDICT_CODE_CPU_TIME_LIMIT)

    def test_output_limit_kills_and_truncation_does_not(self):
        flood = "import sys\nfor _ in range(40): sys.stdout.write('x' * 100000)"
        answer = self.run_it(flood)
        self.verdict(answer, pb.VERDICT_CODE_OUTPUT_LIMIT)
        self.assertEqual(len(answer.stdout_data), 1 << 20)
        answer = self.run_it(flood, output=pb.OutputOptions(on_overflow=pb.OVERFLOW_POLICY_TRUNCATE))
        self.verdict(answer, OK)

    def test_fork_bomb_stays_in_its_box(self):
        code = ("import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(60)\n"
                "        n += 1\nexcept OSError as error:\n    print(n, error.errno)\n    raise SystemExit(1)")
        answer = self.run_it(code)
        self.verdict(answer, pb.VERDICT_CODE_PROCESS_LIMIT)
        self.assertEqual(answer.stdout_text, "63 11\n")
        self.assertEqual(answer.result.usage.killed_leftovers, 63)

    def test_full_workspace_is_a_disk_limit(self):
        answer = self.run_it("f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
                             limits=pb.Limits(workspace_bytes=8 << 20))
        self.verdict(answer, pb.VERDICT_CODE_DISK_LIMIT)
        answer = self.run_it("f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
                             limits=pb.Limits(workspace_bytes=8 << 20))
        self.verdict(answer, pb.VERDICT_CODE_DISK_LIMIT)
        self.assertGreaterEqual(answer.result.usage.workspace_bytes, 3 << 20)

    # ---- walls ----

    def test_there_is_no_network(self):
        code = ("import socket, os\nprint(sorted(os.listdir('/proc/self/net')) != [])\n"
                "try:\n    socket.create_connection(('192.0.2.1', 80), 2)\nexcept OSError as error:\n    print(error.errno)\n"
                "print([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])")
        self.assertEqual(self.print_of(code), "True\n101\n['lo']\n")

    def test_the_root_is_read_only_and_places_have_their_flags(self):
        code = ("import os\n"
                "for path in ('/x', '/etc/x', '/usr/x', '/var/tmp/x', '/home/x', '/dev/x'):\n"
                "    try:\n        open(path, 'w')\n        print('wrote', path)\n    except OSError:\n        pass\n"
                "for path in ('/tmp/p', '/dev/shm/p', 'p'):\n"
                "    open(path, 'w').write('#!/bin/sh\\n'); os.chmod(path, 0o755)\n"
                "    try:\n        os.spawnv(os.P_WAIT, path, [path]) == 127 and print('noexec', path)\n"
                "    except OSError as error:\n        print(error.errno)\n")
        self.assertEqual(self.print_of(code), "noexec /tmp/p\nnoexec /dev/shm/p\n")

    def test_status_shows_no_privilege(self):
        status = dict(line.split(":\t", 1) for line in
                      self.print_of("print(open('/proc/self/status').read())").splitlines() if ":\t" in line)
        for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[key], 16), 0, key)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(status["Seccomp_filters"], "2")
        self.assertEqual(status["Uid"].split(), ["1000"] * 4)

    def test_system_calls_are_answered_as_on_the_native_backend(self):
        code = ("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                "for number, arguments in ((272, (0x10000000,)), (425, (1, 0)), (250, (0, 0)), (308, (0, 0)), (41, (40, 1, 0)),\n"
                "                          (56, (0x10000000 | 17, 0, 0, 0, 0)), (317, (0, 0, 0))):\n"
                "    ctypes.set_errno(0); print(number, libc.syscall(number, *arguments), ctypes.get_errno())\n")
        shown = {line.split()[0]: line.split()[2] for line in self.print_of(code).splitlines()}
        self.assertEqual(shown, {"272": "1", "425": "38", "250": "38", "308": "1", "41": "97", "56": "1", "317": "38"})
        answer = self.run_it("import ctypes\nctypes.CDLL(None).syscall(101, 16, 1, 0, 0)")  # ptrace(ATTACH, 1)
        self.verdict(answer, pb.VERDICT_CODE_SECURITY_VIOLATION)

    def test_pid_1_is_out_of_reach(self):
        code = ("import os\nfor what in ('mem', 'environ', 'fd/0', 'fd/1', 'root'):\n"
                "    try:\n        os.stat('/proc/1/' + what); open('/proc/1/' + what, 'rb').read(1); print('read', what)\n"
                "    except OSError:\n        pass\n"
                "os.kill(1, 9); os.kill(1, 15); os.kill(1, 19); print('alive')")
        self.assertEqual(self.print_of(code), "alive\n")

    def test_the_engine_took_over_the_whole_policy(self):
        with self.running() as call:
            container, = ENGINE.containers()
            seen = json.loads(ENGINE.ask("GET", f"/containers/{container['Id']}/json")[1])
            call.cancel()
        host = seen["HostConfig"]
        self.assertEqual((host["NetworkMode"], host["Memory"], host["MemorySwap"]), ("none", 128 << 20, 128 << 20))
        self.assertEqual((host["CpuPeriod"], host["CpuQuota"], host["PidsLimit"]), (100000, 50000, 65))
        self.assertEqual((host["CapDrop"], host["CapAdd"], host["Privileged"]), (["ALL"], None, False))
        self.assertEqual((host["ReadonlyRootfs"], host["LogConfig"]["Type"]), (True, "none"))
        self.assertIn("no-new-privileges", host["SecurityOpt"])
        self.assertEqual(host["Binds"], None)
        self.assertEqual(seen["Config"]["User"], "1000:1000")
        self.assertIn("size=8388608,nr_inodes=512", host["Tmpfs"]["/dev/shm"])
        self.assertLessEqual({"/sys", "/proc/kcore", "/proc/cpuinfo"}, set(host["MaskedPaths"]))

    # ---- refusals ----

    def test_a_request_for_the_other_backend_is_refused_by_name(self):
        self.assertIn("BACKEND_NATIVE", self.refuse(grpc.StatusCode.UNIMPLEMENTED, runtime="python", code="1",
                                                    backend=pb.BACKEND_NATIVE))
        answer = self.run_it("print(1)", backend=pb.BACKEND_DOCKER)
        self.verdict(answer, OK)

    def test_too_little_memory_is_a_bad_field(self):
        self.assertIn("limits.memory_bytes", self.refuse(grpc.StatusCode.INVALID_ARGUMENT, runtime="python", code="1",
                                                         limits=pb.Limits(memory_bytes=5 << 20)))

    # ---- sandboxes that live on; tests/breadth has more of them ----

    def call_in(self, box, timeout=120, **fields):
        """What it printed, and its result."""
        events = [answer.event for answer in self.stub.ExecuteInSandbox(pb.ExecuteInSandboxRequest(
            sandbox_id=box.sandbox_id, request=pb.ExecuteRequest(**fields)), timeout=timeout)]
        return b"".join(event.output.data for event in events if event.HasField("output")).decode(), events[-1].result

    def test_a_sandbox_that_lives_on_is_one_container(self):
        box = self.stub.CreateSandbox(pb.CreateSandboxRequest(runtime="python", limits=pb.Limits(memory_bytes=64 << 20)),
                                      timeout=90).sandbox
        out, result = self.call_in(box, code="import os, subprocess\nx = 5\nopen('f', 'w').write('file')\n"
                                             "child = subprocess.Popen(['sleep', '50'])\nprint(os.getpid(), end='')")
        self.assertTrue(result.sandbox.is_state_new and result.sandbox.is_state_kept, result.summary)
        self.assertEqual(result.policy.backend, pb.BACKEND_DOCKER)
        before, = ENGINE.containers()
        # Beside it: what the call leaves is ended, and the interpreter is not, though it can be seen and woken.
        command = ["/bin/sh", "-c", f"cat f; setsid sleep 60 & kill -CONT {out} && echo ' woken'"]
        self.assertEqual(self.call_in(box, command=command)[0], "file woken\n")
        left = sorted(command for _, command in ENGINE.processes() if not command.startswith("/sbin/sandbox-init"))
        self.assertEqual([command for command in left if command.startswith("sleep")], ["sleep 50"])
        _, result = self.call_in(box, command=["/bin/sh", "-c", "while :; do :; done"], limits=pb.Limits(wall_time_ms=500))
        self.verdict(answer_of(result), pb.VERDICT_CODE_WALL_TIME_LIMIT)
        out, result = self.call_in(box, code="print(x, child.poll(), open('f').read())")
        self.assertEqual((out, result.sandbox.is_state_new), ("5 None file\n", False))
        self.assertEqual([one["Id"] for one in ENGINE.containers()], [before["Id"]])
        host = json.loads(ENGINE.ask("GET", f"/containers/{before['Id']}/json")[1])["HostConfig"]
        self.assertEqual((host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"], host["CapDrop"]), (64 << 20, 65, True, ["ALL"]))
        # Somebody ends it: a typed end, not a sandbox that has lost its files in silence.
        self.assertIn(ENGINE.ask("POST", f"/containers/{before['Id']}/kill")[0], (204, 409))

        def lost():
            try:
                self.call_in(box, code="print(x)")
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.NOT_FOUND and "ended from outside" in error.details()
            return False
        lab.wait_for(lost, 30, "the sandbox is lost")
        self.assertFalse(self.stub.ListSandboxes(pb.ListSandboxesRequest(), timeout=90).sandboxes)
        lab.wait_for(no_containers, 30, "it is gone")

    # ---- what is left ----

    def running(self):
        """A run that prints one byte and stays; a context that ends with it."""
        outer = self

        class Running:
            def __enter__(self):
                self.call = outer.stub.Execute(pb.ExecuteRequest(
                    runtime="python", code="import time\nprint('x', flush=True)\ntime.sleep(60)",
                    limits=pb.Limits(wall_time_ms=60000)))
                for event in self.call:
                    if event.WhichOneof("event") == "output":
                        return self.call
                raise AssertionError("no output")

            def __exit__(self, *_):
                self.call.cancel()
                lab.wait_for(no_containers, 30, "the container is gone")
        return Running()

    def test_a_caller_who_goes_leaves_no_container(self):
        with self.running() as call:
            self.assertEqual(len(ENGINE.containers()), 1)
            call.cancel()
            lab.wait_for(no_containers, 30, "the container is gone")

    def test_a_container_that_is_removed_by_hand_is_a_lost_sandbox(self):
        with self.running() as call:
            container, = ENGINE.containers()
            ENGINE.ask("DELETE", f"/containers/{container['Id']}?force=1")
            result = [event.result for event in call if event.WhichOneof("event") == "result"][0]
        self.assertEqual(result.verdict.code, pb.VERDICT_CODE_SANDBOX_LOST, result.summary)
        self.assertTrue(result.verdict.retryable)


class Faults(unittest.TestCase):
    """What happens when somebody dies."""

    def start_run(self, stub):
        """A run in flight; its last result lands in the list."""
        ended = []
        begun = threading.Event()

        def follow():
            try:
                for event in stub.Execute(pb.ExecuteRequest(runtime="python", limits=pb.Limits(wall_time_ms=60000),
                                                            code="import time\nprint(1, flush=True)\ntime.sleep(50)")):
                    if event.WhichOneof("event") == "output":
                        begun.set()
                    if event.WhichOneof("event") == "result":
                        ended.append(event.result)
            except grpc.RpcError as error:
                ended.append(error)
        thread = threading.Thread(target=follow)
        thread.start()
        self.assertTrue(begun.wait(90))
        return thread, ended

    def test_engine_that_is_killed_loses_runs_and_comes_back(self):
        with DockerService(*flags()) as service:
            stub = services.SandboxServiceStub(service.channel)
            box = stub.CreateSandbox(pb.CreateSandboxRequest(runtime="python"), timeout=90).sandbox
            enter = pb.ExecuteInSandboxRequest(sandbox_id=box.sandbox_id, request=pb.ExecuteRequest(code="x = 1"))
            self.assertEqual(list(stub.ExecuteInSandbox(enter, timeout=120))[-1].event.result.verdict.code, OK)
            thread, ended = self.start_run(stub)
            ENGINE.kill()
            thread.join(timeout=90)
            self.assertEqual(ended[0].verdict.code, pb.VERDICT_CODE_SANDBOX_LOST)
            lab.wait_for(lambda: "the docker engine" in service.log(), 10, "the log names the engine")
            ENGINE.start()
            service.wait_ready(2)
            lab.wait_for(no_containers, 30, "what was left is gone")
            answer = stub.Run(pb.RunRequest(runtime="python", code="print(2)"), timeout=120)
            self.assertEqual(answer.stdout_data, b"2\n")
            with self.assertRaises(grpc.RpcError) as caught:
                list(stub.ExecuteInSandbox(enter, timeout=90))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertTrue(any(b"SANDBOX_LOST" in value for key, value in caught.exception.trailing_metadata()
                                if key.endswith("-bin")), caught.exception.details())

    def test_backend_that_is_killed_leaves_no_container(self):
        with DockerService(*flags()) as service:
            stub = services.SandboxServiceStub(service.channel)
            thread, ended = self.start_run(stub)
            os.kill(service.child("sandboxd-docker"), signal.SIGKILL)
            thread.join(timeout=90)
            self.assertEqual(ended[0].verdict.code, pb.VERDICT_CODE_SANDBOX_LOST)
            service.wait_ready(2)
            lab.wait_for(no_containers, 30, "what was left is gone")
            answer = stub.Run(pb.RunRequest(runtime="python", code="print(2)"), timeout=120)
            self.assertEqual(answer.stdout_data, b"2\n")

    def test_supervisor_that_is_killed_takes_everything_with_it(self):
        service = DockerService(*flags())
        with service:
            stub = services.SandboxServiceStub(service.channel)
            thread, _ = self.start_run(stub)
            family = service.family()
            service.process.kill()
            service.process.wait(timeout=90)
            thread.join(timeout=90)
            lab.wait_for(lambda: not family & set(lab.processes()), 10, "its processes are gone")
            lab.wait_for(no_containers, 30, "its container is gone")

    def test_image_that_is_removed_comes_back(self):
        with DockerService(*flags()) as service:
            stub = services.SandboxServiceStub(service.channel)
            lab.wait_for(no_containers, 30, "the first runs are over")
            image, = [tag for one in json.loads(ENGINE.ask("GET", "/images/json")[1])
                      for tag in one["RepoTags"] or [] if tag.startswith("crisol-sandbox:")]
            self.assertEqual(ENGINE.ask("DELETE", f"/images/{image}?force=1")[0], 200)
            answer = stub.Run(pb.RunRequest(runtime="python", code="print(1)"), timeout=120)
            self.assertTrue(answer.result.verdict.retryable, answer.result.summary)
            service.wait_ready(2)
            answer = stub.Run(pb.RunRequest(runtime="python", code="print(2)"), timeout=120)
            self.assertEqual(answer.stdout_data, b"2\n")

    @unittest.skipUnless(docker.shutil.which("docker-registry"), "no docker-registry: scripts/deps.sh engine")
    def test_missing_base_is_pulled_unless_forbidden(self):
        with docker.Registry() as registry:
            base = ENGINE.push(docker.BASE, registry)
            forbidden = self.refuses_to_start(f"--docker-socket={ENGINE.socket}", f"--docker-base={base}",
                                              "--docker-pull=never")
            self.assertIn(f"image '{base}' is missing and must not be pulled", forbidden)
            nothing = self.refuses_to_start(f"--docker-socket={ENGINE.socket}", "--docker-pull=missing",
                                            f"--docker-base={registry.address}/nothing:1")
            self.assertIn("the docker engine cannot pull it", nothing)
            base = ENGINE.digest_of(base, registry)
            self.assertRegex(base, "@sha256:[0-9a-f]{64}$")
            with DockerService(*flags(f"--docker-base={base}", "--docker-pull=missing")) as service:
                self.assertIn(f"pulling an image image={base}", service.log())
                stub = services.SandboxServiceStub(service.channel)
                answer = stub.Run(pb.RunRequest(runtime="python", code="print(3)"), timeout=120)
                self.assertEqual(answer.stdout_data, b"3\n")
        gone = self.refuses_to_start(f"--docker-socket={ENGINE.socket}", "--docker-base=127.0.0.1:1/gone:1")
        self.assertIn("the docker engine cannot pull it", gone)

    def test_check_says_what_a_start_lacks(self):
        command = [os.path.join(crisol.BIN, "sandboxd"), "check", f"--socket={ENGINE.folder}/c/x.sock"]
        done = subprocess.run(command + flags(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("PASS  image", done.stdout)
        done = subprocess.run(command + ["--backend=docker", "--docker-socket=/nothing.sock"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FAIL  docker engine (--docker-socket): the docker engine is absent", done.stdout)

    def refuses_to_start(self, *more):
        """The last error line of a start that fails."""
        command = [os.path.join(lab.BIN, "sandboxd"), "--backend=docker",
                   f"--socket={ENGINE.folder}/s/x.sock", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_each_fault_of_an_engine_has_a_line_of_its_own(self):
        absent = self.refuses_to_start(f"--docker-socket={ENGINE.folder}/nothing.sock")
        self.assertIn("the docker engine is absent", absent)
        stale = os.path.join(ENGINE.folder, "stale.sock")
        with docker.socket.socket(docker.socket.AF_UNIX) as nobody:
            nobody.bind(stale)
        self.assertIn("the docker engine is dead", self.refuses_to_start(f"--docker-socket={stale}"))
        missing = self.refuses_to_start(f"--docker-socket={ENGINE.socket}", "--docker-base=nothing:1",
                                        "--docker-pull=never")
        self.assertIn("image 'nothing:1' is missing", missing)
        self.assertIn("make image", missing)

    def test_a_forbidden_engine_is_said_to_be_forbidden(self):
        # A copy, as the folder of the build may be closed to others; and the folder of the engine is opened,
        # so that it is the socket itself that forbids.
        program = docker.shutil.copy(os.path.join(lab.BIN, "sandboxd-docker"), ENGINE.folder)
        os.chmod(ENGINE.folder, 0o711)
        try:
            done = subprocess.run([program, "--ping", f"--docker-socket={ENGINE.socket}"],
                                  capture_output=True, text=True, timeout=90, check=False, user=65534, group=65534,
                                  extra_groups=[])
        finally:
            os.chmod(ENGINE.folder, 0o700)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is forbidden to this user", done.stderr)

    def test_a_runtime_that_is_missing_is_named_with_those_that_are_there(self):
        missing = self.refuses_to_start(*flags("--docker-runtime=runsc-of-nobody"))
        self.assertIn("the docker engine has no runtime 'runsc-of-nobody' (it has ", missing)
        self.assertIn("runc", missing)

    @unittest.skipUnless(docker.shutil.which("crun"), "no crun: scripts/deps.sh engine")
    def test_crun_runs_programs_where_the_host_lets_it(self):
        with CrunService(*flags("--docker-runtime=crun")) as service:
            if HYBRID in service.log():
                self.skipTest("crun does not support this host's control groups (hybrid mode)")
            self.assertIn("runtime=crun", service.log())
            stub = services.SandboxServiceStub(service.channel)
            answer = stub.Run(pb.RunRequest(runtime="python", code="print(4)"), timeout=120)
            self.assertEqual(answer.stdout_data, b"4\n")

    def test_auto_takes_docker_only_with_an_engine_and_a_name(self):
        for more, chosen in (([f"--docker-socket={ENGINE.socket}", f"--docker-base={docker.BASE}"], "docker"),
                             ([f"--docker-socket={ENGINE.socket}"], "native"),
                             (["--docker-socket=/nothing.sock", f"--docker-base={docker.BASE}"], "native")):
            with DockerService("--backend=auto", *more) as service:
                self.assertIn(f"backend chosen backend={chosen}", service.log())
                self.assertIn(f"backend={chosen} slots=", service.log())

    def test_gc_removes_what_is_ours_and_old(self):
        def collect(base):
            command = [os.path.join(crisol.BIN, "sandboxd"), "gc", f"--docker-socket={ENGINE.socket}",
                       f"--docker-base={base}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        with DockerService(*flags()):
            pass
        collect(docker.BASE)  # of other cases
        self.assertEqual(collect(docker.BASE), "removed 0 containers and 0 images\n")
        # Another base makes the built image stale.
        self.assertEqual(collect("another:1"), "removed 0 containers and 1 images\n")
        self.assertEqual(json.loads(ENGINE.ask("GET", f"/images/{docker.BASE}/json")[1])["RepoTags"], [docker.BASE])


if __name__ == "__main__":
    unittest.main()
