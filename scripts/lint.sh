#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, static analysis and structure. Fails on the first kind that is not clean.
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh lint
tools=$(scripts/tools.sh)
# clang-tidy must see clang's flags, and needs the generated headers.
cmake -S . -B build-clang -G Ninja -DCMAKE_C_COMPILER=clang -DCRISOL_TESTS=ON >/dev/null
cmake --build build-clang >build-clang/build.log 2>&1 || { tail -n 30 build-clang/build.log >&2; exit 1; }

mapfile -t sources < <(git ls-files '*.c')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run deploy/debian/{postinst,prerm,postrm})
mapfile -t ours < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')

echo "clang-format"
clang-format --dry-run --Werror "${sources[@]}" "${headers[@]}"
echo "shellcheck"
shellcheck "${scripts[@]}"
echo "codespell"
# Words of code and of tests that are not meant to be English.
codespell --skip='*/corpus/*,*.json' -L 'ot,te,crate,inflight,nd,nown,relativ,anwsers,chekc,ser,temprature' common tls rpc sandboxd orchestrator clients proto scripts deploy docs tests README.md SECURITY.md
echo "buf"
if [ -x "$tools/buf" ]; then "$tools/buf" lint; else echo "  skipped: buf is not here"; fi
echo "cppcheck"
# The macros that the compiler and protobuf-c's header would define. unreadVariable: a protobuf-c message
# is read through its base. clang-tidy finds dead stores.
cppcheck -q --enable=warning,style,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=variableScope --suppress=unreadVariable --suppress=missingIncludeSystem --suppress=unusedStructMember \
    -D_GNU_SOURCE -D__x86_64__ -DPROTOBUF_C_VERSION_NUMBER=1004001 -DPROTOBUF_C_MIN_COMPILER_VERSION=1000000 \
    -I. -Ibuild-clang/generated "${ours[@]}"
echo "clang-tidy"
# One file per process: clang-tidy 14 reports a va_list as uninitialised in the second file and later.
printf '%s\n' "${ours[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build-clang --quiet 2>/dev/null
echo "ten most complex functions, and the longest files (a look, no gate)"
pmccabe "${ours[@]}" | sort -nr | head -n 10
wc -l "${ours[@]}" | sort -nr | sed -n '2,11p'
