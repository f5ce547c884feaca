#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into the image of sandboxd what is missing of the libraries that it is linked with and of the
# interpreters that its native backend lends to the boxes. Does nothing when all of it is there.
# Usage: deploy/image/packages.sh [PACKAGE…]
set -eu
missing=""
for package in libcap2 libcjson1 libcurl4 libexpat1 libgrpc29 libprotobuf-c1 libseccomp2 libssl3 python3 \
    python3-pytest "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# shellcheck disable=SC2086 # one word for each package
apt-get -q -y install --no-install-recommends $missing
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
