# SPDX-License-Identifier: Apache-2.0
"""Shared set-up of these tests: that of the end-to-end tests, with sandboxd alone."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import services as crisol  # noqa: E402  (needs the path above)
from shared import needs_root, pytest_sessionfinish  # noqa: E402,F401  (taken by pytest)

SLOTS = 4


@pytest.fixture(scope="module")
def services():
    with crisol.Services(with_agent=False, sandboxd_flags=[f"--slots={SLOTS}"]) as running:
        yield running
