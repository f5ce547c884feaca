# SPDX-License-Identifier: Apache-2.0
"""What the groups of rows share: a sandboxd of their own, the programs that measure, and the table."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import peers  # noqa: F401 (it finds the modules of the end-to-end tests)

from services import BUILD, SERVICE_UID, Process, descendants

BENCH = os.path.join(BUILD, "bench")
SANDBOXD = os.path.join(BUILD, "bin", "sandboxd")
OUTPUT = 1 << 30
CORE = 1000  # thousandths
WARM_UP = 20
# enum StartMode
COLD, PRELOAD, DEEP, SHALLOW = 1, 2, 3, 4
TICK = os.sysconf("SC_CLK_TCK")


class Account:
    """Counts the CPU time of a service with all that it ever starts, what has ended included.

    A control group of cpuacct (v1) does that in the kernel. Where there is none the counters of the
    processes and of those that they have waited for are added up.
    """

    def __init__(self):
        self.folder = None
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            paths = {name: line.strip().split(":", 2)[2] for line in file for name in line.split(":", 2)[1].split(",")}
        parent = f"/sys/fs/cgroup/cpuacct{paths.get('cpuacct', '/nothing')}"
        if os.path.isdir(parent):
            self.folder = tempfile.mkdtemp(prefix="crisol-bench-", dir=parent)

    def argv(self, argv):
        """A command that joins the group before it becomes the service."""
        if not self.folder:
            return argv
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', os.path.join(self.folder, "cgroup.procs"), *argv]

    def seconds(self, pid):
        if self.folder:
            return number(self.folder, "cpuacct.usage") / 1e9
        return sum(cpu_seconds(one, with_children=True) for one in [pid, *descendants(pid)])

    def close(self):
        if self.folder:
            for folder, _, _ in os.walk(self.folder, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # the kernel still tears one down


class Service:
    """A sandboxd for benchmarks."""

    def __init__(self, *flags, slots=8, backend=("--backend=native",)):
        self.folder = tempfile.mkdtemp(prefix="crisol-bench-")
        os.chmod(self.folder, 0o711)  # the orchestrator gets to the socket
        self.socket = os.path.join(self.folder, "s", "sandboxd.sock")
        self.flags = [f"--socket={self.socket}", f"--socket-owner={SERVICE_UID}", *backend, f"--slots={slots}", "--queue=512",
                      f"--max-output-bytes={OUTPUT}", *flags]
        self.account = None

    def __enter__(self):
        self.account = Account()
        self.process = Process("sandboxd", self.account.argv([SANDBOXD, *self.flags]), os.path.join(self.folder, "log"))
        self.process.match("sandboxd ready", 120)
        return self

    def __exit__(self, *_):
        self.process.stop()
        self.account.close()
        shutil.rmtree(self.folder, True)

    def wait_pool_full(self):
        """By one run of a program that waits for it."""
        self.bench("latency", "--question=true", "--shape=rested", "--samples=1", "--warm-up=0")

    def bench(self, name, *flags, prefix=()):
        return bench(name, f"--address=unix:{self.socket}", *flags, prefix=prefix)

    def cpu_seconds(self):
        """Once nothing goes on any more: what follows a run, and refills, is part of its price."""
        deadline = time.monotonic() + 10
        last = self.account.seconds(self.process.pid)
        while time.monotonic() < deadline:
            time.sleep(0.25)
            now = self.account.seconds(self.process.pid)
            if now - last < 0.002:
                return now
            last = now
        return last

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


def cpu_seconds(pid, with_children=False):
    """User and system time; of a process that is gone: 0."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()[11:15]
    except OSError:
        return 0
    return sum(int(field) for field in (fields if with_children else fields[:2])) / TICK


def number(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return int((file.read().split() or ["0"])[0])


def command(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[0].decode()


def bench(name, *flags, prefix=()):
    argv = [*prefix, os.path.join(BENCH, f"{name}_bench"), *flags]
    print(f"  {name} {' '.join(flag for flag in flags if not flag.startswith(('--peer', '--address')))}",
          file=sys.stderr, flush=True)
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=1200, check=False)
    if done.returncode != 0:
        raise SystemExit(f"run.py: {name}_bench failed")
    return json.loads(done.stdout)


class Table:
    """The rows, in the order in which they were measured."""

    def __init__(self):
        self.rows = []

    def add(self, name, value, unit, most=None, least=None, peer=None, ratio=None, ratio_least=None, ratio_most=None,
            note=None):
        """A bar is for the value, or for its ratio to the peer."""
        checks = [(f"<= {most} {unit}", most is None or value <= most, most),
                  (f">= {least} {unit}", least is None or value >= least, least),
                  (f"ratio >= {ratio_least}", ratio is None or ratio_least is None or ratio >= ratio_least, ratio_least),
                  (f"ratio <= {ratio_most}", ratio is None or ratio_most is None or ratio <= ratio_most, ratio_most)]
        bars = [(text, ok) for text, ok, bar in checks if bar is not None]
        row = {"id": name, "value": round(value, 3), "unit": unit, "bar": ", ".join(text for text, _ in bars) or None,
               "peer": peer, "ratio": None if ratio is None else round(ratio, 2),
               "pass": all(ok for _, ok in bars) if bars else None}
        self.rows.append({**row, "note": note} if note else row)

    def miss(self, name, why):
        """A row that cannot be measured here says so."""
        self.rows.append({"id": name, "value": None, "unit": "", "bar": None, "peer": None, "ratio": None, "pass": None,
                          "note": why})

    def print(self):
        for row in self.rows:
            verdict = {True: "PASS", False: "short", None: "-"}[row["pass"]]
            against = f"{row['ratio']} x {row['peer']}" if row["ratio"] is not None else ""
            value = "-" if row["value"] is None else row["value"]
            print(f"{row['id']:44} {value:>10} {row['unit']:6} {row['bar'] or '':22} {verdict:6}{against}"
                  + (f"  ({row['note']})" if row.get("note") else ""))


def ms(series, key="p50_us"):
    return series[key] / 1000


def cgroup_version():
    return 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1


class Latency:
    """Runs latency_bench for the groups, and keeps what it printed."""

    def __init__(self, options, folder):
        self.options, self.folder, self.raw = options, folder, []

    def __call__(self, service, question, shape, *flags, with_peers=None, mode=None, samples=None, folder=None,
                 warm_up=WARM_UP, prefix=()):
        commands = [f"--peer={name}={text}" for name, text in (with_peers or {}).items()]
        samples = min(samples or self.options.samples, self.options.samples)
        result = service.bench("latency", f"--question={question}", f"--shape={shape}", f"--samples={samples}",
                               f"--warm-up={min(warm_up, samples)}", f"--peer-folder={folder or self.folder}",
                               *commands, *flags, prefix=prefix)
        self.raw.append(result)
        # A template that is being replaced is made up for by an executed program.
        if mode and result["modes"][mode] < samples * (0.9 if samples >= WARM_UP else 0.5):
            raise SystemExit(f"run.py: {question}: too few programs began in mode {mode}: {result['modes']}")
        return result["series"]

    def cpu_ms(self, service, action):
        """CPU time of the whole service for each run of `action`, warm-up, refill and teardown included."""
        before = service.cpu_seconds()
        series = action()
        count = series["sandbox"]["count"]
        return (service.cpu_seconds() - before) * 1000 / (count + min(WARM_UP, count)), series


def misses(series):
    return 1 - series["sandbox"]["pool_hits"] / series["sandbox"]["count"]
