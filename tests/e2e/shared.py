# SPDX-License-Identifier: Apache-2.0
"""What the conftest.py of every folder with tests of real services takes over by name."""
import os

import pytest


def pytest_sessionfinish(session, exitstatus):
    """A file whose every test was skipped is a skipped test for ctest too."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter and not reporter.stats.get("passed") and reporter.stats.get("skipped"):
        session.exitstatus = 77


@pytest.fixture(autouse=True, scope="session")
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("starting sandboxd needs root")
