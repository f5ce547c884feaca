/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct rpc_status;

/*
 * How much each caller (a user id, a token's name, a certificate's name) may
 * have going on, and begin in a minute. Any thread.
 */
struct rpc_callers;

struct rpc_callers_limits {
    uint32_t max_live;   /* at one time; 0: no limit */
    uint32_t per_minute; /* begun in a minute, as many at once; 0: no limit */
};

/* NULL on -ENOMEM. */
struct rpc_callers *rpc_callers_new(const struct rpc_callers_limits *limits);
struct rpc_callers *rpc_callers_free(struct rpc_callers *callers); /* NULL allowed; returns NULL */

/*
 * Counts one more thing of `caller`, to be given to rpc_callers_leave() when it
 * is over. Else returns -EAGAIN, and fills in RESOURCE_EXHAUSTED with the
 * reason CALLER_LIVE_LIMIT or CALLER_RATE_LIMIT and when to come again.
 * `what` is what is counted, in the plural, for the text.
 */
int rpc_callers_enter(struct rpc_callers *callers, const char *caller, const char *what,
                      int64_t now_ns, struct rpc_status *ret_status);
void rpc_callers_leave(struct rpc_callers *callers, const char *name);
