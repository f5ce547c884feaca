#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Verdicts come from the kernel's counters and from the first limit that was met."""
import signal
import time

import lab
from lab import CPU, FILE_SIZE, MEMORY, MIB, NONZERO, OK, PROCESSES, SIGNALED, WALL, pb

OOM_LEADER = "x = bytearray(1 << 30)"
OOM_CHILD = "import subprocess, sys\nsys.exit(subprocess.call(['/usr/bin/python3', '-c', 'x = bytearray(1 << 30)']) and 1)"


class Verdicts(lab.Suite):
    # ---- memory ----

    def test_sandbox_2_memory_exit_137_and_kill_9_are_three_verdicts(self):
        self.must(MEMORY, self.run_code(OOM_LEADER))
        result = self.must(NONZERO, self.run_code("raise SystemExit(137)"))
        self.assertEqual((result.exit_code, result.signal), (137, 0))
        result = self.must(SIGNALED, self.run_code("import os; os.kill(os.getpid(), 9)"))
        self.assertEqual((result.exit_code, result.signal), (0, 9))

    def test_sandbox_4_balloon_beside_busy_loops_has_its_verdict_in_time(self):
        code = ("import os\nfor _ in range(4):\n    if os.fork() == 0:\n        while True: pass\n"
                "x = []\nwhile True: x.append(bytearray(1 << 20))")
        began = time.monotonic()
        self.must(MEMORY, self.run_code(code, limits={"memory_bytes": 64 * MIB, "wall_time_ms": 60000}, timeout=90))
        self.assertLess(time.monotonic() - began, 50)

    def test_sandbox_8_security_17_50_each_run_has_exactly_its_own_limits(self):
        alloc = "x = bytearray({} << 20); print(len(x))"
        for limit, size, verdict in ((64, 100, MEMORY), (0, 100, OK), (256, 200, OK), (64, 100, MEMORY), (0, 200, MEMORY)):
            limits = {"memory_bytes": limit * MIB} if limit else None
            result = self.must(verdict, self.run_code(alloc.format(size), limits=limits))
            self.assertEqual(result.policy.limits.memory_bytes, (limit or 128) * MIB)
            self.assertEqual(list(result.policy.requested), ["memory_bytes"] if limit else [])

    def test_sandbox_9_memory_says_which_counter_it_is(self):
        usage = self.must(OK, self.run_code("x = bytearray(50 << 20)")).usage
        self.assertIn(usage.memory_source, ("memory.peak", "memory.memsw.max_usage_in_bytes"))
        self.assertGreater(usage.memory_peak_bytes, 50 * MIB)
        self.assertLess(usage.memory_peak_bytes, 100 * MIB)
        self.assertLess(self.must(OK, self.shell("true")).usage.memory_peak_bytes, 20 * MIB)

    def test_sandbox_15_oom_of_a_child_is_no_service_error(self):
        result = self.must(MEMORY, self.run_code(OOM_CHILD))
        self.assertFalse(result.verdict.retryable)
        self.assertGreaterEqual(result.usage.oom_kills, 1)

    def test_sandbox_65_67_security_35_every_oom_is_seen_and_the_next_run_works(self):
        for _ in range(10):
            self.must(MEMORY, self.run_code(OOM_LEADER, limits={"memory_bytes": 48 * MIB}))
            self.must(MEMORY, self.run_code(OOM_CHILD, limits={"memory_bytes": 48 * MIB}))
        self.must(OK, self.run_code("pass"))

    def test_sandbox_66_the_init_of_the_box_is_never_the_victim(self):
        code = "for i in $(seq 40); do (x=$(head -c 1000000 /dev/zero | tr '\\0' x); sleep 50) & done; wait"
        for _ in range(5):
            self.must(MEMORY, self.shell(code, timeout=90, limits={
                "memory_bytes": 16 * MIB, "processes": 200, "cpu_millicores": 1000, "wall_time_ms": 60000}))

    def test_security_24_26_swap_is_no_way_out(self):
        code = "x = []\nfor _ in range(200):\n    x.append(bytearray(b'x' * (1 << 20)))"
        result = self.must(MEMORY, self.run_code(code, limits={"memory_bytes": 64 * MIB}))
        self.assertLessEqual(result.usage.memory_peak_bytes, 66 * MIB)

    def test_security_37_a_full_tmpfs_is_gone_with_its_run(self):
        fill = "head -c 40000000 /dev/zero > /tmp/a; ls /tmp /workspace; df -k /tmp | tail -1"
        for _ in range(4):
            answer = self.shell(fill)
            self.must(OK, answer)
            self.assertLess(answer.result.usage.workspace_bytes, 48 * MIB)

    # ---- time ----

    def test_sandbox_11_cpu_limit_is_not_rounded_to_seconds(self):
        result = self.must(CPU, self.run_code("while True: pass", timeout=60, limits={
            "cpu_time_ms": 2050, "cpu_millicores": 1000, "wall_time_ms": 50000}))
        self.assertEqual((result.limit_hit.limit, result.limit_hit.value), ("cpu_time_ms", 2050))
        self.assertGreaterEqual(result.limit_hit.observed, 2050)
        self.assertLess(result.limit_hit.observed, 2950)  # rounded up it would be 3000
        self.assertEqual(result.limit_hit.killed_by, pb.KILLED_BY_SANDBOXD)

    def test_sandbox_12_the_limit_and_where_it_came_from_are_named(self):
        result = self.must(WALL, self.run_code("import time; time.sleep(10)", limits={
            "cpu_time_ms": 15000, "wall_time_ms": 400}))
        self.assertEqual((result.limit_hit.limit, result.limit_hit.value), ("wall_time_ms", 400))
        self.assertGreaterEqual(result.limit_hit.observed, 400)
        self.assertEqual(set(result.policy.requested), {"cpu_time_ms", "wall_time_ms"})
        self.assertEqual(result.policy.limits.cpu_time_ms, 15000)
        self.assertEqual(result.policy.limits.processes, 64)

    def test_sandbox_14_the_first_limit_wins_not_the_signal(self):
        code = ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nx = bytearray(40 << 20)\n"
                "while True: pass")
        result = self.must(WALL, self.run_code(code, limits={"memory_bytes": 64 * MIB, "wall_time_ms": 700}))
        self.assertEqual(result.usage.oom_kills, 0)
        self.assertEqual(result.signal, 9)

    # ---- ends ----

    def test_sandbox_5_signals_that_a_program_sends_itself_work(self):
        for name, number in (("SIGABRT", 6), ("SIGTERM", 15), ("SIGINT", 2), ("SIGSEGV", 11), ("SIGXCPU", 24)):
            code = (f"import os, signal\nsignal.signal(signal.{name}, signal.SIG_DFL)\n"
                    f"os.kill(os.getpid(), signal.{name})")
            self.assertEqual(self.must(SIGNALED, self.run_code(code)).signal, number)
        self.assertEqual(self.must(SIGNALED, self.run_code("import os; os.abort()")).signal, 6)

    def test_a_program_cannot_forge_a_verdict(self):
        for code in (124, 137, 143, 255):
            self.assertEqual(self.must(NONZERO, self.run_code(f"raise SystemExit({code})")).exit_code, code)
        for name in ("SIGKILL", "SIGXCPU", "SIGSYS", "SIGXFSZ"):
            number = getattr(signal, name).value
            code = (f"import os, signal\nif {number} != 9: signal.signal({number}, signal.SIG_DFL)\n"
                    f"os.kill(os.getpid(), {number})")
            result = self.run_code(code).result
            self.assertEqual(result.signal, number)
            # The kernel counts no SIGXFSZ, and an engine's filter does not tell of its kills: there the result says that it
            # is only concluded. The native filter tells of each call, so this SIGSYS is the program's own.
            inferred = {"SIGXFSZ": FILE_SIZE, "SIGSYS": None if lab.BACKEND == "native" else lab.SECURITY}.get(name)
            self.assertEqual(result.verdict.code, inferred or SIGNALED)
            self.assertEqual(result.verdict.confidence, pb.CONFIDENCE_INFERRED if inferred else pb.CONFIDENCE_MEASURED)

    # ---- processes and files ----

    def test_sandbox_6_security_39_orphans_are_reaped(self):
        # The substitution waits until the orphan has closed the pipe; the sleeps let init have its turn.
        code = ("i=0; while [ $i -lt 1500 ]; do x=$( ( : & ) ) || exit 1; i=$((i+1))\n"
                "[ $((i % 20)) -gt 0 ] || sleep 0.02; done; i=0\n"
                "while set -- /proc/[0-9]*; [ $# -ge 6 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; echo $#")
        answer = self.shell(code, timeout=100, limits={"processes": 300, "cpu_millicores": 1000, "wall_time_ms": 90000})
        self.must(OK, answer)
        self.assertLess(int(answer.stdout_data), 6)

    def test_security_49_fork_bomb_stops_at_its_limit_and_costs_the_host_nothing(self):
        native = self.service.child(f"sandboxd-{lab.BACKEND}")
        self.must(OK, self.run_code("pass"))
        # A container that waits has ten; the pool may be filled at either moment.
        waiting = 0 if lab.BACKEND == "native" else 20
        before = lab.host.settled(lambda: lab.host.count_fds(native)) + waiting
        code = "import os\ntry:\n    while True:\n        os.fork()\nexcept OSError:\n    os._exit(7)"
        for _ in range(3):
            result = self.run_code(code, limits={"processes": 32, "wall_time_ms": 3000}).result
            self.assertIn(result.verdict.code, (PROCESSES, WALL), result.summary)
            self.assertGreaterEqual(result.usage.process_limit_hits, 1)
        self.assertLessEqual(lab.host.settled(lambda: lab.host.count_fds(native)), before)
        self.must(OK, self.run_code("pass"))

    def test_process_limit_that_a_program_tolerates_is_ok(self):
        code = ("import os\nfor _ in range(40):\n    try:\n        if os.fork() == 0:\n            import time; time.sleep(9)\n"
                "    except OSError:\n        break\n")
        result = self.must(OK, self.run_code(code, limits={"processes": 16}))
        self.assertGreaterEqual(result.usage.process_limit_hits, 1)

    def test_sandbox_35_memory_is_no_limit_of_the_address_space(self):
        code = ("import mmap, threading, os\nm = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, 0)\n"
                "t = [threading.Thread(target=lambda: None) for _ in range(30)]\n"
                "[x.start() for x in t]; [x.join() for x in t]\nprint('fine')\n")
        self.assertEqual(self.output(code, limits={"memory_bytes": 256 * MIB}), "fine\n")
        for probe in ("python3 -c 'import numpy; print(numpy.zeros(4).sum())'", "node -e 'console.log(1)'",
                      "java -version", "go version"):
            code = f"command -v {probe.split()[0]} >/dev/null || exit 0; {probe.replace('python3 -c', 'python3 -Ic')}"
            answer = self.shell(code, timeout=90, limits={
                "memory_bytes": 256 * MIB, "cpu_millicores": 1000, "wall_time_ms": 60000})
            if b"ModuleNotFoundError" not in answer.stderr_data:
                self.must(OK, answer)

    def test_sandbox_36_sixty_megabytes_fit_and_the_limit_is_named(self):
        size = 60000000 if lab.BACKEND == "native" else 30000000  # /workspace is half of a container's space
        self.must(OK, self.shell(f"head -c {size} /dev/zero > object"))
        result = self.must(FILE_SIZE, self.shell("exec head -c 2000000 /dev/zero > object", limits={
            "file_size_bytes": 1000000}))
        self.assertEqual((result.limit_hit.limit, result.limit_hit.value), ("file_size_bytes", 1000000))

    def test_sandbox_36_a_child_or_an_error_that_met_the_size_of_a_file_is_named(self):
        limits = {"file_size_bytes": 100000}
        child = "mkdir d; head -c 200000 /dev/zero > d/object; exit 4"
        error = "open('object', 'wb').write(bytes(200000))"  # Python ignores the signal and gets EFBIG
        for answer, code in ((self.shell(child, limits=limits), 4), (self.run_code(error, limits=limits), 1)):
            result = self.must(FILE_SIZE, answer)
            self.assertEqual((result.exit_code, result.limit_hit.limit, result.limit_hit.value, result.limit_hit.observed),
                             (code, "file_size_bytes", 100000, 100000))
            self.assertEqual(result.verdict.confidence, pb.CONFIDENCE_INFERRED)
        for place in ("/tmp", "/dev/shm"):
            result = self.must(FILE_SIZE, self.shell(f"mkdir {place}/d; head -c 200000 /dev/zero > {place}/d/x; exit 4", limits=limits))
            self.assertEqual((result.exit_code, result.limit_hit.observed), (4, 100000))
        self.must(OK, self.shell("head -c 200000 /dev/zero > object; true", limits=limits))  # who bears it is fine
        self.must(NONZERO, self.shell("head -c 99999 /dev/zero > object; exit 4", limits=limits))


if __name__ == "__main__":
    lab.main()
