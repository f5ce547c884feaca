/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/call.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/utf8.h"
#include "rpc/codec.h"
#include "rpc/core.h"
#include "rpc/peers.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdlib.h>

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>

/* A message may claim this many times its own size once unpacked. */
#define UNPACK_FACTOR 8

/* Of a path that we do not know; a client chose it. */
#define PATH_SHOWN_BYTES 256

static void on_request(struct rpc_call *call, bool is_ok);
static void on_close(struct rpc_call *call, bool is_ok);
static void on_receive(struct rpc_call *call, bool is_ok);
static void on_sent(struct rpc_call *call, bool is_ok);
static void on_ended(struct rpc_call *call, bool is_ok);
static void on_woken(struct rpc_call *call, bool is_ok);
static void free_call(struct rpc_call *call, bool is_ok);

static struct rpc_call *new_call(struct rpc_server *server)
{
    struct rpc_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->server = server;
    atomic_init(&call->refs, 1);
    call->deadline_ns = INT64_MAX;
    call->request_tag = (struct rpc_tag){on_request, call};
    call->close_tag = (struct rpc_tag){on_close, call};
    call->receive_tag = (struct rpc_tag){on_receive, call};
    call->send_tag = (struct rpc_tag){on_sent, call};
    call->end_tag = (struct rpc_tag){on_ended, call};
    call->wake_tag = (struct rpc_tag){on_woken, call};
    call->free_tag = (struct rpc_tag){free_call, call};
    call->request_stall.owner = call;
    call->write_stall.owner = call;
    call->ending.text = grpc_empty_slice();
    call->ending.details = grpc_empty_slice();
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    return call;
}

/* Also the end of an armed request that core gave back at shutdown: then there is no core call. */
static void free_call(struct rpc_call *call, bool is_ok)
{
    struct rpc_server *server = call->server;
    grpc_call *core = call->core;

    (void)is_ok;
    if (call->has_started && call->method->on_free)
        call->method->on_free(call);
    rpc_stall_stop(&call->request_stall);
    rpc_stall_stop(&call->write_stall);
    rpc_ending_done(&call->ending);
    if (call->received)
        grpc_byte_buffer_destroy(call->received);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    if (core) {
        /* The entry of its peer is good until this: see connection.h. */
        grpc_call_unref(core);
        rpc_server_call_freed(server, call);
    }
    free(call);
}

/* False when there is no memory. */
static bool arm_one(struct rpc_server *server)
{
    struct rpc_call *call = new_call(server);
    grpc_call_error error;

    if (!call)
        return false;
    error = grpc_server_request_call(server->core, &call->core, &call->details, &call->metadata,
                                     server->queue, server->queue, &call->request_tag);
    /* The drain began between the check and here. */
    if (error != GRPC_CALL_OK)
        free_call(call, false);
    return true;
}

void rpc_call_arm(struct rpc_server *server, uint32_t count)
{
    if (rpc_server_is_draining(server)) {
        server->unarmed = 0;
        return;
    }
    server->unarmed += count;
    while (server->unarmed > 0 && arm_one(server))
        server->unarmed--;
}

static bool find_peer(struct rpc_call *call)
{
    char *name = grpc_call_get_peer(call->core);
    bool is_found = rpc_peers_find(call->server->peers, name, &call->peer);

    /* Core names no peer for a call that it refuses itself, e.g. for its compression. */
    if (!is_found)
        cr_log_debug("a call has no known peer, refusing it peer=%s", name);
    gpr_free(name);
    return is_found;
}

static void refuse_unknown(struct rpc_call *call)
{
    const char *path = (const char *)GRPC_SLICE_START_PTR(call->details.method);
    size_t size = GRPC_SLICE_LENGTH(call->details.method);
    struct rpc_status status;

    if (size <= PATH_SHOWN_BYTES && cr_utf8_is_valid(path, size))
        rpc_status_set(&status, RPC_UNIMPLEMENTED, "unknown method '%.*s'", (int)size, path);
    else
        rpc_status_set(&status, RPC_UNIMPLEMENTED, "unknown method");
    rpc_call_finish(call, &status, NULL);
}

static void refuse(struct rpc_call *call, int error)
{
    struct rpc_status status;

    if (error == -ESHUTDOWN) {
        rpc_status_set_draining(&status);
    } else {
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "too many calls at once; try again later");
        status.retry_after_ms = 1000;
    }
    rpc_call_finish(call, &status, NULL);
}

/* True when the call may reach its handler; else it is finished. */
static bool let_in(struct rpc_call *call, const struct rpc_route *route)
{
    const struct rpc_server_options *options = &call->server->options;
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!find_peer(call)) {
        rpc_status_set(&status, RPC_UNAVAILABLE, "the connection is gone");
        rpc_call_finish(call, &status, NULL);
        return false;
    }
    if (options->authorize &&
        !options->authorize(options->context, call, call->peer.caller, &status)) {
        rpc_call_finish(call, &status, NULL);
        return false;
    }
    /* Not before: who may not call takes no place of those who may. */
    r = rpc_server_admit(call->server, call,
                         route->is_internal ? RPC_CALL_INTERNAL : RPC_CALL_SERVICE);
    if (r < 0) {
        refuse(call, r);
        return false;
    }
    return true;
}

/* What cannot be read counts as not sent: the call gets a trace of its own. */
static void take_trace(struct rpc_call *call)
{
    const char *text = NULL;
    size_t size = 0;

    if (!rpc_call_metadata(call, "traceparent", &text, &size) ||
        !cr_trace_parse(text, size, &call->trace))
        call->trace = cr_trace_new(true);
    (void)cr_trace_enter(&call->trace); /* until the end of this callback, see server.c */
}

static void begin(struct rpc_call *call)
{
    const struct rpc_route *route = rpc_server_find_route(call->server, call->details.method);

    call->counts = route ? route->counts : &call->server->counts[call->server->route_count];
    call->started_ns = cr_clock_mono_ns();
    rpc_counts_start(call->counts);
    take_trace(call);
    if (!route) {
        refuse_unknown(call);
        return;
    }
    call->method = route->method;
    call->deadline_ns = rpc_core_mono_ns(call->details.deadline);
    if (!let_in(call, route))
        return;
    call->has_started = true;
    if (call->method->on_start)
        call->method->on_start(call);
    if (call->is_finished)
        return;
    rpc_call_receive(call);
    rpc_stall_start(&call->server->request_stalls, &call->request_stall, cr_clock_mono_ns());
}

static void on_request(struct rpc_call *call, bool is_ok)
{
    grpc_op op = {0};

    if (!is_ok) {
        free_call(call, false);
        return;
    }
    rpc_server_call_opened(call->server);
    rpc_call_arm(call->server, 1);
    /* Always: without it the end of a call is never reported. */
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->close_flag;
    rpc_call_batch(call, &op, 1, &call->close_tag);
    begin(call);
    (void)rpc_call_unref(call);
}

/* The handler hears of it before the call has its end. */
static void break_off(struct rpc_call *call, const struct rpc_status *status)
{
    atomic_store(&call->is_cancelled, true);
    if (!call->is_finished && call->has_started && call->method->on_cancel)
        call->method->on_cancel(call);
    rpc_call_finish(call, status, NULL);
}

static void on_close(struct rpc_call *call, bool is_ok)
{
    struct rpc_status status;

    (void)is_ok;
    if (call->close_flag) {
        rpc_status_set(&status, RPC_CANCELLED, "the call was cancelled");
        break_off(call, &status);
    }
    (void)rpc_call_unref(call);
}

static void deliver(struct rpc_call *call)
{
    struct rpc_arena *arena =
        rpc_arena_new(UNPACK_FACTOR * call->server->options.max_request_bytes);
    struct rpc_status status = RPC_STATUS_INIT;
    const ProtobufCMessage *message = NULL;

    if (arena)
        message = rpc_core_unpack(arena, call->method->request, call->received, &status);
    else
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory for the request");
    grpc_byte_buffer_destroy(call->received);
    call->received = NULL;
    if (message) {
        rpc_counts_receive(call->counts);
        call->method->on_message(call, message);
    } else {
        /* What came before may have begun something. */
        if (call->method->kind == RPC_BIDI && call->method->on_cancel)
            call->method->on_cancel(call);
        rpc_call_finish(call, &status, NULL);
    }
    (void)rpc_arena_free(arena);
}

static void end_of_messages(struct rpc_call *call)
{
    struct rpc_status status;

    call->is_half_closed = true;
    if (call->method->kind == RPC_BIDI) {
        if (call->method->on_half_close)
            call->method->on_half_close(call);
        return;
    }
    /* A message that was cut short looks the same to core. */
    rpc_status_set(&status, RPC_INVALID_ARGUMENT, "the call has no complete request message");
    rpc_call_finish(call, &status, NULL);
}

static void on_receive(struct rpc_call *call, bool is_ok)
{
    call->is_receiving = false;
    rpc_stall_stop(&call->request_stall);
    if (!call->is_finished) {
        if (is_ok && call->received)
            deliver(call);
        else
            end_of_messages(call);
    }
    (void)rpc_call_unref(call);
}

static void on_sent(struct rpc_call *call, bool is_ok)
{
    call->is_sending = false;
    rpc_stall_stop(&call->write_stall);
    if (call->is_finished)
        rpc_call_send_ending(call);
    else if (is_ok && call->method->on_writable)
        call->method->on_writable(call);
    (void)rpc_call_unref(call);
}

static void on_ended(struct rpc_call *call, bool is_ok)
{
    (void)is_ok;
    rpc_stall_stop(&call->write_stall);
    (void)rpc_call_unref(call);
}

static void on_woken(struct rpc_call *call, bool is_ok)
{
    struct rpc_status status;

    (void)is_ok;
    /* Before the handler looks, so that a wake during on_wake comes again. */
    atomic_store(&call->has_wake, false);
    if (!call->is_finished && atomic_load(&call->server->has_no_grace)) {
        rpc_status_set_draining(&status);
        break_off(call, &status);
    } else if (!call->is_finished && call->has_started && call->method->on_wake)
        call->method->on_wake(call);
    (void)rpc_call_unref(call);
}

void rpc_call_expire(struct rpc_server *server, int64_t now_ns)
{
    struct rpc_status status;
    struct rpc_stall *stall;

    while ((stall = rpc_stalls_take_due(&server->request_stalls, now_ns)) != NULL) {
        rpc_status_set(&status, RPC_DEADLINE_EXCEEDED, "no request message came");
        rpc_call_finish(stall->owner, &status, NULL);
    }
    /* What waits to be written cannot be followed by a status, only cut off. */
    while ((stall = rpc_stalls_take_due(&server->write_stalls, now_ns)) != NULL) {
        struct rpc_call *call = stall->owner;

        (void)grpc_call_cancel_with_status(call->core, GRPC_STATUS_DEADLINE_EXCEEDED,
                                           "the client does not read", NULL);
    }
}
