# SPDX-License-Identifier: Apache-2.0
"""Honest clients of several makes, busy as they can be: the guard in front of gRPC core closes none of them."""
import os
import re
import shutil
import subprocess
from concurrent import futures

import grpc
import pytest

import services as crisol

CANCELS = 10000
PATIENCE_S = 60 * crisol.SLOWNESS
HEALTH = "/grpc.health.v1.Health/"
WHICH = ("sandboxd", "orchestrator")


def target(services, which):
    return services.sandbox if which == "sandboxd" else services.grpc


def kills(services, which):
    """What the guard or the listener said about callers."""
    process = services.sandboxd if which == "sandboxd" else services.orchestrator
    return re.findall(r"(?:connection closed|connection refused) reason=.*", process.log())


@pytest.fixture(autouse=True)
def nobody_is_closed(services):
    yield
    for which in WHICH:
        assert not kills(services, which)


@pytest.mark.parametrize("which", WHICH)
def test_grpc_js(services, which):
    modules = os.path.join(crisol.TOOLS, "grpc-js")
    if not crisol.TOOLS or not os.path.isdir(modules) or not shutil.which("node"):
        pytest.skip("grpc-js could not be had on this machine (scripts/tools.sh)")
    done = subprocess.run(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "grpc_js_client.js"), modules,
                           target(services, which), str(CANCELS)], capture_output=True, text=True, timeout=2 * PATIENCE_S,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def watch_and_cancel(watch):
    call = watch(b"", timeout=PATIENCE_S)
    next(call)
    assert call.cancel()


@pytest.mark.parametrize("which", WHICH)
def test_grpcio(services, which):
    with grpc.insecure_channel(target(services, which)) as channel:
        check = channel.unary_unary(HEALTH + "Check")
        watch = channel.unary_stream(HEALTH + "Watch")
        for _ in range(200):
            check(b"", timeout=PATIENCE_S)
        for call in [check.future(b"", timeout=PATIENCE_S) for _ in range(250)]:
            call.result()
        with futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda _: watch_and_cancel(watch), range(CANCELS)))
        # All that may be open at once, given up at once, before or after the answer.
        for call in [check.future(b"", timeout=PATIENCE_S) for _ in range(250)]:
            call.cancel()
        check(b"", timeout=PATIENCE_S)


@pytest.mark.parametrize("which", WHICH)
def test_grpcurl_again_and_again(services, which):
    """A process and a connection for each call, as in a shell script."""
    grpcurl = os.path.join(crisol.TOOLS, "grpcurl")
    if not crisol.TOOLS or not os.path.exists(grpcurl):
        pytest.skip("grpcurl could not be had on this machine (scripts/tools.sh)")
    address = ["-unix", services.socket] if which == "sandboxd" else [services.grpc]

    def run(_):
        return subprocess.run([grpcurl, "-plaintext", *address, "grpc.health.v1.Health/Check"], capture_output=True,
                              timeout=PATIENCE_S, check=False)

    with futures.ThreadPoolExecutor(8) as pool:
        for done in pool.map(run, range(60)):
            assert done.returncode == 0, done.stderr
