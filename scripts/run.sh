#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and starts the services.
# Usage: scripts/run.sh demo        one task from start to end, then everything is stopped (make run)
#        scripts/run.sh up          both services in the foreground on their default addresses (make up)
#        scripts/run.sh live-check  one small real call to Gemini (make live-check)
# Environment: TASK, SCRIPT (a gemini-replay script, default lru_cache), GEMINI_API_KEY, GEMINI_MODEL, …;
#              those of .env count where the environment has none. 'up' takes other addresses from
#              CRISOL_SOCKET, CRISOL_LISTEN and CRISOL_HTTP.
set -eu
cd "$(dirname "$0")/.."
mode=${1:?usage: scripts/run.sh demo|up|live-check}
started=$(date +%s%N)

say() { printf '%s\n' "$*"; }
die() {
    printf 'crisol: %s\n' "$*" >&2
    exit 1
}

# ---- settings -------------------------------------------------------------------------------------

# Reads NAME=VALUE lines of .env for the names that we know; the environment wins.
load_env_file() {
    [ -f .env ] || return 0
    local mode_bits line name value
    mode_bits=$(stat -c %a .env)
    case $mode_bits in
    ?00) ;;
    *) die ".env holds a key and can be read by others (mode $mode_bits): chmod 600 .env" ;;
    esac
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        name=${line%%=*}
        value=${line#*=}
        # Quotes around all of it are not part of it.
        case $value in \"*\" | \'*\') value=${value:1:-1} ;; esac
        case $name in
        GEMINI_API_KEY | GEMINI_MODEL | GEMINI_BASE_URL | CRISOL_STORE | CRISOL_PROVIDER | CRISOL_MODEL_KEY_FILE | \
            OPENAI_API_KEY | OPENAI_MODEL | OPENAI_BASE_URL | GOOGLE_CLOUD_PROJECT | GOOGLE_CLOUD_LOCATION)
            [ -n "${!name:-}" ] || export "$name=$value"
            ;;
        '' | '#'*) ;;
        *) die ".env: there is no setting '$name'; .env.example shows every one" ;;
        esac
    done <.env
}

build_pid=""
build() {
    scripts/deps.sh run # may ask for a password, so it stays with the terminal
    # A shell hears of a signal when what it waits for has ended, or at once in 'wait'; a group of its
    # own makes everything that the build has started end with it.
    trap 'stop_build; exit 143' TERM
    trap 'stop_build; exit 130' INT
    local status=0
    setsid scripts/build.sh &
    build_pid=$!
    wait "$build_pid" || status=$?
    build_pid=""
    trap - TERM INT
    [ "$status" -eq 0 ] || exit "$status"
}
stop_build() {
    [ -n "$build_pid" ] || return 0
    kill -TERM -- "-$build_pid" 2>/dev/null || true
    wait "$build_pid" 2>/dev/null || true
}

load_env_file
key=${GEMINI_API_KEY:-}
openai_key=${OPENAI_API_KEY:-}
unset GEMINI_API_KEY OPENAI_API_KEY # handed to the orchestrator alone
provider=${CRISOL_PROVIDER:-gemini}
case $provider in gemini | vertex | openai) ;; *) die "CRISOL_PROVIDER is '$provider': there are gemini, vertex and openai" ;; esac
if [ "$provider" = openai ] && [ -z "${OPENAI_MODEL:-}" ]; then
    die "CRISOL_PROVIDER=openai needs the name of a model, e.g. OPENAI_MODEL=qwen2.5-coder:7b"
fi
has_model=""
if [ -n "$key" ] || [ "$provider" = openai ] || [ -n "${CRISOL_MODEL_KEY_FILE:-}" ]; then has_model=1; fi
task=${TASK:-}
script=${SCRIPT:-lru_cache}
no_key="set GEMINI_API_KEY in the environment or in .env, or CRISOL_PROVIDER=openai for a model of your own (see .env.example)"
if [ -z "$has_model" ] && [ -n "$task" ]; then
    die "TASK needs a model: $no_key. Without TASK and key, 'make run' shows a scripted task."
fi
if [ -z "$has_model" ] && [ "$mode" = live-check ]; then
    die "live-check calls the real model: $no_key."
fi

if [ "$mode" = live-check ]; then
    build
    say "live-check sends one small request to the real model; a few tokens are charged."
    user=""
    [ "$(id -u)" -ne 0 ] || user="--user=64902" # a number that belongs to no account
    # shellcheck disable=SC2086 # one word or none
    GEMINI_API_KEY=$key OPENAI_API_KEY=$openai_key exec build/bin/orchestrator --check-model --log-level=warn $user
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: sandboxd must start as root"
    as_root="sudo"
    service_uid=$(id -u)
else
    service_uid=64902 # a number that belongs to no account
fi

# ---- set up ---------------------------------------------------------------------------------------

if [ "$mode" = demo ]; then
    say "crisol    installs (apt): what is missing of the packages in scripts/deps.sh"
    say "          as root: apt, and sandboxd, which makes the namespaces, cgroups and id maps of the sandboxes"
    say "          without any privilege: everything else (uid $service_uid)"
fi
[ -x build/bin/orchestrator ] || say "crisol    builds into build/: one to three minutes the first time"
build
bin="$PWD/build/bin"

run_dir=$(mktemp -d "${TMPDIR:-/tmp}/crisol.XXXXXX")
chmod 711 "$run_dir"
tail_pid=""
names=() # of the services, in the order of their start
pids=()
exit_code=1

# The process itself behind `sudo PROGRAM &`.
real_pid() {
    if [ -n "$as_root" ]; then pgrep -P "$1" || echo "$1"; else echo "$1"; fi
}

stop_all() {
    local at
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do
        if [ "${names[at]}" = sandboxd ]; then
            $as_root kill -TERM "$(real_pid "${pids[at]}")" 2>/dev/null || true
        else
            kill -TERM "${pids[at]}" 2>/dev/null || true
        fi
        wait "${pids[at]}" 2>/dev/null || true
    done
    pids=()
}
finish() {
    trap - EXIT INT TERM
    [ -z "$tail_pid" ] || kill "$tail_pid" 2>/dev/null || true
    stop_all
    # A signal that came right behind the start of `tail` came before its number was known here.
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    $as_root rm -rf "$run_dir"
    exit "$exit_code"
}
trap finish EXIT
trap 'exit_code=130; finish' INT TERM

# wait_ready NAME PID LOG: until NAME itself, not a child of it, says in the log that it is ready.
wait_ready() {
    local deadline=$((SECONDS + 15))
    until grep -q " $1 ready \\| $1\[[0-9]*\] ready " "$3" 2>/dev/null; do
        if ! kill -0 "$2" 2>/dev/null && ! $as_root kill -0 "$2" 2>/dev/null; then
            tail -n 5 "$3" >&2
            die "$1 did not start; its last lines are above"
        fi
        [ $SECONDS -lt $deadline ] || { tail -n 5 "$3" >&2; die "$1 is not ready after 15 s"; }
        sleep 0.02
    done
}
started_as() {
    names+=("$1")
    pids+=("$2")
}
field() { sed -n "s/.* ready .*\b$2=\([^ ]*\).*/\1/p" "$1" | tail -n 1; }

if [ "$mode" = up ]; then
    socket=${CRISOL_SOCKET:-/run/crisol/sandboxd.sock}
    grpc=${CRISOL_LISTEN:-127.0.0.1:50051}
    http=${CRISOL_HTTP:-127.0.0.1:8000}
else
    socket=$run_dir/sandboxd/sandboxd.sock
    grpc=127.0.0.1:0
    http=127.0.0.1:0
fi

start_sandboxd() {
    # shellcheck disable=SC2086
    $as_root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$bin/sandboxd" --socket="$socket" \
        --socket-owner="$service_uid" 2>"$run_dir/sandboxd.log" &
    started_as sandboxd $!
    wait_ready sandboxd $! "$run_dir/sandboxd.log"
}

start_replay() {
    : >"$run_dir/replay.log" # looked into before the process may have made it
    "$bin/gemini-replay" --listen=127.0.0.1:0 --script="$1" >"$run_dir/replay.log" 2>&1 &
    started_as gemini-replay $!
    local deadline=$((SECONDS + 10))
    until replay_address=$(sed -n 's/^gemini-replay listening on //p' "$run_dir/replay.log") && [ -n "$replay_address" ]; do
        kill -0 $! 2>/dev/null || { cat "$run_dir/replay.log" >&2; die "gemini-replay did not start"; }
        [ $SECONDS -lt $deadline ] || die "gemini-replay is not ready after 10 s"
        sleep 0.02
    done
}

# Where runs are kept: CRISOL_STORE, else a database in a folder that outlives us. Two demos at one time
# cannot share it; the second keeps its run in memory.
choose_store() {
    store=${CRISOL_STORE:-}
    [ -z "$store" ] || return 0
    local state name=journal
    if [ "$(id -u)" -eq 0 ]; then
        state=/var/lib/crisol
        install -d -m 700 -o "$service_uid" -g "$service_uid" "$state"
    else
        state=${XDG_STATE_HOME:-$HOME/.local/state}/crisol
        mkdir -p "$state"
        chmod 700 "$state"
    fi
    [ "$mode" = up ] || name=demo
    store=sqlite:$state/$name.db
    if [ "$mode" = demo ] && [ -e "$state/$name.db.lock" ] && ! flock -n "$state/$name.db.lock" true; then
        store=none
    fi
}

start_orchestrator() {
    local user=""
    choose_store
    [ -n "$as_root" ] || user="--user=$service_uid"
    # shellcheck disable=SC2086
    GEMINI_API_KEY="$1" GEMINI_BASE_URL="$2" OPENAI_API_KEY="$openai_key" CRISOL_PROVIDER="$provider" "$bin/orchestrator" --listen="$grpc" --http="$http" \
        --sandbox="unix:$socket" --store="$store" $user 2>"$run_dir/orchestrator.log" &
    started_as orchestrator $!
    wait_ready orchestrator $! "$run_dir/orchestrator.log"
    grpc=$(field "$run_dir/orchestrator.log" grpc)
    http=$(field "$run_dir/orchestrator.log" http)
}

# The task that a script answers.
script_task() {
    /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1], encoding="utf-8"))["task"])' "$1"
}

# ---- the modes ------------------------------------------------------------------------------------

start_sandboxd
if [ -n "$has_model" ]; then
    start_orchestrator "$key" "${GEMINI_BASE_URL:-}"
else
    scripts=clients/gemini-replay/scripts
    if [ "$mode" = up ]; then
        start_replay "$(printf '%s,' $scripts/*.json | sed 's/,$//')"
    else
        [ -f "$scripts/$script.json" ] || die "SCRIPT=$script: there are $(cd $scripts && basename -as .json -- *.json | paste -sd ' ')"
        start_replay "$scripts/$script.json"
    fi
    say "model     SCRIPTED: gemini-replay answers from $scripts; no model is called."
    say "          Everything else is real: HTTP, streaming, sandbox, tests, repair. With a key: $no_key"
    provider=gemini
    start_orchestrator replay-takes-any-key "http://$replay_address"
fi

case $mode in
demo)
    [ -n "$task" ] || task=$(script_task "clients/gemini-replay/scripts/$script.json")
    run_status=0
    "$bin/crisol" run --orchestrator "$grpc" "$task" >"$run_dir/answer" || run_status=$?
    say "attack    ten hostile programs, each in a fresh sandbox with the default limits"
    say "          (OK: it was refused what it wanted and ended by itself)"
    attack_status=0
    $as_root "$bin/crisol" attack --sandbox "unix:$socket" </dev/null || attack_status=$?
    leftovers=$($as_root scripts/leftovers.sh "$(real_pid "${pids[0]}")")
    say "          $leftovers"
    elapsed=$((($(date +%s%N) - started) / 1000000))
    result=FAILED
    if [ "$run_status" -eq 0 ] && [ "$attack_status" -eq 0 ] && [ "${leftovers%% *}" = 0 ]; then
        result=SUCCESS
        exit_code=0
    fi
    say "$result in $((elapsed / 1000)).$(printf '%03d' $((elapsed % 1000))) s · next: make up · make test · make run TASK=\"…\" (with a key)"
    ;;
up)
    say "sandboxd      unix:$socket   (grpcurl -plaintext -unix $socket list)"
    say "orchestrator  gRPC $grpc, HTTP http://$http   (Ctrl-C stops everything)"
    if [ "$store" = none ]; then
        say "runs          none is kept: they end with the orchestrator"
    else
        say "runs          ${store%%\?*}   (they go on after a restart)"
    fi
    tail -n +1 -f "$run_dir"/*.log &
    tail_pid=$!
    # Ends when the first service ends.
    wait -n "${pids[@]}" 2>/dev/null || true
    ;;
esac
