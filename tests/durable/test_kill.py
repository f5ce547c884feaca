# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the orchestrator at every state event of a run: it goes on and loses nothing. On both stores."""
import json
import time

import pytest
import services as crisol
from house import RESTARTED, House, check_whole, count_told, own_names


@pytest.fixture(scope="module", name="house", params=["sqlite", "postgres"])
def make_house(request):
    house = House(request.getfixturevalue("postgres") if request.param == "postgres" else None)
    house.kind = request.param
    house.now = house.start()
    yield house
    house.close()


def wait_until_known(house, run_id):
    crisol.wait_for(lambda: house.now.knows(run_id), 20, "the run is taken up")


def restart(house, run_id):
    house.now = house.restart(house.now)
    wait_until_known(house, run_id)


def check_replay(replica, run_id, count):
    """What is stored of the run can be repeated without any service, and no change passes for it."""
    export = replica.crisol("export", run_id)
    assert export.returncode == 0, export.stderr.decode()
    same = replica.crisol("replay", "-", stdin=export.stdout)
    assert same.returncode == 0, same.stderr.decode()
    assert f"run={run_id} events={count} compared={count}\n" in same.stdout.decode()
    for at in range(0, len(export.stdout), max(1, len(export.stdout) // 7)):
        changed = bytearray(export.stdout)
        changed[at] ^= 1
        done = replica.crisol("replay", "-", stdin=bytes(changed))
        assert done.returncode in (1, 125) and done.stderr, f"byte {at} was changed and nobody noticed"


def test_a_run_that_is_killed_behind_each_of_its_events_ends(house):
    whole = house.now.events(house.now.submit())
    check_whole(whole)
    price = house.proxy.requests
    run_id = house.now.submit()
    begin = time.monotonic()
    kills, seen = 0, []
    while not seen or seen[-1][1] != "result":
        before = seen
        seen = house.now.events(run_id, until=kills + 1)
        assert seen[:len(before)] == before, f"after {kills} kills: what was seen has changed"
        restart(house, run_id)
        kills += 1
    events = house.now.events(run_id)
    result = check_whole(events)
    assert events == seen
    extra = house.proxy.requests - 2 * price
    told = count_told(events)
    assert extra <= told, f"{extra} answers were bought again, {told} were told"
    assert (told > 0) == any(RESTARTED in warning for warning in result["warnings"])
    assert own_names(events) == own_names(whole)
    check_replay(house.now, run_id, len(events))
    print(f"{house.kind}: killed {kills} times in {time.monotonic() - begin:.0f} s, behind each of its events; "
          f"{told} calls told as possibly charged twice, {extra} were")


def test_one_kill_while_the_model_answers_buys_one_answer_more(house):
    bought = house.proxy.requests
    run_id = house.now.submit()
    house.now.events(run_id, until=2)
    crisol.wait_for(lambda: house.proxy.requests > bought, 10, "the model is asked")
    restart(house, run_id)
    events = house.now.events(run_id)
    check_whole(events)
    assert count_told(events) <= 1


def test_a_stop_leaves_detached_runs_to_the_next_start(house):
    house.flags[-1] = "--grace-ms=0"
    house.now = house.restart(house.now)
    run_id = house.now.submit()
    assert house.now.process.stop() == 0
    house.now = house.start()
    wait_until_known(house, run_id)
    check_whole(house.now.events(run_id))


def test_ended_runs_and_keys_outlive_the_process(house):
    headers = {"Idempotency-Key": "durable"}
    run_id = house.now.submit(headers)
    whole = house.now.events(run_id)
    house.now = house.restart(house.now)
    assert house.now.events(run_id) == whole
    assert house.now.submit(headers) == run_id
    with house.now.ask("GET", "/api/v1/runs") as answer:
        assert run_id in [run["run_id"] for run in json.loads(answer.read())["runs"]]
