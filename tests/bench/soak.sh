#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A long run that looks for leaks: the mixed runs of tests/e2e/test_leaks.py, more of them. Prints the
# figures as JSON; fails when a run ended otherwise than it must, or when something was left.
# Usage: tests/bench/soak.sh [RUNS]   (default 10000)
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-10000}
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$runs"

scripts/deps.sh test
CRISOL_BUILD="$PWD/build" exec /usr/bin/python3 -B tests/e2e/mixed_runs.py "$runs"
