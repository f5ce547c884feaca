# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL whose disk is full in the middle of a run: nothing is lost, new runs are refused, the rest goes on."""
import errno
import json
import os
import threading
import urllib.error

import pytest
import services as crisol
from house import TASK, House, check_whole
from postgres import Postgres, folder_of_programs

ROOM_MIB = 32
NO_ROOM = "No space left on device"


class Narrow(Postgres):
    """Its databases lie in a tablespace of a few MiB, in memory, that nobody else sees."""

    def create(self, name):
        self.ask("postgres", f"CREATE TABLESPACE narrow LOCATION '{self.narrow}'")
        self.ask("postgres", f"CREATE DATABASE {name} TABLESPACE narrow")
        return self.uri(name)

    @property
    def ballast(self):
        """By way of the server, since the mount is its own."""
        return f"/proc/{self.popen.pid}/root{self.narrow}/ballast"

    def fill(self):
        """To the last byte."""
        with open(self.ballast, "wb", buffering=0) as file:
            size = 1 << 20
            while size:
                try:
                    file.write(b"\0" * size)
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    size >>= 1

    def give_room(self):
        os.unlink(self.ballast)


@pytest.fixture(scope="module", name="house")
def make_house():
    if not folder_of_programs():
        pytest.skip("no PostgreSQL server here: scripts/deps.sh test installs one")
    server = Narrow(ROOM_MIB)
    try:
        house = House(server)
        house.now = house.start()
        try:
            yield house
        finally:
            house.close()
    finally:
        server.close()


def wait_in_mid_run(house):
    """A run behind its planner, before a disk without room for what comes next."""
    with house.now.ask("POST", "/api/v1/runs", {"task": TASK, "interrupt_after": ["NODE_PLANNER"]}) as answer:
        run_id = json.loads(answer.read())["run_id"]
    crisol.wait_for(lambda: house.now.status(run_id) == "INTERRUPTED", 30, "the run waits")
    house.server.fill()
    return run_id


def take_up(house, run_id):
    """With a plan that no page has room for, and that cannot be compressed."""
    done, told = {}, house.now.log().count(NO_ROOM)

    def ask():
        try:
            with house.now.ask("POST", f"/api/v1/runs/{run_id}/resume", {"plan": os.urandom(24000).hex()}) as answer:
                done["code"] = answer.status
        except OSError as error:
            done["error"] = error

    thread = threading.Thread(target=ask)
    thread.start()
    crisol.wait_for(lambda: house.now.log().count(NO_ROOM) > told, 40, "the full disk is noticed")
    return thread, done


def check_it_serves(house, run_id):
    with house.now.ask("GET", "/api/v1/health") as answer:
        assert answer.status == 200
    assert house.now.status(run_id) == "INTERRUPTED"  # what is not durable has not happened
    with pytest.raises(urllib.error.HTTPError) as caught:
        house.now.ask("POST", "/api/v1/runs", {"task": TASK})
    assert caught.value.code == 429 and caught.value.headers["Retry-After"]
    assert "journal" in json.loads(caught.value.read())["detail"]


def test_a_run_waits_for_room_and_goes_on(house):
    run_id = wait_in_mid_run(house)
    thread, done = take_up(house, run_id)
    check_it_serves(house, run_id)
    house.server.give_room()
    thread.join(60)
    assert done == {"code": 200}
    events = house.now.events(run_id)
    check_whole(events)
    rows = house.ask_store("SELECT count(*), max(seq), bool_and(has_ended) FROM crisol_events JOIN crisol_runs"
                           f" USING (run) WHERE id = '{run_id}'")
    assert rows == f"{len(events)}|{len(events)}|t"
    check_whole(house.now.events(house.now.submit()))
    print(f"postgres: a disk that was full in mid-run cost none of {len(events)} events")


def test_a_kill_before_the_full_disk_loses_what_was_not_durable_alone(house):
    run_id = wait_in_mid_run(house)
    thread, done = take_up(house, run_id)
    house.now.kill()
    thread.join(60)
    assert "error" in done  # nothing was promised
    house.server.give_room()
    house.expire()
    house.now = house.start()
    crisol.wait_for(lambda: house.now.status(run_id) == "INTERRUPTED", 30, "the run is taken up, and still waits")
    with house.now.ask("POST", f"/api/v1/runs/{run_id}/resume", {}):
        pass
    check_whole(house.now.events(run_id))
