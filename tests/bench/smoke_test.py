#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""That the benchmarks run at all: three samples of some of them, and the page that is made of them."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

import agent
import document
import measure
import native
import run

SAMPLES = 3
SKIP = 77


class Smoke(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="crisol-bench-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        os.chmod(self.folder, 0o755)

    def rows(self, *argv):
        """The rows of a run of the whole, which has come to its end."""
        summary = os.path.join(self.folder, "summary.json")
        with contextlib.redirect_stdout(io.StringIO()):
            run.main([f"--samples={SAMPLES}", "--quick", f"--summary={summary}", *argv])
        page = os.path.join(self.folder, "page.md")
        document.main(summary, page)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open(summary, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            self.assertIn(f"| `{row['id']}` |", text)
            self.assertTrue({"id", "value", "unit", "bar", "peer", "ratio", "pass"} <= set(row), row)
        return {row["id"]: row for row in rows}

    def test_rows_have_values_and_become_a_page(self):
        rows = self.rows("--only=memory,true,floor")
        for name in ("plain_slot_memory", "true_warm_sparse_p50", "true_cold_b2b_p50", "true_warm_cpu_per_run", "floor_box_p50",
                     "floor_box_cpu_per_run", "floor_call_sparse_p50"):
            self.assertGreater(rows[name]["value"], 0)
        with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
            data = json.load(file)
        # Each bar that is short has its stages and its floor.
        page = document.shorts(data, [name for names, *_ in document.PARTS for name in names] + ["another"])
        self.assertEqual(page.count("\n### "), len(document.PARTS))
        for text in ("+ user and filter", "The floor, sparse", "The floor, back-to-back", "Of `another` there is no table"):
            self.assertIn(text, page)
        self.assertEqual(document.shorts(data, []), "")

    def test_a_fork_server_takes_turns_with_the_sandbox(self):
        bench = run.Bench(run.parse([f"--samples={SAMPLES}"]), self.folder, {})
        with measure.Service(slots=2) as service, native.fork_server(bench) as address:
            series = bench.latency(service, "pytest", "back-to-back", with_peers={"fork server": address}, mode=measure.DEEP)
        self.assertEqual(series["fork server"]["count"], SAMPLES)

    def test_runs_of_the_orchestrator_are_followed(self):
        bench = run.Bench(run.parse([]), self.folder, {})
        with agent.House("quicksort", "--delay-ms=0", "--think-min-ms=1", "--think-max-ms=200") as house:
            watchers = agent.Watchers(house.http, 3)
            watchers.start()
            result = house.bench(bench, 20, "in-flight", agent.QUICKSORT, "--callers=4")
            watchers.join(30)
        self.assertEqual((result["succeeded"], result["lost_events"]), (20, 0))
        self.assertGreater(result["peak_in_flight"], 1)
        self.assertEqual(watchers.complete(), 3)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: sandboxd needs root")
        sys.exit(SKIP)
    unittest.main()
