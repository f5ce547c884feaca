#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine: runs what tests/vm/test-v2.sh has brought, one by one, prints a line for
# each and the whole output of those that fail, and checks that nothing of them is left.
# Usage: tests/vm/guest.sh (from /payload)
export CRISOL_SLOW_HOST="${CRISOL_SLOW_HOST:-10}"
export CRISOL_BUILD=/payload/build
own=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
kernel=$(uname -r)
failed=0

# run NAME SECONDS COMMAND…
run() {
    name=$1 seconds=$2
    shift 2
    begin=$(date +%s)
    timeout -k 5 "$seconds" "$@" >/tmp/output 2>&1
    status=$?
    # Of the self-test counts what says that every control was seen to fail.
    count=$(sed -n -e 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' -e 's/^Ran \([0-9]*\) tests.*/\1/p' \
        -e 's/.* \([0-9]*\) PASS, 0 FAIL, 0 GAP ([^)]*), 0 ERROR; \([0-9]*\) of \2 controls .*/\1/p' /tmp/output | tail -n 1)
    if [ "$status" -eq 0 ] && [ "${count:-0}" -gt 0 ]; then
        result="ok    "
    else
        result="FAILED"
        failed=1
    fi
    echo "$result $kernel $name: ${count:-0} passed, $(($(date +%s) - begin)) s, exit status $status"
    [ "$result" = "ok    " ] || cat /tmp/output
}

echo "kernel $kernel, control groups: $(grep -c ' cgroup2 ' /proc/mounts) of version 2, $(grep -c ' cgroup ' /proc/mounts) of version 1"
for test in build/tests/*_test; do
    run "$(basename "$test")" 300 "$test"
done
run selftest 900 build/bin/sandboxd selftest --slow-host="$CRISOL_SLOW_HOST"
run kills 300 /usr/bin/python3 -B tests/e2e/sandboxd_test.py Own.test_a_killed_backend_loses_its_runs_and_is_restarted \
    Own.test_a_killed_front_is_restarted_with_its_backend Own.test_a_killed_supervisor_takes_everything_along

# All of them are gone; so must be their groups, wherever they stood.
left=$(find "$own" /sys/fs/cgroup/system.slice -name 'crisol-native-*' | sort -u)
if [ -n "$left" ]; then
    echo "FAILED control groups are left: $left"
    failed=1
fi
exit "$failed"
