# SPDX-License-Identifier: Apache-2.0
"""Shared set-up of the end-to-end tests."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import services as crisol  # noqa: E402  (needs the path above)
from shared import needs_root, pytest_sessionfinish  # noqa: E402,F401  (taken by pytest)


@pytest.fixture(scope="module")
def services():
    with crisol.Services() as running:
        yield running
