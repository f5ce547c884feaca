#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the execution tests of the GCC test suite in sandboxes and bare, and tells where they end
# differently. Fetches Debian's package of the compiler's source (80 MB) once, into the cache of the
# user. Needs root, a build, and some ten minutes.
# Usage: scripts/torture.sh [EVERY]   (every EVERYth program; default 1: all)
set -eu
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/crisol/torture
package=gcc-12-source

if [ ! -d "$cache/execute" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$cache"
    # apt fetches as a user of its own where it can; as root it would say that it cannot here.
    (cd "$work" && apt-get -o APT::Sandbox::User=root download "$package" && dpkg-deb -x "$package"_*.deb .)
    tar -C "$work" -xJf "$work"/usr/src/gcc-12/gcc-12*.tar.xz --wildcards --strip-components=4 '*/gcc/testsuite/gcc.c-torture/execute'
    mv "$work/execute" "$cache/execute"
fi
/usr/bin/python3 -B tests/breadth/torture.py "$cache/execute" "${1:-1}"
