#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package under systemd, in a virtual machine with a kernel of Debian and control groups v2.
# Usage: tests/deploy/vm.sh BUILD-FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
CRISOL_BUILD=$(cd "$1" && pwd)
export CRISOL_BUILD

payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
(cd "$CRISOL_BUILD" && cpack --config CPackConfig.cmake -B "$payload/package") >"$payload/log" 2>&1 || {
    tail -n 5 "$payload/log" >&2
    exit 1
}
mv "$payload"/package/crisol_*.deb "$payload/crisol.deb"
rm -rf "$payload/package"
mkdir -p "$payload/tests/deploy"
cp "$here/guest.sh" "$payload/tests/deploy/"
"$here/../vm/run-in-vm.sh" --systemd --payload "$payload" --timeout 900 tests/deploy/guest.sh
