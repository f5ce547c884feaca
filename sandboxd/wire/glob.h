/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Patterns of CollectSpec.glob, over paths below /workspace. Pure, without
 * recursion: the work is bounded by the product of both sizes.
 *
 *   *      any characters within one component, none as well
 *   ?      one character
 *   [a-z]  one ASCII character of a set; [!a-z] one that is not in it
 *   **     as a whole component: any number of folders; as the last one:
 *          everything below
 *
 * A leading '.' is nothing special. To match one of these characters itself,
 * put it in a set: [*].
 */

/*
 * What is wrong with a pattern, for a person; NULL when nothing is. A pattern
 * keeps the rules of paths (sbx_path_is_safe) too.
 */
const char *sbx_glob_problem(const char *pattern, size_t size);

/* True when the pattern, which is valid, stands for the path. */
bool sbx_glob_matches(const char *pattern, size_t pattern_size, const char *path, size_t path_size);

/* True when a file of the workspace may be given for a pattern: its path keeps the rules of
 * InputFile.path and is well-formed UTF-8. */
bool sbx_glob_may_give(const char *path, size_t size);
