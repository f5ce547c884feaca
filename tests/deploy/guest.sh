#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Inside the test machine, started by systemd: installs the package, uses it, kills and stops its
# services, and removes it. Prints a line for each step; the first that fails ends it.
# Usage: tests/deploy/guest.sh (from /payload)
set -euE
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
socket=/run/crisol/sandboxd.sock
ok() { echo "ok     $(uname -r) $*"; }
trap 'echo "FAILED line $LINENO"; journalctl --no-pager -n 80 -o cat -u "crisol-*"; systemctl --no-pager --failed; exit 1' ERR

# wait_for SECONDS COMMAND…
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "not in time: $*"
            "$@"
            return 1
        fi
        sleep 0.5
    done
}
as_crisol() { setpriv --reuid=crisol --regid=crisol --clear-groups "$@"; }
serves() { as_crisol crisol health --sandbox "unix:$socket"; }

dpkg -i /payload/crisol.deb
ok "installed"
systemctl is-active crisol-sandboxd.service crisol-orchestrator.service >/dev/null
wait_for 240 serves
ok "both services serve"

test "$(as_crisol crisol exec --sandbox "unix:$socket" --runtime python -- 'print(6 * 7)')" = 42
status=0
said=$(as_crisol crisol exec --sandbox "unix:$socket" --runtime python -- 'x = bytearray(300 << 20)' 2>&1) || status=$?
test "$status" = 124
grep -q MEMORY_LIMIT <<<"$said"
ok "programs run and meet their limits"

main=$(systemctl show -p MainPID --value crisol-sandboxd.service)
grep -q '/system.slice/crisol-sandboxd.service' "/proc/$main/cgroup"
test -n "$(find /sys/fs/cgroup/system.slice/crisol-sandboxd.service -name 'crisol-native-*' -print -quit)"
orchestrator=$(systemctl show -p MainPID --value crisol-orchestrator.service)

test "$(awk '/^Uid:/ {print $2}' "/proc/$orchestrator/status")" = "$(id -u crisol)"
test "$(awk '/^CapBnd:/ {print $2}' "/proc/$orchestrator/status")" = 0000000000000000
test "$(stat -c '%a %U' /var/lib/crisol/journal.db)" = "600 crisol"
ok "each has its place, its user and no more"

curl -sf http://127.0.0.1:8000/readyz >/dev/null
printf 'not-a-real-key\n' >/etc/crisol/model-key
chmod 600 /etc/crisol/model-key
systemctl restart crisol-orchestrator.service
wait_for 60 serves
curl -sf http://127.0.0.1:8000/api/v1/health | grep -q '"gemini_configured": *true'
orchestrator=$(systemctl show -p MainPID --value crisol-orchestrator.service)
grep -aq CREDENTIALS_DIRECTORY "/proc/$orchestrator/environ"
if grep -aq not-a-real-key "/proc/$orchestrator/environ"; then false; fi
ok "the key comes as a credential"

kill -KILL "$main"
wait_for 60 test "$(systemctl show -p NRestarts --value crisol-sandboxd.service)" = 1 || true
wait_for 240 serves
test "$(systemctl show -p NRestarts --value crisol-sandboxd.service)" = 1
ok "a killed sandboxd is started again"

as_crisol crisol exec --sandbox "unix:$socket" --runtime shell -- 'sleep 3; echo done' >/tmp/drained &
client=$!
wait_for 30 pgrep -x sleep
systemctl stop crisol-sandboxd.service
wait "$client"
test "$(cat /tmp/drained)" = "done"
test "$(systemctl show -p Result --value crisol-sandboxd.service)" = success
systemctl start crisol-sandboxd.service
wait_for 240 serves
ok "a stop lets runs end"

systemctl start crisol-gc.timer
systemctl is-active crisol-gc.timer >/dev/null
dpkg -r crisol
for unit in crisol-sandboxd.service crisol-orchestrator.service crisol-gc.timer; do
    test "$(systemctl is-active "$unit")" != active
done
test -z "$(pgrep -f /usr/libexec/crisol || true)"
test -z "$(find /sys/fs/cgroup -name 'crisol-native-*' -print -quit)"
test ! -e "$socket"
ok "removed, and nothing is left"
dpkg -P crisol
test ! -e /var/lib/crisol
ok "purged"
