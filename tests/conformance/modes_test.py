#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One corpus, run from nothing and by templates through the Execute RPC: the same result in every mode."""
import concurrent.futures
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lab import BACKEND, execute, main, output_of, pb, processes, services, start  # noqa: E402
import modes_corpus  # noqa: E402

CALLERS = 3
TEMPLATES = 3
LIMITS = pb.Limits(cpu_millicores=1000)
# What differs from run to run without any template.
VARYING = [(re.compile(pattern), text) for pattern, text in (
    (rb"0x[0-9a-f]{6,}", b"0xADDRESS"),
    (rb"started \d+", b"started N"),  # a thread, by its address
    (rb"\bin \d+\.\d\ds", b"in Ns"),
    (rb"/tmp/tmp[a-z0-9_]{8}", b"/tmp/tmpNAME"),
    (rb"id='\d+'", b"id='N'"),
    (rb"pid \d+", b"pid N"),
    (rb"port \d+", b"port N"),
    (rb"\[\d\d/[A-Z][a-z]{2}/\d{4} [\d:]+\]", b"[DATE]"),
)]


def normal(data):
    for pattern, text in VARYING:
        data = pattern.sub(text, data)
    return data.decode("utf-8", "backslashreplace").split("\n")


def run_one(stub, runtime, files, args):
    """Everything of a run that somebody can see, without times."""
    events = execute(stub, timeout=60, runtime=runtime, args=args, limits=LIMITS,
                     files=[pb.InputFile(path=path, text=text) for path, text in files.items()],
                     collect=[pb.CollectSpec(glob="**/*")])
    result = events[-1].result
    report = result.test_report
    return {
        "exit": (pb.VerdictCode.Name(result.verdict.code), result.exit_code, result.signal),
        "stdout": normal(output_of(events)),
        "stderr": normal(output_of(events, pb.OUTPUT_STREAM_STDERR)),
        "tests": [(report.is_present, report.tests, report.passed, report.failed, report.errors, report.skipped,
                   report.problem)] +
                 [(case.id, case.outcome, normal(case.message.encode()), normal(case.details.encode())) for case in report.cases],
        "files": {file.path: normal(file.data) for file in result.files if file.path not in files},
    }


def run_all(stub, runtime, corpus, args=()):
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        return dict(zip(corpus, pool.map(lambda name: run_one(stub, runtime, corpus[name], args), corpus)))


@unittest.skipUnless(BACKEND == "native", "docker has no templates")
class Modes(unittest.TestCase):
    maxDiff = 6000

    @classmethod
    def setUpClass(cls):
        cls.cold, cls.warm = start("--preload=off", slots=CALLERS), start(slots=CALLERS)
        cls.stubs = []
        for service in (cls.cold, cls.warm):
            service.__enter__()
            cls.stubs.append(services.SandboxServiceStub(service.channel))
        processes.wait_for(lambda: cls.warm.log().count("template ready") == TEMPLATES, 30, "templates")

    @classmethod
    def tearDownClass(cls):
        log = cls.warm.log()
        for service in (cls.cold, cls.warm):
            service.__exit__(None, None, None)
        assert "a template ended" not in log, log

    def compare(self, runtime, corpus, args=()):
        cold, warm = [run_all(stub, runtime, corpus, args) for stub in self.stubs]
        for name, expected in cold.items():
            with self.subTest(case=name, args=args):
                self.assertEqual(warm[name], expected)

    def test_pytest_deep(self):
        self.assertGreaterEqual(len(modes_corpus.PYTEST), 60)
        self.compare("pytest", modes_corpus.PYTEST)

    def test_pytest_shallow(self):
        corpus = {name: modes_corpus.PYTEST[name] for name in modes_corpus.SHALLOW}
        self.compare("pytest", corpus, ["-v", "--tb=short", "-rA"])
        self.compare("pytest", {"chosen": modes_corpus.PYTEST["ids"]}, ["-s", "-k", "named or cell", "--maxfail=1"])
        self.compare("pytest", {"refused": modes_corpus.PYTEST["plain"]}, ["--no-such-option"])
        self.compare("pytest", {"asked": modes_corpus.PYTEST["plain"]}, ["-p", "no:terminal"])

    def test_python(self):
        self.compare("python", modes_corpus.PYTHON)

    def test_python_with_arguments(self):
        self.compare("python", {"arguments": {"main.py": "import sys\nprint(sys.argv, sys.orig_argv)\n"}}, ["-x", "é b"])


if __name__ == "__main__":
    main()
