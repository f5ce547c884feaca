#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the shipped runtimes that need a root file system of their own, out of Debian packages, and
# tries them: a chart, a screenshot, a tab that hangs. Ten minutes and 2.5 GiB the first time; what was
# built is kept below build/ for the next. Needs root, the network and mmdebstrap.
# Usage: scripts/runtimes.sh [RUNTIME…]   default: python-data browser
set -eu
cd "$(dirname "$0")/.."

build=${CRISOL_BUILD:-$PWD/build}
export CRISOL_BUILD=$build CRISOL_STATE_DIR=$build/state
if [ "$(id -u)" -ne 0 ]; then
    echo "crisol: root file systems of runtimes are built as root" >&2
    exit 1
fi
scripts/deps.sh image
[ $# -gt 0 ] || set -- python-data browser
mkdir -p "$CRISOL_STATE_DIR"
for runtime in "$@"; do
    # One that an earlier build made is as good as a new one.
    [ -e "$CRISOL_STATE_DIR/runtimes/$runtime/digest" ] ||
        "$build/bin/sandboxd" runtime build "$runtime" "--state-dir=$CRISOL_STATE_DIR"
done
exec /usr/bin/python3 -B -m pytest -q -s -p no:cacheprovider tests/breadth/heavy_built.py
