# SPDX-License-Identifier: Apache-2.0
"""W3C trace context from the client to sandboxd, and spans at a collector of OTLP/HTTP."""
import contextlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
import urllib.request

import exposition
import pytest
import services as crisol

TASK = "Write an LRU cache in Python."
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Collector:
    """A receiver of OTLP/HTTP in JSON that checks what it gets and can be told to fail."""

    def __init__(self):
        self.spans, self.requests, self.problems, self.status = [], [], [], 200
        self.answer = b"{}"
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802  (named by the library)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, self.headers, body)
                self.send_response(collector.status)
                self.end_headers()
                with contextlib.suppress(OSError):  # one that is too long is not read to its end
                    self.wfile.write(collector.answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        try:
            assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
            self.requests.append(dict(headers))
            if self.status == 200:
                self.spans += check_request(json.loads(body))
        except (AssertionError, KeyError, ValueError) as error:
            self.problems.append(repr(error))

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(items):
    found = {}
    for item in items:
        (kind, value), = item["value"].items()
        assert kind in ("stringValue", "intValue") and isinstance(value, str)  # 64 bits: as text
        found[item["key"]] = int(value) if kind == "intValue" else value
    return found


def check_request(document):
    spans = []
    for resource in document["resourceSpans"]:
        assert attributes(resource["resource"]["attributes"])["service.name"] == "crisol-test"
        for scope in resource["scopeSpans"]:
            assert scope["scope"]["name"] == "crisol"
            for span in scope["spans"]:
                assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
                assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", SPAN))
                assert span["kind"] in (1, 2, 3) and span["status"]["code"] in (1, 2)
                start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                assert abs(time.time_ns() - end) < 60e9 and start <= end
                spans.append({**span, "start": start, "end": end, "attributes": attributes(span["attributes"])})
    assert spans
    return spans


@pytest.fixture(scope="module")
def collector():
    running = Collector()
    yield running
    running.close()
    assert not running.problems


@pytest.fixture(scope="module")
def services(collector):
    flags = [f"--otlp-endpoint={collector.endpoint}/", "--otlp-service=crisol-test", "--log-format=json",
             "--log-level=debug"]
    with crisol.Services(sandboxd_flags=["--log-format=text", "--metrics="], orchestrator_flags=flags) as running:
        yield running


def json_lines(services):
    return [json.loads(line) for line in services.orchestrator.log().splitlines() if line.startswith("{")]


def run(services, *argv, parent=None):
    env = {"PATH": "/usr/bin:/bin", "CRISOL_SANDBOX": services.sandbox, "CRISOL_ORCHESTRATOR": services.grpc}
    if parent is not None:
        env["TRACEPARENT"] = parent
    return subprocess.run([os.path.join(crisol.BIN, "crisol"), *argv], capture_output=True, env=env, check=False,
                          timeout=60 * crisol.SLOWNESS)


def spans_of(collector, trace_id):
    """The spans of a trace once its run is among them."""
    def look():
        found = [span for span in collector.spans if span["traceId"] == trace_id]
        return found if any(span["name"] == "run" for span in found) else None
    return crisol.wait_for(look, 10, "the span of the run")


def test_a_run_is_one_trace_from_the_client_to_the_sandbox(services, collector):
    assert run(services, "run", TASK, parent=PARENT).returncode == 0
    spans = spans_of(collector, TRACE)
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    root, = [span for span in spans if span["name"] == "run"]
    assert root["parentSpanId"] == SPAN and root["kind"] == 2 and root["status"]["code"] == 1
    assert root["attributes"]["crisol.run.attempts"] == 2
    calls = [span for span in spans if span["name"] in ("model", "sandbox")]
    assert {span["parentSpanId"] for span in calls} == {root["spanId"]} and {span["kind"] for span in calls} == {3}
    assert len([span for span in calls if span["name"] == "model"]) >= 3  # a plan and two answers
    assert all(span["attributes"]["gen_ai.request.model"] for span in calls if span["name"] == "model")
    executions = [span for span in calls if span["name"] == "sandbox"]
    assert "OK" in {span["attributes"]["crisol.verdict"] for span in executions}
    for execution in executions:
        stages = sorted((span for span in spans if span.get("parentSpanId") == execution["spanId"]),
                        key=lambda span: (span["start"], span["end"]))
        names = [span["name"] for span in stages]
        assert sorted(names) == ["sandbox.collect", "sandbox.kill", "sandbox.prepare", "sandbox.queue", "sandbox.run"]
        assert execution["start"] - 5e6 <= stages[0]["start"] and stages[-1]["end"] <= execution["end"]
        assert all(before["end"] <= after["start"] or before["start"] == before["end"]
                   for before, after in zip(stages, stages[1:]))
    for span in calls:
        assert root["start"] <= span["start"] and span["end"] <= root["end"] + 5e6
    # sandboxd was told the span of each call.
    told = set(re.findall(rf" run ended .* trace_id={TRACE} span_id=([0-9a-f]{{16}})", services.sandboxd.log()))
    assert told == {span["spanId"] for span in executions}


def test_no_prompt_and_no_program_is_in_a_span(collector):
    text = json.dumps(collector.spans)
    assert "LRU" not in text and "OrderedDict" not in text and crisol.CANARY not in text


def test_every_line_about_a_call_has_its_ids(services):
    lines = json_lines(services)
    about = [line for line in lines if re.match(r"run (started|ended) ", line["message"])]
    assert len(about) >= 2
    assert {line["trace_id"] for line in about if TRACE == line.get("trace_id")} == {TRACE}
    assert all(re.fullmatch("[0-9a-f]{32}", line["trace_id"]) and re.fullmatch("[0-9a-f]{16}", line["span_id"])
               for line in about)
    ended = [line for line in services.sandboxd.log().splitlines() if " run ended execution=" in line and
             "caller=self" not in line]
    assert ended and all(re.search(" trace_id=[0-9a-f]{32} span_id=[0-9a-f]{16}$", line) for line in ended)
    audits = [line for line in services.sandboxd.log().splitlines() if " audit caller=" in line and
              "caller=self" not in line]
    assert audits and all(" trace_id=" in line for line in audits)


def http_run(services, parent):
    request = urllib.request.Request(f"http://{services.http}/api/v1/generate", method="POST",
                                     data=json.dumps({"task": TASK}).encode(),
                                     headers={"Content-Type": "application/json", "traceparent": parent})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_rest_takes_the_header_and_ignores_what_is_not_valid(services, collector):
    trace = "1" * 32
    http_run(services, f"00-{trace}-{SPAN}-01")
    assert [span["parentSpanId"] for span in spans_of(collector, trace) if span["name"] == "run"] == [SPAN]
    for bad in (f"ff-{'2' * 32}-{SPAN}-01", f"00-{'2' * 32}-{'0' * 16}-01", f"00-{'2' * 32}-{SPAN}-01-x", "nonsense"):
        seen = {span["traceId"] for span in collector.spans}
        http_run(services, bad)
        fresh = crisol.wait_for(lambda: [span for span in collector.spans if span["traceId"] not in seen and  # noqa: B023
                                         span["name"] == "run"], 10, "a trace of its own")
        assert "parentSpanId" not in fresh[0] and fresh[0]["traceId"] != "2" * 32


def test_what_the_client_did_not_sample_is_not_sent(services, collector):
    trace = "3" * 32
    assert run(services, "run", TASK, parent=f"00-{trace}-{SPAN}-00").returncode == 0
    assert run(services, "run", TASK, parent=f"00-{'4' * 32}-{SPAN}-01").returncode == 0
    spans_of(collector, "4" * 32)
    assert not [span for span in collector.spans if span["traceId"] == trace]
    assert f" trace_id={trace} " in services.sandboxd.log()  # the lines have it all the same


def test_a_collector_that_fails_costs_spans_and_nothing_else(services, collector):
    def fates():
        _, samples = exposition.scrape(services.http)
        return {fate: exposition.value(samples, "crisol_trace_spans_total", fate=fate)
                for fate in ("sent", "dropped", "failed")}
    crisol.wait_for(lambda: fates()["sent"] == len(collector.spans), 10, "the answers of the collector are counted")
    before = fates()
    collector.status = 400  # not worth another try
    try:
        assert run(services, "run", TASK, parent=f"00-{'5' * 32}-{SPAN}-01").returncode == 0
        crisol.wait_for(lambda: fates()["failed"] > before["failed"], 10, "they are counted")
        collector.status = 503  # tried again until it is back
        asked = len(collector.requests)
        assert run(services, "run", TASK, parent=f"00-{'6' * 32}-{SPAN}-01").returncode == 0
        crisol.wait_for(lambda: len(collector.requests) >= asked + 2, 10, "another try")
    finally:
        collector.status = 200
    assert spans_of(collector, "6" * 32)
    assert "cannot be sent" in services.orchestrator.log()


def test_a_collector_that_says_too_much_gets_each_span_once(services, collector):
    collector.answer = b" " * (1 << 20)
    try:
        assert run(services, "run", TASK, parent=f"00-{'8' * 32}-{SPAN}-01").returncode == 0
        assert spans_of(collector, "8" * 32)
        asked = len(collector.requests)
        time.sleep(2)  # the first of more tries would come after one second
        assert len(collector.requests) == asked
    finally:
        collector.answer = b"{}"


def test_the_end_sends_what_waits(collector):
    flags = [f"--otlp-endpoint={collector.endpoint}", "--otlp-service=crisol-test"]
    with crisol.Services(sandboxd_flags=["--metrics="], orchestrator_flags=flags) as running:
        assert run(running, "run", TASK, parent=f"00-{'7' * 32}-{SPAN}-01").returncode == 0
        running.orchestrator.stop()
        assert [span for span in collector.spans if span["traceId"] == "7" * 32 and span["name"] == "run"]
