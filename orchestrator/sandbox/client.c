/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/client.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "orchestrator/sandbox/sandbox.h"
#include "orchestrator/sandbox/sight.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of one execution, when there are several sandboxd: each try goes to the next one. */
#define TRIES_MAX 4

/* sandboxd over gRPC. */
struct client {
    struct agt_sandbox base; /* first */
    struct rpc_loop *loop;   /* borrowed */
    struct rpc_channel *channel;
    struct agt_sight *sight; /* what it tells of itself */
    bool is_spread;          /* over several sandboxd */
};

/* Two references: the caller's, and one that the end of the call drops. */
struct agt_sandbox_call {
    uint32_t refs;               /* atomic */
    const struct client *client; /* borrowed: outlives the end */
    struct agt_sandbox_handlers handlers;
    ProtobufCMessage *request; /* to send it anew; NULL: there is one sandboxd only */
    int64_t deadline_ns;
    uint32_t tries;       /* begun; the loop's thread, once it has ended for the first time */
    bool has_event;       /* the loop's thread only … */
    bool has_result;      /* … as this */
    pthread_mutex_t lock; /* guards below */
    bool is_cancelled;
    struct rpc_client_call *rpc; /* a reference: the try that goes on */
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
    rpc_message_free(call->request);
    (void)pthread_mutex_destroy(&call->lock);
    free(call);
}

static bool on_message(void *user, const ProtobufCMessage *message);
static void on_end(void *user, const struct rpc_status *status);

/* Starts a try. */
static int start(struct agt_sandbox_call *call, const ProtobufCMessage *request, int deadline_ms,
                 struct rpc_client_call **ret_rpc, struct cr_err *err)
{
    const struct rpc_client_handlers callbacks = {
        .on_message = on_message,
        .on_end = on_end,
        .user = call,
    };

    call->tries++;
    return rpc_client_start(call->client->loop, call->client->channel, &execute_method, request,
                            deadline_ms, &callbacks, ret_rpc, err);
}

/*
 * One that is full, that goes, or that cannot be reached has not shown that it
 * began; the next may have room. A sandboxd that was lost after it had begun
 * may have run the program: that is for the engine to know and to decide.
 */
static bool may_go_elsewhere(const struct agt_sandbox_call *call, const struct rpc_status *status)
{
    return call->request && !call->has_event && call->tries < TRIES_MAX &&
           (status->code == RPC_UNAVAILABLE || status->code == RPC_RESOURCE_EXHAUSTED) &&
           cr_clock_mono_ns() < call->deadline_ns;
}

/* Returns whether another try is on its way. */
static bool go_elsewhere(struct agt_sandbox_call *call, const struct rpc_status *status)
{
    struct rpc_client_call *before = NULL;
    struct rpc_client_call *next = NULL;
    int64_t left_ms = (call->deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
    bool is_on_its_way = false;

    if (!may_go_elsewhere(call, status))
        return false;
    (void)pthread_mutex_lock(&call->lock);
    if (!call->is_cancelled && start(call, call->request, (int)left_ms + 1, &next, NULL) == 0) {
        before = call->rpc;
        call->rpc = next;
        is_on_its_way = true;
    }
    (void)pthread_mutex_unlock(&call->lock);
    (void)rpc_client_unref(before);
    if (is_on_its_way)
        cr_log_debug("an execution goes to the next sandboxd try=%u code=%s reason=%s", call->tries,
                     rpc_code_name(status->code), status->reason);
    return is_on_its_way;
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    const Crisol__Sandbox__V1__ExecuteResponse *response = (const void *)message;
    struct agt_sandbox_call *call = user;

    call->has_event = true;
    if (response->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        call->has_result = true;
    call->handlers.on_event(call->handlers.user, message);
    return true;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct agt_sandbox_call *call = user;
    struct rpc_status shown = *status;

    if (go_elsewhere(call, status))
        return;
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
    int r = 0;

    if (!call)
        return cr_err_set(err, ENOMEM, "out of memory for a sandbox call");
    call->refs = 2;
    call->client = client;
    call->handlers = *handlers;
    call->deadline_ns = cr_clock_mono_ns() + deadline_ms * CR_NS_PER_MS;
    (void)pthread_mutex_init(&call->lock, NULL); /* cannot fail with default attributes */
    if (client->is_spread && rpc_pack_copy(request, &call->request) < 0)
        r = cr_err_set(err, ENOMEM, "out of memory for a sandbox call");
    /* Its end may come before the start returns: it waits for `rpc` to be there. */
    (void)pthread_mutex_lock(&call->lock);
    if (r == 0)
        r = start(call, request, deadline_ms, &call->rpc, err);
    (void)pthread_mutex_unlock(&call->lock);
    if (r < 0) {
        call->refs = 1;
        unref_call(call);
        return r;
    }
    *ret_call = call;
    return 0;
}

static void cancel(struct agt_sandbox_call *call)
{
    (void)pthread_mutex_lock(&call->lock);
    call->is_cancelled = true;
    rpc_client_cancel(call->rpc);
    (void)pthread_mutex_unlock(&call->lock);
}

static void look(struct agt_sandbox *sandbox)
{
    const struct client *client = (const struct client *)sandbox;

    agt_sight_look(client->sight, client->loop, client->channel);
}

static bool get_bounds(struct agt_sandbox *sandbox, struct agt_sandbox_bounds *ret_bounds)
{
    return agt_sight_get_bounds(((const struct client *)sandbox)->sight, ret_bounds);
}

static void free_client(struct agt_sandbox *sandbox)
{
    struct client *client = (struct client *)sandbox;

    (void)agt_sight_free(client->sight);
    free(client);
}

const char *agt_sandbox_service_config(const char *target)
{
    /* Each call to the next one that says it serves; health by Watch on each connection. */
    return strncmp(target, "dns:", 4) == 0 || strchr(target, ',')
               ? "{\"loadBalancingConfig\":[{\"round_robin\":{}}],"
                 "\"healthCheckConfig\":{\"serviceName\":\"crisol.sandbox.v1.SandboxService\"}}"
               : NULL;
}

int agt_sandbox_client_new(struct rpc_loop *loop, struct rpc_channel *channel, bool is_spread,
                           struct agt_sandbox **ret_sandbox, struct cr_err *err)
{
    static const struct agt_sandbox_ops ops = {
        .execute = execute,
        .cancel = cancel,
        .unref = unref_call,
        .look = look,
        .get_bounds = get_bounds,
        .free = free_client,
    };
    struct client *client = calloc(1, sizeof(*client));

    if (!client)
        return cr_err_set(err, ENOMEM, "out of memory for the client of sandboxd");
    client->sight = agt_sight_new();
    if (!client->sight) {
        free(client);
        return cr_err_set(err, ENOMEM, "out of memory for the client of sandboxd");
    }
    client->base.ops = &ops;
    client->loop = loop;
    client->channel = channel;
    client->is_spread = is_spread;
    *ret_sandbox = &client->base;
    return 0;
}

void agt_sandbox_hide_address(struct rpc_status *status)
{
    if (status->code != RPC_UNAVAILABLE || !strstr(status->message, "failed to connect"))
        return;
    cr_log_debug("sandboxd cannot be reached reason=%s", status->message);
    rpc_status_set(status, RPC_UNAVAILABLE, "sandboxd cannot be reached; %s",
                   strstr(status->message, "Permission denied")
                       ? "the orchestrator's user may not use its socket (--socket-owner)"
                       : "is it running?");
}
