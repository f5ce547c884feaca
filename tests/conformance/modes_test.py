#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One corpus, run from nothing and by interpreters that were started ahead, through the Execute RPC: the same result
in every mode. On native these are templates that fork; on docker each waits in a container of its own."""
import concurrent.futures
import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lab import BACKEND, MEMORY, MIB, OK, execute, main, output_of, pb, processes, services, start  # noqa: E402
import grpc  # noqa: E402
import modes_corpus  # noqa: E402

IS_NATIVE = BACKEND == "native"
CALLERS = 3 if IS_NATIVE else 2
TEMPLATES = 3
PATIENCE = 120  # seconds until an interpreter waits in a container, on a machine that has others to do
LIMITS = pb.Limits(cpu_millicores=1000, wall_time_ms=100000)  # on a busy machine pytest takes its time
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
) + (() if IS_NATIVE else (
    # The numbers before the program's are those of threads of the engine's runtime.
    (rb"NSpid:(\t|\\t)\d+", b"NSpid:N"),
    (rb"'1', '\d+', 'acpi'", b"'1', 'N', 'acpi'"),
    (rb"\b(\d+)( 1 1000 1000 \[1000\]) \1 \1\b", rb"N\2 N N"),
    (rb"\b(\d+)( 1 1000 /workspace) \1 ", rb"N\2 N "),
))]


def normal(data):
    for pattern, text in VARYING:
        data = pattern.sub(text, data)
    return data.decode("utf-8", "backslashreplace").split("\n")


def run_in(stub, mode, **fields):
    """The events of a run in that mode (None: whatever comes). A template forks a box at once; where an interpreter has
    to wait in a container first, a run that finds none starts its own, and is asked for again."""
    if IS_NATIVE or mode is None:
        return execute(stub, timeout=120, **fields)
    deadline = time.monotonic() + PATIENCE
    while True:
        wait_for_pool(stub)
        events = execute(stub, timeout=120, **fields)
        if events[-1].result.timing.start_mode == mode or time.monotonic() > deadline:
            return events


def wait_for_pool(stub):
    """No more than one is missing, so that there is one of each kind; the other caller may still be faster."""
    def is_almost_full():
        pool = stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).pool
        return pool.ready >= pool.slots - 1
    processes.wait_for(is_almost_full, PATIENCE, "interpreters wait")


def input_file(path, content):
    """A text, or one with the mode of its file."""
    text, mode = (content, 0) if isinstance(content, str) else content
    return pb.InputFile(path=path, text=text, mode=mode)


def run_one(stub, runtime, files, args, mode=None):
    """Everything of a run that somebody can see, without times."""
    events = run_in(stub, mode, runtime=runtime, args=args, limits=LIMITS,
                    files=[input_file(path, content) for path, content in files.items()],
                    collect=[pb.CollectSpec(glob="**/*")])
    result = events[-1].result
    report = result.test_report
    return result.timing.start_mode, {
        "exit": (pb.VerdictCode.Name(result.verdict.code), result.exit_code, result.signal),
        "stdout": normal(output_of(events)),
        "stderr": normal(output_of(events, pb.OUTPUT_STREAM_STDERR)),
        "tests": [(report.is_present, report.tests, report.passed, report.failed, report.errors, report.skipped,
                   report.problem)] +
                 [(case.id, case.outcome, normal(case.message.encode()), normal(case.details.encode()))
                  for case in report.cases],
        "files": {file.path: normal(file.data) for file in result.files if file.path not in files},
    }


def run_all(stub, runtime, corpus, args=(), mode=None):
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        return dict(zip(corpus, pool.map(lambda name: run_one(stub, runtime, corpus[name], args, mode), corpus)))


class Bearer(grpc.UnaryStreamClientInterceptor):
    """A caller by TCP."""

    def intercept_unary_stream(self, continuation, details, request):
        metadata = [*(details.metadata or []), ("authorization", "Bearer a-token-of-32-characters-or-more")]
        return continuation(details._replace(metadata=metadata), request)


class Modes(unittest.TestCase):
    maxDiff = 6000

    @classmethod
    def setUpClass(cls):
        # On native a miss of the pool is forked on the spot, so every run is in the mode that it shows.
        pool = "--pool=0,python=2,pytest=3,pytest-shallow=2"
        cls.cold = start("--preload=off", slots=CALLERS)
        cls.warm = start(pool, slots=CALLERS)
        cls.stubs = []
        for service in (cls.cold, cls.warm):
            service.__enter__()
            cls.stubs.append(services.SandboxServiceStub(service.channel))
        if IS_NATIVE:
            processes.wait_for(lambda: cls.warm.log().count("template ready") >= TEMPLATES, 30, "templates")
        else:
            wait_for_pool(cls.stubs[1])

    @classmethod
    def tearDownClass(cls):
        for service in (cls.cold, cls.warm):
            service.__exit__(None, None, None)

    def compare(self, mode, runtime, corpus, args=()):
        cold, warm = [run_all(stub, runtime, corpus, args, wanted) for stub, wanted in zip(self.stubs, (None, mode))]
        for name, (cold_mode, expected) in cold.items():
            with self.subTest(case=name, args=args):
                warm_mode, found = warm[name]
                self.assertEqual(found, expected)
                self.assertEqual((cold_mode, warm_mode), (pb.START_MODE_COLD, mode))

    def test_pytest_deep(self):
        self.assertGreaterEqual(len(modes_corpus.PYTEST), 60)
        self.compare(pb.START_MODE_PRELOAD_DEEP, "pytest", modes_corpus.PYTEST)

    def test_pytest_that_stops_at_the_first_failure(self):
        self.compare(pb.START_MODE_PRELOAD_DEEP, "pytest",
                     {name: modes_corpus.PYTEST[name] for name in modes_corpus.STOPPING}, ("-x",))

    def test_pytest_shallow(self):
        def compare(corpus, *args):
            self.compare(pb.START_MODE_PRELOAD_SHALLOW, "pytest", corpus, args)
        compare({name: modes_corpus.PYTEST[name] for name in modes_corpus.SHALLOW}, "-v", "--tb=short", "-rA")
        compare({"chosen": modes_corpus.PYTEST["ids"]}, "-s", "-k", "named or cell", "--maxfail=1")
        compare({"refused": modes_corpus.PYTEST["plain"]}, "--no-such-option")
        compare({"silent": modes_corpus.PYTEST["plain"]}, "-p", "no:terminal")

    def test_python(self):
        self.compare(pb.START_MODE_PRELOAD, "python", modes_corpus.PYTHON)
        # /proc/self/cmdline stays what it was: that of the template.
        arguments = {"main.py": "import sys\nprint(sys.argv, sys.orig_argv)\n"}
        self.compare(pb.START_MODE_PRELOAD, "python", {"arguments": arguments}, ["-x", "é b"])

    def test_a_program_has_the_same_memory_in_every_mode(self):
        """What fits into its limit but for 1 MiB when nothing is shared, fits into what a template forks; more into neither."""
        touch = "x = bytearray({0})\nx[::4096] = b'x' * len(x[::4096])\n"
        test = "def test():\n    x = bytearray({0})\n    x[::4096] = b'x' * len(x[::4096])\n"
        limit = 96 * MIB
        for runtime, args, code, mode in (("python", [], touch, pb.START_MODE_PRELOAD),
                                          ("pytest", [], test, pb.START_MODE_PRELOAD_DEEP),
                                          ("pytest", ["-v"], test, pb.START_MODE_PRELOAD_SHALLOW)):
            def ask(stub, size):
                return run_in(stub, None if stub is cold else mode, runtime=runtime, code=code.format(size), args=args,
                              limits=pb.Limits(cpu_millicores=1000, memory_bytes=limit))[-1].result
            cold, warm = self.stubs
            # It varies by a third of a MiB from run to run: where pages fall, and what each processor has charged ahead.
            # Who is the first to read a file from the disk is charged for that, too, but can do without it.
            own = [ask(cold, 4096).usage.memory_peak_bytes for _ in range(5)]
            for size, verdict in ((limit - max(own) - MIB, OK), (limit - min(own) + 4 * MIB, MEMORY), (limit - MIB, MEMORY)):
                results = [ask(stub, size) for stub in (cold, warm)]
                with self.subTest(runtime=runtime, args=args, of_limit=size / limit, own=[peak / MIB for peak in own]):
                    self.assertEqual([result.verdict.code for result in results], [verdict, verdict],
                                     [result.summary for result in results])
                    self.assertEqual(results[1].timing.start_mode, mode)
                    self.assertLess(abs(results[0].usage.memory_peak_bytes - results[1].usage.memory_peak_bytes), 3 * MIB)

    def test_what_no_template_does_is_executed(self):
        for fields in ({"env": {"NAME": "value"}}, {"limits": pb.Limits(stack_bytes=16 << 20)}):
            result = execute(self.stubs[1], runtime="python", code="pass", **fields)[-1].result
            self.assertEqual((result.exit_code, result.timing.start_mode), (0, pb.START_MODE_COLD))

    def test_boxes_of_templates_wait_for_runs(self):
        for runtime, code, args in (("python", "pass", []), ("pytest", "def test(): pass", []),
                                    ("pytest", "def test(): pass", ["-v"])):
            processes.wait_for(lambda: execute(self.stubs[1], runtime=runtime, code=code, args=args)[-1]
                               .result.timing.is_pool_hit, 20, "a box that waits is taken")

    @unittest.skipIf(IS_NATIVE, "the boxes of one template share them")
    def test_no_two_programs_share_the_seed_of_their_hashes(self):
        seeds = [output_of(run_in(self.stubs[1], pb.START_MODE_PRELOAD, runtime="python", code="print(hash('text'))"))
                 for _ in range(3)]
        self.assertEqual(len(set(seeds)), 3, seeds)

    @unittest.skipUnless(IS_NATIVE, "docker has no templates; e2e/docker_modes_test.py kills what waits there")
    def test_a_template_that_dies_is_replaced_and_no_run_is_lost(self):
        native = self.warm.child("sandboxd-native")
        templates = [pid for pid, (parent, command) in processes.processes().items()
                     if parent == native and command.startswith("/usr/bin/python3") and not processes.is_waiting(pid)]
        ready = self.warm.log().count("template ready")
        for pid in templates:
            os.kill(pid, signal.SIGKILL)
        for runtime, code in (("python", "print(1)"), ("pytest", "def test(): pass")) * 3:
            self.assertEqual(execute(self.stubs[1], runtime=runtime, code=code)[-1].result.exit_code, 0)
        processes.wait_for(lambda: self.warm.log().count("template ready") >= ready + TEMPLATES, 30, "new templates")


@unittest.skipUnless(IS_NATIVE, "on docker nothing is shared in any case")
class OwnTemplates(unittest.TestCase):
    """--preload=caller: the seed of hashes is that of a template, so it tells them apart."""

    def seed_for(self, stub, **call):
        def ask():
            events = execute(stub, runtime="python", code="print(hash('text'))", **call)
            result = events[-1].result
            self.assertEqual(result.exit_code, 0)
            return output_of(events) if result.timing.start_mode == pb.START_MODE_PRELOAD else None
        return processes.wait_for(ask, 30, "a template of the caller")

    def test_no_two_callers_share_a_template(self):
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("a-token-of-32-characters-or-more")
            token.flush()
            with start("--preload=caller", "--listen=127.0.0.1:0", f"--token-file={token.name}") as service:
                local = services.SandboxServiceStub(service.channel)
                channel = grpc.intercept_channel(grpc.insecure_channel(f"127.0.0.1:{service.port()}"), Bearer())
                seeds = [self.seed_for(local), self.seed_for(services.SandboxServiceStub(channel))]
                self.assertEqual([self.seed_for(local), self.seed_for(services.SandboxServiceStub(channel))], seeds)
                self.assertNotEqual(seeds[0], seeds[1])


if __name__ == "__main__":
    main()
