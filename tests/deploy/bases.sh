#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes, once, what stands for images of a registry in the tests of deploy/, from Debian packages:
#   sandboxd   what deploy/image/packages.sh installs into debian:12-slim
#   build      what scripts/deps.sh installs there, to compile everything
#   postgres   PostgreSQL 17 of the newer Debian, for postgres:17
#   package    a Debian with systemd, and the packages that are named
# Prints the path of the archive. Exit status 77 when it cannot be made here; the reason is on stderr.
# Usage: tests/deploy/bases.sh sandboxd|build|postgres
#        tests/deploy/bases.sh package PACKAGE…
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
suite=bookworm
case ${1:-} in
sandboxd) packages=$(sed -n '/^for package in/,/"\$@"; do/p' "$source/deploy/image/packages.sh" |
    sed -e 's/for package in//' -e 's/"\$@"; do//' -e 's/\\$//' | tr -s ' \n' ' ') ;;
build) packages=$(sed -n '/^packages="build-essential/,/"$/p' "$source/scripts/deps.sh" | sed -e 's/^packages="//' -e 's/"$//' | tr -s ' \n' ' ') ;;
postgres) packages="postgresql-17" suite=trixie ;;
package) packages="systemd ${*:2}" ;;
*)
    echo "usage: tests/deploy/bases.sh sandboxd|build|postgres|package …" >&2
    exit 2
    ;;
esac
command -v mmdebstrap >/dev/null || {
    echo "mmdebstrap is missing (scripts/deps.sh image)" >&2
    exit 77
}
packages="ca-certificates $packages"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/crisol
archive=$cache/deploy-$1-$(echo "$suite $packages" | sha256sum | cut -c1-12).tar
mkdir -p "$cache"
exec 9>"$cache/deploy-$1.lock"
flock 9
if [ ! -f "$archive" ]; then
    log=$(mktemp)
    trap 'rm -f "$log" "$archive.part"' EXIT
    rm -f "$cache/deploy-$1-"*.tar
    # shellcheck disable=SC2016 # apt expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | sed -n 's/ bookworm$//p' | head -n 1)
    # Nothing makes or starts a server while the image is made: the tests' own start does.
    # shellcheck disable=SC2016,SC2086 # mmdebstrap's shell expands the one; one word for each package
    if ! mmdebstrap --variant=minbase --mode=root --format=tar --include="$(printf '%s,' $packages)" \
        --aptopt='APT::Install-Recommends "false"' \
        --essential-hook='mkdir -p "$1/etc/postgresql-common" && echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/lib/*/libLLVM*' \
        "$suite" "$archive.part" ${mirror:+"$mirror"} >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "mmdebstrap failed; the lines above say why" >&2
        exit 77
    fi
    mv "$archive.part" "$archive"
fi
echo "$archive"
