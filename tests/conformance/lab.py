# SPDX-License-Identifier: Apache-2.0
"""What the files of the conformance suite share: one sandboxd for each file, and short ways to ask it.

A test is named after the case that it shows: sandbox_16 is case 16 of the public bug reports about
sandboxes, security_11 line 11 of those about security. BACKEND (CRISOL_BACKEND; run.py
--backend=docker sets it) says which backend all of it runs on.
"""
import contextlib
import json  # noqa: F401 (used by the files of the suite)
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import sandboxd_service as host  # noqa: E402 (needs the path above)
import services as processes  # noqa: E402

host.need_root()
from sandbox_calls import (  # noqa: E402,F401 (used by the files of the suite)
    execute, output_of, pb, reason, result_of, retry_delay, services, violations)
import grpc  # noqa: E402

BACKEND = os.environ.get("CRISOL_BACKEND", "native")
BACKEND_FLAGS = os.environ.get("CRISOL_SANDBOXD_FLAGS", "").split()  # e.g. the image and the socket of an engine
SANDBOXD = os.path.join(processes.BIN, "sandboxd")
SERVICE = "crisol.sandbox.v1.SandboxService"
MIB = 1 << 20

OK = pb.VERDICT_CODE_OK
NONZERO = pb.VERDICT_CODE_NONZERO_EXIT
SIGNALED = pb.VERDICT_CODE_SIGNALED
WALL = pb.VERDICT_CODE_WALL_TIME_LIMIT
CPU = pb.VERDICT_CODE_CPU_TIME_LIMIT
MEMORY = pb.VERDICT_CODE_MEMORY_LIMIT
PROCESSES = pb.VERDICT_CODE_PROCESS_LIMIT
OUTPUT = pb.VERDICT_CODE_OUTPUT_LIMIT
FILE_SIZE = pb.VERDICT_CODE_FILE_SIZE_LIMIT
DISK = pb.VERDICT_CODE_DISK_LIMIT
SECURITY = pb.VERDICT_CODE_SECURITY_VIOLATION
EXEC_FAILED = pb.VERDICT_CODE_EXEC_FAILED
COLLECT_FAILED = pb.VERDICT_CODE_COLLECT_FAILED
CANCELLED = pb.VERDICT_CODE_CANCELLED


class Service(host.Service):
    """Its first start on docker builds the image."""

    ready_seconds = 20 if BACKEND == "native" else 120


def start(*flags, slots=2):
    """A sandboxd of its own; leave it with a with statement."""
    return Service(f"--backend={BACKEND}", *BACKEND_FLAGS, *flags, slots=slots)


class Suite(unittest.TestCase):
    """Cases that share one sandboxd."""

    flags = ()
    slots = 2

    @classmethod
    def setUpClass(cls):
        cls.service = start(*cls.flags, slots=cls.slots)
        cls.service.__enter__()
        cls.stub = services.SandboxServiceStub(cls.service.channel)

    @classmethod
    def tearDownClass(cls):
        """Whatever the cases sent: the service still ends as it should, and nothing of it is left."""
        family, backend = cls.service.family(), cls.service.child(f"sandboxd-{BACKEND}")
        cls.service.__exit__(None, None, None)
        left = family & set(host.processes())
        assert not left, f"processes are left: {left}"
        groups = host.control_groups(backend) if backend else set()
        assert not groups, f"control groups are left: {groups}"

    def run_code(self, code, runtime="python", timeout=90, limits=None, **fields):
        """Run; returns the answer."""
        if isinstance(limits, dict):
            limits = pb.Limits(**limits)
        return self.stub.Run(pb.RunRequest(runtime=runtime, code=code, limits=limits, **fields), timeout=timeout)

    def shell(self, code, **fields):
        return self.run_code(code, runtime="shell", **fields)

    def must(self, verdict, answer):
        """The verdict that a run must have; returns its result."""
        result = answer.result
        self.assertEqual(pb.VerdictCode.Name(result.verdict.code), pb.VerdictCode.Name(verdict),
                         f"{result.summary}\n{answer.stdout_data[-400:]}\n{answer.stderr_data[-800:]}")
        return result

    def output(self, code, **fields):
        """What a program that ends well writes, as text."""
        answer = self.run_code(code, **fields)
        self.must(OK, answer)
        return answer.stdout_data.decode()

    @contextlib.contextmanager
    def refused(self, status):
        """The block must be refused with this code; gives a list with the error in it."""
        found = []
        with self.assertRaises(grpc.RpcError) as caught:
            yield found
        found.append(caught.exception)
        self.assertEqual(caught.exception.code(), status, caught.exception.details())


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def main():
    """The end of every file of the suite."""
    unittest.main(verbosity=1)
