#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what a test machine boots, once: a Debian root filesystem, and a kernel with the few modules
# that it takes to mount it. Everything comes through the sources that apt is configured with.
# Usage: tests/vm/build-image.sh 6.1|6.12 [systemd]   (systemd: a root filesystem that it can start)
# Prints two folders: one with vmlinuz and modules.cpio, one with root.ext4.
# Exit status 77 when it cannot be had here; the reason is the last line on stderr.
set -eu

release=bookworm # whose kernels 6.1 and 6.12 are; the binaries under test are built for it as well
libraries="libcap2 libcjson1 libcmocka0 libcurl4 libexpat1 libgrpc29 libmicrohttpd12 libprotobuf-c1
    libseccomp2 libssl3 libstdc++6"
packages="mount procps protobuf-compiler protobuf-compiler-grpc python3 python3-grpcio python3-protobuf python3-pytest
    util-linux $libraries"
variant=${2:-plain}
if [ "$variant" = systemd ]; then
    # What the package of this project needs besides, and the programs that its test asks with.
    packages="$packages adduser ca-certificates curl libpq5 libsqlite3-0 systemd systemd-sysv"
else
    packages="$packages docker.io crun"
fi
modules="virtio_pci virtio_blk virtio_console ext4 overlay"

skip() {
    echo "crisol: skipped, no virtual machine here: $*" >&2
    exit 77
}

case "${1:-}" in
6.1) meta=linux-image-cloud-amd64 ;; # the release's own kernel
6.12) meta=linux-image-6.12-cloud-amd64 ;;
*)
    echo "usage: tests/vm/build-image.sh 6.1|6.12" >&2
    exit 2
    ;;
esac
kernel=$1

[ "$(id -u)" -eq 0 ] || skip "making a root filesystem takes root"
for tool in apt-get mmdebstrap mke2fs cpio modprobe depmod xz; do
    command -v "$tool" >/dev/null || skip "'$tool' is missing; 'scripts/deps.sh vm' installs it"
done
cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/crisol/vm"
mkdir -p "$cache"

# shellcheck disable=SC2016 # apt expands these
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep -E " $release(-updates|-security)? main\$" || true)
[ -n "$sources" ] || skip "apt has no source for $release"
package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*-cloud-amd64\)$/\1/p' | head -n 1)
if [ "$kernel" = 6.1 ]; then
    case $package in linux-image-6.1.*) ;; *) package="" ;; esac
fi
[ -n "$package" ] || skip "apt knows no package of kernel $kernel ($meta); 'apt-get update' may help"

# build_root FOLDER
build_root() {
    local tree=$1/tree exclude=() part megabytes
    for part in doc man info locale lintian bug; do
        exclude+=("--dpkgopt=path-exclude=/usr/share/$part/*")
    done
    # shellcheck disable=SC2086 # one word per package
    mmdebstrap --quiet --mode=root --variant=essential --format=directory \
        --aptopt='APT::Install-Recommends "false"' "${exclude[@]}" \
        --include="$(printf '%s,' $packages)" "$release" "$tree" - <<<"$sources" || return 1
    rm -rf "$tree/var/lib/apt/lists" "$tree/var/cache/apt"
    mkdir -p "$tree/payload"
    echo '127.0.0.1 localhost' >"$tree/etc/hosts"
    megabytes=$(du -sm "$tree" | cut -f1)
    # No journal: the machine is thrown away. The file is sparse.
    mke2fs -q -t ext4 -O '^has_journal' -m 0 -d "$tree" "$1/root.ext4" "$((megabytes * 2 + 512))M" || return 1
    rm -rf "$tree"
}

# build_kernel FOLDER
build_kernel() {
    local out=$1 tree=$1/tree version list module number=100
    mkdir -p "$tree" "$out/initramfs/modules"
    (cd "$out" && apt-get -q -o APT::Sandbox::User=root download "$package") || return 1
    dpkg -x "$out/$package"_*.deb "$tree"
    mv "$tree"/boot/vmlinuz-* "$out/"
    version=$(basename "$out"/vmlinuz-*)
    version=${version#vmlinuz-}
    mv "$out/vmlinuz-$version" "$out/vmlinuz"
    depmod -b "$tree" "$version"
    # What each needs comes before it; what the kernel has built in is no file.
    list=$(for module in $modules crc32c_generic; do
        modprobe -d "$tree" -S "$version" --show-depends "$module" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++')
    for module in $list; do
        number=$((number + 1))
        case $module in
        *.xz) xz -dc "$module" >"$out/initramfs/modules/$number-$(basename "$module" .xz)" ;;
        *) cp "$module" "$out/initramfs/modules/$number-$(basename "$module")" ;;
        esac
    done
    (cd "$out/initramfs" && find . -mindepth 1 | sort | cpio --quiet -o -H newc -R 0:0) >"$out/modules.cpio"
    rm -rf "$tree" "$out/initramfs" "$out"/*.deb
}

# make_once NAME FUNCTION: prints the folder
make_once() {
    local folder=$cache/$1 log=$cache/$1.log work
    exec 9>"$folder.lock"
    flock -w 600 9 || skip "another process builds $folder for too long"
    if [ ! -d "$folder" ]; then
        work=$(mktemp -d "$cache/work.XXXXXX")
        chmod 755 "$work"
        if ! "$2" "$work" >"$log" 2>&1; then
            rm -rf "$work"
            tail -n 5 "$log" >&2
            skip "building $1 failed; all of it is in $log"
        fi
        mv "$work" "$folder"
    fi
    exec 9>&-
    touch "$folder"
    echo "$folder"
}

# Named by what they are made of; those that nobody asked for in a month go.
recipe=$({
    cat "$0"
    echo "$sources"
} | sha256sum | cut -c1-12)
find "$cache" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
make_once "${package#linux-image-}-$recipe" build_kernel
make_once "root-$release-$variant-$recipe" build_root
