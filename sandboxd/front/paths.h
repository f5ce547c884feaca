/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rpc_status;

/* The rules of InputFile.path that sbx_path_is_safe() leaves to the front. Pure. */

/* What is wrong with one path, for a person; NULL when nothing is. */
const char *sbx_path_problem(const char *path);

/* True when both name the same file, or one is a folder of the other. */
bool sbx_paths_clash(const char *a, const char *b);

/* Adds a violation for every path that clashes with another. At most SBX_FILES_MAX paths. */
void sbx_paths_check_clashes(const char *const *paths, size_t count, struct rpc_status *status);

/* An upper bound of the files and folders that the paths need. */
size_t sbx_paths_inodes(const char *const *paths, size_t count);
