#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counts what finished runs of one sandboxd left on this host, from outside: processes of sandbox
# users, and control groups of boxes that still hold a process (empty ones wait for the next runs).
# A box that was made ahead and has no run yet is none: its pid 1 is called sandbox-idle. Others are
# being made while we look, so it looks again for two seconds before it tells of leftovers.
# Prints "N leftovers …".
# Usage: scripts/leftovers.sh SANDBOXD-PID   (as root)
set -eu
supervisor=${1:?usage: scripts/leftovers.sh SANDBOXD-PID}

count() {
    local table idle native file
    table=$(ps -e -o pid=,ppid=,uid=,comm=)
    idle=$(awk '{name[$1] = $4; parent[$1] = $2}
        END {for (pid in name) if (name[pid] == "sandbox-idle" || name[parent[pid]] == "sandbox-idle") print pid}' <<<"$table")
    # Host user ids from 0x70000000 on belong to boxes (sandboxd/backend/userns.h).
    processes=$(awk -v top="$supervisor" -v idle="$idle" '
        BEGIN {split(idle, list); for (i in list) waits[list[i]] = 1}
        {parent[$1] = $2; uid[$1] = $3}
        END {
            for (pid in uid) {
                if (uid[pid] < 1879048192 || uid[pid] >= 2147483647 || pid in waits) continue
                for (at = pid; at > 1 && at != top; at = parent[at]) continue
                if (at == top) n++
            }
            print n + 0
        }' <<<"$table")
    groups=0
    for native in $(pgrep -P "$supervisor" -x sandboxd-native); do
        while IFS= read -r file; do
            ! grep -qvxF "${idle:-none}" "$file" 2>/dev/null || groups=$((groups + 1))
            # Groups come and go while find looks; what is gone is no leftover.
        done < <(find /sys/fs/cgroup -path "*/crisol-native-$native/box-*/cgroup.procs" 2>/dev/null)
    done
}

for _ in $(seq 20); do
    count
    [ "$((processes + groups))" -ne 0 ] || break
    sleep 0.1
done
echo "$((processes + groups)) leftovers on the host ($processes processes, $groups control groups in use; counted from outside)"
