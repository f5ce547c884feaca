# SPDX-License-Identifier: Apache-2.0
"""Several orchestrators on one PostgreSQL: who dies is replaced, who was paused does no harm."""
import json
import signal
import threading
import time
import urllib.error

import pytest
import services as crisol
from house import RESTARTED, TASK, House, check_whole, count_told

REFUSED = "the run cannot be written and is left"


@pytest.fixture(scope="module", name="house")
def make_house(postgres):
    house = House(postgres)
    yield house
    house.close()


@pytest.fixture(name="two")
def make_two(house):
    two = (house.start(), house.start())
    yield two
    for replica in two:
        replica.signal(signal.SIGCONT)
        replica.process.stop()


def check_store(house, run_id, events):
    """One row per event, no gap, one owner at the end."""
    rows = house.ask_store("SELECT count(*), max(seq), bool_and(has_ended) FROM crisol_events JOIN crisol_runs"
                           f" USING (run) WHERE id = '{run_id}'")
    assert rows == f"{len(events)}|{len(events)}|t"


def fence_of(house, run_id):
    return int(house.ask_store(f"SELECT fence FROM crisol_runs WHERE id = '{run_id}'"))


def hold_a_run(house, replica):
    """A run whose replica waits for its first answer; the gate lets that answer go."""
    gate = threading.Event()
    bought = house.proxy.requests
    house.proxy.gate = gate
    run_id = replica.submit()
    crisol.wait_for(lambda: house.proxy.requests > bought, 10, "the model is asked")
    return run_id, gate


def test_a_run_of_a_dead_replica_is_taken_over(house, two):
    first, second = two
    run_id, gate = hold_a_run(house, first)
    begin = time.monotonic()
    first.kill()
    crisol.wait_for(second.has_taken_up, 20, "the other takes the run over")
    taken_s = time.monotonic() - begin
    gate.set()
    events = second.events(run_id)
    result = check_whole(events)
    assert count_told(events) == 1 and any(RESTARTED in warning for warning in result["warnings"])
    assert fence_of(house, run_id) == 2
    check_store(house, run_id, events)
    print(f"taken over {taken_s:.1f} s after kill -9, with leases of {int(house.flags[1].partition('=')[2])} ms")


def test_the_late_write_of_a_paused_replica_is_refused(house, two):
    first, second = two
    run_id, gate = hold_a_run(house, first)
    first.signal(signal.SIGSTOP)
    crisol.wait_for(second.has_taken_up, 20, "the other takes the run over")
    events = second.events(run_id)
    check_whole(events)
    first.signal(signal.SIGCONT)
    gate.set()
    crisol.wait_for(lambda: REFUSED in first.log(), 20, "the late write is refused")
    crisol.wait_for(lambda: first.status(run_id) == "SUCCESS", 20, "the run that ended elsewhere is known here")
    assert first.events(run_id) == events
    check_store(house, run_id, events)
    check_whole(first.events(first.submit()))
    print(f"refused: {first.log().count(REFUSED)} late write; both replicas tell the same {len(events)} events")


def test_a_run_that_ended_is_known_to_every_replica(house, two):
    first, second = two
    run_id = first.submit()
    events = first.events(run_id)
    check_whole(events)
    crisol.wait_for(lambda: second.status(run_id) == "SUCCESS", 20, "the end is known to the other")
    assert second.events(run_id) == events


def test_a_run_that_goes_on_is_read_at_every_replica(house, two):
    first, second = two
    run_id, gate = hold_a_run(house, first)
    crisol.wait_for(lambda: second.status(run_id) == "RUNNING", 20, "the run is known to the other")
    with second.ask("GET", "/api/v1/runs") as answer:
        assert run_id in [run["run_id"] for run in json.loads(answer.read())["runs"]]
    begin = second.events(run_id, until=2)
    threading.Timer(0.2, gate.set).start()
    events = second.events(run_id)
    check_whole(events)
    assert events[:len(begin)] == begin and events == first.events(run_id)


def test_a_run_is_cancelled_by_any_replica(house, two):
    first, second = two
    run_id, gate = hold_a_run(house, first)
    crisol.wait_for(lambda: second.knows(run_id), 20, "the run is known to the other")
    begin = time.monotonic()
    with second.ask("DELETE", f"/api/v1/runs/{run_id}") as answer:
        assert json.loads(answer.read()) == {"found": True}
    crisol.wait_for(lambda: first.status(run_id) == "CANCELLED", 20, "its holder ends it")
    taken_s = time.monotonic() - begin
    gate.set()
    crisol.wait_for(lambda: second.status(run_id) == "CANCELLED", 20, "the end is known to who asked")
    assert first.events(run_id) == second.events(run_id)
    crisol.wait_for(lambda: house.ask_store("SELECT count(*) FROM crisol_requests") == "0", 20, "the row is gone")
    with second.ask("DELETE", f"/api/v1/runs/{run_id}") as answer:
        assert json.loads(answer.read()) == {"found": False}
    print(f"cancelled by another replica after {taken_s:.2f} s")


def test_a_cancel_outlives_the_holder(house, two):
    """Nobody has it in memory any more: the holder dies before it looks, and the next one finds the row."""
    first, second = two
    run_id, gate = hold_a_run(house, first)
    crisol.wait_for(lambda: second.knows(run_id), 20, "the run is known to the other")
    first.signal(signal.SIGSTOP)
    with second.ask("DELETE", f"/api/v1/runs/{run_id}"):
        pass
    crisol.wait_for(lambda: house.ask_store("SELECT count(*) FROM crisol_requests") == "1", 20, "the row is there")
    first.kill()
    gate.set()
    crisol.wait_for(lambda: second.status(run_id) == "CANCELLED", 40, "who takes it over ends it")
    assert fence_of(house, run_id) == 2


def submit_paused(replica, after):
    with replica.ask("POST", "/api/v1/runs", {"task": TASK, "interrupt_after": [after]}) as answer:
        return json.loads(answer.read())["run_id"]


def test_a_run_is_taken_up_by_any_replica(house, two):
    first, second = two
    run_id = submit_paused(first, "NODE_PLANNER")
    crisol.wait_for(lambda: second.status(run_id) == "INTERRUPTED", 20, "the other knows that it waits")
    begin = time.monotonic()
    # What is wrong with it is said at once, where it is asked.
    with pytest.raises(urllib.error.HTTPError) as caught:
        second.ask("POST", f"/api/v1/runs/{run_id}/resume", {"files": [{"path": "solution.py", "text": "x"}]})
    assert caught.value.code == 422
    with second.ask("POST", f"/api/v1/runs/{run_id}/resume", {"plan": "Another plan."}) as answer:
        seq = json.loads(answer.read())["seq"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        second.ask("POST", f"/api/v1/runs/{run_id}/resume", {"plan": "A third plan."})
    assert caught.value.code == 409
    crisol.wait_for(lambda: first.status(run_id) != "INTERRUPTED", 20, "its holder goes on")
    taken_s = time.monotonic() - begin
    events = second.events(run_id)
    check_whole(events)
    resumed = [json.loads(data) for _, name, data in events if name == "resumed"]
    assert [(one["seq"], one["resumed"]["plan"]) for one in resumed] == [(seq + 1, "Another plan.")]
    assert events == first.events(run_id) and fence_of(house, run_id) == 1
    crisol.wait_for(lambda: house.ask_store("SELECT count(*) FROM crisol_requests") == "0", 20, "the row is gone")
    print(f"taken up by another replica after {taken_s:.2f} s")


def test_files_are_checked_where_it_is_asked(house, two):
    """What lies there is known there by the events: the files of the answer, and what the task allows."""
    first, second = two
    with first.ask("POST", "/api/v1/runs", {"task": TASK, "interrupt_after": ["NODE_GENERATOR"],
                                            "max_iterations": 1, "terms": {"max_more_files": 1}}) as answer:
        run_id = json.loads(answer.read())["run_id"]
    crisol.wait_for(lambda: second.status(run_id) == "INTERRUPTED", 20, "the other knows that it waits")
    files = [{"path": "notes.txt", "text": "1"}, {"path": "more.txt", "text": "2"}]
    with pytest.raises(urllib.error.HTTPError) as caught:
        second.ask("POST", f"/api/v1/runs/{run_id}/resume", {"files": files})
    assert caught.value.code == 422
    assert [one["loc"] for one in json.loads(caught.value.read())["detail"]] == [["body", "files", 1, "path"]]
    with second.ask("POST", f"/api/v1/runs/{run_id}/resume", {"files": files[:1]}):
        pass
    crisol.wait_for(lambda: first.status(run_id) == "FAILED", 40, "its holder goes on")
    assert json.loads(first.ask("GET", f"/api/v1/runs/{run_id}").read())["files"]["notes.txt"] == "1"


def test_a_key_starts_one_run_at_all_replicas(house, two):
    first, second = two
    gate = threading.Event()
    house.proxy.gate = gate
    bought = house.proxy.requests
    run_id = first.submit({"Idempotency-Key": "once"})
    crisol.wait_for(lambda: house.proxy.requests > bought, 10, "the model is asked")
    # Whether the other knows by now of the run that goes on here, or not: it starts none.
    assert second.submit({"Idempotency-Key": "once"}) == run_id
    assert second.submit({"Idempotency-Key": "once"}) == run_id
    with pytest.raises(urllib.error.HTTPError) as caught:
        second.ask("POST", "/api/v1/runs", {"task": "Something else."}, {"Idempotency-Key": "once"})
    assert caught.value.code == 409
    gate.set()
    check_whole(first.events(run_id))
    assert house.ask_store("SELECT count(*) FROM crisol_runs WHERE start_key LIKE '%once'") == "1"
    crisol.wait_for(lambda: second.status(run_id) == "SUCCESS", 20, "the end is known to the other")
    assert second.submit({"Idempotency-Key": "once"}) == run_id == first.submit({"Idempotency-Key": "once"})


def test_who_stops_hands_its_runs_over_at_once(house, two):
    first, second = two
    house.ask_store("SELECT 1")
    run_id, gate = hold_a_run(house, second)
    second.signal(signal.SIGTERM)
    second.process.match("stopping", 20)
    crisol.wait_for(first.has_taken_up, 40, "the run is handed over")
    gate.set()
    check_whole(first.events(run_id))


def test_a_table_that_somebody_locks_is_waited_for(house, two):
    """Longer than the leases: whoever goes on with the run then, it ends once."""
    first, _ = two
    run_id, gate = hold_a_run(house, first)
    locker = threading.Thread(target=house.ask_store, args=(
        "BEGIN; LOCK TABLE crisol_runs IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT",))
    locker.start()
    crisol.wait_for(lambda: house.ask_store(
        "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock'"
        " AND relation = 'crisol_runs'::regclass") == "1", 30, "the table is locked")
    gate.set()
    locker.join()
    crisol.wait_for(lambda: all(replica.status(run_id) == "SUCCESS" for replica in two), 60, "the run ends")
    events = first.events(run_id)
    check_whole(events)
    check_store(house, run_id, events)


def test_a_database_that_goes_away_stops_nothing(house, two):
    first, second = two
    run_id, gate = hold_a_run(house, first)
    crisol.wait_for(lambda: second.knows(run_id), 20, "the run is known to the other")
    house.server.stop()
    gate.set()
    for replica in two:
        crisol.wait_for(lambda one=replica: "cannot use the database" in one.log(), 20, "it is noticed")
    # Its holder cannot be told, so nothing is promised.
    with pytest.raises(urllib.error.HTTPError) as caught:
        second.ask("DELETE", f"/api/v1/runs/{run_id}")
    assert caught.value.code == 503 and caught.value.headers["Retry-After"]
    house.server.start()
    crisol.wait_for(lambda: all(replica.status(run_id) == "SUCCESS" for replica in two), 30, "the run ends")
    events = first.events(run_id)
    check_whole(events)
    check_store(house, run_id, events)
