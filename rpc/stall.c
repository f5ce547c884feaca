/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stall.h"

#include <stddef.h>

void rpc_stall_start(struct rpc_stalls *list, struct rpc_stall *stall, int64_t now_ns)
{
    rpc_stall_stop(stall);
    stall->list = list;
    stall->due_ns = now_ns + list->patience_ns;
    stall->next = NULL;
    stall->previous = list->last;
    if (list->last)
        list->last->next = stall;
    else
        list->first = stall;
    list->last = stall;
}

void rpc_stall_stop(struct rpc_stall *stall)
{
    struct rpc_stalls *list = stall->list;

    if (!list)
        return;
    if (stall->previous)
        stall->previous->next = stall->next;
    else
        list->first = stall->next;
    if (stall->next)
        stall->next->previous = stall->previous;
    else
        list->last = stall->previous;
    stall->list = NULL;
}

struct rpc_stall *rpc_stalls_take_due(struct rpc_stalls *list, int64_t now_ns)
{
    struct rpc_stall *first = list->first;

    if (!first || first->due_ns > now_ns)
        return NULL;
    rpc_stall_stop(first);
    return first;
}

int64_t rpc_stalls_next_ns(const struct rpc_stalls *list)
{
    return list->first ? list->first->due_ns : INT64_MAX;
}
