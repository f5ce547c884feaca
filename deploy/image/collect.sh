#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Divides what 'cmake --install' has put into a folder among the two images: IMAGES/orchestrator is a
# whole root file system (programs, the libraries that they are linked with, certificates, names),
# IMAGES/sandboxd is laid over a Debian. Run where the programs were built: the libraries are taken
# from there, and for each the record of its package, by which scanners know what is in the image.
# Usage: deploy/image/collect.sh TREE IMAGES
set -eu
tree=$1 images=$2
inside=usr/libexec/crisol
uid=64902 # a number that belongs to no account; the one of the unit and of the manifests, too

# ---- sandboxd ----

mkdir -p "$images/sandboxd/$inside" "$images/sandboxd/usr/bin" "$images/sandboxd/usr/sbin"
for name in crisol crisol-template.so sandbox-init sandbox-init-weak sandboxd sandboxd-docker sandboxd-front sandboxd-native \
    sandboxd-selftest sbprobe; do
    cp "$tree/$inside/$name" "$images/sandboxd/$inside/"
done
ln -s ../libexec/crisol/crisol "$images/sandboxd/usr/bin/crisol"
ln -s ../libexec/crisol/sandboxd "$images/sandboxd/usr/sbin/sandboxd"
# A volume that is shared with the orchestrator begins as a copy of this folder.
install -d -m 711 "$images/sandboxd/run/crisol"

# ---- orchestrator ----

root=$images/orchestrator
mkdir -p "$root/$inside" "$root/usr/bin" "$root/etc/ssl/certs" "$root/proc" "$root/sys" "$root/dev" "$root/run/crisol" \
    "$root/var/lib/dpkg/status.d"
cp "$tree/$inside/orchestrator" "$tree/$inside/crisol" "$root/$inside/"
ln -s ../libexec/crisol/crisol "$root/usr/bin/crisol"
install -d -m 1777 "$root/tmp"
install -d -m 700 -o "$uid" -g "$uid" "$root/var/lib/crisol"
echo "crisol:x:$uid:$uid::/var/lib/crisol:/usr/sbin/nologin" >"$root/etc/passwd"
echo "crisol:x:$uid:" >"$root/etc/group"
echo "hosts: files dns" >"$root/etc/nsswitch.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

# Where Debian 12 has its links: /lib and /lib64 lead into /usr.
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
mapfile -t libraries < <(ldd "$root/$inside/orchestrator" "$root/$inside/crisol" |
    sed -nE 's/^\s*(\S+ => )?(\/\S+) \(0x.*/\2/p' | sort -u)
[ "${#libraries[@]}" -gt 10 ] || { echo "collect.sh: the libraries of the programs were not found" >&2; exit 1; }
for library in "${libraries[@]}"; do
    place=$(realpath "$(dirname "$library")")/$(basename "$library")
    install -D -m 644 "$(realpath "$library")" "$root$place"
    # What loads the others is started as a program.
    case $library in */ld-linux*) chmod 755 "$root$place" ;; esac
done
# Either name may be the one that dpkg knows.
mapfile -t packages < <({
    dpkg-query -S "${libraries[@]}" 2>/dev/null || true
    realpath "${libraries[@]}" | xargs dpkg-query -S 2>/dev/null || true
} | sed -nE 's/^([^:]+):.*/\1/p' | sort -u)
[ "${#packages[@]}" -gt 5 ] || { echo "collect.sh: the packages of the libraries were not found" >&2; exit 1; }
dpkg-query -s ca-certificates "${packages[@]}" |
    awk -v folder="$root/var/lib/dpkg/status.d" '/^Package: / {file = folder "/" $2} {print > file}'
