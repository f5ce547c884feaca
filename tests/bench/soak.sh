#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A long run that looks for leaks: the mixed runs of tests/e2e/test_leaks.py, more of them. Prints the
# figures as JSON; fails when a run ended otherwise than it must, or when something was left.
# Then runs of a box that waits, many of them, whose latency must not rise either.
# Last, runs of the agent and programs on several of each service, while one after the other is killed.
# Usage: tests/bench/soak.sh [RUNS [DOCKER_RUNS [WARM_RUNS [SECONDS]]]]   (default 10000, 3000, 100000 and 1800; 0: none)
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-10000}
docker_runs=${2:-3000}
warm_runs=${3:-100000}
seconds=${4:-1800}
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$runs" "$docker_runs" "$warm_runs" "$seconds"

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
