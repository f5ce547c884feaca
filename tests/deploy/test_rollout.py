# SPDX-License-Identifier: Apache-2.0
"""Three sandboxd behind a name and two orchestrators on one PostgreSQL, under load, while what can happen
happens: none of the runs fails, and no step of one has two results."""
import collections
import os
import signal
import tempfile
import time

import pytest
import services as crisol
from house import check_whole
from stage import CONNECTION_AGE_S, WORKERS, Load, Stage


@pytest.fixture(scope="module", name="stage")
def make_stage(postgres):
    stage = Stage(postgres)
    yield stage
    stage.close()


def has_new(member, before):
    return len(member.executions()) > before


def roll_sandboxds(stage, load):
    for member in stage.fleet.members:
        assert member.process.stop(60) == 0
        member.start()
        load.wait_for_runs(1)


def kill_a_sandboxd(stage, load):
    member = stage.fleet.members[1]
    member.kill()
    load.wait_for_runs(3)
    member.start()
    before = len(member.executions())
    crisol.wait_for(lambda: has_new(member, before) or load.failed, 60, "the one that was killed is found again")


def roll_orchestrators(stage, load):
    for index in range(2):
        stage.replace(index, signal.SIGTERM)
        load.wait_for_runs(1)


def kill_an_orchestrator(stage, load):
    stage.replace(0, signal.SIGKILL)
    load.wait_for_runs(WORKERS)


def add_a_sandboxd(stage, load):
    begin = time.monotonic()
    member = stage.fleet.add()
    crisol.wait_for(lambda: has_new(member, 0) or load.failed, 60, "the new one is found")
    print(f"  found {time.monotonic() - begin:.1f} s after it was added, connections live {CONNECTION_AGE_S} s")


def remove_a_sandboxd(stage, load):
    stage.fleet.remove(stage.fleet.members[0])
    load.wait_for_runs(2)


def cut_a_sandboxd_off(stage, load):
    """Its link is down: it goes on with what it has and nobody hears of it, until the link is there again."""
    member = stage.fleet.members[2]
    member.island.cut()
    try:
        load.wait_for_runs(WORKERS)
        assert member.process.popen.poll() is None
    finally:
        member.island.heal()
    before = len(member.executions())
    crisol.wait_for(lambda: has_new(member, before) or load.failed, 60, "the one that was cut off is found again")


EVENTS = [roll_sandboxds, kill_a_sandboxd, roll_orchestrators, kill_an_orchestrator, add_a_sandboxd, remove_a_sandboxd,
          cut_a_sandboxd_off]


def test_no_run_is_lost_whatever_happens_to_the_services(stage):
    load = Load(stage)
    load.wait_for_runs(2)
    for event in EVENTS:
        begin, ended = time.monotonic(), len(load.ended)
        event(stage, load)
        print(f"{event.__name__:22} {time.monotonic() - begin:6.1f} s, {len(load.ended) - ended} runs ended")
        assert not load.failed, (load.failed, stage.logs())
    load.finish()
    assert not load.failed, (load.failed, stage.logs())
    for run_id in load.ended:
        check_whole(stage.replicas[1].events(run_id))
    # What was cut off in the middle is cancelled, and what a lost sandboxd had begun is done again.
    done = collections.Counter(request for request, verdict in stage.fleet.executions()
                               if request != "-" and verdict in ("OK", "NONZERO_EXIT"))
    repeated = sum(count - 1 for count in done.values())
    print(f"{len(load.ended)} runs, 0 failed; {sum(done.values())} executions with a verdict, {repeated} of them repeated; "
          f"callers asked again {load.retries} times")


def test_an_execution_longer_than_a_connection_lives_is_not_cut(stage):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        with stage.replicas[1].ask("POST", "/api/v1/execute", {
                "runtime": "shell", "code": f"sleep {3 * CONNECTION_AGE_S}; echo done",
                "limits": {"wall_time_ms": 30000}}) as answer:
            assert "done" in answer.read().decode(), out
