# SPDX-License-Identifier: Apache-2.0
"""Several sandboxd behind a name, one of them on a network of its own, two orchestrators on one PostgreSQL, and callers
that see their runs through whatever happens."""
import collections
import http.client
import json
import os
import signal
import threading
import time
import uuid

import services as crisol
from fleet import FIRST_UID, Fleet
from house import LEASE_MS, Replica

WORKERS = 4
CONNECTION_AGE_S = 3
KEEP_RUNS = 1000000  # half an hour ends more than the thousand that are kept otherwise; each is looked at when all have ended
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
            except (OSError, http.client.HTTPException, json.JSONDecodeError, KeyError) as error:  # also one killed as it answers
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
    def __init__(self, postgres, first_uid=FIRST_UID):
        self.fleet = Fleet(3, sandboxd_flags=(f"--grpc-connection-age-s={CONNECTION_AGE_S}",), first_uid=first_uid, on_island=2)
        self.postgres = postgres
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
            f"--store={self.uri}", f"--store-lease-ms={LEASE_MS * 3}", "--grace-ms=2000", f"--keep-runs={KEEP_RUNS}",
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

    def account(self, run_id):
        """What can be learnt of a run: who has it in the store, what each orchestrator says of it, what all have logged."""
        lines = ["store: " + self.postgres.ask(self.database, "SELECT owner, fence, head, has_ended, lease_until - now()"
                                               f" FROM crisol_runs WHERE id = '{run_id}'")]
        for replica in self.replicas:
            try:
                with replica.ask("GET", f"/api/v1/runs/{run_id}") as answer:
                    lines.append(answer.read().decode()[-1000:])
            except (OSError, http.client.HTTPException) as error:
                lines.append(repr(error))
        for replica in self.all_replicas:
            lines += [line[:300] for line in replica.log().splitlines() if f"run={run_id}" in line][-20:]
        return "\n".join(lines)

    def close(self):
        for replica in self.replicas:
            replica.process.stop(60)
        self.replay.stop()
        self.fleet.close()
