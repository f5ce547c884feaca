#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every test: builds, runs the groups (ctest labels), then the sanitizer lanes. Fails when a group
# ran no test. Prints what each group did and, last, the summary of the test runner.
# Usage: scripts/test.sh [--quick]   (--quick: without the virtual machine, the sanitizer and fuzz lanes)
# With --build-lanes it only builds what those lanes run, with --fuzz it only runs the fuzz targets, for
# itself. CRISOL_VM=1 runs the virtual machines, and the images and the compose file, on a small host,
# too; CRISOL_VM=docker besides an engine in a machine, which takes half an hour.
set -eu
cd "$(dirname "$0")/.."

if [[ "${1:-}" != --build-lanes && "${1:-}" != --fuzz ]]; then
    scripts/deps.sh test
    scripts/deps.sh engine || true # the tests say what is missing
fi
CRISOL_TOOLS=$(scripts/tools.sh)
export CRISOL_TOOLS
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null; then
        as_root="sudo --preserve-env=CRISOL_TOOLS,XDG_CACHE_HOME"
    else
        echo "crisol: not root and no sudo: the tests that start a sandbox cannot run" >&2
        exit 1
    fi
fi

launcher=""
if command -v ccache >/dev/null; then launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache"; fi

build_target=all
# configure_and_build FOLDER OPTION…
configure_and_build() {
    local folder=$1
    shift
    mkdir -p "$folder"
    # shellcheck disable=SC2086
    if ! { cmake -S . -B "$folder" -G Ninja $launcher "$@" && cmake --build "$folder" --target "$build_target"; } \
        >"$folder/build.log" 2>&1; then
        grep -E 'error|Error' "$folder/build.log" | head -n 20 >&2 || true
        echo "crisol: building $folder failed; all of it is in $folder/build.log" >&2
        exit 1
    fi
}

# shellcheck source=scripts/groups.sh
. scripts/groups.sh

# What the lanes at the end run.
build_lanes() {
    configure_and_build build-asan -DCMAKE_BUILD_TYPE=Debug "-DCRISOL_SANITIZE=address,undefined"
    configure_and_build build-tsan -DCMAKE_BUILD_TYPE=Debug -DCRISOL_SANITIZE=thread
    build_target=fuzz_targets
    configure_and_build build-fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCRISOL_FUZZ=ON
}
if [ "${1:-}" = --build-lanes ]; then
    build_lanes
    exit
fi

behind_pid=""
# Something that goes on behind the tests, in a session of its own, so that it can be ended as a whole.
# A kernel that shares its time between sessions first (sched(7), autogroup) is told that this one comes
# last: else it would get as much as all the tests, and sixteen times what it leaves to a busy sandbox.
start_behind() {
    trap 'kill -TERM -- "-$behind_pid" 2>/dev/null || kill -TERM "$behind_pid" 2>/dev/null || true' EXIT
    # shellcheck disable=SC2016
    setsid bash -c 'echo 19 2>/dev/null >/proc/self/autogroup || true; exec "$@"' - "$@" </dev/null &
    behind_pid=$!
}
# Fails when that did.
finish_behind() {
    local status=0
    wait "$behind_pid" || status=$?
    trap - EXIT
    behind_pid=""
    return "$status"
}

# Builds the lanes with what the tests leave of the processors: many of these wait, or run one by one.
start_lanes() { start_behind chrt --idle 0 scripts/test.sh --build-lanes; }
# The fuzz targets run ten seconds each, so they do it behind other tests, too, but for a share that
# nobody misses; their line tells how many inputs there was time for.
fuzz_is_started=""
start_fuzz() {
    finish_behind || exit 1
    fuzz_is_started=yes
    start_behind nice -n 15 scripts/test.sh --fuzz
}
start_fuzz_when_built() {
    if [ -z "$fuzz_is_started" ] && [ -n "$behind_pid" ] && ! kill -0 "$behind_pid" 2>/dev/null; then start_fuzz; fi
}
if [ "${1:-}" = --fuzz ]; then
    run_tests fuzz build-fuzz -L '^fuzz$' -j 2
    exit
fi

run_label() {
    local jobs=2
    case $1 in escape | durable) jobs=1 ;; esac
    run_group "$1" build -L "^$1\$" -j "$jobs"
}

# Machines in software emulation, and images with bases of their own: ten minutes of two processors,
# which is a third of the whole.
run_heavy() {
    if [ -z "${CRISOL_VM:-}" ] && [ "$(nproc)" -lt 4 ]; then
        summary+="vm               0 passed, 3 skipped: fewer than 4 processors; CRISOL_VM=1 runs it"$'\n'
        summary+="containers       0 passed, 2 skipped: fewer than 4 processors; CRISOL_VM=1 runs it"$'\n'
        return
    fi
    run_label containers
    scripts/deps.sh vm || true # the test says what is missing
    run_group vm build -L '^vm$' -j 2
    [ "${CRISOL_VM:-}" != docker ] || run_group vm_docker build -L '^vm_docker$'
    grep -E '^[0-9]+: (kernel|ok|FAILED) ' build/group-vm.log | sed -E 's/^[0-9]+: /    /' || true
}

configure_and_build build -DCRISOL_TESTS=ON
run_label unit
run_label integration
[ "${1:-}" = --quick ] || start_lanes
for label in e2e breadth escape conformance wire verify durable deploy; do
    start_fuzz_when_built
    run_label "$label"
done

if [ "${1:-}" != --quick ]; then
    run_heavy
    [ -n "$fuzz_is_started" ] || start_fuzz
    run_group asan build-asan -L '^(unit|integration)$' -LE '^(privileged|nosan)$' -j 3
    run_group tsan build-tsan -L '^(unit|integration)$' -R '^(rpc|front|graph|orchestrator|model|agent)' -LE '^(privileged|nosan|notsan)$' -j 3
    finish_behind || failed=1
    tell_group fuzz build-fuzz
fi

tell_groups
