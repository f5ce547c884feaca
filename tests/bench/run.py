#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark against services of its own, prints the table and writes summary.json.

One program per question (build/bench/*_bench) prints JSON; here their numbers become rows with the bar that
each has to reach: {"id", "value", "unit", "bar", "peer", "ratio", "pass"}. A row without a bar is there for
comparison. document.py makes docs/performance.md of it.

Usage: run.py [--samples=N] [--quick] [--no-docker]
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import peers

from services import BUILD, SOURCE, Process, descendants, wait_for

BENCH = os.path.join(BUILD, "bench")
SANDBOXD = os.path.join(BUILD, "bin", "sandboxd")
OUTPUT = 1 << 30
CORE = 1000  # thousandths


class Service:
    """A sandboxd for benchmarks."""

    def __init__(self, *flags, slots=8):
        self.folder = tempfile.mkdtemp(prefix="crisol-bench-")
        self.socket = os.path.join(self.folder, "s", "sandboxd.sock")
        self.flags = [f"--socket={self.socket}", "--backend=native", f"--slots={slots}", "--queue=512",
                      f"--max-output-bytes={OUTPUT}", *flags]

    def __enter__(self):
        self.process = Process("sandboxd", [SANDBOXD, *self.flags], os.path.join(self.folder, "log"))
        self.process.match("sandboxd ready", 30)
        return self

    def __exit__(self, *_):
        self.process.stop()
        shutil.rmtree(self.folder, True)

    def bench(self, name, *flags):
        return bench(name, f"--address=unix:{self.socket}", *flags)

    def cpu_seconds(self):
        """Of all its processes, those that have ended included."""
        total = 0
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    total += sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:15])
            except OSError:
                continue
        return total / os.sysconf("SC_CLK_TCK")

    def slot_bytes(self):
        """Memory charged to each sandbox that waits in the pool."""
        native = next(pid for pid in descendants(self.process.pid) if command(pid).endswith("/sandboxd-native"))
        found = []
        for folder, _, files in os.walk("/sys/fs/cgroup"):
            if f"/crisol-native-{native}/box-" not in folder + "/":
                continue
            for usage in {"memory.usage_in_bytes", "memory.current"} & set(files):
                if number(folder, "cgroup.procs"):
                    found.append(number(folder, usage))
        return found


def number(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return int((file.read().split() or ["0"])[0])


def command(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[0].decode()


def bench(name, *flags):
    argv = [os.path.join(BENCH, f"{name}_bench"), *flags]
    print(f"  {name} {' '.join(flag for flag in flags if not flag.startswith(('--peer', '--address')))}",
          file=sys.stderr, flush=True)
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=900, check=False)
    if done.returncode != 0:
        raise SystemExit(f"run.py: {name}_bench failed")
    return json.loads(done.stdout)


class Table:
    """The rows, in the order in which they were measured."""

    def __init__(self):
        self.rows = []

    def add(self, name, value, unit, most=None, least=None, peer=None, ratio=None, ratio_least=None, ratio_most=None):
        """A bar is for the value, or for its ratio to the peer."""
        checks = [(f"<= {most} {unit}", most is None or value <= most, most),
                  (f">= {least} {unit}", least is None or value >= least, least),
                  (f"ratio >= {ratio_least}", ratio is None or ratio_least is None or ratio >= ratio_least, ratio_least),
                  (f"ratio <= {ratio_most}", ratio is None or ratio_most is None or ratio <= ratio_most, ratio_most)]
        bars = [(text, ok) for text, ok, bar in checks if bar is not None]
        self.rows.append({"id": name, "value": round(value, 3), "unit": unit,
                          "bar": ", ".join(text for text, _ in bars) or None, "peer": peer,
                          "ratio": None if ratio is None else round(ratio, 2),
                          "pass": all(ok for _, ok in bars) if bars else None})

    def print(self):
        for row in self.rows:
            verdict = {True: "PASS", False: "short", None: "-"}[row["pass"]]
            against = f"{row['ratio']} x {row['peer']}" if row["ratio"] is not None else ""
            print(f"{row['id']:44} {row['value']:>10} {row['unit']:6} {row['bar'] or '':22} {verdict:6}{against}")


def ms(series, key="p50_us"):
    return series[key] / 1000


def cgroup_version():
    return 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1


class Bench:
    def __init__(self, options, folder, docker, facts):
        self.options, self.folder, self.docker, self.facts = options, folder, docker, facts
        self.table = Table()
        self.raw = []
        self.samples = f"--samples={options.samples}"

    def latency(self, service, question, shape, *flags, with_peers=None):
        commands = [f"--peer={name}={text}" for name, text in (with_peers or {}).items()]
        result = service.bench("latency", f"--question={question}", f"--shape={shape}", self.samples,
                               f"--peer-folder={self.folder}", *commands, *flags)
        self.raw.append(result)
        return result["series"]

    def true_rows(self, warm, cold):
        add = self.table.add
        argv = ["/usr/bin/true"]
        bare = {"bare": argv[0]}
        for shape, key in (("sparse", "sparse"), ("back-to-back", "b2b")):
            series = self.latency(warm, "true", shape, with_peers=bare)
            ratio = series["sandbox"]["p50_us"] / series["bare"]["p50_us"]
            add(f"true_warm_{key}_p50", ms(series["sandbox"]), "ms", most=2.5, peer="bare exec", ratio=ratio)
            add(f"true_warm_{key}_p99", ms(series["sandbox"], "p99_us"), "ms", most=10)
            add(f"true_warm_{key}_pool_misses", 1 - series["sandbox"]["pool_hits"] / series["sandbox"]["count"], "share")
        series = self.latency(cold, "true", "back-to-back", with_peers={**bare, **peers.native(self.folder, argv)})
        ours = series["sandbox"]["p50_us"]
        add("true_cold_b2b_p50", ours / 1000, "ms", most=2.5, peer="bare exec", ratio=ours / series["bare"]["p50_us"])
        for name in ("bwrap", "crun", "runc"):
            if name in series:
                add(f"true_{name}_to_cold", ms(series[name]), "ms", peer="cold sandbox",
                    ratio=series[name]["p50_us"] / ours, ratio_least=1)
        series = self.latency(cold, "true", "sparse", with_peers=bare)
        add("true_cold_sparse_p50", ms(series["sandbox"]), "ms", most=4 if cgroup_version() == 2 else None)

    def docker_rows(self, warm):
        if not self.docker:
            return
        series = self.latency(warm, "true", "back-to-back", with_peers={"docker": self.docker(["/usr/bin/true"])})
        self.table.add("true_docker_run_to_warm", ms(series["docker"]), "ms", peer="warm sandbox",
                       ratio=series["docker"]["p50_us"] / series["sandbox"]["p50_us"], ratio_least=100)

    def python_rows(self, warm, cold):
        bare = {"bare": "/usr/bin/python3 -c pass"}
        series = self.latency(warm, "python", "sparse", f"--millicores={CORE}", with_peers=bare)
        self.table.add("python_pass_warm_p50", ms(series["sandbox"]), "ms", peer="bare python3 -c pass",
                       ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"], ratio_most=0.6)
        series = self.latency(warm, "python", "sparse", with_peers=bare)
        self.table.add("python_pass_warm_p50_default", ms(series["sandbox"]), "ms")
        series = self.latency(cold, "python", "back-to-back", f"--millicores={CORE}", with_peers=bare)
        self.table.add("python_pass_cold_p50", ms(series["sandbox"]), "ms", peer="bare python3 -c pass",
                       ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"])

    def pytest_rows(self, warm, cold):
        for name, text in (("solution.py", "def add(a, b):\n    return a + b\n"),
                           ("test_solution.py", "from solution import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        bare = {"bare": "/usr/bin/python3 -B -m pytest -q -p no:cacheprovider"}
        before = warm.cpu_seconds()
        series = self.latency(warm, "pytest", "sparse", with_peers=bare)
        # The warm-up's runs are in the CPU time too.
        cpu_ms = (warm.cpu_seconds() - before) * 1000 / (series["sandbox"]["count"] + 20)
        self.table.add("pytest_warm_sparse_p50", ms(series["sandbox"]), "ms", most=9, peer="bare python3 -m pytest",
                       ratio=series["bare"]["p50_us"] / series["sandbox"]["p50_us"], ratio_least=25)
        self.table.add("pytest_warm_cpu_per_run", cpu_ms, "ms", most=25)
        series = self.latency(warm, "pytest", "back-to-back")
        self.table.add("pytest_warm_b2b_p50", ms(series["sandbox"]), "ms", most=12)
        series = self.latency(cold, "pytest", "back-to-back", f"--millicores={CORE}", with_peers=bare)
        self.table.add("pytest_cold_p50", ms(series["sandbox"]), "ms", peer="bare python3 -m pytest",
                       ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"], ratio_most=1.15)
        series = self.latency(cold, "pytest", "back-to-back")
        self.table.add("pytest_cold_p50_default", ms(series["sandbox"]), "ms")

    def throughput_rows(self, service):
        seconds = f"--seconds={2 if self.options.quick else 5}"
        for question, least in (("true", 600), ("pytest", 60)):
            best = 0
            for callers in (2, 8, 64, 256) if question == "true" else (2, 8, 64):
                result = service.bench("throughput", f"--question={question}", f"--callers={callers}", seconds,
                                       f"--millicores={CORE}")
                self.raw.append(result)
                best = max(best, result["per_second"])
                self.table.add(f"{question}_per_second_{callers}_callers", result["per_second"], "1/s",
                               least=least if callers == 8 else round(0.7 * best, 1) if callers >= 64 else None)

    def stream_rows(self, service):
        result = service.bench("first_byte", self.samples, f"--millicores={CORE}")
        self.raw.append(result)
        self.table.add("first_byte_after_write_p50", ms(result["series"]["sandbox"]), "ms", most=1)
        result = service.bench("stream", "--samples=5", f"--millicores={CORE}", f"--bytes={OUTPUT // 4}")
        self.raw.append(result)
        self.table.add("stream_megabytes_per_second", result["bytes"] / result["series"]["sandbox"]["p50_us"], "MB/s",
                       least=400)

    def limit_rows(self, service):
        for callers, key, kill, late in ((1, "quiet", 10, None), (4, "loaded", 50, 250)):
            result = service.bench("limits", self.samples, f"--callers={callers}")
            self.raw.append(result)
            series = result["series"]
            add = self.table.add
            add(f"wall_limit_to_kill_{key}_p99", ms(series["kill_after_wall"], "p99_us"), "ms", most=kill)
            add(f"wall_limit_to_result_{key}_p99", ms(series["result_after_wall"], "p99_us"), "ms", most=late)
            add(f"cpu_limit_error_{key}_p99", ms(series["cpu_from_limit"], "p99_us"), "ms", most=20)

    def neighbour_rows(self, service):
        result = service.bench("neighbours", self.samples, "--callers=7")
        self.raw.append(result)
        quiet, attacked = (result["series"][name] for name in ("quiet", "attacked"))
        self.table.add("true_p99_quiet", ms(quiet, "p99_us"), "ms")
        self.table.add("true_p99_hostile_neighbours", ms(attacked, "p99_us"), "ms", peer="quiet",
                       ratio=attacked["p99_us"] / quiet["p99_us"], ratio_most=3)

    def start_rows(self):
        results = []
        for _ in range(5 if self.options.quick else 20):
            service = Service()
            results.append(bench("start", service.socket, SANDBOXD, *service.flags, "--log-level=warn"))
            shutil.rmtree(service.folder, True)
        self.raw.extend(results)
        for key, most in (("serving_ms", 300), ("pool_full_ms", 2000)):
            values = sorted(result[key] for result in results)
            self.table.add(f"start_{key[:-3]}_p50", values[len(values) // 2], "ms", most=most)

    def journal_rows(self):
        """On the disk of the build: in memory a step would cost nothing."""
        folder = tempfile.mkdtemp(prefix="journal-", dir=BENCH)
        try:
            result = bench("journal", folder)
        finally:
            shutil.rmtree(folder, True)
        self.raw.append(result)
        step, disk = (result["series"][name]["p99_us"] for name in ("one_run", "disk"))
        self.table.add("journal_step_p99", step / 1000, "ms", most=2, peer="a synced page", ratio=step / disk)
        self.table.add("journal_step_100_runs_p99", ms(result["series"]["hundred_runs"], "p99_us"), "ms")

    def memory_rows(self, service):
        """A plain slot is the smallest that waits, one that was forked from an interpreter the largest."""
        found = wait_for(lambda: sorted(service.slot_bytes())[1:] or None, 10, "sandboxes wait in the pool")
        self.table.add("plain_slot_memory", found[0] / (1 << 20), "MiB", most=2)
        if found[-1] > 2 * found[0]:
            self.table.add("preload_slot_memory", found[-1] / (1 << 20), "MiB", most=11)

    def write(self):
        """What is measured so far: a run that is broken off keeps it."""
        with open(os.path.join(BENCH, "summary.json"), "w", encoding="utf-8") as file:
            json.dump({**self.facts, "load_after": round(os.getloadavg()[0], 1), "rows": self.table.rows,
                       "series": self.raw}, file, indent=1)

    def run(self):
        self.start_rows()
        self.journal_rows()
        with Service() as warm, Service("--pool=0", "--preload=off") as cold:
            # The slowest come last.
            for rows, services in ((self.memory_rows, (warm,)), (self.true_rows, (warm, cold)), (self.stream_rows, (warm,)),
                                   (self.neighbour_rows, (warm,)), (self.throughput_rows, (warm,)),
                                   (self.limit_rows, (warm,)), (self.python_rows, (warm, cold)),
                                   (self.pytest_rows, (warm, cold)), (self.docker_rows, (warm,))):
                rows(*services)
                self.write()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(file.readline().split()[1]) >> 10
    return {"cpu": model, "cores": os.cpu_count(), "memory_mib": memory, "kernel": platform.release().split("-")[0],
            "cgroup_version": cgroup_version()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="fewer samples, to try the programs")
    parser.add_argument("--no-docker", action="store_true", help="start no docker engine")
    options = parser.parse_args()
    if options.quick:
        options.samples = min(options.samples, 30)
    facts = {"machine": machine(), "date": datetime.date.today().isoformat(),
             "command": " ".join(["tests/bench/run.sh", *sys.argv[1:]]), "samples": options.samples, "load_before": round(os.getloadavg()[0], 1)}
    folder = tempfile.mkdtemp(prefix="crisol-bench-")
    os.chmod(folder, 0o755)
    try:
        with peers.docker() if not options.no_docker else peers.nothing() as docker:
            run = Bench(options, folder, docker, facts)
            run.run()
    finally:
        shutil.rmtree(folder, True)
    run.table.print()
    print(f"written: {os.path.relpath(os.path.join(BENCH, 'summary.json'), SOURCE)}")


if __name__ == "__main__":
    main()
