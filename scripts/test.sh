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

# Cases inside the tests of a group, as cmocka, pytest, unittest, the corpora of the verification and
# libFuzzer count them.
count_cases() {
    sed -nE 's/^[0-9]+: \[  PASSED  \] ([0-9]+) test.*/\1/p; s/^[0-9]+: (.* )?([0-9]+) passed.*/\2/p; s/^[0-9]+: Ran ([0-9]+) tests.*/\1/p; s/^[0-9]+: \w+: ([0-9]+) cases, 0 problems.*/\1/p; s/^[0-9]+: Done ([0-9]+) runs in .*/\1/p' "$1" |
        awk '{n += $1} END {print n + 0}'
}
count_skipped_cases() {
    sed -nE 's/^[0-9]+: \[  SKIPPED \] ([0-9]+) test.*/\1/p; s/^[0-9]+: .*[^0-9]([0-9]+) skipped.*/\1/p; s/^[0-9]+: .*skipped=([0-9]+).*/\1/p' "$1" |
        awk '{n += $1} END {print n + 0}'
}

# "NAME SECONDS s, …" of the five that took longest, and all of them together.
slowest() {
    sed -nE 's/^ *([0-9]+\/[0-9]+ )?Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec *$/\3 \2/p' "$1" | sort -rn |
        awk '{sum += $1; if (NR <= 5) text = text (NR > 1 ? ", " : "") $2 " " $1 " s"} END {print text "; all " sum " s"}'
}

# The last lines of every try that failed, also of one that was followed by a better one.
show_failures() {
    awk '/^[0-9]+: / {n = $1 + 0; lines[n, count[n]++] = $0}
        /^ *([0-9]+\/[0-9]+ )?Test +#[0-9]+: / {
            number = $0; sub(/^[^#]*#/, "", number); n = number + 0
            if (/\*\*\*(Failed|Timeout|Exception|Not Run)/) {
                print
                for (i = count[n] > 60 ? count[n] - 60 : 0; i < count[n]; i++) print lines[n, i]
            }
            count[n] = 0
        }' "$1"
}

summary=""
failed=0
# run_tests NAME FOLDER CTEST-ARGUMENT…: the group's output goes into its log, its exit status behind that.
run_tests() {
    local log="$2/group-$1.log" status=0
    rm -f "$log.status"
    # Tests that start sandboxes need root; they say so themselves and exit 77 otherwise.
    # On a machine that others use too, a test with real clocks may fail once: it gets a second try,
    # which is told. Unit tests have none, and no fuzz target: it would not try what it has found again.
    local tries=2
    case $1 in unit | fuzz) tries=1 ;; esac
    $as_root ctest --test-dir "$2" --verbose --no-tests=error --repeat "until-pass:$tries" "${@:3}" >"$log" 2>&1 || status=$?
    echo "$status" >"$log.status"
}
# tell_group NAME FOLDER: what run_tests has found.
tell_group() {
    local name=$1 log="$2/group-$1.log" status passed skipped repeated
    status=$(cat "$log.status" || echo 1)
    passed=$(grep -cE '^ *([0-9]+/[0-9]+ )?Test +#[0-9]+: .* Passed ' "$log" || true)
    # A skipped test, and every case that a test which passed had to leave out.
    skipped=$(($(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*Skipped' "$log" || true) + $(count_skipped_cases "$log")))
    local line
    line=$(printf '%-14s %3s passed, %s skipped, ctest status %s, %s cases' "$name" "$passed" "$skipped" \
        "$status" "$(count_cases "$log")")
    repeated=$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Timeout|Exception).*/\1/p; s/^ *Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Timeout|Exception).*/\1/p' "$log" | sort -u | tr '\n' ' ')
    [ "$status" -ne 0 ] || [ -z "$repeated" ] || line+=", passed only at the second try: $repeated"
    summary+="$line"$'\n'
    echo "$line"
    echo "    slowest: $(slowest "$log")"
    if [ "$skipped" -gt 0 ]; then
        grep -E '\*\*\*Skipped|^[0-9]+: (SKIPPED|\[  SKIPPED|.*skipped)' "$log" | cut -c 1-160 | sort -u | head -n 20 | sed 's/^/    /'
    fi
    # The virtual machine needs packages that not every host can get; its line says so then.
    if [[ "$name" == vm* ]] && [ "$status" -eq 0 ] && [ "$skipped" -gt 0 ]; then return; fi
    show_failures "$log"
    if [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; then
        failed=1
        tail -n 12 "$log"
        [ "$passed" -gt 0 ] || echo "crisol: the group '$name' ran no test" >&2
    fi
}
run_group() {
    run_tests "$@"
    tell_group "$1" "$2"
}

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

echo
echo "groups:"
printf '%s' "$summary"
total=$(printf '%s' "$summary" | awk '{n += $2} END {print n}')
skips=$(printf '%s' "$summary" | awk '{for (i = 1; i < NF; i++) if ($(i + 1) ~ /^skipped/) n += $i} END {print n + 0}')
bad=$(printf '%s' "$summary" | awk '{for (i = 1; i < NF; i++) if ($i == "status" && $(i + 1) + 0 != 0) n++} END {print n + 0}')
if [ "$failed" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
echo "$total passed, $bad failed, $skips skipped"
exit "$failed"
