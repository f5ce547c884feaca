/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/client.h"
#include "rpc/server.h"

#include <stdatomic.h>

/*
 * A service for tests of rpc/: google.protobuf.Any in and out, with type_url
 * as the command and value as the payload.
 *
 *   Echo    unary: gives the request back; "fail" ends with every kind of
 *           detail, "hang" waits for a wake or a cancel, "who" tells who calls
 *   Count   server stream: value is "CHUNKS SIZE"; as many chunks of as many bytes
 *   Chat    bidi: gives each message back; ends when the client is done
 */
extern const struct rpc_method test_service_methods[];

extern const struct rpc_client_method test_echo;
extern const struct rpc_client_method test_count;

/* The context of the server. Counters for the tests; any thread. */
struct test_service {
    atomic_int started;
    atomic_int freed;
    atomic_int cancelled;
    atomic_int hangs;
    atomic_int chunks_sent;
    atomic_int overlaps;             /* a send that was refused: two at once */
    _Atomic(struct rpc_call *) hung; /* the last call that hangs; a reference */
    _Atomic uint32_t last_uid;       /* of the peer */
    atomic_bool has_deadline;
};
