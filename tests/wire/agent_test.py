#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs on the real services whose model answers in other forms, runs programs, is another provider's, or sends the
key back. Needs root (else 77)."""

import http.server
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import services as crisol  # noqa: E402  (needs the path above)

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "scripts", "forms")


def post(services, path, body):
    request = urllib.request.Request(f"http://{services.http}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60 * crisol.SLOWNESS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def run(services, task, **more):
    """Returns the result, and the names and contents of the events."""
    status, text = post(services, "/api/v1/stream", {"task": task, **more})
    assert status == 200, text
    frames = [dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line) for frame in text.split("\n\n")]
    events = [(frame["event"], json.loads(frame["data"])) for frame in frames if "event" in frame]
    assert events[-1][0] == "result"
    return events[-1][1], events


def bodies(events, name):
    return [content.get(name, content) for kind, content in events if kind == name]


class Other:
    """A second orchestrator on the same sandboxd."""

    def __init__(self, services, flags, env):
        self.log = os.path.join(services.folder, f"other{len(os.listdir(services.folder))}.log")
        self.process = crisol.Process("orchestrator", [
            os.path.join(crisol.BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            f"--sandbox={services.sandbox}", f"--user={crisol.SERVICE_UID}", *flags], self.log,
            env={"PATH": "/usr/bin:/bin", **env})
        self.http = self.process.match(r" ready .*http=(\S+)").group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()


class Agent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = crisol.Services(
            script=os.path.relpath(SCRIPT, crisol.SCRIPTS), replay_flags=("--delay-ms=0",),
            orchestrator_flags=("--model-file=" + os.path.join(HERE, "models.conf"),))

    @classmethod
    def tearDownClass(cls):
        cls.services.stop()

    def assert_passed(self, result):
        self.assertEqual((result["status"], result["iterations"]), ("SUCCESS", 1), result)

    def test_the_model_runs_programs_while_it_works(self):
        result, events = run(self.services, "primes, use the tool", terms={"max_tool_calls": 3})
        self.assert_passed(result)
        calls, results = bodies(events, "tool_call"), bodies(events, "tool_result")
        self.assertEqual([call["number"] for call in calls], [1, 2])
        self.assertIn("undefined_name", calls[0]["code"])
        self.assertIn("NameError", results[0]["output"])
        self.assertIn("[2, 3, 5, 7]", results[1]["output"])
        self.assertEqual(len(bodies(events, "model_call")), 4)

    def test_several_programs_of_one_turn_are_all_run(self):
        result, events = run(self.services, "primes, three at once", terms={"max_tool_calls": 3})
        self.assert_passed(result)
        self.assertEqual([call["number"] for call in bodies(events, "tool_call")], [1, 2, 3])
        self.assertEqual([word in answer["output"] for word, answer in zip(
            ("first", "second", "third"), bodies(events, "tool_result"))], [True] * 3)
        self.assertEqual(len(bodies(events, "model_call")), 3)  # plan, the three calls, the files

    def test_programs_are_bounded_in_number(self):
        result, events = run(self.services, "primes, never stop", terms={"max_tool_calls": 2})
        self.assert_passed(result)
        self.assertEqual(len(bodies(events, "tool_call")), 2)
        self.assertTrue(any("cannot be called" in warning for warning in result["warnings"]), result["warnings"])

    def test_without_leave_no_program_is_run(self):
        result, events = run(self.services, "primes, never stop")
        self.assert_passed(result)
        self.assertEqual(bodies(events, "tool_call"), [])

    def test_the_form_changes_after_an_answer_that_cannot_be_read(self):
        result, _ = run(self.services, "primes, change the form")
        self.assert_passed(result)
        self.assertEqual(sum("refused and asked for again" in warning for warning in result["warnings"]), 1)

    def test_an_answer_can_be_a_call(self):
        result, _ = run(self.services, "primes, hand in by a call", terms={"answer_form": "ANSWER_FORM_CALL"})
        self.assert_passed(result)

    def test_budgets_end_a_run_with_a_cause(self):
        for budget, word, calls in (({"max_calls": 1}, "requests to the model, 1 of 1", 1),
                                    ({"max_tokens": 400}, "tokens, 0 of 400", 0),
                                    ({"max_cost_micro_usd": 1}, "millionths of a dollar, 0 of 1", 0)):
            result, events = run(self.services, "primes, hand in by a call",
                                 terms={"answer_form": "ANSWER_FORM_CALL", "budget": budget})
            self.assertEqual((result["status"], result["cause"]), ("FAILED", "BUDGET"), result)
            self.assertIn(word, result["error_history"][-1])
            self.assertEqual(len(bodies(events, "model_call")), calls)

    def test_what_a_run_cost_is_told(self):
        result, events = run(self.services, "primes, hand in by a call",
                             terms={"answer_form": "ANSWER_FORM_CALL", "budget": {"max_cost_micro_usd": 1000000}})
        self.assert_passed(result)
        costs = [call["usage"]["cost_micro_usd"] for call in bodies(events, "model_call")]
        self.assertTrue(result["usage"]["cost_is_known"] and all(costs))
        self.assertEqual(result["usage"]["cost_micro_usd"], sum(costs))
        status, text = post(self.services, "/api/v1/generate", {
            "task": "primes", "model": "gemini-2.5-pro", "terms": {"budget": {"max_cost_micro_usd": 1}}})
        self.assertEqual(status, 422, text)
        self.assertIn("--model-file", text)

    def test_a_wall_budget_ends_a_run(self):
        result, _ = run(self.services, "primes, use the tool", model="gemini-2.5-flash-lite",
                        terms={"max_tool_calls": 3, "budget": {"wall_time_ms": 1}})
        self.assertEqual((result["status"], result["cause"]), ("FAILED", "BUDGET"), result)

    def test_bad_settings_are_named(self):
        path = os.path.join(self.services.folder, "models.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("gemini-2.5-flash input=0.3 output=2.5\ngemini-2.5-pro price=1\n")
        key = os.path.join(self.services.folder, "key")
        with open(key, "w", encoding="utf-8") as file:
            file.write(crisol.CANARY + "\n")
        for flags, words in (
                (["--provider=openai"], ["openai-model"]),
                (["--provider=other"], ["provider", "'other'"]),
                ([f"--model-file={path}"], [path, "line 2", "price"]),
                (["--model-key-file=/nonexistent"], ["model-key-file", "/nonexistent"]),
                (["--model-key-file=/dev/null"], ["model-key-file", "empty"])):
            told = self.check_config(*flags)
            self.assertEqual(told.returncode, 1, told)
            for word in words:
                self.assertIn(word, told.stderr)
        told = self.check_config("--provider=openai", "--openai-model=qwen:7b", f"--model-key-file={key}")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertNotIn(crisol.CANARY, told.stdout + told.stderr)

    @staticmethod
    def check_config(*flags):
        return subprocess.run([os.path.join(crisol.BIN, "orchestrator"), "--check-config", *flags], text=True,
                              capture_output=True, timeout=90, check=False, env={"PATH": "/usr/bin:/bin"})

    def test_bad_terms_are_named(self):
        for terms, field in (({"max_tool_calls": 11}, "terms.max_tool_calls"),
                             ({"max_tool_calls": 1, "answer_form": "ANSWER_FORM_JSON"}, "terms.max_tool_calls"),
                             ({"answer_form": 9}, "answer_form")):
            status, text = post(self.services, "/api/v1/generate", {"task": "primes", "terms": terms})
            self.assertEqual(status, 422, text)
            self.assertIn(field.rsplit(".", 1)[-1], text)

    def test_another_provider_gives_the_same(self):
        """The same scripts by chat completions, without any key."""
        port = self.services.replay.match(r"gemini-replay listening on \S+:(\d+)").group(1)
        with Other(self.services, (
                "--provider=openai", "--openai-model=qwen:7b", f"--openai-base-url=http://127.0.0.1:{port}/v1"),
                {}) as other:
            result, events = run(other, "primes, use the tool", terms={"max_tool_calls": 3})
            self.assert_passed(result)
            self.assertEqual(len(bodies(events, "tool_result")), 2)
            self.assertEqual(result["model_requested"], "qwen:7b")
            result, events = run(other, "primes, three at once", terms={"max_tool_calls": 3})
            self.assert_passed(result)
            self.assertEqual(len(bodies(events, "tool_result")), 3)

    def test_a_key_that_is_renewed_is_used_by_the_next_question(self):
        keys = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                self.rfile.read(int(self.headers["Content-Length"]))
                keys.append(self.headers["x-goog-api-key"])
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_):
                pass

        folder = os.path.join(self.services.folder, "keys")
        os.mkdir(folder, 0o755)
        path = os.path.join(folder, "key")

        def renew(key):
            with open(path + ".next", "w", encoding="utf-8") as file:
                file.write(key + "\n")
            os.chown(path + ".next", crisol.SERVICE_UID, crisol.SERVICE_UID)
            os.rename(path + ".next", path)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        renew("the-first-key")
        with Other(self.services, (f"--model-key-file={path}",),
                   {"GEMINI_BASE_URL": f"http://127.0.0.1:{server.server_port}"}) as other:
            run(other, "a task")
            renew("the-second-key")

            def asks_with_the_second():  # it looks once a second
                run(other, "another task")
                return keys[-1] == "the-second-key"
            crisol.wait_for(asks_with_the_second, 30, "the second key is sent")
            with open(other.log, encoding="utf-8") as log:
                text = log.read()
        server.shutdown()
        server.server_close()
        self.assertEqual((keys[0], keys[-1]), ("the-first-key", "the-second-key"))
        self.assertIn("the model's key has changed", text)
        self.assertNotIn("the-second-key", text)

    def test_a_key_that_is_sent_back_goes_nowhere(self):
        store = os.path.join(self.services.folder, "journal")
        os.mkdir(store, 0o777)
        os.chmod(store, 0o777)
        path = os.path.join(store, "runs.db")
        replay = crisol.Process("gemini-replay", [os.path.join(crisol.BIN, "gemini-replay"), "--hostile"],
                                os.path.join(self.services.folder, "hostile.log"))
        port = replay.match(r"gemini-replay listening on \S+:(\d+)").group(1)
        with Other(self.services, (f"--store=sqlite:{path}", "--log-level=debug"),
                   {"GEMINI_BASE_URL": f"http://127.0.0.1:{port}", "GEMINI_API_KEY": crisol.CANARY}) as other:
            for case in ("34-key-in-error", "34-key-in-event", "34-key-in-text", "34-key-in-reason"):
                result, events = run(other, "a task", model=f"gemini-wire-{case}")
                self.assertEqual(result["status"], "FAILED")
                self.assertNotIn(crisol.CANARY, json.dumps(events))
                self.assertIn("*" * len(crisol.CANARY), json.dumps(events), case)
            with open(other.log, encoding="utf-8") as log:
                self.assertNotIn(crisol.CANARY, log.read())
        replay.stop()
        for name in os.listdir(store):
            with open(os.path.join(store, name), "rb") as file:
                self.assertNotIn(crisol.CANARY.encode(), file.read(), name)
        with sqlite3.connect(path) as database:
            tables = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]
        self.assertTrue(tables)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: starting sandboxd needs root")
        sys.exit(77)
    unittest.main()
