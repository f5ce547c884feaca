/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct sbx_backend;
struct sbx_job;

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

/*
 * From when on fewer runs than `cores` are young; 0 when they are. What is made
 * beside as many takes its time from them. One that goes on for long may as
 * well wait for something.
 */
int64_t sbx_ahead_room_ns(const struct sbx_backend *backend, uint32_t cores);

/*
 * From when on no run came for a while: long enough for who asks again as soon
 * as it has its answer, which is what an agent does. Runs that have ended count,
 * too.
 */
int64_t sbx_ahead_lull_ns(const struct sbx_backend *backend);

/*
 * True for a payload that is read in no time. Putting a larger one in place is
 * work of ours, which must not count as the program's: then GO comes after
 * READY, else it goes along.
 */
bool sbx_ahead_is_small(const struct sbx_job *job);

/* Tells the front how many boxes wait, which it hears with each result besides: for pools that fill
 * so slowly that a message more is nothing. */
void sbx_ahead_tell_ready(struct sbx_backend *backend);

/* Tells the front, the first time that as many boxes wait as the backend has pool slots. */
void sbx_ahead_tell_full(struct sbx_backend *backend);
