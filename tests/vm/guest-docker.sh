#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine: runs what tests/vm/test-docker.sh has brought, and checks that no container's
# group is left.
# Usage: tests/vm/guest-docker.sh (from /payload)
# shellcheck source=tests/vm/guest-run.sh
. tests/vm/guest-run.sh
export CRISOL_BASE_ARCHIVE=/payload/base.tar

run docker 2400 /usr/bin/python3 -B tests/e2e/docker_test.py Shared
run crun 600 /usr/bin/python3 -B tests/e2e/docker_test.py Faults.test_crun_runs_programs_where_the_host_lets_it
run privileged 2400 /usr/bin/python3 -B tests/e2e/privileged_test.py
run selftest 3000 /usr/bin/python3 -B tests/e2e/selftest_docker_test.py

left=$(find /sys/fs/cgroup -name 'crisol-engine-*' | sort -u)
if [ -n "$left" ]; then
    echo "FAILED control groups are left: $left"
    failed=1
fi
exit "$failed"
