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


def make_folder(**files):
    folder = tempfile.mkdtemp(prefix="crisol-runtimes-")
    for name, text in files.items():
        with open(os.path.join(folder, f"{name}.runtime"), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


class Runtimes(lab.Suite):
    @classmethod
    def setUpClass(cls):
        cls.folder = make_folder(awk=AWK, small=SMALL)
        cls.flags = (f"--runtimes-dir={cls.folder}",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def awk(self, code, **fields):
        return self.run_code(code, runtime="awk", **fields)

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
