#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of more than two files on the real services: in every form, verified, repaired, kept, exported, checked and
written to a folder. Needs root (else 77)."""

import json
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_test import HERE, Other, bodies, post, run  # noqa: E402  (needs the path above)

import services as crisol  # noqa: E402  (agent_test has set the path)

SCRIPT = os.path.join(HERE, "scripts", "shop")
TERMS = {"output_files": ["data/rates.json", "shop/cart.py"], "max_more_files": 1}
FILES = {"solution.py", "test_solution.py", "shop/__init__.py", "shop/cart.py", "data/rates.json"}


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = crisol.Services(script=os.path.relpath(SCRIPT, crisol.SCRIPTS), replay_flags=("--delay-ms=0",))

    @classmethod
    def tearDownClass(cls):
        cls.services.stop()

    def shop(self, task="shop", iterations=1, **more):
        result, events = run(self.services, f"A shop, {task}", **{"terms": TERMS, **more})
        self.assertEqual((result["status"], result["iterations"]), ("SUCCESS", iterations), result["error_history"])
        self.assertEqual(set(result["files"]), FILES)
        return result, events

    def test_all_forms_hold_them(self):
        texts = [json.dumps(self.shop()[0]["files"], sort_keys=True)]
        for task, form in (("shop, as an object", "JSON"), ("shop, by a call", "CALL")):
            result, _ = self.shop(task, terms={**TERMS, "answer_form": f"ANSWER_FORM_{form}"})
            texts.append(json.dumps(result["files"], sort_keys=True))
        self.assertEqual(texts, [texts[0]] * 3)

    def test_events_attempts_and_receipt_name_them(self):
        result, events = self.shop()
        ready = bodies(events, "files_ready")[-1]
        self.assertEqual({file["path"] for file in ready["files"]}, FILES)
        self.assertEqual({file["path"] for file in result["attempts"][0]["files"]}, FILES)
        kinds = [link["kind"] for link in result["receipt"]["links"]]
        for kind in ("solution.py", "test_solution.py", "file:shop/cart.py", "file:data/rates.json"):
            self.assertIn(kind, kinds)

    def test_verification_looks_at_every_file(self):
        result, _ = self.shop(verify="MUTANTS")
        checks = {check["name"]: check for check in result["verification"]["checks"]}
        self.assertEqual(result["verification"]["level"], "MUTANTS")
        self.assertEqual(checks["stubs that raise"]["outcome"], "SHOWN")
        self.assertEqual(checks["stubs that return None"]["outcome"], "SHOWN")
        self.assertTrue(any(name.startswith("mutant: shop/cart.py line ") for name in checks), checks)
        # solution.py has no function at all: the tests prove nothing only because the package's are emptied.
        result, _ = run(self.services, "A shop, with tests that prove nothing", terms=TERMS, max_iterations=1)
        self.assertEqual((result["status"], result["cause"]), ("FAILED", "VACUOUS_TESTS"), result)
        self.assertIn("every function of the solution's files", result["error_history"][0])

    def test_a_repair_is_shown_where_in_which_file(self):
        result, events = self.shop("shop, repaired", iterations=2)
        self.assertIn("Deepest frame in shop/cart.py: line 9", result["attempts"][0]["feedback"])
        diff = bodies(events, "files_ready")[-1]["diff"]
        self.assertIn("shop/cart.py", diff)
        self.assertNotIn("rates.json", diff)

    def test_without_leave_there_are_two(self):
        result, _ = run(self.services, "A shop", max_iterations=1)
        self.assertEqual((result["status"], result["cause"]), ("FAILED", "MODEL_OUTPUT"), result)
        self.assertIn("Only solution.py and test_solution.py", result["error_history"][-1])

    def test_what_is_missing_is_asked_for(self):
        result, _ = run(self.services, "A shop", terms={
            "output_files": ["data/rates.json", "README.md"], "max_more_files": 2})
        self.assertEqual(result["cause"], "MODEL_OUTPUT", result)
        self.assertIn("README.md", json.dumps(result["error_history"] + result["warnings"]))

    def test_bad_paths_are_refused_by_name(self):
        for terms, field in (
                ({"output_files": ["../x"]}, ["body", "terms", "output_files", 0]),
                ({"output_files": ["a.py", "conftest.py"]}, ["body", "terms", "output_files", 1]),
                ({"output_files": ["a", "a/b"]}, ["body", "terms", "output_files", 1]),
                ({"output_files": ["a"], "input_files": [{"path": "a/b", "text": "1"}]},
                 ["body", "terms", "output_files", 0]),
                ({"output_files": [f"f{n}" for n in range(15)]}, ["body", "terms", "output_files"]),
                ({"max_more_files": 15}, ["body", "terms", "max_more_files"])):
            status, text = post(self.services, "/api/v1/generate", {"task": "A shop", "terms": terms})
            self.assertEqual(status, 422, text)
            self.assertIn(field, [problem["loc"] for problem in json.loads(text)["detail"]], text)

    def test_the_command_line_writes_them_and_checks_their_receipt(self):
        folder = os.path.join(self.services.folder, "out")
        argv = ["run", "--output-file", "shop/cart.py", "--output-file", "data/rates.json", "--more-files", "1",
                "--max-calls", "9", "--out", folder, "--json", "A shop"]
        done = self.services.crisol(*argv)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {os.path.relpath(os.path.join(place, name), folder)
                 for place, _, names in os.walk(folder) for name in names}
        self.assertEqual(found, FILES)
        with open(os.path.join(folder, "data", "rates.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"es": 21, "none": 0})
        path = os.path.join(self.services.folder, "run.json")
        for change, code in (None, 0), (("21", "22"), 1):
            text = done.stdout.decode()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace('{\\"es\\": %s' % change[0], '{\\"es\\": %s' % change[1]) if change else text)
            checked = self.services.crisol("verify-receipt", path)
            self.assertEqual(checked.returncode, code, checked.stderr)
        self.assertIn(b"data/rates.json", checked.stderr)

    def test_a_person_replaces_a_further_file_of_a_run_that_waits(self):
        options = ["--output-file", "shop/cart.py", "--output-file", "data/rates.json", "--more-files", "1"]
        started = self.services.crisol("run", "--detach", "--pause-after", "generator", *options, "A shop")
        self.assertEqual(started.returncode, 0, started.stderr)
        run_id = started.stdout.decode().strip()

        def status():
            with urllib.request.urlopen(f"http://{self.services.http}/api/v1/runs/{run_id}") as answer:
                return json.loads(answer.read())["status"]
        crisol.wait_for(lambda: status() == "INTERRUPTED", 30, "the run waits")
        rates = os.path.join(self.services.folder, "rates.json")
        with open(rates, "w", encoding="utf-8") as file:
            file.write('{"es": 21, "none": 0, "a person\'s": 7}\n')
        # More than the task allows is named and not left out: one file of its own, and 512 KiB of all.
        large = os.path.join(self.services.folder, "large.json")
        with open(large, "w", encoding="utf-8") as file:
            file.write("1" * (256 << 10))
        for argv, text in ((["rates.json"], b"PATH=FILE"), ([f"../rates.json={rates}"], b"files[0].path"),
                           ([f"a.json={rates}", f"b.json={rates}"], b"files[1].path"),
                           ([f"data/rates.json={large}", f"shop/cart.py={large}", f"a.json={large}"], b"files[2].")):
            refused = self.services.crisol("resume", *(word for file in argv for word in ("--file", file)), run_id)
            self.assertEqual(refused.returncode, 125, refused.stderr)
            self.assertIn(text, refused.stderr)
        self.assertEqual(status(), "INTERRUPTED")
        resumed = self.services.crisol("resume", "--file", f"data/rates.json={rates}", run_id)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        with urllib.request.urlopen(f"http://{self.services.http}/api/v1/runs/{run_id}") as answer:
            files = json.loads(answer.read())["files"]
        self.assertIn("a person's", files["data/rates.json"])
        self.assertEqual(set(files), FILES)

    def test_an_export_is_repeated_and_one_changed_byte_is_found(self):
        store = os.path.join(self.services.folder, "store")
        os.mkdir(store)
        os.chown(store, crisol.SERVICE_UID, crisol.SERVICE_UID)
        port = self.services.replay.match(r"gemini-replay listening on \S+:(\d+)").group(1)
        with Other(self.services, (f"--store=sqlite:{store}/runs.db",),
                   {"GEMINI_BASE_URL": f"http://127.0.0.1:{port}", "GEMINI_API_KEY": crisol.CANARY}) as other:
            result, _ = run(other, "A shop", terms=TERMS)
            self.assertEqual(result["status"], "SUCCESS", result["error_history"])
            with urllib.request.urlopen(f"http://{other.http}/api/v1/runs/{result['run_id']}/export") as answer:
                export = answer.read()
        path = os.path.join(self.services.folder, "export")
        for change, code, text in ((b"", b""), 0, b""), ((b"net * RATES", b"net + RATES"), 125, b"was changed"):
            with open(path, "wb") as file:
                file.write(export.replace(*change) if code else export)
            replayed = self.services.crisol("replay", path)
            self.assertEqual(replayed.returncode, code, replayed.stderr)
            self.assertIn(text, replayed.stderr)

    def test_a_link_in_the_folder_is_not_followed(self):
        folder = os.path.join(self.services.folder, "linked")
        away = os.path.join(self.services.folder, "away")
        os.makedirs(folder)
        os.makedirs(away)
        os.symlink(away, os.path.join(folder, "shop"))
        done = self.services.crisol("run", "--output-file", "shop/cart.py", "--output-file", "data/rates.json",
                                    "--more-files", "1", "--out", folder, "A shop")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertEqual(os.listdir(away), [])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: starting sandboxd needs root")
        sys.exit(77)
    unittest.main()
