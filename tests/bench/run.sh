#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the benchmarks and runs them against services of their own: run.py.
# Usage: tests/bench/run.sh [--samples=N] [--quick] [--no-docker] [--only=GROUP,…]
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$@"

scripts/deps.sh test
scripts/deps.sh bench
case " $* " in *" --no-docker "*) ;; *) scripts/deps.sh engine ;; esac
CRISOL_TOOLS=$(scripts/tools.sh bench)
export CRISOL_TOOLS
cmake -S . -B build -G Ninja -DCRISOL_TESTS=ON >/dev/null
cmake --build build >/dev/null
exec /usr/bin/python3 -B tests/bench/run.py "$@"
