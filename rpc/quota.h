/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/h2_frames.h"

#include <stdint.h>

/*
 * What one peer uses over all of its connections: their number, how fast it
 * opens them, and its frames. Per connection alone would not do: to connect
 * anew would give full buckets again. Internal to rpc/, one thread.
 */
struct rpc_quota {
    struct rpc_quota *next;
    char key[64]; /* "uid:1000", "ip:127.0.0.1", "net:2001:db8::" */
    uint32_t connections;
    uint32_t handshakes; /* of TLS, that are going on */
    struct rpc_bucket accepts;
    struct rpc_h2_budget frames;
};

struct rpc_quota_limits {
    uint32_t max_connections; /* of one peer */
    struct cr_rate accepts;
};

enum rpc_quota_verdict {
    RPC_QUOTA_OK,
    RPC_QUOTA_TOTAL, /* all peers together have too many connections */
    RPC_QUOTA_PEER,
    RPC_QUOTA_RATE,
    RPC_QUOTA_NO_MEMORY,
};

struct rpc_quotas;

/* NULL on -ENOMEM. `max_connections` of all peers together. */
struct rpc_quotas *rpc_quotas_new(uint32_t max_connections);
struct rpc_quotas *rpc_quotas_free(struct rpc_quotas *quotas); /* NULL is allowed; returns NULL */

/* Counts one more connection of the peer; on RPC_QUOTA_OK *ret_quota is to be released. */
enum rpc_quota_verdict rpc_quotas_admit(struct rpc_quotas *quotas, const char *key,
                                        const struct rpc_quota_limits *limits, int64_t now_ns,
                                        struct rpc_quota **ret_quota);

/* The connection is gone. The peer is remembered until its buckets are full again. */
void rpc_quotas_release(struct rpc_quotas *quotas, struct rpc_quota *quota);

/* For logs: "too many connections of one peer". */
const char *rpc_quota_verdict_name(enum rpc_quota_verdict verdict);

/* Peers that are remembered. */
uint32_t rpc_quotas_count(const struct rpc_quotas *quotas);
