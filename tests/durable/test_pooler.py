# SPDX-License-Identifier: Apache-2.0
"""Orchestrators behind a pooler that gives each transaction whichever connection to PostgreSQL is free."""
import signal

import pytest
import services as crisol
from house import House, check_whole
from pooler import PooledServer
from test_replicas import check_store, hold_a_run


@pytest.fixture(scope="module", name="server")
def make_server(postgres):
    server = PooledServer(postgres)
    yield server
    server.close()


@pytest.fixture(scope="module", name="house")
def make_house(server):
    house = House(server)
    yield house
    house.close()


def test_ops_23_a_pooler_between_does_no_harm(server, house):
    first, second = house.start(), house.start()
    run_id = first.submit()
    events = first.events(run_id)
    check_whole(events)
    check_store(house, run_id, events)
    # Nobody is told by NOTIFY who is not connected for good: they look.
    crisol.wait_for(lambda: second.status(run_id) == "SUCCESS", 30, "the end is known to the other")
    run_id, gate = hold_a_run(house, first)
    first.kill()
    crisol.wait_for(second.has_taken_up, 30, "the other takes the run over")
    gate.set()
    events = second.events(run_id)
    check_whole(events)
    check_store(house, run_id, events)
    assert server.pooler.switches > 10
    for replica in (first, second):
        assert "error" not in [line.split()[1] for line in replica.log().splitlines()], replica.log()
    second.signal(signal.SIGTERM)
    assert second.process.popen.wait(60) == 0
