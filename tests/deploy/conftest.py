# SPDX-License-Identifier: Apache-2.0
"""The services of the end-to-end tests, spread over many processes."""
import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for folder in ("harness", "e2e", "durable"):
    sys.path.insert(0, os.path.join(TESTS, folder))

import importlib.util  # noqa: E402

# What holds for tests that kill services holds here.
_spec = importlib.util.spec_from_file_location("durable_conftest", os.path.join(TESTS, "durable", "conftest.py"))
_durable = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_durable)
pytest_sessionfinish = _durable.pytest_sessionfinish
start_postgres = _durable.start_postgres
needs_root = _durable.needs_root
