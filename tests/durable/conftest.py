# SPDX-License-Identifier: Apache-2.0
"""The services of the end-to-end tests, for tests that kill them."""
import os
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "harness"))
sys.path.insert(0, os.path.join(TESTS, "e2e"))

from postgres import Postgres, folder_of_programs  # noqa: E402
from shared import needs_root, pytest_sessionfinish  # noqa: E402,F401  (taken by pytest)


@pytest.fixture(scope="session", name="postgres")
def start_postgres():
    """A server of the session's own."""
    if not folder_of_programs():
        pytest.skip("no PostgreSQL server here: scripts/deps.sh test installs one")
    server = Postgres()
    yield server
    server.close()
