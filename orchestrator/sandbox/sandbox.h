/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct rpc_channel;
struct rpc_loop;
struct rpc_status;

/*
 * sandboxd as the orchestrator sees it: a seam, so that tests run the engine
 * against a double. The real one is a gRPC client (orchestrator/sandbox/client.c).
 */
struct agt_sandbox;
struct agt_sandbox_call;

struct agt_sandbox_handlers {
    /* A crisol.sandbox.v1.ExecuteResponse, valid until the return. */
    void (*on_event)(void *user, const ProtobufCMessage *event);
    /* The end, exactly once. OK only when a result event came before. */
    void (*on_end)(void *user, const struct rpc_status *status);
    void *user;
};

/* What a request may ask for; 0: not told. */
struct agt_sandbox_bounds {
    Crisol__Sandbox__V1__Limits least;
    Crisol__Sandbox__V1__Limits most;
};

struct agt_sandbox_ops {
    /* Starts an Execute. `request` is a crisol.sandbox.v1.ExecuteRequest, borrowed for the call.
     * Any thread. */
    int (*execute)(struct agt_sandbox *sandbox, const ProtobufCMessage *request, int deadline_ms,
                   const struct agt_sandbox_handlers *handlers, struct agt_sandbox_call **ret_call,
                   struct cr_err *err);
    void (*cancel)(struct agt_sandbox_call *call); /* any thread; safe to repeat */
    void (*unref)(struct agt_sandbox_call *call);
    /* Asks sandboxd, in the background, what it tells of itself; to be called every few seconds.
     * NULL where there is nobody to be asked. Any thread. */
    void (*look)(struct agt_sandbox *sandbox);
    /*
     * What sandboxd told a moment ago (of several, the one that was asked
     * last). False: it is not known; with NULL here it never is. Any thread.
     */
    bool (*get_bounds)(struct agt_sandbox *sandbox, struct agt_sandbox_bounds *ret_bounds);
    void (*free)(struct agt_sandbox *sandbox);
};

struct agt_sandbox {
    const struct agt_sandbox_ops *ops;
};

/*
 * What a channel to `target` is to be told (rpc/client.h): with several
 * sandboxd (dns:…, or addresses behind commas) calls go to each in turn that
 * says it serves. NULL: nothing, there is one. Static storage.
 */
const char *agt_sandbox_service_config(const char *target);

/*
 * Loop and channel are borrowed and outlive it. `is_spread`: there are several
 * sandboxd; an execution that one refuses (RESOURCE_EXHAUSTED, UNAVAILABLE
 * before its first event) goes to the next, a few times.
 */
int agt_sandbox_client_new(struct rpc_loop *loop, struct rpc_channel *channel, bool is_spread,
                           struct agt_sandbox **ret_sandbox, struct cr_err *err);

/*
 * Takes the address of sandboxd out of a status that gRPC core made because it
 * could not connect: whoever reads the status is not told paths of this host.
 * The text goes to the log, at debug.
 */
void agt_sandbox_hide_address(struct rpc_status *status);
