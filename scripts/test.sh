#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every test: builds, runs the groups (ctest labels), then the sanitizer lanes. Fails when a group
# ran no test. Prints what each group did and, last, the summary of the test runner.
# Usage: scripts/test.sh [--quick]   (--quick: without the virtual machine, the sanitizer and fuzz lanes)
# With --build-lanes [fuzz|asan|tsan]… it only builds what those lanes run. --fuzz, --asan and --behind are
# the parts that it runs behind the others, for itself. CRISOL_VM=1 runs the virtual machines, and the images
# and the compose file, on a small host, too; CRISOL_VM=docker besides an engine in a machine, which takes
# half an hour.
set -eu
cd "$(dirname "$0")/.."

is_part="" # of what another one runs
case ${1:-} in --build-lanes | --fuzz | --asan | --behind) is_part=yes ;; esac
if [ -z "$is_part" ]; then
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

# must_build FOLDER COMMAND…: a step of a build, its output in the folder's log; the end of all when it fails.
must_build() {
    if ! "${@:2}" >>"$1/build.log" 2>&1; then
        grep -E 'error|Error' "$1/build.log" | head -n 20 >&2 || true
        echo "crisol: building $1 failed; all of it is in $1/build.log" >&2
        exit 1
    fi
}
# configure FOLDER OPTION…
configure() {
    mkdir -p "$1"
    : >"$1/build.log"
    # shellcheck disable=SC2086
    must_build "$1" cmake -S . -B "$1" -G Ninja $launcher "${@:2}"
}
# build_for FOLDER CTEST-ARGUMENT…: what those tests run, and no more.
build_for() {
    local targets
    mapfile -t targets < <(ctest --test-dir "$1" --show-only=json-v1 "${@:2}" |
        jq -r --arg folder "$PWD/$1/" '.tests[] | if .command
            then .command[] | select(startswith($folder)) | ltrimstr($folder)
            else .name end' | sort -u) # without a command: a program of this name, which is not there yet
    must_build "$1" test "${#targets[@]}" -gt 0
    must_build "$1" cmake --build "$1" --target "${targets[@]}"
}

# shellcheck source=scripts/groups.sh
. scripts/groups.sh

# ---- the lanes of sanitizers and fuzzers ----

of_asan=(-L '^(unit|integration)$' -LE '^(privileged|nosan)$')
of_tsan=(-L '^(unit|integration)$' -R '^(rpc|front|graph|orchestrator|model|agent)' -LE '^(privileged|nosan|notsan)$')
of_fuzz=(-L '^fuzz$')
build_lane() {
    case $1 in
        fuzz) configure build-fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCRISOL_FUZZ=ON ;;
        asan) configure build-asan -DCMAKE_BUILD_TYPE=Debug "-DCRISOL_SANITIZE=address,undefined" ;;
        tsan) configure build-tsan -DCMAKE_BUILD_TYPE=Debug -DCRISOL_SANITIZE=thread ;;
    esac
    local -n tests="of_$1"
    build_for "build-$1" "${tests[@]}"
}
case ${1:-} in
    --build-lanes)
        lanes=("${@:2}")
        [ "${#lanes[@]}" -gt 0 ] || lanes=(fuzz asan tsan)
        for lane in "${lanes[@]}"; do build_lane "$lane"; done
        ;;
    --fuzz) run_tests fuzz build-fuzz "${of_fuzz[@]}" -j 2 ;;
    --asan) run_tests asan build-asan "${of_asan[@]}" -j 3 ;;
    # The lanes are built with what the tests leave of the processors: many of these wait, or run one by one. The fuzz
    # targets run ten seconds each, so they do it behind other tests, too, but for a share that nobody misses; their
    # line tells how many inputs there was time for.
    --behind)
        chrt --idle 0 scripts/test.sh --build-lanes fuzz
        nice -n 15 scripts/test.sh --fuzz
        chrt --idle 0 scripts/test.sh --build-lanes asan tsan
        ;;
esac
[ -z "$is_part" ] || exit 0

declare -A behind
# shellcheck disable=SC2317 # by the trap
end_behind() {
    local pid
    for pid in "${behind[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null || true; done
}
trap end_behind EXIT
# start_behind NAME NICENESS COMMAND…: something that goes on behind the tests, in a session of its own, so that it can
# be ended as a whole. A kernel that shares its time between sessions first (sched(7), autogroup) is told which one
# comes last: else that would get as much as all the tests, and sixteen times what it leaves to a busy sandbox.
start_behind() {
    # shellcheck disable=SC2016
    setsid bash -c 'echo "$0" 2>/dev/null >/proc/self/autogroup || true; exec "$@"' "${@:2}" </dev/null &
    behind[$1]=$!
}
# finish_behind NAME: fails when that did.
finish_behind() {
    local status=0
    wait "${behind[$1]}" || status=$?
    unset "behind[$1]"
    return "$status"
}

# Machines in software emulation, and images with bases of their own: ten minutes of two processors,
# which is a third of the whole.
run_heavy() {
    if [ -z "${CRISOL_VM:-}" ] && [ "$(nproc)" -lt 4 ]; then
        summary+="vm               0 passed, 3 skipped: fewer than 4 processors; CRISOL_VM=1 runs it"$'\n'
        summary+="containers       0 passed, 2 skipped: fewer than 4 processors; CRISOL_VM=1 runs it"$'\n'
        return
    fi
    run_group containers build -L '^containers$' -j 2
    scripts/deps.sh vm || true # the test says what is missing
    run_group vm build -L '^vm$' -j 2
    [ "${CRISOL_VM:-}" != docker ] || run_group vm_docker build -L '^vm_docker$'
    grep -E '^[0-9]+: (kernel|ok|FAILED) ' build/group-vm.log | sed -E 's/^[0-9]+: /    /' || true
}

configure build -DCRISOL_TESTS=ON
must_build build cmake --build build
run_group unit build -L '^unit$' -j 2
[ "${1:-}" = --quick ] || start_behind lanes 19 scripts/test.sh --behind
# Four at a time, as most of them mostly wait, or two of those that keep a processor busy (PROCESSORS 2); what measures,
# or looks at the whole machine, is alone (RUN_SERIAL).
run_groups build 4 integration e2e breadth escape conformance wire verify durable deploy
if [ "${1:-}" != --quick ]; then
    run_heavy
    finish_behind lanes || exit 1
    start_behind asan 0 scripts/test.sh --asan
    run_tests tsan build-tsan "${of_tsan[@]}" -j 3
    finish_behind asan || failed=1
    tell_group asan build-asan
    tell_group tsan build-tsan
    tell_group fuzz build-fuzz
fi

tell_groups
