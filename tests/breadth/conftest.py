# SPDX-License-Identifier: Apache-2.0
"""Shared set-up of these tests: that of the end-to-end tests, with sandboxd alone."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import services as crisol  # noqa: E402  (needs the path above)
from shared import needs_root, pytest_sessionfinish  # noqa: E402,F401  (taken by pytest)

SLOTS = 4
BACKEND = os.environ.get("CRISOL_BACKEND", "native")


@pytest.fixture(scope="session")
def backend_flags():
    """Of sandboxd, for the backend that all of it runs on; docker's engine is one of these tests' own."""
    if BACKEND == "native":
        yield []
        return
    import engine  # pylint: disable=import-outside-toplevel

    class Engine(engine.Engine):
        base = engine.LANGUAGES
    try:
        running = Engine().__enter__()
        running.load_base()
    except SystemExit:
        pytest.skip("there is no docker engine, or no image for it; the lines above say why")
    yield ["--backend=docker", f"--docker-socket={running.socket}", f"--docker-base={running.base}", "--docker-pull=never"]
    running.__exit__(None, None, None)


@pytest.fixture(scope="module")
def services(backend_flags):
    with crisol.Services(with_agent=False, ready_seconds=15 if BACKEND == "native" else 120,
                         sandboxd_flags=[f"--slots={SLOTS}", *backend_flags]) as running:
        yield running
