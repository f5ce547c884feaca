#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Asks gemini-replay what a client of Gemini may ask.

usage: gemini_replay_http_test.py SERVER SCRIPTS_DIR
"""

import json
import os
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

SERVER, SCRIPTS = sys.argv[1:3]
SCRIPT = os.path.join(SCRIPTS, "lru_cache.json")
MODEL = "/v1beta/models/gemini-2.5-flash"
PLAN = {
    "systemInstruction": {"parts": [{"text": "You are the planner"}]},
    "contents": [{"role": "user", "parts": [{"text": "TASK: an LRU cache"}]}],
}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def refused(*arguments):
    """What the server says when it does not start."""
    result = subprocess.run(
        [SERVER, *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    assert result.returncode == 1, result
    assert result.stdout == ""
    return result.stderr


class Served(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [SERVER, f"--script={SCRIPT}", *cls.flags], stdout=subprocess.PIPE, text=True
        )
        line = cls.server.stdout.readline()
        cls.port = int(line.rsplit(":", 1)[1])

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.stdout.close()
        assert cls.server.wait(90) == 0

    def call(self, path, body=None, key="any"):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["x-goog-api-key"] = key
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with OPENER.open(request, timeout=90) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()


class Http(Served):
    flags = ("--delay-ms=1",)

    def assert_error(self, answer, code, status):
        self.assertEqual(answer[0], code)
        self.assertTrue(answer[1]["Content-Type"].startswith("application/json"))
        error = json.loads(answer[2])["error"]
        self.assertEqual((error["code"], error["status"]), (code, status))
        return error

    def test_models_are_listed_and_described(self):
        for version in ("v1", "v1beta"):
            status, _, text = self.call(f"/{version}/models")
            self.assertEqual(status, 200)
            names = [model["name"] for model in json.loads(text)["models"]]
            self.assertIn("models/gemini-2.5-flash", names)
        status, _, text = self.call(MODEL)
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(text)["name"], "models/gemini-2.5-flash")

    def test_unknown_models_and_paths_are_not_found(self):
        for path, body in (
            ("/v1beta/models/palm-2", None),
            ("/v1beta/models/palm-2:generateContent", PLAN),
            (MODEL + ":embedContent", PLAN),
            (MODEL + ":generateContent", None),
            ("/v1beta/modelsx", None),
            ("/v2/models", None),
            ("/", None),
        ):
            self.assert_error(self.call(path, body), 404, "NOT_FOUND")

    def test_a_key_must_come(self):
        for key in (None, ""):
            answer = self.call(MODEL + ":generateContent", PLAN, key)
            error = self.assert_error(answer, 400, "INVALID_ARGUMENT")
            self.assertEqual(error["details"][0]["reason"], "API_KEY_INVALID")

    def test_sse_array_and_unary_carry_the_same_text(self):
        def text_of(responses):
            return "".join(
                part["text"] for response in responses
                for part in response["candidates"][0]["content"]["parts"]
            )

        _, headers, text = self.call(MODEL + ":streamGenerateContent?alt=sse", PLAN)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = text.split("\r\n\r\n")
        self.assertEqual(events.pop(), "")
        self.assertTrue(all(event.startswith("data: ") for event in events))
        sse = [json.loads(event[6:]) for event in events]
        self.assertGreater(len(sse), 3)

        array = json.loads(self.call(MODEL + ":streamGenerateContent", PLAN)[2])
        unary = json.loads(self.call(MODEL + ":generateContent", PLAN)[2])
        self.assertEqual(text_of(sse), text_of(array))
        self.assertEqual(text_of(sse), text_of([unary]))
        self.assertEqual(unary["modelVersion"], "gemini-replay (scripted)")
        self.assertEqual(sse[-1]["candidates"][0]["finishReason"], "STOP")
        self.assertEqual(sse[-1]["usageMetadata"], unary["usageMetadata"])

    def test_tokens_are_counted(self):
        plain = json.loads(self.call(MODEL + ":countTokens", PLAN)[2])
        inside = json.loads(
            self.call(MODEL + ":countTokens", {"generateContentRequest": PLAN})[2])
        self.assertGreater(plain["totalTokens"], 5)
        self.assertEqual(plain, inside)

    def test_bad_requests_are_refused(self):
        for body in (b"", b"nonsense", b"{}", b'{"contents":[]}', b'{"contents":[{"parts":[{"text":'):
            answer = self.call(MODEL + ":generateContent", body)
            self.assert_error(answer, 400, "INVALID_ARGUMENT")
        other = {"contents": [{"parts": [{"text": "TASK: a compiler"}]}]}
        error = self.assert_error(
            self.call(MODEL + ":generateContent", other), 400, "INVALID_ARGUMENT")
        self.assertIn("GEMINI_API_KEY", error["message"])

    def test_a_body_that_is_too_large_is_refused(self):
        answer = self.call(MODEL + ":generateContent", b" " * (9 << 20))
        self.assert_error(answer, 413, "INVALID_ARGUMENT")
        status, _, text = self.call("/v1/chat/completions", b" " * (9 << 20))
        self.assertEqual(status, 413)
        self.assertIn("8 MiB", json.loads(text)["error"]["message"])

    def test_a_client_that_leaves_does_no_harm(self):
        body = json.dumps(PLAN).encode()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.sendall(
                    f"POST {MODEL}:streamGenerateContent?alt=sse HTTP/1.1\r\nHost: x\r\n"
                    f"x-goog-api-key: k\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                client.recv(64)
        self.assertEqual(self.call("/v1beta/models")[0], 200)

    def test_bad_settings_are_named(self):
        self.assertIn("--script", refused())
        self.assertIn("loopback", refused(f"--script={SCRIPT}", "--listen=0.0.0.0:0"))
        self.assertIn("/nonexistent.json", refused("--script=/nonexistent.json"))
        self.assertIn("--think-min-ms=9", refused(f"--script={SCRIPT}", "--think-min-ms=9", "--think-max-ms=8"))
        self.assertIn(
            str(self.port), refused(f"--script={SCRIPT}", f"--listen=127.0.0.1:{self.port}"))

    def test_the_task_can_be_asked_for(self):
        result = subprocess.run(
            [SERVER, f"--script={SCRIPT}", "--print-task"],
            capture_output=True, text=True, timeout=90, check=True)
        with open(SCRIPT, encoding="utf-8") as file:
            self.assertEqual(result.stdout, json.load(file)["task"] + "\n")


class Thinking(Served):
    flags = ("--delay-ms=0", "--think-min-ms=400", "--think-max-ms=450")

    def seconds(self, path, body=None):
        began = time.monotonic()
        status, _, text = self.call(path, body or PLAN)
        self.assertEqual(status, 200, text)
        return time.monotonic() - began

    def test_only_answers_of_the_model_take_a_while(self):
        chat = {"messages": [{"role": "user", "content": "You are the planner. TASK: an LRU cache"}]}
        self.assertGreaterEqual(self.seconds(f"{MODEL}:generateContent"), 0.4)
        self.assertGreaterEqual(self.seconds(f"{MODEL}:streamGenerateContent?alt=sse"), 0.4)
        self.assertGreaterEqual(self.seconds("/v1/chat/completions", chat), 0.4)
        # Of several, one will find the machine free enough.
        self.assertLess(min(self.seconds(f"{MODEL}:countTokens") for _ in range(10)), 0.4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
