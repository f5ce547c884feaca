/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGT_JUDGE_VERSION_PARTS 3U
#define AGT_JUDGE_VERSION_SIZE 32U

/*
 * Versions and the ranges of them that a judge's clients ask for, which are
 * those of npm's semver (github.com/npm/node-semver), without pre-releases.
 * Pure.
 */
struct agt_judge_version {
    uint64_t parts[AGT_JUDGE_VERSION_PARTS]; /* those that are not given are 0 */
    size_t count;                            /* that are given */
};

/* The numbers in what a runtime says of itself, "Python 3.11.2", as text; "0.0.0": there is none,
 * as it has not been asked yet. */
void agt_judge_version_plain(const char *text, char ret_text[AGT_JUDGE_VERSION_SIZE]);

/* Of the same; what lies behind the third part does not count. */
void agt_judge_version_read(const char *text, struct agt_judge_version *ret_version);

/* Negative, 0 or positive. */
int agt_judge_version_compare(const struct agt_judge_version *a, const struct agt_judge_version *b);

/*
 * "3.11.2", "3.11", "3.x", "*", "^3.9", "~3.11", ">=3.9 <4", "3.9 - 3.11" and
 * alternatives of these with "||". False, too, for what is no range.
 */
bool agt_judge_version_fits(const struct agt_judge_version *version, const char *range);
