#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays every script through the real server and runs the files that come back with pytest.

usage: gemini_replay_scripts_test.py SERVER SCRIPTS_DIR
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

SERVER, SCRIPTS = sys.argv[1:3]
FENCE = re.compile(r"^````python path=(\S+)\n(.*?)^````$", re.MULTILINE | re.DOTALL)
# What the orchestrator's prompts hold; the words around them do not matter here.
PLANNER = "You are the planner of something."
GENERATOR = "You are the generator of something."


class Replay:
    def __init__(self, script):
        self.path = os.path.join(SCRIPTS, script)
        self.process = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", f"--script={self.path}", "--delay-ms=0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        self.url = "http://127.0.0.1:" + line.rsplit(":", 1)[1].strip()
        with open(self.path, encoding="utf-8") as file:
            self.task = json.load(file)["task"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.close()
        assert self.process.wait(90) == 0

    def ask(self, system, prompt):
        body = {
            "systemInstruction": {"parts": [{"text": system}]},
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
        }
        request = urllib.request.Request(
            self.url + "/v1beta/models/gemini-2.5-flash:generateContent",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "x-goog-api-key": "any"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=90) as response:
            answer = json.load(response)
        candidate = answer["candidates"][0]
        assert candidate["finishReason"] == "STOP"
        return "".join(part["text"] for part in candidate["content"]["parts"])

    def attempt(self, failed=0):
        """The files of the attempt after `failed` failed ones."""
        prompt = f"TASK: {self.task}\n\nPLAN\n{self.ask(PLANNER, f'TASK: {self.task}')}\n"
        if failed:
            prompt += f"\nFILES OF ATTEMPT {failed}\n\n...\nATTEMPT {failed} FAILED\nAssertionError\n"
        text = self.ask(GENERATOR, prompt)
        files = FENCE.findall(text)
        assert sorted(name for name, _ in files) == ["solution.py", "test_solution.py"], text
        assert text.count("````python") == 2
        return dict(files)


def run_pytest(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run(
            ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


class Scripts(unittest.TestCase):
    def assert_fails_by_assertion(self, files):
        result = run_pytest(files)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"(?m)^E +(AssertionError|assert |Failed: DID NOT RAISE)")
        self.assertRegex(result.stdout, r"\d+ failed, \d+ passed")

    def assert_passes(self, files):
        result = run_pytest(files)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\d+ passed")
        self.assertNotRegex(result.stdout, r"failed|skipped|error")

    def assert_heals(self, script):
        with Replay(script) as replay:
            first, second = replay.attempt(), replay.attempt(1)
            self.assertEqual(first["test_solution.py"], second["test_solution.py"])
            self.assertEqual(replay.attempt(2), second)
        self.assert_fails_by_assertion(first)
        self.assert_passes(second)

    def test_lru_cache_heals(self):
        self.assert_heals("lru_cache.json")

    def test_quicksort_heals(self):
        self.assert_heals("quicksort.json")

    def test_never_fails_in_each_of_ten_attempts(self):
        with Replay("never.json") as replay:
            attempts = [replay.attempt(failed) for failed in range(10)]
        different = {files["solution.py"]: files for files in attempts}
        self.assertGreaterEqual(len(different), 4, "a repeated answer would look like a stall")
        for files in different.values():
            self.assert_fails_by_assertion(files)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
