# SPDX-License-Identifier: Apache-2.0
"""Runs in flight across an update: journals that earlier versions of the program left when they were killed."""
import json
import lzma
import os
import re
import sqlite3
import time
import urllib.error

import pytest
import services as crisol
from house import RESTARTED, House, check_whole, count_told

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "journals")
NAMES = sorted(os.listdir(FOLDER))


def lay_out(house, name):
    """The store as it was; returns what its first lines say of the runs: ended, waiting twice, in flight."""
    with lzma.open(os.path.join(FOLDER, name), "rt", encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(house.store.name, "journal.db")
    database = sqlite3.connect(path)
    database.executescript(text)
    database.close()
    os.chown(path, crisol.SERVICE_UID, crisol.SERVICE_UID)
    runs = re.findall(r"\b[0-9a-f]{32}\b", "".join(line for line in text.splitlines(True) if line.startswith("--")))
    assert len(runs) == 4
    return runs


def take_up(replica, run_id):
    """Until it waits no more: once, or behind each answer. Returns the numbers of the interrupts."""
    seqs = []
    while replica.status(run_id) in ("INTERRUPTED", "RUNNING"):
        try:
            with replica.ask("POST", f"/api/v1/runs/{run_id}/resume", {}) as answer:
                seqs.append(json.loads(answer.read())["seq"])
        except urllib.error.HTTPError as error:
            assert error.code == 409  # it goes on
            time.sleep(0.05)
    return seqs


@pytest.mark.parametrize("name", NAMES)
def test_an_update_goes_on_with_the_runs_of_the_version_before(name, tmp_path):
    house = House(None)
    try:
        ended, planned, written, asked = lay_out(house, name)
        replica = house.start()
        # What had ended is as it was, receipt and all.
        check_whole(replica.events(ended))
        (tmp_path / "run.json").write_bytes(replica.crisol("watch", "--json", ended).stdout)
        checked = replica.crisol("verify-receipt", str(tmp_path / "run.json"))
        assert checked.returncode == 0, checked.stderr.decode()
        # What was asking the model asks once more, says so, and comes to its end.
        events = replica.events(asked)
        result = check_whole(events)
        assert count_told(events) == 1 and any(RESTARTED in warning for warning in result["warnings"])
        # What waited still does, and goes on when it is taken up; one of them over another restart.
        for run_id in (planned, written):
            crisol.wait_for(lambda: replica.status(run_id) == "INTERRUPTED", 20, "it waits")
            if run_id == written:
                replica = house.restart(replica)
                crisol.wait_for(lambda: replica.status(run_id) == "INTERRUPTED", 20, "it still waits")
            seqs = take_up(replica, run_id)
            events = replica.events(run_id)
            check_whole(events)
            assert [seq for seq, name, _ in events if name == "resumed"] == [seq + 1 for seq in seqs]
        # And it can be cancelled, which an earlier layout had no table for.
        with replica.ask("POST", "/api/v1/runs", {"task": "LRU", "interrupt_after": ["NODE_PLANNER"]}) as answer:
            run_id = json.loads(answer.read())["run_id"]
        with replica.ask("DELETE", f"/api/v1/runs/{run_id}"):
            pass
        crisol.wait_for(lambda: replica.status(run_id) == "CANCELLED", 20, "it is cancelled")
        print(f"{name}: 1 run that had ended, 1 in flight and 2 that waited went on")
    finally:
        house.close()


def test_there_is_a_journal():
    assert NAMES
