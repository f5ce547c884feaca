#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
seq 2000 | sort -rn | head -1
printf 'all: b\nb: a\n\tcp a b\na:\n\techo made > a\n' > Makefile
make -s -j2
mkdir -p d/e && cp b d/e/c && cp -a d f && mv f g && ln -s d l
tar cf - d g | tar tf - | wc -l
tar czf x.tgz d && tar xzf x.tgz -C g && cmp d/e/c g/d/e/c
find . -name c -type f | wc -l
df -k . > /dev/null && du -s . > /dev/null && stat -c %F l && touch -d 2001-01-01 b && date -u -r b +%Y
timeout 5 sh -c 'trap "exit 0" TERM; kill -TERM $$' && sleep 0.01
(flock 9 && echo locked) 9> lock
awk 'BEGIN { print 6 * 7 }' | sed s/4/four-/ | xargs printf '%s\n'
