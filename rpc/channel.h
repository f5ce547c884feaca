/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/client.h"

#include <grpc/grpc.h>

/*
 * Internal to rpc/: what a call needs to know about its channel.
 */
struct rpc_channel {
    grpc_channel *core;
    char *authorization; /* value of the header; NULL: none */
    size_t max_response_bytes;
};

/*
 * A channel over a connected stream (a socketpair to a server of the same
 * process); options->target is only its name. Takes the fd on success. Does
 * not reconnect.
 */
int rpc_channel_new_fd(int fd, const struct rpc_channel_options *options,
                       struct rpc_channel **ret_channel, struct cr_err *err);
