#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runtimes of the operator's own: offered, run, limited and preloaded as their files say, and refused by file and line."""
import os
import shutil
import signal
import subprocess
import tempfile

import lab
from lab import BACKEND, MIB, NONZERO, OK, WALL, pb
from sandboxd_service import wait_for

AWK = """\
name = awk
description = AWK, one program over standard input
argv = /usr/bin/mawk
argv = -f
argv = main.awk
env = GREETING=hi there
entry_file = main.awk
limit.wall_time_ms = 2500
limit.memory_bytes = 33554432
"""
# NAME:VERSION, both as long as they may be.
LONGEST = AWK.replace("name = awk", f"name = {'a' * 32}\nversion = {'1' * 32}")
# The argv of the runtime python, so that its interpreters do for it.
SMALL = """\
name = python-small
description = Python 3 with little memory
argv = /usr/bin/python3
argv = -s
argv = -E
argv = -B
argv = -u
argv = main.py
entry_file = main.py
preload = python
limit.memory_bytes = 50331648
"""

# Two stages, the first of which is the caller's own script.
STAGED = """\
name = staged
description = A script that makes another one, which is run
argv = /bin/sh
argv = made.sh
entry_file = build.sh
compile.argv = /bin/sh
compile.argv = build.sh
compile.output = made.sh
compile.output = out/**
"""


def make_folder(**files):
    folder = tempfile.mkdtemp(prefix="crisol-runtimes-")
    for name, text in files.items():
        with open(os.path.join(folder, f"{name}.runtime"), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


class Runtimes(lab.Suite):
    @classmethod
    def setUpClass(cls):
        cls.folder = make_folder(awk=AWK, small=SMALL, staged=STAGED, longest=LONGEST)
        cls.flags = (f"--runtimes-dir={cls.folder}",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def awk(self, code, **fields):
        return self.run_code(code, runtime="awk", **fields)

    def test_the_longest_name_can_be_asked_for(self):
        answer = self.run_code('BEGIN { print "here" }', runtime=f"{'a' * 32}:{'1' * 32}")
        self.must(OK, answer)
        self.assertEqual(answer.stdout_data, b"here\n")

    def test_runtimes_are_listed_with_their_own_defaults(self):
        runtimes = self.stub.ListRuntimes(pb.ListRuntimesRequest(), timeout=90).runtimes
        self.assertEqual([runtime.name for runtime in runtimes], sorted(runtime.name for runtime in runtimes))
        listed = {runtime.name: runtime for runtime in runtimes}
        self.assertLessEqual({"awk", "pytest", "python", "python-small", "shell"}, set(listed))
        awk = listed["awk"]
        self.assertEqual((awk.description, list(awk.argv), awk.entry_file),
                         ("AWK, one program over standard input", ["/usr/bin/mawk", "-f", "main.awk"], "main.awk"))
        self.assertEqual((awk.default_limits.wall_time_ms, awk.default_limits.memory_bytes), (2500, 32 * MIB))
        self.assertEqual(listed["python"].default_limits.wall_time_ms, 10000)
        self.assertEqual(len({runtime.digest for runtime in runtimes}), len(runtimes))

    def test_runtimes_run_their_argv_in_their_environment(self):
        answer = self.awk('{ print ENVIRON["GREETING"], $2, ARGV[1] }', stdin_text="a b\n", args=["-"])
        self.must(OK, answer)
        self.assertEqual(answer.stdout_data, b"hi there b -\n")
        self.assertEqual(answer.result.policy.runtime, "awk")
        answer = self.awk('BEGIN { print ENVIRON["GREETING"]; exit 3 }', env={"GREETING": "own"})
        self.assertEqual((self.must(NONZERO, answer).exit_code, answer.stdout_data), (3, b"own\n"))

    def test_runtimes_limit_what_a_request_leaves_open(self):
        result = self.must(WALL, self.awk("BEGIN { while (1) x++ }"))
        self.assertEqual(result.limit_hit.value, 2500)
        self.assertEqual(result.policy.limits.memory_bytes, 32 * MIB)
        result = self.must(WALL, self.awk("BEGIN { while (1) x++ }", limits={"wall_time_ms": 300}))
        self.assertEqual(result.limit_hit.value, 300)

    def test_runtimes_are_the_same_behind_a_restarted_backend(self):
        backend = self.service.child(f"sandboxd-{BACKEND}")
        os.kill(backend, signal.SIGKILL)

        def is_back():
            try:
                return self.awk('BEGIN { print "again" }').stdout_data == b"again\n"
            except lab.grpc.RpcError:
                return False
        wait_for(is_back, 60, "the backend is back with its runtimes")

    def test_runtimes_use_the_interpreters_that_they_name(self):
        def start_mode():
            return self.must(OK, self.run_code("print(1)", runtime="python-small")).timing.start_mode
        wait_for(lambda: start_mode() == pb.START_MODE_PRELOAD, 30, "an interpreter of python is used")

    # ---- two stages ----

    def staged(self, code, **fields):
        answer = self.run_code(code, runtime="staged", output_text=True, **fields)
        self.assertTrue(answer.result.HasField("compile"), answer.result.summary)
        return answer

    def test_sandbox_48_security_6_links_of_a_compile_stage_lead_its_run_nowhere(self):
        with open("/etc/passwd", "rb") as file:
            before = file.read()
        build = ("rm -f data build.sh; for n in data build.sh more out/link out/sub/link; do mkdir -p out/sub; ln -s /etc/passwd $n; done\n"
                 "ln -s / out/root; mkfifo out/fifo; ln -s ../made.sh out/near; echo kept > out/kept; echo kept > left; ln made.sh hard 2>/dev/null\n"
                 "echo 'echo x >> data; cat data; find . ! -type d | sort' > made.sh")
        answer = self.staged(build, files=[pb.InputFile(path="data", text="mine\n")])
        self.must(OK, answer)
        self.assertEqual(answer.stdout_text.split(), ["mine", "x", "./data", "./made.sh", "./out/kept"])
        for link in ("ln -s /etc/passwd made.sh", "echo echo > real; ln -s real made.sh", "mkdir made.sh", "mkfifo made.sh", "true"):
            answer = self.staged(f"mkdir out; echo kept > out/kept; {link}")
            self.assertEqual((answer.result.phase, answer.stdout_data), (pb.PHASE_COMPILE, b""), (link, answer.result.summary))
            self.assertNotEqual(answer.result.verdict.code, OK, link)
        with open("/etc/passwd", "rb") as file:
            self.assertEqual(file.read(), before)

    def test_sandbox_60_security_10_a_compile_stage_has_what_a_run_has(self):
        answer = self.staged("cat /etc/shadow /etc/gshadow; echo x > /etc/x; env; cat /proc/*/environ; exit 5")
        self.assertEqual(answer.result.verdict.code, pb.VERDICT_CODE_COMPILE_ERROR, answer.result.summary)
        said = answer.result.compile.output_text
        self.assertIn("Read-only file system", said)
        for secret in ("root:", lab.host.CANARY, self.service.folder):
            self.assertNotIn(secret, said)
        limits = {"wall_time_ms": 60000, "cpu_time_ms": 60000}
        trace = "exec /usr/bin/python3 -c 'import ctypes; ctypes.CDLL(None).syscall(101, 0, 0, 0, 0)'"
        for build, verdict, more in ((trace, lab.SECURITY, {}), ("exec sleep 50", WALL, {"wall_time_ms": 300}),
                                     ("x=$(head -c 90000000 /dev/zero | tr '\\0' x)", lab.MEMORY, {"memory_bytes": 32 * MIB}),
                                     ("for i in $(seq 99); do sleep 50 & done; wait", lab.PROCESSES, {"processes": 16})):
            answer = self.staged(build, compile_limits=pb.Limits(**{**limits, **more}))
            self.must(verdict, answer)
            self.assertEqual(answer.result.phase, pb.PHASE_COMPILE)
        left = f"sleep 9{os.getpid()}7"
        answer = self.staged(f"setsid {left} & mkdir out; echo kept > out/kept; echo 'echo ran' > made.sh")
        self.must(OK, answer)
        self.assertEqual(answer.stdout_text, "ran\n")
        self.assertEqual([command for _, command in lab.host.processes().values() if left in command], [])

    def test_a_bad_file_stops_the_start_by_file_and_line(self):
        folder = make_folder(bad="name = bad\n\ncolour = red\n")
        self.addCleanup(shutil.rmtree, folder)
        socket = os.path.join(folder, "socket")
        for more in ((), ("--check-config",)):
            done = subprocess.run([lab.SANDBOXD, f"--socket={socket}", f"--runtimes-dir={folder}", *more], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("bad.runtime:3: 'colour' is no key: name, description, argv", done.stdout)


if __name__ == "__main__":
    lab.main()
