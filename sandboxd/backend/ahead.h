/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct sbx_backend;

/*
 * What pools of boxes that are made ahead have in common, whatever their
 * backend: how they are asked for, when they may be filled, and what the front
 * hears of them.
 */

#define SBX_AHEAD_MAX 16U /* slots of all kinds together */

/*
 * `text` is what --pool says: KIND=N, comma-separated; "0" is none of any
 * kind; NULL leaves the counts as they are. `kinds` are the names, `counts`
 * their slots. The error names the item and what may stand there.
 */
int sbx_ahead_parse(const char *text, const char *const *kinds, size_t kind_count, uint32_t *counts,
                    struct cr_err *err);

/*
 * From when on a slot may be filled: not while a run is being prepared or
 * wound up, nor while one is so young that its end may come at any moment.
 * All of that is short; but under load one follows the other, so it is soon in
 * any case. 0 when nothing runs.
 */
int64_t sbx_ahead_quiet_ns(const struct sbx_backend *backend);

/* Tells the front, the first time that as many boxes wait as the backend has pool slots. */
void sbx_ahead_tell_full(struct sbx_backend *backend);
