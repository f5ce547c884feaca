# SPDX-License-Identifier: Apache-2.0
"""The services of the end-to-end tests, for tests that kill them."""
import os
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "harness"))
sys.path.insert(0, os.path.join(TESTS, "e2e"))

from postgres import Postgres, folder_of_programs  # noqa: E402


def pytest_sessionfinish(session, exitstatus):
    """A file whose every test was skipped is a skipped test for ctest too."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter and not reporter.stats.get("passed") and reporter.stats.get("skipped"):
        session.exitstatus = 77


@pytest.fixture(scope="session", name="postgres")
def start_postgres():
    """A server of the session's own."""
    if not folder_of_programs():
        pytest.skip("no PostgreSQL server here: scripts/deps.sh test installs one")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(autouse=True, scope="session")
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("starting sandboxd needs root")
