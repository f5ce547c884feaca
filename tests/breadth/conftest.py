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
# Of runtimes that scripts/runtimes.sh has built; they take the place of the host's tools.
STATE = os.environ.get("CRISOL_STATE_DIR")


@pytest.fixture(scope="session")
def engine():
    """These tests' own, for docker; None for native."""
    if BACKEND == "native":
        yield None
        return
    import engine as docker  # pylint: disable=import-outside-toplevel

    class Engine(docker.Engine):
        base = docker.LANGUAGES
    try:
        running = Engine().__enter__()
        running.load_base()
    except SystemExit:
        pytest.skip("there is no docker engine, or no image for it; the lines above say why")
    yield running
    running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def backend_flags(engine):
    """Of sandboxd, for the backend that all of it runs on."""
    if engine is None:
        flags = ["--backend=native"]
    else:
        flags = ["--backend=docker", f"--docker-socket={engine.socket}", f"--docker-base={engine.base}", "--docker-pull=never"]
    return [*flags, *([f"--state-dir={STATE}"] if STATE else [])]


@pytest.fixture(scope="module")
def services(backend_flags):
    # An engine is handed each root that is registered: the first start takes minutes.
    ready_seconds = 1200 if STATE else 15 if BACKEND == "native" else 120
    with crisol.Services(with_agent=False, ready_seconds=ready_seconds,
                         sandboxd_flags=[f"--slots={SLOTS}", *backend_flags]) as running:
        yield running
