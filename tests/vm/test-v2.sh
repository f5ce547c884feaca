#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sandboxd on control groups v2, in a virtual machine with a kernel of Debian: the tests of the native
# backend, the whole self-test with its negative controls, the deaths of its processes, and sandboxes that live on. What does
# not depend on the kernel's version of control groups is tested on the host alone.
# Usage: tests/vm/test-v2.sh BUILD-FOLDER 6.1|6.12
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
CRISOL_BUILD=$(cd "$1" && pwd)
export CRISOL_BUILD
kernel=$2

payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir -p "$payload/build/bin" "$payload/build/tests" "$payload/tests/vm" "$payload/tests/e2e" "$payload/tests/breadth"
cp "$CRISOL_BUILD"/bin/{sandbox*,sbprobe,crisol,crisol-template.so} "$payload/build/bin/"
cp "$CRISOL_BUILD"/tests/sandboxd_native_*_test "$payload/build/tests/"
strip --strip-debug "$payload"/build/*/* # a fifth of the disk to make
cp "$here/guest.sh" "$here/guest-run.sh" "$payload/tests/vm/"
cp "$source"/tests/e2e/sandboxd_test.py "$source"/tests/e2e/sandbox_calls.py \
    "$source"/tests/e2e/sandboxd_service.py "$source"/tests/e2e/services.py "$source"/tests/e2e/shared.py "$payload/tests/e2e/"
cp "$source"/tests/breadth/{conftest,test_sandboxes}.py "$payload/tests/breadth/"
cp -r "$source/proto" "$payload/"
"$here/run-in-vm.sh" --kernel "$kernel" --payload "$payload" --timeout 1500 tests/vm/guest.sh
