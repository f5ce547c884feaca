# SPDX-License-Identifier: Apache-2.0
"""Three sandboxd behind a name and two orchestrators on one PostgreSQL, under load, while what can happen
happens: none of the runs fails, and no step of one has two results."""
import collections
import json
import os
import signal
import tempfile
import threading
import time
import urllib.error
import uuid

import pytest
import services as crisol
from fleet import Fleet
from house import LEASE_MS, TASK, Replica, check_whole

WORKERS = 4
CONNECTION_AGE_S = 3
RUN_S = 240  # until a run is given up for lost


class Load:
    """Callers that submit one run after the other, to whichever orchestrator answers, and see them through."""

    def __init__(self, stage):
        self.stage = stage
        self.must_end = threading.Event()
        self.lock = threading.Lock()
        self.ended, self.failed, self.retries = [], [], 0
        self.threads = [threading.Thread(target=self.work, args=(index,), daemon=True) for index in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def ask_any(self, index, what):
        """What one of the orchestrators answers; a caller tries the other when one is gone."""
        until = time.monotonic() + RUN_S * crisol.SLOWNESS
        while True:
            replicas = self.stage.replicas
            replica = replicas[index % len(replicas)]
            index += 1
            try:
                return what(replica)
            except (OSError, urllib.error.URLError, json.JSONDecodeError, KeyError) as error:
                assert time.monotonic() < until, f"no orchestrator answers: {error}"
                self.retries += 1
                time.sleep(0.1)

    def see_through(self, index):
        key = uuid.uuid4().hex
        run_id = self.ask_any(index, lambda replica: replica.submit({"Idempotency-Key": key}))
        until = time.monotonic() + RUN_S * crisol.SLOWNESS
        while True:
            status = self.ask_any(index, lambda replica: replica.status(run_id))
            if status in ("SUCCESS", "FAILED", "CANCELLED"):
                break
            if time.monotonic() > until:
                status = f"still {status}"
                break
            time.sleep(0.2)
            index += 1
        with self.lock:
            self.ended.append(run_id)
            if status != "SUCCESS":
                self.failed.append((run_id, status))

    def work(self, index):
        while not self.must_end.is_set():
            try:
                self.see_through(index)
            except BaseException as error:  # pylint: disable=broad-except
                with self.lock:
                    self.failed.append(("?", repr(error)))
                return

    def wait_for_runs(self, count):
        """Until so many more have ended."""
        goal = len(self.ended) + count
        crisol.wait_for(lambda: len(self.ended) >= goal or self.failed, RUN_S, f"{count} runs end")
        assert not self.failed, (self.failed, self.stage.logs())

    def finish(self):
        self.must_end.set()
        for thread in self.threads:
            thread.join(RUN_S * crisol.SLOWNESS)


class Stage:
    def __init__(self, postgres):
        self.fleet = Fleet(3, sandboxd_flags=(f"--grpc-connection-age-s={CONNECTION_AGE_S}",))
        self.folder = self.fleet.folder
        self.sandbox = self.fleet.target
        self.database = "rollout" + uuid.uuid4().hex[:8]
        self.uri = postgres.create(self.database)
        self.replay = crisol.Process("gemini-replay", [
            os.path.join(crisol.BIN, "gemini-replay"), "--listen=127.0.0.1:0",
            f"--script={os.path.join(crisol.SCRIPTS, 'lru_cache.json')}", "--delay-ms=20"],
            os.path.join(self.folder, "replay.log"))
        self.base_url = "http://" + self.replay.match(r"gemini-replay listening on (\S+)").group(1)
        self.started = 0
        self.all_replicas = []
        self.replicas = [self.start_replica(), self.start_replica()]

    def start_replica(self):
        self.started += 1
        replica = Replica(self.fleet_view(), self.base_url, [
            f"--store={self.uri}", f"--store-lease-ms={LEASE_MS * 3}", "--grace-ms=2000",
            *self.fleet.agent_flags()], self.started)
        self.all_replicas.append(replica)
        return replica

    def fleet_view(self):
        """What Replica reads of the services."""
        return collections.namedtuple("View", "sandbox folder")(self.sandbox, self.folder)

    def replace(self, index, how):
        """Another one in the place of an orchestrator that ends."""
        replica = self.replicas[index]
        if how == signal.SIGKILL:
            replica.kill()
        else:
            assert replica.process.stop(60) == 0
        self.replicas[index] = self.start_replica()

    def logs(self):
        return "\n".join(replica.log()[-3000:] for replica in self.all_replicas)

    def close(self):
        for replica in self.replicas:
            replica.process.stop(60)
        self.replay.stop()
        self.fleet.close()


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
    member = stage.fleet.members[2]
    member.signal_front(signal.SIGSTOP)
    try:
        load.wait_for_runs(WORKERS)
    finally:
        member.signal_front(signal.SIGCONT)
    load.wait_for_runs(1)


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
