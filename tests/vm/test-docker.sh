#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The docker backend on control groups v2, in a virtual machine with an engine of its own: what callers
# see of it, runc and crun, the whole self-test with its negative controls, and the native backend in a
# container that is really privileged (an engine on a machine that lacks a capability refuses to start those).
# Usage: tests/vm/test-docker.sh BUILD-FOLDER 6.1|6.12
# CRISOL_VM_PARTS="PART[:CASE] …" runs only these parts of guest-docker.sh, of some a single case.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
CRISOL_BUILD=$(cd "$1" && pwd)
export CRISOL_BUILD

# The base of its image is made here: the machine has no network.
archive=$("$source/scripts/image.sh" --archive) || {
    echo "crisol: skipped, no base image can be made here" >&2
    exit 77
}
payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir -p "$payload/build/bin" "$payload/tests/vm" "$payload/tests/e2e"
cp "$CRISOL_BUILD"/bin/{sandbox*,sbprobe,crisol-template.so,crisol} "$payload/build/bin/"
strip --strip-debug "$payload"/build/bin/*
cp "$here/guest-docker.sh" "$here/guest-run.sh" "$payload/tests/vm/"
cp "$source"/tests/e2e/{docker_test,privileged_test,selftest_docker_test,engine,sandbox_calls,sandboxd_service,services}.py \
    "$payload/tests/e2e/"
cp -r "$source/proto" "$payload/"
cp "$archive" "$payload/base.tar"
# shellcheck disable=SC2086 # words
# AppArmor's parser is not in the machine, and an engine on a kernel that has AppArmor insists on it.
"$here/run-in-vm.sh" --kernel "$2" --payload "$payload" --timeout 5400 --memory 2560 --append apparmor=0 \
    tests/vm/guest-docker.sh ${CRISOL_VM_PARTS:-}
