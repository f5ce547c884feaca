/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/client.h"

#include "common/err.h"
#include "common/log.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* sandboxd over gRPC. */
struct client {
    struct agt_sandbox base; /* first */
    struct rpc_loop *loop;   /* borrowed */
    struct rpc_channel *channel;
};

/* Two references: the caller's, and one that the end of the call drops. */
struct agt_sandbox_call {
    uint32_t refs; /* atomic */
    struct agt_sandbox_handlers handlers;
    struct rpc_client_call *rpc; /* a reference; set before anybody else has the call */
    bool has_result;             /* the loop's thread only */
};

static const struct rpc_client_method execute_method = {
    .path = "/crisol.sandbox.v1.SandboxService/Execute",
    .request = &crisol__sandbox__v1__execute_request__descriptor,
    .response = &crisol__sandbox__v1__execute_response__descriptor,
};

static void unref_call(struct agt_sandbox_call *call)
{
    if (__atomic_fetch_sub(&call->refs, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    (void)rpc_client_unref(call->rpc);
    free(call);
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    const Crisol__Sandbox__V1__ExecuteResponse *response = (const void *)message;
    struct agt_sandbox_call *call = user;

    if (response->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        call->has_result = true;
    call->handlers.on_event(call->handlers.user, message);
    return true;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct agt_sandbox_call *call = user;
    struct rpc_status shown = *status;

    if (status->code == RPC_OK && !call->has_result)
        rpc_status_set(&shown, RPC_INTERNAL, "sandboxd ended the call without a result");
    agt_sandbox_hide_address(&shown);
    call->handlers.on_end(call->handlers.user, &shown);
    unref_call(call);
}

static int execute(struct agt_sandbox *sandbox, const ProtobufCMessage *request, int deadline_ms,
                   const struct agt_sandbox_handlers *handlers, struct agt_sandbox_call **ret_call,
                   struct cr_err *err)
{
    const struct client *client = (const struct client *)sandbox;
    struct agt_sandbox_call *call = calloc(1, sizeof(*call));
    struct rpc_client_handlers callbacks = {
        .on_message = on_message,
        .on_end = on_end,
        .user = call,
    };
    int r;

    if (!call)
        return cr_err_set(err, ENOMEM, "out of memory for a sandbox call");
    call->refs = 2;
    call->handlers = *handlers;
    r = rpc_client_start(client->loop, client->channel, &execute_method, request, deadline_ms,
                         &callbacks, &call->rpc, err);
    if (r < 0) {
        free(call);
        return r;
    }
    *ret_call = call;
    return 0;
}

static void cancel(struct agt_sandbox_call *call)
{
    rpc_client_cancel(call->rpc);
}

static void free_client(struct agt_sandbox *sandbox)
{
    free((struct client *)sandbox);
}

int agt_sandbox_client_new(struct rpc_loop *loop, struct rpc_channel *channel,
                           struct agt_sandbox **ret_sandbox, struct cr_err *err)
{
    static const struct agt_sandbox_ops ops = {
        .execute = execute,
        .cancel = cancel,
        .unref = unref_call,
        .free = free_client,
    };
    struct client *client = calloc(1, sizeof(*client));

    if (!client)
        return cr_err_set(err, ENOMEM, "out of memory for the client of sandboxd");
    client->base.ops = &ops;
    client->loop = loop;
    client->channel = channel;
    *ret_sandbox = &client->base;
    return 0;
}

void agt_sandbox_hide_address(struct rpc_status *status)
{
    if (status->code != RPC_UNAVAILABLE || !strstr(status->message, "failed to connect"))
        return;
    cr_log_debug("sandboxd cannot be reached reason=%s", status->message);
    rpc_status_set(status, RPC_UNAVAILABLE, "sandboxd cannot be reached; is it running?");
}
