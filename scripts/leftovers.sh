#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counts what finished runs of one sandboxd left on this host, from outside: processes of sandbox
# users, and control groups of boxes that still hold a process (empty ones wait for the next runs).
# Prints "N leftovers …".
# Usage: scripts/leftovers.sh SANDBOXD-PID   (as root)
set -eu
supervisor=${1:?usage: scripts/leftovers.sh SANDBOXD-PID}

# Host user ids from 0x70000000 on belong to boxes (sandboxd/backend/userns.h).
processes=$(ps -e -o pid=,ppid=,uid= | awk -v top="$supervisor" '
    {parent[$1] = $2; uid[$1] = $3}
    END {
        for (pid in uid) {
            if (uid[pid] < 1879048192 || uid[pid] >= 2147483647) continue
            for (at = pid; at > 1 && at != top; at = parent[at]) continue
            if (at == top) n++
        }
        print n + 0
    }')
groups=0
for native in $(pgrep -P "$supervisor" -x sandboxd-native); do
    while IFS= read -r file; do
        # The size of such a file is always 0: read it.
        [ -z "$(head -c 1 "$file" 2>/dev/null)" ] || groups=$((groups + 1))
    done < <(find /sys/fs/cgroup -path "*/crisol-native-$native/box-*/cgroup.procs")
done
echo "$((processes + groups)) leftovers on the host ($processes processes, $groups control groups in use; counted from outside)"
