#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, static analysis and structure. Fails on the first kind that is not clean.
set -eu
cd "$(dirname "$0")/.."

scripts/deps.sh lint
tools=$(scripts/tools.sh)
cmake -S . -B build -G Ninja -DCRISOL_TESTS=ON >/dev/null
cmake --build build >/dev/null

mapfile -t sources < <(git ls-files '*.c')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
mapfile -t ours < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')

echo "clang-format"
clang-format --dry-run --Werror "${sources[@]}" "${headers[@]}"
echo "shellcheck"
shellcheck "${scripts[@]}"
echo "codespell"
codespell --skip='*/corpus/*,*.json' -L 'ot,te,crate' common rpc sandboxd orchestrator clients proto scripts docs tests README.md SECURITY.md
echo "buf"
if [ -x "$tools/buf" ]; then "$tools/buf" lint; else echo "  skipped: buf is not here"; fi
echo "cppcheck"
cppcheck -q --enable=warning,style,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=variableScope --suppress=missingIncludeSystem --suppress=unusedStructMember \
    -D_GNU_SOURCE -I. -Ibuild/generated -i build "${ours[@]}"
echo "clang-tidy"
printf '%s\n' "${ours[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build --quiet 2>/dev/null
echo "ten most complex functions, and the longest files (a look, no gate)"
pmccabe "${ours[@]}" | sort -nr | head -n 10
wc -l "${ours[@]}" | sort -nr | sed -n '2,11p'
