#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A long run that looks for leaks: the thousand-run test with more runs.
# Usage: tests/bench/soak.sh [RUNS]   (default 10000)
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-10000}
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$runs"

scripts/deps.sh test
CRISOL_BUILD="$PWD/build" CRISOL_LEAK_RUNS="$runs" /usr/bin/python3 -B -m pytest -q -s -p no:cacheprovider \
    tests/e2e/test_leaks.py -k thousand
