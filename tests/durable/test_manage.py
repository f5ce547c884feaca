# SPDX-License-Identifier: Apache-2.0
"""Runs that wait, are taken up with edits, forked and deleted: gRPC, REST and command line, on both stores."""
import json
import urllib.error

import pytest
import services as crisol
from house import TASK, House, check_whole


@pytest.fixture(scope="module", name="house", params=["sqlite", "postgres"])
def make_house(request):
    house = House(request.getfixturevalue("postgres") if request.param == "postgres" else None)
    house.now = house.start()
    yield house
    house.close()


def submit(house, *after):
    with house.now.ask("POST", "/api/v1/runs", {"task": TASK, "interrupt_after": list(after)}) as answer:
        return json.loads(answer.read())["run_id"]


def status_of(house, run_id):
    with house.now.ask("GET", f"/api/v1/runs/{run_id}") as answer:
        return json.loads(answer.read())["status"]


def wait_until_it_waits(house, run_id):
    crisol.wait_for(lambda: house.now.knows(run_id) and status_of(house, run_id) == "INTERRUPTED", 20, "the run waits")


def post(house, run_id, what, body=None):
    with house.now.ask("POST", f"/api/v1/runs/{run_id}/{what}", body or {}) as answer:
        return json.loads(answer.read())


def refused(house, run_id, what, body=None):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(house, run_id, what, body)
    return caught.value.code, caught.value.read().decode()


def test_a_run_that_waits_is_killed_and_taken_up_with_another_plan(house):
    run_id = submit(house, "PLANNER")
    wait_until_it_waits(house, run_id)
    house.now = house.restart(house.now)
    wait_until_it_waits(house, run_id)
    assert refused(house, run_id, "resume", {"files": [{"path": "solution.py", "text": "x = 1"}]})[0] == 422
    answer = post(house, run_id, "resume", {"plan": "1. Behaviours: an LRU cache that a person has planned."})
    events = house.now.events(run_id)
    result = check_whole(events)
    assert result["plan"].endswith("a person has planned.")
    assert events[answer["seq"] - 1][1] == "interrupted" and events[answer["seq"]][1] == "resumed"
    assert refused(house, run_id, "resume")[0] == 409


def test_the_command_line_takes_up_forks_exports_and_forgets(house, tmp_path):
    tests = tmp_path / "tests.py"
    tests.write_text("from solution import LRUCache\n\n\ndef test_a():\n    c = LRUCache(1)\n    c.put(1, 1)\n"
                     "    assert c.get(1) == 1\n\n\ndef test_b():\n    assert LRUCache(2).get(1) == -1\n")
    started = house.now.crisol("run", "--detach", "--max-iterations=1", "--pause-after=generator", TASK)
    run_id = started.stdout.decode().strip()
    wait_until_it_waits(house, run_id)
    with house.now.ask("GET", f"/api/v1/runs/{run_id}") as answer:
        before = json.loads(answer.read())["files"]
    waiting = house.now.crisol("replay", "-", stdin=house.now.crisol("export", run_id).stdout)
    assert waiting.returncode == 0 and b"ok run=" in waiting.stdout, waiting.stderr.decode()
    resumed = house.now.crisol("resume", "--tests", str(tests), run_id)
    assert resumed.returncode in (0, 1) and b"resumed" in resumed.stderr, resumed.stderr.decode()
    events = house.now.events(run_id)
    taken = next(json.loads(data) for _, name, data in events if name == "resumed")
    assert tests.read_text() in [file["text"] for file in taken["resumed"]["files"]]
    assert before["solution.py"] in [file["text"] for file in taken["resumed"]["files"]]

    export = house.now.crisol("export", run_id)
    assert house.now.crisol("replay", "-", stdin=export.stdout).returncode == 0

    seq = next(seq for seq, name, _ in events if name == "plan_ready")
    forked = house.now.crisol("fork", run_id, str(seq))
    assert forked.returncode == 0, forked.stderr.decode()
    fork_id = forked.stdout.decode().strip()
    assert fork_id != run_id and house.now.knows(fork_id)
    wait_until_it_waits(house, fork_id)  # as the first did
    assert house.now.crisol("forget", fork_id).returncode == 125  # it goes on
    with house.now.ask("DELETE", f"/api/v1/runs/{fork_id}"):
        pass
    fork = house.now.events(fork_id)
    assert [name for _, name, _ in fork[:seq]] == [name for _, name, _ in events[:seq]]
    assert fork[-1][1] == "result" and json.loads(fork[-1][2])["status"] == "CANCELLED"

    assert house.now.crisol("forget", fork_id).returncode == 0
    assert not house.now.knows(fork_id)
    house.now = house.restart(house.now)
    assert not house.now.knows(fork_id)
    crisol.wait_for(lambda: house.now.knows(run_id), 20, "what was not deleted is there")


def test_rest_forks_and_forgets(house):
    run_id = submit(house)
    whole = house.now.events(run_id)
    check_whole(whole)
    fork_id = post(house, run_id, "fork", {"seq": len(whole) // 2})["run_id"]
    check_whole(house.now.events(fork_id))
    code, text = refused(house, run_id, "fork", {"seq": len(whole)})
    assert code == 422 and f"1 to {len(whole) - 1}" in text
    assert post(house, run_id, "forget") == {}
    assert refused(house, run_id, "forget")[0] == 404
    with pytest.raises(urllib.error.HTTPError) as caught:
        house.now.ask("POST", "/api/v1/generate", {"task": TASK, "interrupt_after": ["PLANNER"]})
    assert caught.value.code == 422
