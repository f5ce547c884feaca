/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/call.h"

#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/private.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/client.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* As the channel's own cap. */
#define RESPONSE_CAP ((size_t)8 << 20)

struct call {
    struct agt_exchange *exchange; /* borrowed; on_end holds a reference */
    const struct rpc_client_method *method;
    agt_call_finish finish;
    struct rpc_client_call *rpc_call; /* loop thread; NULL when it could not be started */
    pthread_mutex_t lock;             /* guards what follows */
    struct cr_buf packed;             /* the response */
    struct rpc_status status;
    int error; /* the response could not be kept: a negative errno */
    bool has_ended;
};

/* Packed again, because the message is gone after the return and belongs to another thread. */
static bool on_message(void *user, const ProtobufCMessage *message)
{
    struct call *call = user;

    (void)pthread_mutex_lock(&call->lock);
    call->error = rpc_pack_into(message, &call->packed);
    (void)pthread_mutex_unlock(&call->lock);
    return true;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct call *call = user;
    struct agt_exchange *exchange = call->exchange;

    (void)pthread_mutex_lock(&call->lock);
    call->status = *status;
    agt_sandbox_hide_address(&call->status);
    call->has_ended = true;
    (void)pthread_mutex_unlock(&call->lock);
    agt_exchange_wake(exchange);
    agt_exchange_unref(exchange);
}

/* Half an answer can be read as well, and a message without bytes is one. */
static void check_kept(struct call *call)
{
    if (call->status.code != RPC_OK || call->error == 0)
        return;
    if (call->error == -ENOMEM)
        rpc_status_set(&call->status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    else
        rpc_status_set(&call->status, RPC_INTERNAL, "sandboxd's answer could not be kept");
}

static void finish(struct call *call)
{
    ProtobufCMessage *response = NULL;

    check_kept(call);
    if (call->status.code == RPC_OK)
        response = protobuf_c_message_unpack(call->method->response, NULL, call->packed.size,
                                             call->packed.data);
    if (call->status.code == RPC_OK && !response)
        rpc_status_set(&call->status, RPC_INTERNAL, "sandboxd's answer could not be read");
    call->finish(call->exchange, &call->status, response);
    if (response)
        protobuf_c_message_free_unpacked(response, NULL);
}

static void on_wake(struct agt_exchange *exchange)
{
    struct call *call = exchange->user;
    bool has_ended;

    (void)pthread_mutex_lock(&call->lock);
    has_ended = call->has_ended;
    (void)pthread_mutex_unlock(&call->lock);
    /* Nobody writes any more: on_end is the last callback. */
    if (has_ended)
        finish(call);
}

static void stop(struct agt_exchange *exchange)
{
    struct call *call = exchange->user;

    if (call->rpc_call)
        rpc_client_cancel(call->rpc_call);
}

static void free_call(void *user)
{
    struct call *call = user;

    rpc_client_unref(call->rpc_call);
    (void)pthread_mutex_destroy(&call->lock);
    cr_buf_done(&call->packed);
    free(call);
}

static const struct agt_operation operation = {
    .on_wake = on_wake,
    .stop = stop,
    .free = free_call,
};

static int start(struct call *call, const ProtobufCMessage *request, int deadline_ms)
{
    const struct agt_http_options *options = &call->exchange->http->options;
    const struct rpc_client_handlers handlers = {
        .on_message = on_message,
        .on_end = on_end,
        .user = call,
        .is_unary = true,
    };
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!options->loop || !options->channel)
        return -ENOTCONN;
    agt_exchange_ref(call->exchange);
    r = rpc_client_start(options->loop, options->channel, call->method, request, deadline_ms,
                         &handlers, &call->rpc_call, &err);
    if (r < 0) {
        cr_log_warn("cannot call sandboxd method=%s error=%s", call->method->path, err.text);
        agt_exchange_unref(call->exchange);
    }
    return r;
}

void agt_call_sandboxd(struct agt_exchange *exchange, const struct rpc_client_method *method,
                       const ProtobufCMessage *request, int deadline_ms, agt_call_finish on_finish)
{
    struct call *call = calloc(1, sizeof(*call));

    if (!call) {
        agt_exchange_fail_internal(exchange, "call sandboxd", -ENOMEM);
        return;
    }
    call->exchange = exchange;
    call->method = method;
    call->finish = on_finish;
    (void)pthread_mutex_init(&call->lock, NULL);
    cr_buf_init(&call->packed, RESPONSE_CAP);
    exchange->operation = &operation;
    exchange->user = call;
    if (start(call, request, deadline_ms) < 0) {
        rpc_status_set(&call->status, RPC_UNAVAILABLE,
                       "sandboxd cannot be reached; is it running?");
        finish(call);
    }
}
