#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a goal needs; does nothing when they are there.
# Usage: scripts/deps.sh run|test|bench|lint|vm|image|engine
set -eu

case "${1:-}" in run | test | bench | lint | vm | image | engine) goal=$1 ;; *)
    echo "usage: scripts/deps.sh run|test|bench|lint|vm|image|engine" >&2
    exit 2
    ;;
esac

# Building, and running the native runtimes (python3 and pytest are what the sandboxes run; python3-dev
# has the headers for what a template loads into the interpreter).
packages="build-essential cmake ninja-build pkg-config libgrpc-dev libprotobuf-c-dev
    protobuf-c-compiler protobuf-compiler libcjson-dev libcurl4-openssl-dev libmicrohttpd-dev
    libseccomp-dev libcap-dev libssl-dev libexpat1-dev libsqlite3-dev libpq-dev
    python3 python3-dev python3-pytest procps"
if [ "$goal" != run ]; then
    # Unit tests, foreign clients, sanitizers and fuzzers, the tools that build grpcurl and fetch buf.
    packages="$packages libcmocka-dev clang libclang-rt-14-dev python3-grpcio python3-protobuf
        protobuf-compiler-grpc ca-certificates curl jq iproute2 python3-pip golang-1.19-go"
    # What the boxes run to show that honest programs of every kind work under the system call policy.
    packages="$packages nodejs golang-go default-jdk-headless python3-numpy"
    # The page at /docs is tried out in a browser.
    packages="$packages chromium chromium-driver"
    # Fetches grpc-js. Other builds of Node have it without a package of its own.
    command -v npm >/dev/null || packages="$packages npm"
    # The server that tests of the journal start on paths of their own.
    packages="$packages postgresql-15"
    # systemd-analyze verifies the units; nothing of it is started. lintian looks at the Debian package.
    packages="$packages systemd lintian"
    # Gives an ordinary user the ids that its sandboxes have (sandboxd --rootless).
    packages="$packages uidmap"
fi
if [ "$goal" = vm ]; then
    # The test machine with control groups v2: an emulator, and what makes its disks.
    packages="qemu-system-x86 mmdebstrap e2fsprogs kmod cpio xz-utils"
fi
case $goal in
    # A base image without a registry; and Debian's engine, which the tests of the docker backend start
    # on paths of their own.
    image) packages="mmdebstrap curl" ;;
    # What the benchmarks compare with.
    bench) packages="bubblewrap crun runc" ;;
    engine) packages="docker.io docker-registry mmdebstrap curl crun runsc" ;;
esac
if [ "$goal" = lint ]; then
    packages="$packages clang-tidy clang-format cppcheck shellcheck codespell pmccabe"
fi

# shellcheck disable=SC2086 # word splitting is wanted
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p' || true)
missing=""
for package in $packages; do
    case $'\n'"$installed"$'\n' in *$'\n'"$package"$'\n'*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "crisol: this script installs packages on Debian 12; elsewhere install these yourself:$missing" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "crisol: packages are missing and there is no sudo; as root run: apt-get install$missing" >&2
        exit 1
    fi
    as_root="sudo"
fi
echo "crisol: installing with apt (as root):$missing"
# The server is for tests, which start one of their own: Debian must neither make nor start another.
case " $missing " in *" postgresql-15 "*)
    no_cluster=/etc/postgresql-common/createcluster.conf
    if [ ! -e "$no_cluster" ]; then
        $as_root mkdir -p "${no_cluster%/*}"
        echo "create_main_cluster = false" | $as_root tee "$no_cluster" >/dev/null
    fi
    ;;
esac
log=$(mktemp)
# Nothing that is installed here may start a daemon of the host: tests start their own, on private paths.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$log"; $as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
else
    trap 'rm -f "$log"' EXIT
fi
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=600 -q -y"
# shellcheck disable=SC2086 # word splitting is wanted
if ! { $apt update && $apt install --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "crisol: installing packages failed; the lines above say why" >&2
    exit 1
fi
