#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing and builds into build/. Quiet when all is well.
# Usage: scripts/build.sh [cmake option…]
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh run
mkdir -p build
exec 9>build/.lock
flock -w 900 9 || { echo "crisol: another build of this folder does not end" >&2; exit 1; }
launcher=""
if command -v ccache >/dev/null; then launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache"; fi
tests=""
[ -f build/CMakeCache.txt ] || tests="-DCRISOL_TESTS=OFF" # 'make test' turns them on
log=build/build.log
# shellcheck disable=SC2086,SC2317 # either is one word or none
configure() {
    # A configured folder configures itself again when it must.
    if [ ! -f build/build.ninja ] || [ $# -gt 0 ]; then
        cmake -S . -B build -G Ninja $launcher $tests "$@"
    fi
}
if ! { configure "$@" && cmake --build build; } >"$log" 2>&1; then
    grep -E 'error|Error' "$log" | head -n 20 >&2 || true
    echo "crisol: the build failed; all of it is in $log" >&2
    exit 1
fi
