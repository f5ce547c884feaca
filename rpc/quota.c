/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/quota.h"

#include "common/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_COUNT 256U
/* Peers without a connection that are remembered, beside those that have one. */
#define IDLE_MAX 1024U

struct rpc_quotas {
    uint32_t max_connections;
    uint32_t connections;
    uint32_t count;
    struct rpc_quota *chains[CHAIN_COUNT];
};

struct rpc_quotas *rpc_quotas_new(uint32_t max_connections)
{
    struct rpc_quotas *quotas = calloc(1, sizeof(*quotas));

    if (quotas)
        quotas->max_connections = max_connections;
    return quotas;
}

struct rpc_quotas *rpc_quotas_free(struct rpc_quotas *quotas)
{
    if (!quotas)
        return NULL;
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        while (quotas->chains[i]) {
            struct rpc_quota *quota = quotas->chains[i];

            quotas->chains[i] = quota->next;
            free(quota);
        }
    }
    free(quotas);
    return NULL;
}

/* The number of peers is bounded, so collisions made on purpose cost little. */
static struct rpc_quota **chain_of(struct rpc_quotas *quotas, const char *key)
{
    return &quotas->chains[cr_hash_text(CR_HASH_START, key) % CHAIN_COUNT];
}

static bool is_forgettable(const struct rpc_quota *quota, int64_t now_ns)
{
    return quota->connections == 0 && rpc_bucket_is_full(&quota->accepts, now_ns) &&
           rpc_h2_budget_is_full(&quota->frames, now_ns);
}

/* Forgets every peer that is allowed everything again, or, by force, the first that is idle. */
static void forget(struct rpc_quotas *quotas, int64_t now_ns, bool is_forced)
{
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        struct rpc_quota **at = &quotas->chains[i];

        while (*at) {
            struct rpc_quota *quota = *at;

            if (!is_forgettable(quota, now_ns) && !(is_forced && quota->connections == 0)) {
                at = &quota->next;
                continue;
            }
            *at = quota->next;
            free(quota);
            quotas->count--;
            if (is_forced)
                return;
        }
    }
}

static struct rpc_quota *find_or_add(struct rpc_quotas *quotas, const char *key, int64_t now_ns)
{
    struct rpc_quota **chain = chain_of(quotas, key);
    struct rpc_quota *quota;

    for (quota = *chain; quota; quota = quota->next)
        if (strcmp(quota->key, key) == 0)
            return quota;
    if (quotas->count >= quotas->max_connections + IDLE_MAX)
        forget(quotas, now_ns, false);
    if (quotas->count >= quotas->max_connections + IDLE_MAX)
        forget(quotas, now_ns, true);
    quota = calloc(1, sizeof(*quota));
    if (!quota)
        return NULL;
    (void)snprintf(quota->key, sizeof(quota->key), "%s", key);
    quota->next = *chain;
    *chain = quota;
    quotas->count++;
    return quota;
}

enum rpc_quota_verdict rpc_quotas_admit(struct rpc_quotas *quotas, const char *key,
                                        const struct rpc_quota_limits *limits, int64_t now_ns,
                                        struct rpc_quota **ret_quota)
{
    struct rpc_quota *quota = find_or_add(quotas, key, now_ns);

    if (!quota)
        return RPC_QUOTA_NO_MEMORY;
    /* First, so that attempts that fail for another reason count, too. */
    if (!rpc_bucket_take(&quota->accepts, &limits->accepts, now_ns))
        return RPC_QUOTA_RATE;
    if (quota->connections >= limits->max_connections)
        return RPC_QUOTA_PEER;
    if (quotas->connections >= quotas->max_connections)
        return RPC_QUOTA_TOTAL;
    quota->connections++;
    quotas->connections++;
    *ret_quota = quota;
    return RPC_QUOTA_OK;
}

void rpc_quotas_release(struct rpc_quotas *quotas, struct rpc_quota *quota)
{
    quota->connections--;
    quotas->connections--;
}

const char *rpc_quota_verdict_name(enum rpc_quota_verdict verdict)
{
    switch (verdict) {
    case RPC_QUOTA_OK:
        return "none";
    case RPC_QUOTA_TOTAL:
        return "too many connections";
    case RPC_QUOTA_PEER:
        return "too many connections of one peer";
    case RPC_QUOTA_RATE:
        return "connects too often";
    case RPC_QUOTA_NO_MEMORY:
        return "out of memory";
    }
    return "unknown";
}

uint32_t rpc_quotas_count(const struct rpc_quotas *quotas)
{
    return quotas->count;
}
