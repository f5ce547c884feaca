# SPDX-License-Identifier: Apache-2.0
"""The description of REST is sound and true, its numbers add up, and nothing that is sent does harm."""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import exposition
import services as crisol

TASK = "Write an LRU cache in Python."
JSON = {"Content-Type": "application/json"}
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module", name="services")
def storing_services():
    """With a journal, so that runs can be exported, and a key, so that receipts are signed."""
    class Storing(crisol.Services):
        def start_orchestrator(self, base_url, key):
            folder = os.path.join(self.folder, "journal")
            os.mkdir(folder)
            os.chown(folder, crisol.SERVICE_UID, crisol.SERVICE_UID)
            # The key is root's alone: it is read before privileges are dropped.
            self.key, self.public_key = f"{self.folder}/key.pem", f"{self.folder}/public.pem"
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.key], check=True, timeout=90)
            os.chmod(self.key, 0o600)
            subprocess.run(["openssl", "pkey", "-in", self.key, "-pubout", "-out", self.public_key], check=True,
                           timeout=90)
            self.orchestrator_flags = [f"--store=sqlite:{folder}/runs.db", "--http-origins=https://pages.example",
                                       f"--receipt-key={self.key}"]
            super().start_orchestrator(base_url, key)
    with Storing() as running:
        yield running


def ask(services, method, path, body=None, headers=None):
    """(status, content type, content) of one request."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{services.http}{path}", method=method, data=data,
                                     headers={**(JSON if data is not None else {}), **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def problems_of(documents, answers):
    """What the validators say, which know OpenAPI 3.1 and JSON Schema 2020-12; answers are to the first document."""
    folder = os.path.join(crisol.TOOLS, "openapi")
    if not crisol.TOOLS or not os.path.isdir(folder):
        pytest.skip("openapi-spec-validator could not be had on this machine (scripts/tools.sh)")
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "openapi_check.py")],
                          input=json.dumps({"documents": documents, "answers": answers}), capture_output=True,
                          text=True, timeout=120, check=False, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": folder})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module", name="document")
def the_document(services):
    status, kind, content = ask(services, "GET", "/openapi.json")
    assert (status, kind) == (200, "application/json")
    return json.loads(content)


@pytest.fixture(scope="module", name="run_id")
def a_finished_run(services):
    status, _, content = ask(services, "POST", "/api/v1/generate", {"task": TASK})
    assert status == 200
    return json.loads(content)["run_id"]


def test_what_is_described_is_what_is_answered(services, document, run_id):
    requests = [
        ("GET", "/", None), ("GET", "/livez", None), ("GET", "/readyz", None), ("GET", "/metrics", None),
        ("GET", "/docs", None), ("GET", "/docs/page.js", None), ("GET", "/docs/page.css", None),
        ("GET", "/openapi.json", None), ("GET", "/api/v1/health", None), ("GET", "/api/v1/runtimes", None),
        ("GET", "/api/v1/models", None),
        ("POST", "/api/v1/generate", {"task": TASK, "max_iterations": 1}), ("POST", "/api/v1/generate", {}),
        ("POST", "/api/v1/stream", {"task": TASK}), ("POST", "/api/v1/stream", {"task": ""}),
        ("POST", "/api/v1/execute", {"runtime": "python", "code": "print('\\xff', flush=True); 1/0"}),
        ("POST", "/api/v1/execute", {"runtime": "shell", "code": "printf '\\377'"}),
        ("POST", "/api/v1/execute", {"runtime": "cobol", "code": ""}),
        ("GET", "/api/v2/runtimes", None), ("GET", "/api/v2/packages", None), ("POST", "/api/v2/execute", {"language": "python"}),
        ("POST", "/api/v2/execute", {"language": "py", "version": "3.x", "files": [{"content": "1/0"}]}),
        ("POST", "/api/v1/runs", {"task": TASK}), ("POST", "/api/v1/runs", {"task": TASK, "verify": "NONSENSE"}),
        ("GET", "/api/v1/runs", None), ("GET", "/api/v1/runs?page_size=x", None),
        ("GET", "/api/v1/runs/{id}", None), ("GET", "/api/v1/runs/{id}/events", None),
        ("GET", "/api/v1/runs/{id}/export", None), ("GET", "/api/v1/runs/{id}/receipt", None),
        ("POST", "/api/v1/runs/{id}/resume", {}), ("POST", "/api/v1/runs/{id}/fork", {"seq": 3}),
        ("POST", "/api/v1/runs/{id}/fork", {"seq": "x"}), ("DELETE", "/api/v1/runs/{id}", None),
        ("GET", "/api/v1/graph", None), ("GET", "/api/v1/graph.mmd", None), ("GET", "/api/v1/graph.dot", None),
        ("GET", "/api/v1/graph?run_id={id}", None), ("GET", "/api/v1/runs/x/receipt", None),
        ("POST", "/api/v1/runs/{id}/forget", {}), ("GET", "/api/v1/runs/{id}", None),
    ]
    answers, seen = [], set()
    for method, path, body in requests:
        template = path.split("?")[0].replace("/x/", "/{id}/")
        operation = document["paths"][template][method.lower()]
        status, kind, content = ask(services, method, path.replace("{id}", run_id), body)
        answer = operation["responses"].get(str(status), operation["responses"]["default"])
        media = answer["content"][kind.split(";")[0]]
        seen.add((method, template))
        assert status < 500, content
        if kind == "application/json":
            answers.append([f"{method} {path}: {status}", media["schema"], json.loads(content)])
    assert seen == {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    # The validators do look: a second document lacks something.
    broken = json.loads(json.dumps(document))
    del broken["paths"]["/livez"]["get"]["responses"]["200"]["description"]
    problems = problems_of([document, broken], answers)
    assert [problem for problem in problems if not problem.startswith("document 1: ")] == []
    assert any("livez" in problem for problem in problems), problems


def test_an_export_is_what_replay_takes(services, tmp_path):
    run_id = json.loads(ask(services, "POST", "/api/v1/generate", {"task": TASK})[2])["run_id"]
    status, kind, content = ask(services, "GET", f"/api/v1/runs/{run_id}/export")
    assert (status, kind) == (200, "application/x-protobuf")
    file = tmp_path / "run.crisol"
    file.write_bytes(content)
    done = services.crisol("replay", str(file))
    assert done.returncode == 0, done.stderr.decode()
    file.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    assert services.crisol("replay", str(file)).returncode != 0


def test_receipts_are_signed(services, tmp_path):
    done = services.crisol("run", "--json", TASK)
    assert done.returncode == 0, done.stderr.decode()
    checked = services.crisol("verify-receipt", "--key", services.public_key, "-", stdin=done.stdout)
    assert checked.returncode == 0 and b"signed_by=" in checked.stdout, checked.stderr.decode()
    other = tmp_path / "other.pem"
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True, check=True, timeout=90)
    other.write_bytes(subprocess.run(["openssl", "pkey", "-pubout"], input=made.stdout, capture_output=True, check=True,
                                     timeout=90).stdout)
    refused = services.crisol("verify-receipt", "--key", str(other), "-", stdin=done.stdout)
    assert refused.returncode == 1 and b"another key" in refused.stderr
    answer = json.loads(done.stdout)
    answer["receipt"].update(signature="", key_id="")
    unsigned = services.crisol("verify-receipt", "--key", services.public_key, "-", stdin=json.dumps(answer).encode())
    assert unsigned.returncode == 1 and b"not signed" in unsigned.stderr
    wrong = services.crisol("verify-receipt", "--key", services.key, "-", stdin=done.stdout)
    assert wrong.returncode == 125 and b"no public Ed25519 key" in wrong.stderr


def metrics_of(services):
    """Samples by name, with their labels in order."""
    status, kind, content = ask(services, "GET", "/metrics")
    assert status == 200 and kind == "text/plain; version=0.0.4; charset=utf-8"
    _, samples = exposition.parse(content.decode())
    return {name + ("{" + ",".join(f'{key}="{text}"' for key, text in labels) + "}" if labels else ""): value
            for (name, labels), value in samples.items()}


def test_metrics_count_a_run(services):
    before = metrics_of(services)
    answer = json.loads(ask(services, "POST", "/api/v1/generate", {"task": TASK})[2])
    # The answer is there a moment before its run is over.
    after = crisol.wait_for(lambda: (now := metrics_of(services))["crisol_runs_live"] == 0 and now, 30, "no run is live")

    def grown(name):
        return after[name] - before.get(name, 0)
    assert (answer["status"], answer["iterations"]) == ("SUCCESS", 2)
    assert grown("crisol_runs_started_total") == grown('crisol_runs_ended_total{status="success"}') == 1
    assert grown('crisol_attempts_total{cause="none"}') == grown('crisol_attempts_total{cause="assertion"}') == 1
    assert grown("crisol_model_calls_total") == answer["usage"]["calls"] == 3
    assert grown('crisol_model_tokens_total{kind="prompt"}') == answer["usage"]["prompt_tokens"]
    assert grown('crisol_sandbox_executions_total{verdict="ok"}') == 1
    assert grown("crisol_run_duration_seconds_count") == 1
    assert grown('crisol_http_requests_total{code="2xx",method="POST",route="/api/v1/generate"}') == 1
    assert after["crisol_http_connections"] >= 1
    assert len(after) < 1500  # each method by each code: no caller adds any


def test_origins_are_answered_as_the_operator_says(services):
    for origin, allowed in (("https://pages.example", True), ("https://evil.example", False)):
        request = urllib.request.Request(f"http://{services.http}/api/v1/health", headers={"Origin": origin})
        with urllib.request.urlopen(request, timeout=90) as answer:
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)


# ---- what must do no harm ----

def test_a_body_of_100_mib_is_refused_at_once(services):
    started = time.monotonic()
    connection = http.client.HTTPConnection(services.http, timeout=90)
    connection.putrequest("POST", "/api/v1/generate")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(100 * MEBIBYTE))
    connection.endheaders()
    answer = connection.getresponse()  # before a byte of it
    assert answer.status == 413 and time.monotonic() - started < 20 * crisol.SLOWNESS
    connection.close()


def test_100_mib_in_chunks_are_cut_off(services):
    rss_before = resident_kib(services.orchestrator.pid)
    connection = http.client.HTTPConnection(services.http, timeout=90)
    piece = b"%x\r\n" % MEBIBYTE + b"x" * MEBIBYTE + b"\r\n"
    sent = 0
    connection.putrequest("POST", "/api/v1/generate")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    try:
        for _ in range(100):
            connection.send(piece)
            sent += 1
    except OSError:
        pass  # as it must be
    assert sent < 50
    assert resident_kib(services.orchestrator.pid) - rss_before < 16 * 1024
    connection.close()
    assert ask(services, "GET", "/livez")[0] == 200


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.parametrize("path, body, where", [
    ("/api/v1/generate", b'{"task":' + b"[" * 100000, ["body", "task"]),
    ("/api/v1/execute", b'{"runtime":"python","env":' + b'{"a":' * 50000, None),
    ("/api/v1/generate", b'{"task":["t"]}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":{"a":1}}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":7}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":true}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":"t","max_iterations":"many"}', ["body", "max_iterations"]),
    ("/api/v1/generate", b'{"task":"t","max_iterations":1.5}', ["body", "max_iterations"]),
    ("/api/v1/generate", b'{"task":"t","max_iterations":1e99}', ["body", "max_iterations"]),
    ("/api/v1/generate", b'{"task":"t","max_iterations":[3]}', ["body", "max_iterations"]),
    ("/api/v1/generate", b'{"task":"t","verify":"SOMEWHAT"}', ["body", "verify"]),
    ("/api/v1/generate", b'{"task":"t","verify":{}}', ["body", "verify"]),
    ("/api/v1/generate", b'{"task":"t","on_disconnect":7}', ["body", "on_disconnect"]),
    ("/api/v1/generate", b'{"task":"t","sandbox_limits":3}', ["body", "sandbox_limits"]),
    ("/api/v1/generate", b'{"task":"t","sandbox_limits":{"wall_time_ms":-1}}',
     ["body", "sandbox_limits", "wall_time_ms"]),
    ("/api/v1/generate", b'{"task":"t","interrupt_after":"NODE_PLANNER"}', ["body", "interrupt_after"]),
    ("/api/v1/generate", b'{"task":"a","task":"b"}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":"\xc3\x28"}', ["body", "task"]),
    ("/api/v1/generate", b'{"task":"\xed\xa0\x80"}', ["body", "task"]),
    ("/api/v1/generate", b'{"\xff":"t"}', ["body"]),
    ("/api/v1/generate", b'["task"]', ["body"]),
    ("/api/v1/generate", b'"task"', ["body"]),
    ("/api/v1/generate", b"null", ["body"]),
    ("/api/v1/generate", b'{"task":"t"}{"task":"t"}', ["body"]),
    ("/api/v1/generate", b"\xef\xbb\xbf{}", ["body"]),
    ("/api/v1/runs", b'{"task":"t","max_iterations":11}', ["body", "max_iterations"]),
    ("/api/v1/execute", b'{"runtime":"python","files":{"path":"a"}}', ["body", "files"]),
    ("/api/v1/execute", b'{"runtime":"python","files":[7]}', ["body", "files", 0]),
    ("/api/v1/execute", b'{"runtime":"python","stdin_data":"$$$"}', ["body", "stdin_data"]),
    ("/api/v1/runs/" + "0" * 32 + "/fork", b'{"seq":-1}', ["body", "seq"]),
], ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else "")
def test_bodies_that_cannot_be_used_name_the_member(services, path, body, where):
    status, kind, content = ask(services, "POST", path, body)
    assert (status, kind) == (422, "application/json"), content[:300]
    (found,) = json.loads(content)["detail"]
    assert where is None or found["loc"] == where
    assert found["msg"] and found["type"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_are_refused(services, method):
    with socket.create_connection(services.http.rsplit(":", 1), timeout=90) as client:
        client.sendall(f"{method} /api/v1/generate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert re.match(rb"HTTP/1.1 40[05] ", answer), answer[:200]
    assert b" 405 " not in answer[:20] or b"\r\nAllow: POST, OPTIONS\r\n" in answer


@pytest.mark.parametrize("line", [b"GET /livez HTTP/1.1", b"GET /livez HTTP/1.0", b"GET /live z HTTP/1.1"])
def test_a_request_without_a_host_gets_one_answer(services, line):
    with socket.create_connection(services.http.rsplit(":", 1), timeout=20) as client:
        client.sendall(line + b"\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 400 ") and json.loads(body)["code"] == "INVALID_ARGUMENT", answer


def test_a_cut_body_starts_nothing(services):
    started = metrics_of(services)["crisol_runs_started_total"]
    with socket.create_connection(services.http.rsplit(":", 1), timeout=90) as client:
        client.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 100\r\n\r\n{\"task\":\"t\"}")
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert metrics_of(services)["crisol_runs_started_total"] == started


def test_slow_clients_do_not_hold_up_others(services):
    slow = [socket.create_connection(services.http.rsplit(":", 1), timeout=90) for _ in range(200)]
    for client in slow:
        client.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-")
    started = time.monotonic()
    for _ in range(20):
        assert ask(services, "GET", "/livez")[0] == 200
    assert time.monotonic() - started < 9 * crisol.SLOWNESS
    for client in slow:
        client.close()
    crisol.wait_for(lambda: metrics_of(services)["crisol_http_connections"] < 50, 20, "they are forgotten")


def test_the_version_is_the_same_everywhere(services, document):
    printed = subprocess.run([os.path.join(crisol.BIN, "orchestrator"), "--version"], capture_output=True, text=True,
                             timeout=90, check=True).stdout
    assert document["info"]["version"] in printed
