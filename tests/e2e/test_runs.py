# SPDX-License-Identifier: Apache-2.0
"""Runs by id: clients that start a run, leave, and come back for its events."""
import json
import urllib.error
import urllib.request

import services as crisol

TASK = "Write an LRU cache in Python."


def http(services, method, path, body=None, headers=None):
    """Returns (status, content)."""
    request = urllib.request.Request(
        f"http://{services.http}{path}", method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def read_events(services, run_id, last_id=None):
    """The ids and names of a run's state events, read to the end of the stream."""
    status, text = http(services, "GET", f"/api/v1/runs/{run_id}/events",
                        headers={"Last-Event-ID": last_id} if last_id else None)
    assert status == 200
    frames = [dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
              for frame in text.split("\n\n")]
    return [(int(frame["id"]), frame["event"]) for frame in frames if "id" in frame]


def test_a_detached_run_can_be_watched_to_its_end(services):
    started = services.crisol("run", "--detach", TASK)
    assert started.returncode == 0, started.stderr.decode()
    run_id = started.stdout.decode().strip()
    watched = services.crisol("watch", "--json", run_id)
    answer = json.loads(watched.stdout)
    assert watched.returncode == 0 and answer["status"] == "SUCCESS" and answer["run_id"] == run_id
    listed = services.crisol("runs").stdout.decode()
    assert f"{run_id}  SUCCESS    2  {TASK}\n" in listed


def test_a_hint_is_for_a_run_that_stalled(services):
    run_id = json.loads(services.crisol("run", "--json", TASK).stdout)["run_id"]
    refused = services.crisol("resume", "--hint", "Mind the carry.", run_id)
    assert refused.returncode == 125 and b"a hint is for a run that ended STALLED" in refused.stderr


def test_a_key_starts_one_run(services):
    first = services.crisol("run", "--detach", "--key", "once", TASK)
    again = services.crisol("run", "--detach", "--key", "once", TASK)
    other = services.crisol("run", "--detach", "--key", "once", TASK + " Now.")
    assert first.stdout == again.stdout != b""
    assert other.returncode == 125 and b"ALREADY_EXISTS" in other.stderr


def test_rest_resumes_its_events_without_a_gap(services):
    status, text = http(services, "POST", "/api/v1/runs", {"task": TASK})
    assert status == 202
    run_id = json.loads(text)["run_id"]
    events = read_events(services, run_id)
    assert [seq for seq, _ in events] == list(range(1, len(events) + 1))
    assert events[-1][1] == "result"
    assert read_events(services, run_id, "5") == events[5:]
    status, text = http(services, "GET", f"/api/v1/runs/{run_id}")
    assert status == 200 and json.loads(text)["status"] == "SUCCESS"


def test_rest_lists_pages_and_refuses_bad_ids(services):
    for _ in range(2):
        assert http(services, "POST", "/api/v1/runs", {"task": TASK})[0] == 202
    page = json.loads(http(services, "GET", "/api/v1/runs?page_size=1")[1])
    assert len(page["runs"]) == 1
    older = json.loads(http(services, "GET", f"/api/v1/runs?page_size=1&page_token={page['next_page_token']}")[1])
    assert older["runs"][0]["run_id"] != page["runs"][0]["run_id"]
    assert http(services, "GET", "/api/v1/runs?page_size=x")[0] == 422
    assert http(services, "GET", "/api/v1/runs/nonsense")[0] == 422
    assert http(services, "GET", f"/api/v1/runs/{'0' * 32}")[0] == 404
    assert http(services, "PUT", f"/api/v1/runs/{'0' * 32}")[0] == 405


def test_rest_cancels_and_draws(services):
    run_id = json.loads(http(services, "POST", "/api/v1/runs", {"task": TASK})[1])["run_id"]
    status, text = http(services, "DELETE", f"/api/v1/runs/{run_id}")
    assert status == 200 and json.loads(text) == {"found": True}

    def ended():
        answer = json.loads(http(services, "GET", f"/api/v1/runs/{run_id}")[1])
        return answer["status"] if answer["status"] != "RUNNING" else None
    assert crisol.wait_for(ended, 20, "the run ends") == "CANCELLED"
    marked = http(services, "GET", f"/api/v1/graph.mmd?run_id={run_id}")[1]
    assert ":::visited" in marked and ":::visited\n" not in http(services, "GET", "/api/v1/graph.mmd")[1]
    assert http(services, "GET", "/api/v1/graph.dot")[1].startswith("digraph")
    assert json.loads(http(services, "GET", "/api/v1/graph")[1])["nodes"][0]["name"] == "planner"
