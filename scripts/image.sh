#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a base image for the docker backend from Debian packages, without a registry, and loads it
# into the engine as crisol-base:bookworm. Then: sandboxd --docker-base=crisol-base:bookworm
# The archive is kept in the cache folder and made once; remove it to make it anew.
# Usage: scripts/image.sh [--languages] [SOCKET]    load into the engine (default: /var/run/docker.sock)
#        scripts/image.sh [--languages] --archive   only make the archive, and print its path
# --languages: with what the runtimes c, c++ and node need, as crisol-base:languages.
set -eu
cd "$(dirname "$0")/.."

tag=bookworm
packages=python3,python3-pytest,ca-certificates
if [ "${1:-}" = --languages ]; then
    tag=languages
    packages=$packages,gcc,g++,libc6-dev,nodejs
    shift
fi
socket=${1:-/var/run/docker.sock}
archive=${XDG_CACHE_HOME:-$HOME/.cache}/crisol/base-$tag.tar
as_root=""
if [ "$(id -u)" -ne 0 ]; then as_root="sudo"; fi

scripts/deps.sh image
mkdir -p "$(dirname "$archive")"
# Made once, also for two who want it at once.
exec 9>"$archive.lock"
flock 9
if [ ! -f "$archive" ]; then
    log=$(mktemp)
    trap 'rm -f "$log" "$archive.part"' EXIT
    [ "$socket" = --archive ] || echo "crisol: making a base of Debian packages (a minute or two)"
    if ! $as_root mmdebstrap --variant=minbase --mode=root --format=tar \
        --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$archive.part" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "crisol: mmdebstrap failed; the lines above say why" >&2
        exit 1
    fi
    mv "$archive.part" "$archive"
fi
flock -u 9
if [ "$socket" = --archive ]; then
    echo "$archive"
    exit 0
fi

answer=$($as_root curl -sS --max-time 600 --unix-socket "$socket" -X POST \
    -H 'Content-Type: application/x-tar' --data-binary "@$archive" \
    'http://docker/images/create?fromSrc=-&repo=crisol-base&tag='"$tag") || {
    echo "crisol: no docker engine answers at $socket" >&2
    exit 1
}
case $answer in
*sha256:*) echo "crisol: loaded crisol-base:$tag; use it with --docker-base=crisol-base:$tag" ;;
*)
    echo "crisol: the engine did not take the image: $answer" >&2
    exit 1
    ;;
esac
