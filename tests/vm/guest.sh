#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine: runs what tests/vm/test-v2.sh has brought, one by one, prints a line for
# each and the whole output of those that fail, and checks that nothing of them is left.
# Usage: tests/vm/guest.sh (from /payload)
# shellcheck source=tests/vm/guest-run.sh
. tests/vm/guest-run.sh
own=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)

for test in build/tests/*_test; do
    run "$(basename "$test")" 300 "$test"
done
run selftest 900 build/bin/sandboxd selftest --slow-host="$CRISOL_SLOW_HOST"
run kills 300 /usr/bin/python3 -B tests/e2e/sandboxd_test.py Own.test_a_killed_backend_loses_its_runs_and_is_restarted \
    Own.test_a_killed_front_is_restarted_with_its_backend Own.test_a_killed_supervisor_takes_everything_along
# An interpreter between two calls, frozen by cgroup.freeze here, and whatever may end it then.
run sandboxes 900 /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/breadth/test_sandboxes.py \
    -k "keeps_its_state or between_calls or kill_9 or frozen or outlive or drain"

# All of them are gone; so must be their groups, wherever they stood.
left=$(find "$own" /sys/fs/cgroup/system.slice -name 'crisol-native-*' | sort -u)
if [ -n "$left" ]; then
    echo "FAILED control groups are left: $left"
    failed=1
fi
exit "$failed"
