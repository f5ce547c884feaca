#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the benchmarks against a sandboxd of its own and prints one JSON object per benchmark.
# Usage: tests/bench/run.sh [SAMPLES]   (default 300)
set -eu
cd "$(dirname "$0")/../.."
samples=${1:-300}
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$samples"

scripts/deps.sh test
cmake -S . -B build -G Ninja -DCRISOL_TESTS=ON >/dev/null
cmake --build build >/dev/null
folder=$(mktemp -d)
build/bin/sandboxd --socket="$folder/s/sandboxd.sock" 2>"$folder/log" &
pid=$!
trap 'kill -TERM $pid 2>/dev/null || true; wait $pid || true; rm -rf "$folder"' EXIT
deadline=$((SECONDS + 15))
until grep -q ' sandboxd ready ' "$folder/log"; do
    [ $SECONDS -lt $deadline ] || { cat "$folder/log" >&2; exit 1; }
    sleep 0.05
done
build/bench/exec_bench "unix:$folder/s/sandboxd.sock" "$samples"
