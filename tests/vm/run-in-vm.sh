#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots a throw-away Debian with control groups v2 under software emulation (no KVM is needed), runs
# one command in it as root and passes its output and exit status on.
# Usage: tests/vm/run-in-vm.sh [--kernel 6.1|6.12] [--systemd] [--payload FOLDER] [--timeout SECONDS] [--memory MIB]
#        [--append WORD-FOR-THE-KERNEL] COMMAND…
# The payload is copied to /payload, where the command starts. With --systemd systemd is process 1, and
# starts the command as a service. CRISOL_BUILD names the build folder.
# Exit status: the command's; 77 no machine can be had here (the reason is the last line on stderr);
# 124 the time is over; 125 the machine did not do it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kernel=6.12
payload=""
seconds=600
memory=1536
extra=""
systemd=""

while [ $# -gt 0 ]; do
    case $1 in
    --systemd)
        systemd=systemd
        shift
        continue
        ;;
    --kernel) kernel=$2 ;;
    --payload) payload=$2 ;;
    --timeout) seconds=$2 ;;
    --memory) memory=$2 ;;
    --append) extra=$2 ;;
    *) break ;;
    esac
    shift 2
done
if [ $# -eq 0 ]; then
    echo "usage: tests/vm/run-in-vm.sh [--kernel 6.1|6.12] [--systemd] [--payload FOLDER] [--timeout SECONDS] [--memory MIB] [--append WORD] COMMAND…" >&2
    exit 125
fi

init="${CRISOL_BUILD:-$here/../../build}/tests/vminit"
if [ ! -x "$init" ]; then
    echo "crisol: $init is not built" >&2
    exit 125
fi
if ! command -v qemu-system-x86_64 >/dev/null; then
    echo "crisol: skipped, no virtual machine here: 'qemu-system-x86_64' is missing; 'scripts/deps.sh vm' installs it" >&2
    exit 77
fi
# shellcheck disable=SC2086 # one word or none
images=$("$here/build-image.sh" "$kernel" $systemd) || exit $?
kernel_folder=$(sed -n 1p <<<"$images")
root_folder=$(sed -n 2p <<<"$images")

work=$(mktemp -d "${TMPDIR:-/tmp}/crisol-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# The kernel unpacks archives that follow each other: the modules, then what belongs to this run.
mkdir "$work/initramfs"
cp "$init" "$work/initramfs/init"
printf '%s\0' "$@" >"$work/initramfs/command"
[ -z "$systemd" ] || : >"$work/initramfs/systemd"
(cd "$work/initramfs" && printf '%s\n' init command $systemd | cpio --quiet -o -H newc -R 0:0) |
    cat "$kernel_folder/modules.cpio" - >"$work/initramfs.cpio"

mkdir -p "$work/payload"
megabytes=$(du -sm "${payload:-$work/payload}" | cut -f1)
mke2fs -q -t ext4 -O '^has_journal' -m 0 -E root_owner=0:0 -d "${payload:-$work/payload}" \
    "$work/payload.ext4" "$((megabytes * 2 + 64))M" >/dev/null

# no_timer_check: on a busy host the emulated timer comes late, which the kernel takes for a broken one.
append="console=ttyS0 quiet panic=-1 no_timer_check cgroup_no_v1=all mitigations=off nokaslr nowatchdog audit=0 $extra"
: >"$work/status"
# A reset ends qemu (-no-reboot). Output goes through a virtio port: a write there returns when the
# host has it, so nothing is lost at the end. No stdio device: the end of its input closes the port.
TMPDIR=$work timeout -k 5 "$seconds" qemu-system-x86_64 \
    -machine pc -accel tcg,thread=multi -cpu max,la57=off -smp 1 -m "$memory" \
    -nodefaults -no-user-config -display none -no-reboot -nic none -rtc base=utc \
    -kernel "$kernel_folder/vmlinuz" -initrd "$work/initramfs.cpio" -append "$append" \
    -chardev "file,id=console,path=$work/console" -serial chardev:console \
    -device virtio-serial-pci \
    -chardev file,id=output,path=/dev/stdout -device virtserialport,chardev=output,name=output \
    -chardev "file,id=status,path=$work/status" -device virtserialport,chardev=status,name=status \
    -drive "file=$root_folder/root.ext4,format=raw,if=none,id=root,snapshot=on,cache=unsafe" \
    -device virtio-blk-pci,drive=root,serial=root \
    -drive "file=$work/payload.ext4,format=raw,if=none,id=payload,cache=unsafe" \
    -device virtio-blk-pci,drive=payload,serial=payload \
    </dev/null 2>"$work/qemu" | cat
status=${PIPESTATUS[0]}

read -r word code _ <"$work/status" || true
case "${word:-}" in
exit) exit "$code" ;;
esac
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "crisol: the virtual machine did not end within $seconds s" >&2
    status=124
else
    status=125
fi
{
    cat "$work/status" "$work/qemu"
    tail -n 20 "$work/console"
} >&2
exit "$status"
