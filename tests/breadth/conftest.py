# SPDX-License-Identifier: Apache-2.0
"""Shared set-up of these tests: that of the end-to-end tests, with sandboxd alone."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import services as crisol  # noqa: E402  (needs the path above)

SLOTS = 4


def pytest_sessionfinish(session, exitstatus):
    """A file whose every test was skipped is a skipped test for ctest too."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter and not reporter.stats.get("passed") and reporter.stats.get("skipped"):
        session.exitstatus = 77


@pytest.fixture(autouse=True, scope="session")
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("starting sandboxd needs root")


@pytest.fixture(scope="module")
def services():
    with crisol.Services(with_agent=False, sandboxd_flags=[f"--slots={SLOTS}"]) as running:
        yield running
