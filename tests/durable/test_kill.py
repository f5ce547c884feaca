# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the orchestrator at every state event of a run: it goes on and loses nothing."""
import http.client
import http.server
import json
import os
import signal
import tempfile
import threading
import time
import urllib.request

import pytest
import services as crisol

TASK = "Write an LRU cache in Python."
RESTARTED = "restarted while the model answered"
# A kill while the model answers or a sandbox runs makes a call again, which tells of itself.
OF_CALLS = ("model_retry", "sandbox_started")


class CountingProxy:
    """Stands before the model and counts what is bought."""

    def __init__(self, address):
        proxy = self
        self.requests = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                proxy.requests += 1
                upstream = http.client.HTTPConnection(address, timeout=20)
                upstream.request("POST", self.path, body, {
                    name: value for name, value in self.headers.items() if name.lower() != "connection"})
                answer = upstream.getresponse()
                data = answer.read()
                upstream.close()
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers["Content-Type"])
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # it was killed

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class House:
    def __init__(self):
        # The store lies outside of the folder whose files are compared.
        self.store = tempfile.TemporaryDirectory(prefix="crisol-durable-")
        os.chown(self.store.name, crisol.SERVICE_UID, crisol.SERVICE_UID)
        self.services = crisol.Services(with_agent=False, orchestrator_flags=(
            f"--store=sqlite:{self.store.name}/journal.db", "--store-free-mib=1"))
        self.replay = crisol.Process("gemini-replay", [
            os.path.join(crisol.BIN, "gemini-replay"), "--listen=127.0.0.1:0",
            f"--script={os.path.join(crisol.SCRIPTS, 'lru_cache.json')}", "--delay-ms=3"],
            os.path.join(self.services.folder, "replay.log"))
        self.services.replay = self.replay
        address = self.replay.match(r"gemini-replay listening on (\S+)").group(1)
        self.proxy = CountingProxy(address)
        self.start()

    def start(self):
        self.services.start_orchestrator(self.proxy.url, crisol.CANARY)

    def kill(self):
        self.services.orchestrator.popen.send_signal(signal.SIGKILL)
        self.services.orchestrator.popen.wait()

    def close(self):
        codes = self.services.stop()
        self.proxy.close()
        self.store.cleanup()
        return codes

    def ask(self, method, path, body=None, headers=None):
        request = urllib.request.Request(
            f"http://{self.services.http}{path}", method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json", **(headers or {})})
        return urllib.request.urlopen(request, timeout=30)

    def submit(self):
        with self.ask("POST", "/api/v1/runs", {"task": TASK}) as answer:
            return json.loads(answer.read())["run_id"]

    def events(self, run_id, until=None):
        """State events as (seq, name, data): all, or until so many of the run's own are there."""
        seen, frame = [], {}
        with self.ask("GET", f"/api/v1/runs/{run_id}/events") as stream:
            for line in stream:
                text = line.decode().rstrip("\n")
                if text:
                    name, _, value = text.partition(": ")
                    frame[name] = value
                    continue
                if "id" in frame:
                    seen.append((int(frame["id"]), frame["event"], frame["data"]))
                    if until and sum(name not in OF_CALLS for _, name, _ in seen) >= until:
                        return seen
                frame = {}
        return seen


@pytest.fixture(scope="module", name="house")
def make_house():
    house = House()
    yield house
    codes = house.close()
    assert codes["orchestrator"] == 0, codes


def own_names(events):
    return [name for _, name, _ in events if name not in OF_CALLS]


def count_told(events):
    return sum(name == "model_retry" and RESTARTED in data for _, name, data in events)


def check_whole(events):
    """Gapless, ended once with SUCCESS, and no step has two results."""
    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
    assert [name for _, name, _ in events].count("result") == 1
    result = json.loads(events[-1][2])
    assert events[-1][1] == "result" and result["status"] == "SUCCESS", result["final_response"]
    per_visit = []
    for _, name, _ in events:
        if name == "node_started":
            per_visit.append({})
        if per_visit and name in ("model_call", "plan_ready", "files_ready", "sandbox_result", "evaluation"):
            per_visit[-1][name] = per_visit[-1].get(name, 0) + 1
    assert all(count == 1 for visit in per_visit for count in visit.values()), per_visit
    return result


def test_a_run_that_is_killed_behind_each_of_its_events_ends(house):
    whole = house.events(house.submit())
    check_whole(whole)
    price = house.proxy.requests
    run_id = house.submit()
    begin = time.monotonic()
    kills, seen = 0, []
    while not seen or seen[-1][1] != "result":
        before = seen
        seen = house.events(run_id, until=kills + 1)
        assert seen[:len(before)] == before, f"after {kills} kills: what was seen has changed"
        house.kill()
        kills += 1
        house.start()
    events = house.events(run_id)
    result = check_whole(events)
    assert events == seen
    extra = house.proxy.requests - 2 * price
    told = count_told(events)
    assert extra <= told, f"{extra} answers were bought again, {told} were told"
    assert (told > 0) == any(RESTARTED in warning for warning in result["warnings"])
    assert own_names(events) == own_names(whole)
    print(f"killed {kills} times in {time.monotonic() - begin:.0f} s, behind each of its events; "
          f"{told} calls told as possibly charged twice, {extra} were")


def test_one_kill_while_the_model_answers_buys_one_answer_more(house):
    bought = house.proxy.requests
    run_id = house.submit()
    house.events(run_id, until=2)
    crisol.wait_for(lambda: house.proxy.requests > bought, 10, "the model is asked")
    house.kill()
    house.start()
    events = house.events(run_id)
    check_whole(events)
    assert count_told(events) <= 1


def test_a_stop_leaves_detached_runs_to_the_next_start(house):
    house.services.orchestrator_flags = (*house.services.orchestrator_flags, "--grace-ms=0")
    house.kill()
    house.start()
    run_id = house.submit()
    assert house.services.orchestrator.stop() == 0
    house.start()
    check_whole(house.events(run_id))


def test_ended_runs_and_keys_outlive_the_process(house):
    headers = {"Idempotency-Key": "durable"}
    with house.ask("POST", "/api/v1/runs", {"task": TASK}, headers) as answer:
        run_id = json.loads(answer.read())["run_id"]
    whole = house.events(run_id)
    house.kill()
    house.start()
    assert house.events(run_id) == whole
    with house.ask("POST", "/api/v1/runs", {"task": TASK}, headers) as answer:
        assert json.loads(answer.read())["run_id"] == run_id
