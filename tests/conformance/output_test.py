#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a program writes arrives to the byte, and what is too much costs nothing."""
import hashlib
import random
import tempfile
import threading
import time

import lab
from lab import MIB, OK, OUTPUT, WALL, execute, output_of, pb

tempfile.tempdir = "/dev/shm"  # what sandboxd itself writes, its log, goes to no disk: 0 bytes then means 0

STDERR = pb.OUTPUT_STREAM_STDERR
# Writes `size` seeded bytes to each stream, in turn, in pieces of `step`.
WRITER = """
import os, random
size, step = {size}, {step}
data = [random.Random({size} + i).randbytes(size) for i in (0, 1)]
at = 0
while at < size:
    for i in (0, 1):
        piece = memoryview(data[i])[at:at + step]
        while piece:
            piece = piece[os.write(i + 1, piece):]
    at += step
"""


def digest(data):
    return hashlib.sha256(data).hexdigest()


def io_written(pid):
    """Bytes that a process has sent to disks."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes"))


class Watch:
    """The highest resident memory of the front while the block runs, and what sandboxd wrote to disks."""

    def __init__(self, service):
        self.pid, self.stop = service.child("sandboxd-front"), threading.Event()
        self.pids = [service.process.pid, self.pid, service.child(f"sandboxd-{lab.BACKEND}")]
        self.thread = threading.Thread(target=self.watch)
        self.grown_kib = self.written = 0

    def watch(self):
        while not self.stop.wait(0.02):
            self.grown_kib = max(self.grown_kib, lab.rss_kib(self.pid) - self.before_kib)

    def __enter__(self):
        self.before_kib, self.before = lab.rss_kib(self.pid), sum(map(io_written, self.pids))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.written = sum(map(io_written, self.pids)) - self.before


class Output(lab.Suite):
    # ---- exactness ----

    def exact(self, size, step):
        code = WRITER.format(size=size, step=step)
        limits = pb.Limits(output_bytes=11 * MIB, wall_time_ms=60000, cpu_millicores=1000)
        expected = [digest(random.Random(size + i).randbytes(size)) for i in (0, 1)]
        events = execute(self.stub, timeout=90, runtime="python", code=code, limits=limits)
        self.assertEqual([digest(output_of(events)), digest(output_of(events, STDERR))], expected, (size, step))
        result = events[-1].result
        self.assertEqual(result.verdict.code, OK, result.summary)
        for info in (result.stdout_info, result.stderr_info):
            self.assertEqual((info.total_bytes, info.delivered_bytes, info.is_truncated), (size, size, False))
        return expected, limits, code

    def test_both_streams_are_exact_at_every_size_and_odd_piece(self):
        for size, step in ((0, 1), (1, 1), (7, 3), (4095, 13), (4096, 4096), (65535, 977), (65536, 65536),
                           (65537, 65537), (131073, 4097), (MIB + 3, 65521), (3 * MIB, 131071), (10 * MIB, 70001)):
            self.exact(size, step)

    def test_run_is_as_exact_as_execute(self):
        for size, step in ((4097, 101), (MIB + 1, 65537), (2 * MIB, 99991)):
            expected, limits, code = self.exact(size, step)
            channel = lab.grpc.insecure_channel(f"unix:{self.service.socket}",
                                                options=[("grpc.max_receive_message_length", 64 * MIB)])
            with channel:
                answer = lab.services.SandboxServiceStub(channel).Run(
                    pb.RunRequest(runtime="python", code=code, limits=limits), timeout=60)
            self.assertEqual([digest(answer.stdout_data), digest(answer.stderr_data)], expected)

    def test_sandbox_19_short_outputs_and_bytes_like_a_frame_header(self):
        for data in (b"", b"a", b"1234567", b"12345678", b"123456789", b"\x01\0\0\0", b"\x01\0\0\0\0\0\0\x05hello",
                     b"\x02\0\0\0\0\0\0\x01x" * 9):
            answer = self.run_code(f"import os\nos.write(1, {data!r})\nos.write(2, {data[::-1]!r})\nos._exit(5)")
            self.must(lab.NONZERO, answer)
            self.assertEqual((answer.stdout_data, answer.stderr_data, answer.result.exit_code), (data, data[::-1], 5))

    def test_sandbox_20_all_bytes_come_through_and_text_is_never_ill_formed(self):
        def text(data):  # a text has no NUL either
            return data.decode("utf-8", "replace").replace("\0", "\ufffd")

        every = bytes(range(256)) * 3
        answer = self.run_code(f"import os; os.write(1, {every!r})", output_text=True)
        self.assertEqual(answer.stdout_data, every)
        self.assertEqual(answer.stdout_text, text(every))
        split = "€" * 40000  # three bytes each: chunk borders fall into characters
        events = execute(self.stub, runtime="python", code=f"print('€' * {len(split)}, end='')", output_text=True)
        texts = [event.output.text for event in events if event.WhichOneof("event") == "output"]
        self.assertEqual("".join(texts), split)
        for code in (r"import os; os.write(1, b'\xed\xa0\x80')", r"import os; os.write(1, b'a\0b')"):
            answer = self.run_code(code, output_text=True)
            self.must(OK, answer)
            self.assertEqual(answer.stdout_text, text(answer.stdout_data))

    # ---- caps ----

    def test_sandbox_16_security_13_cap_is_exact_and_the_verdict_says_so(self):
        cap = 10000
        for size in (cap - 1, cap, cap + 1, cap + 88, MIB):
            # Who has written too much does not end by itself before that is noticed.
            rest = "import time; time.sleep(9)" if size > cap else ""
            answer = self.run_code(f"import os; os.write(1, b'x' * {size}); {rest}",
                                   limits={"output_bytes": cap})
            result = self.must(OUTPUT if size > cap else OK, answer)
            self.assertEqual(len(answer.stdout_data), min(size, cap))
            self.assertEqual(result.stdout_info.is_truncated, size > cap)
            self.assertGreaterEqual(result.stdout_info.total_bytes, min(size, cap + 1))
            if size > cap:
                self.assertEqual((result.limit_hit.limit, result.limit_hit.value), ("output_bytes", cap))
        answer = self.run_code("print('Hello world\\n' * 1626, end='')")
        self.must(OK, answer)
        self.assertEqual(answer.stdout_data, b"Hello world\n" * 1626)

    def test_sandbox_16_truncating_leaves_the_verdict_alone(self):
        options = pb.OutputOptions(on_overflow=pb.OVERFLOW_POLICY_TRUNCATE)
        answer = self.run_code("import os; [os.write(1, b'x' * 999) for _ in range(99)]; raise SystemExit(3)",
                               output=options, limits={"output_bytes": 5000})
        result = self.must(lab.NONZERO, answer)
        self.assertEqual((len(answer.stdout_data), result.exit_code, result.stdout_info.total_bytes), (5000, 3, 98901))

    def test_sandbox_17_the_cap_holds_on_a_stream(self):
        events = execute(self.stub, timeout=60, runtime="shell", code="yes", limits=pb.Limits(
            output_bytes=16 * MIB, wall_time_ms=50000, cpu_millicores=1000))
        self.assertEqual(events[-1].result.verdict.code, OUTPUT)
        self.assertEqual(len(output_of(events)), 16 * MIB)

    def test_sandbox_25_nothing_is_returned_that_was_not_asked_for(self):
        result = self.must(OK, self.shell("echo a > a; echo b > b", collect=[pb.CollectSpec(path="b")]))
        self.assertEqual([(file.path, file.data) for file in result.files], [("b", b"b\n")])

    # ---- floods ----

    def test_sandbox_22_security_36_a_gibibyte_costs_no_memory_and_no_disk(self):
        self.must(OK, self.run_code("pass"))
        with Watch(self.service) as watch:
            events = execute(self.stub, timeout=260, runtime="shell", code="head -c 1073741824 /dev/zero",
                             output=pb.OutputOptions(on_overflow=pb.OVERFLOW_POLICY_TRUNCATE),
                             limits=pb.Limits(wall_time_ms=250000, cpu_millicores=1000, cpu_time_ms=240000))
        result = events[-1].result
        self.assertEqual(result.verdict.code, OK, result.summary)
        self.assertEqual((result.stdout_info.total_bytes, len(output_of(events))), (1 << 30, MIB))
        self.assertLess(watch.grown_kib, 8 << 10)
        self.assertEqual(watch.written, 0)

    def test_sandbox_23_security_48_a_client_that_reads_nothing_does_not_stop_the_clock(self):
        began = time.monotonic()
        mark = f"yes {self.service.folder}"  # nobody else's
        with Watch(self.service) as watch:
            stream = self.stub.Execute(pb.ExecuteRequest(runtime="shell", code=mark, limits=pb.Limits(
                wall_time_ms=1500, output_bytes=64 * MIB)), timeout=120)
            lab.host.wait_for(lambda: time.monotonic() - began > 1 and mark not in
                              [command for _, command in lab.host.processes().values()], 10, "the program is dead")
        self.assertLess(time.monotonic() - began, 30)
        result = list(stream)[-1].result
        self.assertEqual(result.verdict.code, WALL, result.summary)
        self.assertLess(watch.grown_kib, 8 << 10)

    def test_security_3_the_result_is_after_the_last_byte(self):
        for _ in range(20):
            events = execute(self.stub, runtime="shell", code="head -c 300000 /dev/zero; echo last >&2")
            self.assertEqual((len(output_of(events)), output_of(events, STDERR)), (300000, b"last\n"))

    def test_security_14_a_flood_that_ends_at_its_limit_harms_nobody(self):
        for _ in range(10):
            answer = self.shell("yes | head -c 1100000; exit 3")
            self.assertIn(answer.result.verdict.code, (OUTPUT, lab.NONZERO))
        self.must(OK, self.run_code("pass"))


if __name__ == "__main__":
    lab.main()
