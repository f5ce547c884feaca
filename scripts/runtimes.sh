#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the shipped runtimes that can have a root file system of their own, out of Debian packages, and
# one with requirements of pip. Then tries them on both backends: seven programs in each language, a
# chart, a screenshot. Twenty minutes to build and 6 GiB the first time; what was built is kept below
# build/ until its file changes. Needs root, the network, mmdebstrap and dockerd. The runtimes python,
# pytest and shell always have the root of the service.
# Usage: scripts/runtimes.sh [BACKEND…]   default: native docker
set -eu
cd "$(dirname "$0")/.."

build=${CRISOL_BUILD:-$PWD/build}
export CRISOL_BUILD=$build CRISOL_STATE_DIR=$build/state
if [ "$(id -u)" -ne 0 ]; then
    echo "crisol: root file systems of runtimes are built as root" >&2
    exit 1
fi
[ $# -gt 0 ] || set -- native docker
scripts/deps.sh test
scripts/deps.sh image
scripts/deps.sh engine
CRISOL_TOOLS=$(scripts/tools.sh)
export CRISOL_TOOLS

mkdir -p "$CRISOL_STATE_DIR"
# build_runtime NAME FILE
build_runtime() {
    local registered="$CRISOL_STATE_DIR/runtimes/$1"
    # One that an earlier build made of the same file is as good as a new one.
    if ! { [ -e "$registered/digest" ] && cmp -s "$2" "$registered/file"; }; then
        "$build/bin/sandboxd" runtime build "$2" "--state-dir=$CRISOL_STATE_DIR"
    fi
}
for runtime in python-data browser c c++ go java node rust; do
    build_runtime "$runtime" "sandboxd/runtimes/$runtime.runtime"
done
build_runtime python:six tests/breadth/requirements/python-six.runtime

summary=""
passed=0
failed=0
# A case that is left out counts as one that failed: here, everything can be tried.
for backend in "$@"; do
    log="$build/runtimes-$backend.log"
    CRISOL_BACKEND=$backend /usr/bin/python3 -B -m pytest -q -s -p no:cacheprovider \
        tests/breadth/heavy_built.py tests/breadth/test_runtimes.py 2>&1 | tee "$log" || true
    count() { tail -n 1 "$log" | sed -nE "s/.*\b([0-9]+) $1.*/\1/p" | head -n 1; }
    good=$(count passed)
    bad=$(($(count failed || true) + $(count 'errors?' || true) + $(count skipped || true) + 0))
    [ "${good:-0}" -gt 0 ] || bad=$((bad + 1))
    summary+="$backend: ${good:-0} passed, $bad failed"$'\n'
    passed=$((passed + ${good:-0}))
    failed=$((failed + bad))
done
printf '%s' "$summary"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
