/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/quota.h"
#include "rpc/server.h"

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

/*
 * Accepting connections so that running out of file descriptors refuses
 * callers instead of leaving them, and the listener, hanging: a spare
 * descriptor is given up to accept and close. Internal to rpc/, one thread.
 */

struct rpc_accepted {
    int fd; /* non-blocking, CLOEXEC; the caller closes it */
    struct rpc_peer peer;
    char quota_key[64]; /* as peer.caller, but one for a whole IPv6 network */
};

enum rpc_accept_result {
    RPC_ACCEPT_DONE,    /* ret_accepted is filled in */
    RPC_ACCEPT_NOTHING, /* nobody waits */
    RPC_ACCEPT_LOST,    /* this one is gone; go on */
    RPC_ACCEPT_REFUSED, /* closed for want of file descriptors; go on */
    RPC_ACCEPT_PAUSE,   /* out of something: try again in a moment */
};

/* `*spare_fd` is an open descriptor of no use, or -1; it is given up and got again as needed. */
enum rpc_accept_result rpc_accept(int listen_fd, bool is_unix, int *spare_fd,
                                  struct rpc_accepted *ret_accepted);

/* Opens the spare descriptor when there is none. */
void rpc_accept_get_spare(int *spare_fd);
