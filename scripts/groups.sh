#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Groups of tests (ctest labels): runs them, and tells what each did. A group that ran no test, or
# tests without a single case in them, has failed, as one with a test that failed.
# Sourced by scripts/test.sh and by the test of this file; the caller has cd'ed to the source.
# Sets `summary` (a line for each group) and `failed` (0 or 1).

as_root=${as_root:-}
summary=""
failed=0

# "PASSED SKIPPED CASES LEFT-OUT" of a log of ctest --verbose: tests, and the cases in them that ran and that were
# left out, as cmocka, pytest, unittest, the corpora of the verification, injected faults and libFuzzer count them.
# Of a test that was repeated the last try counts. A test that left out all its cases is skipped, whatever its exit
# status says.
tally() {
    awk '
        function number_before(word,  at) { # the number that stands before the last such word; 0: none
            at = line
            if (!match(at, "[0-9]+ " word)) return 0
            return substr(at, RSTART) + 0
        }
        /^[0-9]+: / {
            n = $1 + 0
            line = $0
            sub(/^[0-9]+: /, "", line)
            if (line ~ /^\[  PASSED  \] [0-9]+ test/) ran[n] += number_before("test")
            else if (line ~ /^\[  SKIPPED \] [0-9]+ test/) left[n] += number_before("test")
            else if (line ~ /^(=+ )?([0-9]+ [a-z]+, )*[0-9]+ (passed|skipped).* in [0-9.]+m?s/) {
                ran[n] += number_before("passed")
                left[n] += number_before("skipped")
            }
            else if (line ~ /^Ran [0-9]+ tests? in /) ran[n] += number_before("test")
            else if (line ~ /^(OK|FAILED) \(.*skipped=[0-9]+/) {
                sub(/.*skipped=/, "", line)
                left[n] += line + 0
                ran[n] -= line + 0
                if (ran[n] < 0) ran[n] = 0 # a class or a part of a test is left out as one, too, but does not run as one
            }
            else if (line ~ /^[A-Za-z_]+: [0-9]+ cases, 0 problems/) ran[n] += number_before("cases")
            else if (line ~ /^[0-9]+ points injected, /) ran[n] += number_before("passed")
            else if (line ~ /^Done [0-9]+ runs in /) ran[n] += number_before("runs")
            next
        }
        /^ *([0-9]+\/[0-9]+ )?Test +#[0-9]+: / {
            n = $0
            sub(/^[^#]*#/, "", n)
            n += 0
            if (/ Passed /) {
                if (ran[n] == 0 && left[n] > 0) empty++
                else passed++
                cases += ran[n]
                cases_left += left[n]
            }
            else if (/\*\*\*Skipped/) skipped++
            ran[n] = left[n] = 0
        }
        END {print passed + 0, skipped + empty, cases + 0, cases_left + 0}' "$1"
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
    local name=$1 log="$2/group-$1.log" status passed skipped cases cases_left repeated
    status=$(cat "$log.status" || echo 1)
    read -r passed skipped cases cases_left <<<"$(tally "$log")"
    local line
    line=$(printf '%-14s %3s passed, %s skipped, ctest status %s, %s cases' "$name" "$passed" \
        $((skipped + cases_left)) "$status" "$cases")
    repeated=$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Timeout|Exception).*/\1/p; s/^ *Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Timeout|Exception).*/\1/p' "$log" | sort -u | tr '\n' ' ')
    [ "$status" -ne 0 ] || [ -z "$repeated" ] || line+=", passed only at the second try: $repeated"
    summary+="$line"$'\n'
    echo "$line"
    echo "    slowest: $(slowest "$log")"
    if [ $((skipped + cases_left)) -gt 0 ]; then
        grep -E '\*\*\*Skipped|^[0-9]+: (SKIPPED|\[  SKIPPED|.*skipped)' "$log" | cut -c 1-160 | sort -u | head -n 20 | sed 's/^/    /'
    fi
    show_failures "$log"
    local did=$cases may_be_empty=""
    [[ "$name" != vm* ]] || did=$passed # a guest tells of its tests in its own words
    # Virtual machines, and an engine with images, need packages that not every host can get; their line says so then.
    case $name in vm* | containers) [ "$skipped" -eq 0 ] || may_be_empty=yes ;; esac
    if [ "$status" -ne 0 ] || { [ "$did" -eq 0 ] && [ -z "$may_be_empty" ]; }; then
        failed=1
        tail -n 12 "$log"
        [ "$did" -gt 0 ] || echo "crisol: the group '$name' ran no test, or no case in any" >&2
    fi
}
run_group() {
    run_tests "$@"
    tell_group "$1" "$2"
}

# split_log FOLDER LABEL…: of the log of all these groups, a log and an exit status for each of them.
split_log() {
    local folder=$1 label
    shift
    for label in "$@"; do
        : >"$folder/group-$label.log"
        ctest --test-dir "$folder" -N -L "^$label\$" | sed -nE "s/^ *Test +#[0-9]+: (.*)/\1 $label/p"
    done | awk -v folder="$folder" -v all="$*" '
        BEGIN {count = split(all, labels, " "); for (i = 1; i <= count; i++) status[labels[i]] = 8}
        FILENAME != folder "/group-all.log" {groups[$1] = groups[$1] " " $2; is_open[$1] = 1; status[$2] = 0; next}
        {number = $0}
        /^ +Start +[0-9]+: / {sub(/^ +Start +/, "", number); name_of[number + 0] = $NF}
        /^ *([0-9]+\/[0-9]+ )?Test +#[0-9]+: / {
            sub(/^.*Test +#/, "", number)
            if (/ Passed |\*\*\*Skipped /) delete is_open[name_of[number + 0]]
        }
        number ~ /^[0-9]+: / {
            count = split(groups[name_of[number + 0]], labels, " ")
            for (i = 1; i <= count; i++) print >(folder "/group-" labels[i] ".log")
        }
        END {
            for (name in is_open) {
                count = split(groups[name], labels, " ")
                for (i = 1; i <= count; i++) status[labels[i]] = 8
            }
            for (label in status) print status[label] >(folder "/group-" label ".log.status")
        }' - "$folder/group-all.log"
}
# Says once a minute how far the tests of a log are.
tell_progress() {
    local seconds=0
    while sleep 1 && kill -0 "$$" 2>/dev/null; do
        seconds=$((seconds + 1))
        [ $((seconds % 60)) -ne 0 ] || echo "    … $(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: ' "$1" || true) tests have ended"
    done
}
# run_groups FOLDER JOBS LABEL…: the tests of all these groups in one run: where one waits, another has the processors,
# whatever its group is, and no group waits for the last test of the one before.
run_groups() {
    local log=$1/group-all.log folder=$1 jobs=$2 label ticker
    shift 2
    : >"$log"
    tell_progress "$log" &
    ticker=$!
    run_tests all "$folder" -L "^($(IFS='|' && echo "$*"))\$" -j "$jobs"
    kill "$ticker" 2>/dev/null || true
    split_log "$folder" "$@"
    for label in "$@"; do tell_group "$label" "$folder"; done
    if [ "$(cat "$log.status")" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
        tail -n 12 "$log"
    fi
}

# All groups, and the summary of them all; returns 1 when one has failed.
tell_groups() {
    local total skips bad
    echo
    echo "groups:"
    printf '%s' "$summary"
    total=$(printf '%s' "$summary" | awk '{n += $2} END {print n}')
    skips=$(printf '%s' "$summary" | awk '{for (i = 1; i < NF; i++) if ($(i + 1) ~ /^skipped/) n += $i} END {print n + 0}')
    bad=$(printf '%s' "$summary" | awk '{for (i = 1; i < NF; i++) if ($i == "status" && $(i + 1) + 0 != 0) n++} END {print n + 0}')
    if [ "$failed" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    echo "$total passed, $bad failed, $skips skipped"
    return "$failed"
}
