#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The native backend and both services on control groups v2, in a virtual machine: the tests of
# the backend, the escape suite, and the command line with everything behind it.
# Usage: tests/vm/test-v2.sh BUILD-FOLDER
# VM_KERNELS names the kernels (default "6.12"; "6.1 6.12" runs both).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
CRISOL_BUILD=$(cd "$1" && pwd)
export CRISOL_BUILD

payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT
mkdir -p "$payload/build/bin" "$payload/build/tests" "$payload/tests" "$payload/clients/gemini-replay"
cp "$CRISOL_BUILD"/bin/* "$payload/build/bin/"
cp "$CRISOL_BUILD"/tests/{sandboxd_native_*_test,escape_*_test} "$payload/build/tests/"
mkdir "$payload/tests/vm" "$payload/tests/e2e"
cp "$here/guest.sh" "$payload/tests/vm/"
cp "$source"/tests/e2e/*.py "$payload/tests/e2e/"
cp -r "$source/clients/gemini-replay/scripts" "$payload/clients/gemini-replay/"
cp -r "$source/proto" "$payload/"

for kernel in ${VM_KERNELS:-6.12}; do
    status=0
    "$here/run-in-vm.sh" --kernel "$kernel" --payload "$payload" --timeout 1200 tests/vm/guest.sh || status=$?
    [ "$status" -eq 0 ] || exit "$status"
done
