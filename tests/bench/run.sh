#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the benchmarks and runs them against services of their own: run.py.
# Usage: tests/bench/run.sh [--samples=N] [--quick] [--no-docker]
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$@"

scripts/deps.sh test
scripts/deps.sh bench
cmake -S . -B build -G Ninja -DCRISOL_TESTS=ON >/dev/null
cmake --build build >/dev/null
exec /usr/bin/python3 -B tests/bench/run.py "$@"
