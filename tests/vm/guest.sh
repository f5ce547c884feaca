#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine: runs every program of tests/vm/test-v2.sh's payload, one by one, prints a
# line for each and the whole output of those that fail, and checks that nothing of them is left.
# Usage: tests/vm/guest.sh (from /payload)
export CRISOL_SLOW_HOST="${CRISOL_SLOW_HOST:-10}"
export CRISOL_BUILD=/payload/build
own=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
failed=0

# run NAME SECONDS COMMAND…
run() {
    name=$1 seconds=$2
    shift 2
    begin=$(date +%s)
    timeout -k 5 "$seconds" "$@" >/tmp/output 2>&1
    status=$?
    count=$(sed -n -e 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' -e 's/^\(.* \)\?\([0-9]*\) passed.*/\2/p' \
        -e 's/^Ran \([0-9]*\) tests.*/\1/p' /tmp/output | tail -n 1)
    if [ "$status" -eq 0 ] && [ "${count:-0}" -gt 0 ]; then
        result="ok    "
    else
        result="FAILED"
        failed=1
    fi
    echo "$result $name: ${count:-0} passed, $(($(date +%s) - begin)) s, exit status $status"
    [ "$result" = "ok    " ] || cat /tmp/output
}

echo "kernel $(uname -r), control groups: $(grep -c ' cgroup2 ' /proc/mounts) of version 2, $(grep -c ' cgroup ' /proc/mounts) of version 1"
for test in build/tests/*_test; do
    run "$(basename "$test")" 300 "$test"
done
# The agent's runs have 10 s of wall time, which is not enough for pytest under emulation.
run services 300 /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/e2e/test_cli.py -k 'not test_run_repairs and not test_run_writes'
run kills 300 /usr/bin/python3 -B tests/e2e/sandboxd_test.py Own.test_a_killed_backend_loses_its_runs_and_is_restarted \
    Own.test_a_killed_front_is_restarted_with_its_backend Own.test_a_killed_supervisor_takes_everything_along

# All of them are gone; so must be their groups, wherever they stood.
left=$(find "$own" /sys/fs/cgroup/system.slice -name 'crisol-native-*' | sort -u)
if [ -n "$left" ]; then
    echo "FAILED control groups are left: $left"
    failed=1
fi
exit "$failed"
