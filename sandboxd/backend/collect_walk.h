/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/payload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds the files of a dead box that a pattern stands for. Belongs to the
 * collector: no allocation but the one map, no call beyond its filter
 * (openat2, getdents64, close), and bounded whatever the program has built:
 * entries, folders, depth and length of paths.
 */
struct sbx_walk;

/* To be called before the filter. NULL: out of memory. Lives as long as the process. */
struct sbx_walk *sbx_walk_new(void);

/*
 * Walks the folder `workspace_fd`, following no link and entering no other
 * mount. Afterwards sbx_walk_path() gives the paths of the regular files that
 * match, in the order of their bytes: the first `most` of them.
 * *ret_is_whole is false when there were more, or more than can be looked at.
 */
void sbx_walk_match(struct sbx_walk *walk, int workspace_fd, const char *pattern, size_t size,
                    uint32_t most, bool *ret_is_whole);

/* True when a regular file below the folder has exactly that size. Bounded in the same way. */
bool sbx_walk_has_size(struct sbx_walk *walk, int workspace_fd, uint64_t size);

uint32_t sbx_walk_count(const struct sbx_walk *walk);
const char *sbx_walk_path(const struct sbx_walk *walk, uint32_t index);

/*
 * openat2(2) below a folder that a program has filled: no link on the way or
 * at its end, no magic link, no other mount, nothing that blocks.
 * Returns an fd or -errno.
 */
int sbx_open_beneath(int folder_fd, const char *path, uint64_t flags);
