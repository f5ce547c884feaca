#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A long run that looks for leaks: the mixed runs of tests/e2e/test_leaks.py, more of them. Prints the
# figures as JSON; fails when a run ended otherwise than it must, or when something was left.
# Then runs of a box that waits, many of them, whose latency must not rise either.
# Then runs of the agent and programs on several of each service, while one after the other is killed.
# Last, sandboxes that live on, used by two callers on each backend while processes are killed, and a
# batch of many programs by 64 clients: `make test` has a tenth of either.
# Usage: tests/bench/soak.sh [RUNS [DOCKER_RUNS [WARM_RUNS [SECONDS [SANDBOXES [PROGRAMS]]]]]]
# (default 10000, 3000, 100000, 1800, 200 and 1000; 0: none)
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-10000}
docker_runs=${2:-3000}
warm_runs=${3:-100000}
seconds=${4:-1800}
sandboxes=${5:-200}
programs=${6:-1000}
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$runs" "$docker_runs" "$warm_runs" "$seconds" "$sandboxes" "$programs"

scripts/deps.sh test
export CRISOL_BUILD="$PWD/build"
if [ "$runs" -gt 0 ]; then
    /usr/bin/python3 -B tests/e2e/mixed_runs.py "$runs"
fi
if [ "$docker_runs" -gt 0 ]; then
    scripts/deps.sh engine
    /usr/bin/python3 -B tests/e2e/mixed_runs.py "$docker_runs" docker
fi
if [ "$warm_runs" -gt 0 ]; then
    /usr/bin/python3 -B tests/e2e/mixed_runs.py "$warm_runs" warm
fi
if [ "$seconds" -gt 0 ]; then
    /usr/bin/python3 -B tests/deploy/soak.py "$seconds"
fi
# breadth FILE TEST: one case alone; pytest fails when there is none of that name.
breadth() {
    /usr/bin/python3 -B -m pytest -q -s -p no:cacheprovider "tests/breadth/$1::$2"
}
if [ "$sandboxes" -gt 0 ]; then
    scripts/deps.sh engine
    for backend in native docker; do
        CRISOL_BACKEND=$backend CRISOL_SANDBOXES=$sandboxes breadth test_sandboxes.py test_two_callers_at_random_with_kills
    done
fi
if [ "$programs" -gt 0 ]; then
    CRISOL_BATCH_PROGRAMS=$programs CRISOL_BATCH_CLIENTS=64 breadth test_batch.py test_many_clients_with_many_programs
fi
