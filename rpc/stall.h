/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Internal to rpc/: calls that wait for their client, in the order in which
 * they run out. All entries of a list have the same patience, so the first is
 * always the first that is due, and starting and stopping cost nothing.
 * Embedded; only the completion queue thread touches it.
 */
struct rpc_stall {
    struct rpc_stall *next;
    struct rpc_stall *previous;
    struct rpc_stalls *list; /* NULL: not waiting */
    int64_t due_ns;
    void *owner;
};

struct rpc_stalls {
    struct rpc_stall *first;
    struct rpc_stall *last;
    int64_t patience_ns;
};

/* Starts the wait, anew when it was running. */
void rpc_stall_start(struct rpc_stalls *list, struct rpc_stall *stall, int64_t now_ns);

/* Safe to repeat. */
void rpc_stall_stop(struct rpc_stall *stall);

/* Removes one entry that is due and returns it; NULL when there is none. */
struct rpc_stall *rpc_stalls_take_due(struct rpc_stalls *list, int64_t now_ns);

/* When the first entry is due; INT64_MAX for an empty list. */
int64_t rpc_stalls_next_ns(const struct rpc_stalls *list);
