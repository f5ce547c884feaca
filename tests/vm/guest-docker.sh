#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine: runs what tests/vm/test-docker.sh has brought, and checks that no container's
# group is left.
# Usage: tests/vm/guest-docker.sh [PART[:CASE]…] (from /payload; without a part: all of them)
# shellcheck source=tests/vm/guest-run.sh
. tests/vm/guest-run.sh
export CRISOL_BASE_ARCHIVE=/payload/base.tar

# part NAME SECONDS FILE [CASE]: runs it, or the case that was asked for in its place; nothing when only others were asked for.
asked=" $* "
part() {
    case $asked in
    "  " | *" $1 "*) run "$1" "$2" /usr/bin/python3 -B "tests/e2e/$3" ${4:+"$4"} ;;
    *" $1:"*)
        one=${asked#*" $1:"}
        run "$1" "$2" /usr/bin/python3 -B "tests/e2e/$3" "${one%% *}"
        ;;
    esac
}

part docker 2400 docker_test.py Shared
part crun 600 docker_test.py Faults.test_crun_runs_programs_where_the_host_lets_it
part privileged 2400 privileged_test.py
part selftest 3000 selftest_docker_test.py

[ -n "${result:-}" ] || { echo "FAILED no part has a name of these: $*" && failed=1; }
left=$(find /sys/fs/cgroup -name 'crisol-engine-*' | sort -u)
if [ -n "$left" ]; then
    echo "FAILED control groups are left: $left"
    failed=1
fi
exit "$failed"
