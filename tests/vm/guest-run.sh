#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034 # who reads this file in ends with `failed`
# For the scripts that run inside a test machine: `run` and what became of all of it in `failed`.
export CRISOL_SLOW_HOST="${CRISOL_SLOW_HOST:-10}"
export CRISOL_BUILD=/payload/build
kernel=$(uname -r)
failed=0

# run NAME SECONDS COMMAND…: a line, and the whole output of what failed, ran nothing or left out a case.
run() {
    name=$1 seconds=$2
    shift 2
    begin=$(date +%s)
    timeout -k 5 "$seconds" "$@" >/tmp/output 2>&1
    status=$?
    # Of the self-test counts what says that every control was seen to fail.
    count=$(sed -n -e 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' -e 's/^Ran \([0-9]*\) tests*.*/\1/p' -e 's/^\([0-9]*\) passed.*/\1/p' \
        -e 's/.* \([0-9]*\) PASS, 0 FAIL, 0 GAP ([^)]*), 0 ERROR; \([0-9]*\) of \2 controls .*/\1/p' /tmp/output | tail -n 1)
    if [ "$status" -eq 0 ] && [ "${count:-0}" -gt 0 ] && ! grep -q 'skipped=\|[0-9] skipped' /tmp/output; then
        result="ok    "
    else
        result="FAILED"
        failed=1
    fi
    echo "$result $kernel $name: ${count:-0} passed, $(($(date +%s) - begin)) s, exit status $status"
    [ "$result" = "ok    " ] || cat /tmp/output
}

echo "kernel $kernel, control groups: $(grep -c ' cgroup2 ' /proc/mounts) of version 2, $(grep -c ' cgroup ' /proc/mounts) of version 1"
