/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/callers.h"

#include "common/clock.h"
#include "common/hash.h"
#include "rpc/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_COUNT 256U
#define CALLERS_MAX 8192U /* that are remembered */
#define LIVE_RETRY_MS 1000
#define MINUTE_NS (60 * CR_NS_PER_S)

struct caller {
    struct caller *next;
    char name[64];
    uint32_t live;
    int64_t full_ns; /* when a whole minute's worth is there again, as rpc/bucket.h */
};

struct rpc_callers {
    struct rpc_callers_limits limits;
    pthread_mutex_t lock; /* guards below */
    uint32_t count;
    struct caller *chains[CHAIN_COUNT];
};

struct rpc_callers *rpc_callers_new(const struct rpc_callers_limits *limits)
{
    struct rpc_callers *callers = calloc(1, sizeof(*callers));

    if (!callers)
        return NULL;
    callers->limits = *limits;
    (void)pthread_mutex_init(&callers->lock, NULL); /* cannot fail with default attributes */
    return callers;
}

struct rpc_callers *rpc_callers_free(struct rpc_callers *callers)
{
    if (!callers)
        return NULL;
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        while (callers->chains[i]) {
            struct caller *caller = callers->chains[i];

            callers->chains[i] = caller->next;
            free(caller);
        }
    }
    (void)pthread_mutex_destroy(&callers->lock);
    free(callers);
    return NULL;
}

static struct caller **chain_of(struct rpc_callers *callers, const char *name)
{
    return &callers->chains[cr_hash_text(CR_HASH_START, name) % CHAIN_COUNT];
}

static struct caller *find(struct rpc_callers *callers, const char *name)
{
    for (struct caller *at = *chain_of(callers, name); at; at = at->next) {
        if (strcmp(at->name, name) == 0)
            return at;
    }
    return NULL;
}

/* Forgets whoever is allowed everything again. */
static void forget(struct rpc_callers *callers, int64_t now_ns)
{
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        struct caller **at = &callers->chains[i];

        while (*at) {
            struct caller *caller = *at;

            if (caller->live > 0 || caller->full_ns > now_ns) {
                at = &caller->next;
                continue;
            }
            *at = caller->next;
            free(caller);
            callers->count--;
        }
    }
}

static struct caller *find_or_add(struct rpc_callers *callers, const char *name, int64_t now_ns)
{
    struct caller *caller = find(callers, name);
    struct caller **chain;

    if (caller)
        return caller;
    if (callers->count >= CALLERS_MAX)
        forget(callers, now_ns);
    caller = callers->count < CALLERS_MAX ? calloc(1, sizeof(*caller)) : NULL;
    if (!caller)
        return NULL;
    (void)snprintf(caller->name, sizeof(caller->name), "%s", name);
    chain = chain_of(callers, name);
    caller->next = *chain;
    *chain = caller;
    callers->count++;
    return caller;
}

static int refuse(struct rpc_status *status, const char *reason, int64_t wait_ns)
{
    (void)snprintf(status->reason, sizeof(status->reason), "%s", reason);
    status->retry_after_ms = (int32_t)(wait_ns / CR_NS_PER_MS) + 1;
    return -EAGAIN;
}

static int enter(struct rpc_callers *callers, const char *name, const char *what, int64_t now_ns,
                 struct rpc_status *status)
{
    const struct rpc_callers_limits *limits = &callers->limits;
    struct caller *caller = find_or_add(callers, name, now_ns);
    int64_t full_ns;

    if (!caller) {
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "too many callers at one time");
        return refuse(status, "TOO_MANY_CALLERS", MINUTE_NS);
    }
    if (limits->max_live > 0 && caller->live >= limits->max_live) {
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED,
                       "one caller may have %u %s at one time; wait until one has ended",
                       limits->max_live, what);
        return refuse(status, "CALLER_LIVE_LIMIT", LIVE_RETRY_MS * CR_NS_PER_MS);
    }
    if (limits->per_minute > 0) {
        full_ns =
            (caller->full_ns > now_ns ? caller->full_ns : now_ns) + MINUTE_NS / limits->per_minute;
        if (full_ns - now_ns > MINUTE_NS) {
            rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "one caller may begin %u %s in a minute",
                           limits->per_minute, what);
            return refuse(status, "CALLER_RATE_LIMIT", full_ns - now_ns - MINUTE_NS);
        }
        caller->full_ns = full_ns;
    }
    caller->live++;
    return 0;
}

int rpc_callers_enter(struct rpc_callers *callers, const char *caller, const char *what,
                      int64_t now_ns, struct rpc_status *ret_status)
{
    int r;

    (void)pthread_mutex_lock(&callers->lock);
    r = enter(callers, caller, what, now_ns, ret_status);
    (void)pthread_mutex_unlock(&callers->lock);
    return r;
}

void rpc_callers_leave(struct rpc_callers *callers, const char *name)
{
    struct caller *caller;

    (void)pthread_mutex_lock(&callers->lock);
    caller = find(callers, name);
    if (caller && caller->live > 0)
        caller->live--;
    (void)pthread_mutex_unlock(&callers->lock);
}
