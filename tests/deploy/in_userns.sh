#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What ops_test.py has done in a user namespace: starts sandboxd, runs programs, and says what came of them.
# Usage: tests/deploy/in_userns.sh FOLDER   (with the programs; below it a folder that we own)
set -u
socket=$1/own/s.sock
"$1/sandboxd" check --backend=native --uid-base=131072 --slots=2 --preload=off "--socket=$socket" "--state-dir=$1/own/state" | grep -v '^PASS'
"$1/sandboxd" --backend=native --uid-base=131072 --slots=2 --preload=off "--socket=$socket" "--state-dir=$1/own/state" 2>"$1/own/log" &
sandboxd=$!
for _ in $(seq 300); do
    grep -q "sandboxd ready" "$1/own/log" && break
    kill -0 $sandboxd 2>/dev/null || break
    sleep 0.1
done
grep -q "sandboxd ready" "$1/own/log" || cat "$1/own/log"
run() {
    "$1/crisol" exec --sandbox "unix:$socket" --runtime "$2" -- "$3" 2>&1
    echo "exit $?"
}
run "$1" python 'import os; print(6 * 7, os.getuid(), open("/dev/null", "w").write("xy"), len(open("/dev/urandom", "rb").read(8)))'
run "$1" python 'import os; print(sorted(name for name in os.listdir("/proc") if not name.isdigit()), os.path.exists("/proc/1/root/proc/sys"))'
run "$1" python 'x = bytearray(300 << 20)'
run "$1" shell 'while :; do sleep 9 & done'
kill $sandboxd
wait $sandboxd
echo "ended $?"
