/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/client.h"
#include "rpc/meter.h"

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/grpc.h>

/*
 * Internal to rpc/: core's channel and who uses it, the rpc_channel itself or
 * calls. A channel that is destroyed would fail the calls that still wait for
 * a connection.
 */
struct rpc_link {
    grpc_channel *core;
    atomic_int refs;
};

struct rpc_link *rpc_link_unref(struct rpc_link *link); /* NULL is allowed; returns NULL */

#define RPC_CHANNEL_METHODS_MAX 16

/* Internal to rpc/: what a call needs to know about its channel, which outlives it. */
struct rpc_channel {
    pthread_mutex_t lock;  /* guards the link, the token and the list, not the counts */
    struct rpc_link *link; /* what new calls use; a reference */
    char *target;          /* what a new link is made of … */
    char *tls_name;        /* … NULL: the target's host */
    char *service_config_json;
    bool has_tls;
    char *authorization; /* value of the header; NULL: none */
    size_t max_response_bytes;

    struct rpc_channel_method {
        const char *path; /* static storage; NULL: free */
        enum rpc_kind kind;
        struct rpc_counts counts;
    } methods[RPC_CHANNEL_METHODS_MAX]; /* those that were called, in that order */
};

/* A reference to what new calls use now. */
struct rpc_link *rpc_channel_link(struct rpc_channel *channel);

/* The value of the header "authorization" now; the caller's to unref. False when there is none. */
bool rpc_channel_authorization(struct rpc_channel *channel, grpc_slice *ret_value);

/*
 * The counts of a method, good as long as the channel is; those of the last place when there are
 * more methods than places. Any thread.
 */
struct rpc_counts *rpc_channel_counts(struct rpc_channel *channel, const char *path,
                                      enum rpc_kind kind);

/*
 * A channel over a connected stream (a socketpair to a server of the same
 * process); options->target is only its name. Takes the fd on success. Does
 * not reconnect.
 */
int rpc_channel_new_fd(int fd, const struct rpc_channel_options *options,
                       struct rpc_channel **ret_channel, struct cr_err *err);
