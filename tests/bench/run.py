#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark against services of its own, prints the table and writes summary.json.

One program per question (build/bench/*_bench) prints JSON; here their numbers become rows with the bar that
each has to reach: {"id", "value", "unit", "bar", "peer", "ratio", "pass"}, and a "note" where there is
something to say. A row without a bar is there for comparison. document.py makes docs/performance.md of it.

Usage: run.py [--samples=N] [--quick] [--no-docker] [--only=GROUP,…]
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import time

import agent
import containers
import native
import peers
from measure import BENCH, Latency, Table, cgroup_version

from services import SOURCE

SETTLE_S = 120

# In this order: what the others are compared with comes early, what takes long last.
GROUPS = {**native.GROUPS, **containers.GROUPS, **agent.GROUPS}


class Bench:
    """What a group of rows needs."""

    def __init__(self, options, folder, facts):
        self.options, self.folder, self.facts = options, folder, facts
        self.table = Table()
        self.latency = Latency(options, folder)
        self.raw = self.latency.raw
        self.warm = self.cold = self.engine = None

    def write(self):
        """What is measured so far: a run that is broken off keeps it."""
        with open(self.options.summary, "w", encoding="utf-8") as file:
            json.dump({**self.facts, "load_after": round(os.getloadavg()[0], 1), "rows": self.table.rows,
                       "series": self.raw}, file, indent=1)

    def run(self, names):
        with native.services(self), containers.engine(self):
            for name in names:
                began = time.monotonic()
                print(f"{name}:", file=sys.stderr, flush=True)
                GROUPS[name](self)
                self.facts["seconds"][name] = round(time.monotonic() - began)
                self.write()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(file.readline().split()[1]) >> 10
    return {"cpu": model, "cores": os.cpu_count(), "memory_mib": memory, "kernel": platform.release().split("-")[0],
            "cgroup_version": cgroup_version()}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="fewer samples, to try the programs")
    parser.add_argument("--no-docker", action="store_true", help="start no docker engine")
    parser.add_argument("--summary", default=os.path.join(BENCH, "summary.json"), help="file to write")
    parser.add_argument("--only", help=f"groups of rows, of {', '.join(GROUPS)}")
    options = parser.parse_args(argv)
    if options.quick:
        options.samples = min(options.samples, 30)
    options.groups = options.only.split(",") if options.only else list(GROUPS)
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"--only: there is no group {', '.join(sorted(unknown))}")
    if options.no_docker:
        options.groups = [name for name in options.groups if name not in containers.GROUPS]
    return options


def settle():
    """A build has just ended, or a test: its threads are no neighbours to measure beside. Bounded, others may stay."""
    end = time.monotonic() + SETTLE_S
    while os.getloadavg()[0] > 1 and time.monotonic() < end:
        time.sleep(1)


def main(argv):
    options = parse(argv)
    if not options.quick:
        settle()
    facts = {"machine": machine(), "date": datetime.date.today().isoformat(),
             "command": " ".join(["tests/bench/run.sh", *argv]), "samples": options.samples,
             "load_before": round(os.getloadavg()[0], 1), "seconds": {}}
    folder = tempfile.mkdtemp(prefix="crisol-bench-")
    os.chmod(folder, 0o755)
    try:
        run = Bench(options, folder, facts)
        run.run(options.groups)
    finally:
        shutil.rmtree(folder, True)
    run.table.print()
    print(f"written: {os.path.relpath(options.summary, SOURCE)}")


if __name__ == "__main__":
    main(sys.argv[1:])
