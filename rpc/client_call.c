/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/client_call.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/utf8.h"
#include "rpc/channel.h"
#include "rpc/codec.h"
#include "rpc/core.h"
#include "rpc/details.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>

/* An answer may claim this many times its own size once unpacked. */
#define UNPACK_FACTOR 8
#define METADATA_MAX 2

static void on_started(struct rpc_client_call *call, bool is_ok);
static void on_receive(struct rpc_client_call *call, bool is_ok);
static void on_status(struct rpc_client_call *call, bool is_ok);
static void on_resumed(struct rpc_client_call *call, bool is_ok);
static void on_sent(struct rpc_client_call *call, bool is_ok);

int rpc_client_call_new(struct rpc_channel *channel, grpc_completion_queue *queue,
                        const struct rpc_client_method *method, int deadline_ms,
                        struct rpc_client_call **ret_call, struct cr_err *err)
{
    struct rpc_client_call *call = calloc(1, sizeof(*call));
    int64_t due_ns = deadline_ms > 0 ? cr_clock_mono_ns() + deadline_ms * CR_NS_PER_MS : INT64_MAX;
    grpc_slice path;

    if (!call)
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    path = grpc_slice_from_copied_string(method->path);
    call->link = rpc_channel_link(channel);
    call->core = grpc_channel_create_call(call->link->core, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                          path, NULL, rpc_core_time(due_ns), NULL);
    grpc_slice_unref(path);
    call->response = method->response;
    call->path = method->path;
    call->max_response_bytes = channel->max_response_bytes;
    call->start_tag = (struct rpc_client_tag){on_started, call};
    call->receive_tag = (struct rpc_client_tag){on_receive, call};
    call->status_tag = (struct rpc_client_tag){on_status, call};
    call->resume_tag = (struct rpc_client_tag){on_resumed, call};
    call->send_tag = (struct rpc_client_tag){on_sent, call};
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    call->text = grpc_empty_slice();
    atomic_init(&call->refs, 2);
    (void)pthread_mutex_init(&call->lock, NULL); /* cannot fail with default attributes */
    *ret_call = call;
    return 0;
}

static void free_call(struct rpc_client_call *call)
{
    if (call->received)
        grpc_byte_buffer_destroy(call->received);
    grpc_slice_unref(call->text);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_call_unref(call->core);
    (void)rpc_link_unref(call->link);
    rpc_message_free(call->message);
    (void)pthread_mutex_destroy(&call->lock);
    free(call->failure);
    free(call);
}

struct rpc_client_call *rpc_client_unref(struct rpc_client_call *call)
{
    if (call && atomic_fetch_sub(&call->refs, 1) == 1)
        free_call(call);
    return NULL;
}

static void receive(struct rpc_client_call *call)
{
    grpc_op op = {0};

    call->is_receiving = true;
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &call->received;
    rpc_core_start_batch(call->core, &op, 1, &call->receive_tag);
}

static void ask_status(struct rpc_client_call *call)
{
    grpc_op op = {0};

    op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op.data.recv_status_on_client.trailing_metadata = &call->trailing;
    op.data.recv_status_on_client.status = &call->code;
    op.data.recv_status_on_client.status_details = &call->text;
    rpc_core_start_batch(call->core, &op, 1, &call->status_tag);
}

/* The values are the caller's to unref. Returns how many there are. */
static size_t fill_metadata(const struct rpc_client_call *call, struct rpc_channel *channel,
                            grpc_metadata metadata[METADATA_MAX])
{
    char parent[CR_TRACE_PARENT_SIZE];
    size_t count = 0;
    grpc_slice authorization;

    if (rpc_channel_authorization(channel, &authorization))
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("authorization"),
                                            .value = authorization};
    if (cr_trace_is_set(&call->trace)) {
        cr_trace_format(&call->trace, parent);
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("traceparent"),
                                            .value = grpc_slice_from_copied_string(parent)};
    }
    return count;
}

/* The headers, and the only message unless it is NULL. */
static void send_request(struct rpc_client_call *call, struct rpc_channel *channel,
                         const ProtobufCMessage *request)
{
    grpc_metadata metadata[METADATA_MAX];
    size_t metadata_count = fill_metadata(call, channel, metadata);
    grpc_byte_buffer *buffer = request ? rpc_core_pack(request) : NULL;
    grpc_op ops[4] = {0};
    size_t count = 0;

    ops[count].data.send_initial_metadata.count = metadata_count;
    ops[count].data.send_initial_metadata.metadata = metadata;
    ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (buffer) {
        ops[count].data.send_message.send_message = buffer;
        ops[count++].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    }
    /* Without it no message is ever received. */
    ops[count].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[count++].op = GRPC_OP_RECV_INITIAL_METADATA;
    rpc_core_start_batch(call->core, ops, count, &call->start_tag);
    if (buffer)
        grpc_byte_buffer_destroy(buffer);
    for (size_t i = 0; i < metadata_count; i++)
        grpc_slice_unref(metadata[i].value);
}

static enum rpc_kind kind_of(const struct rpc_client_call *call, const ProtobufCMessage *request)
{
    if (!request)
        return RPC_BIDI;
    return call->keeps_message || call->handlers.is_unary ? RPC_UNARY : RPC_SERVER_STREAM;
}

void rpc_client_call_begin(struct rpc_client_call *call, struct rpc_channel *channel,
                           const ProtobufCMessage *request)
{
    call->counts = rpc_channel_counts(channel, call->path, kind_of(call, request));
    call->started_ns = cr_clock_mono_ns();
    if (cr_trace_current())
        call->trace = *cr_trace_current();
    rpc_counts_start(call->counts);
    if (request)
        rpc_counts_send(call->counts);
    /* The first answers may reach the other thread before the last batch is started. */
    (void)pthread_mutex_lock(&call->lock);
    send_request(call, channel, request);
    ask_status(call);
    receive(call);
    (void)pthread_mutex_unlock(&call->lock);
}

void rpc_client_dispatch(const grpc_event *event)
{
    const struct rpc_client_tag *tag = event->tag;
    struct rpc_client_call *call = tag->call;
    struct cr_trace before;

    /* Waits for rpc_client_call_begin, and shows what it wrote. */
    (void)pthread_mutex_lock(&call->lock);
    (void)pthread_mutex_unlock(&call->lock);
    before = cr_trace_enter(&call->trace);
    tag->run(call, event->success != 0);
    (void)cr_trace_enter(&before);
}

static void set_text(struct rpc_client_call *call, struct rpc_status *status)
{
    const void *data = GRPC_SLICE_START_PTR(call->text);
    size_t size = GRPC_SLICE_LENGTH(call->text);

    if (cr_utf8_is_valid(data, size))
        rpc_status_set(status, (enum rpc_code)call->code, "%.*s", (int)size, (const char *)data);
    else
        rpc_status_set(status, (enum rpc_code)call->code, "%s", "(the message is not UTF-8)");
}

static void make_status(struct rpc_client_call *call, struct rpc_status *status)
{
    if (call->failure) {
        *status = *call->failure;
        return;
    }
    set_text(call, status);
    for (size_t i = 0; i < call->trailing.count; i++) {
        const grpc_metadata *entry = &call->trailing.metadata[i];

        /* Details that cannot be read are left out; the code stands. */
        if (grpc_slice_str_cmp(entry->key, RPC_DETAILS_KEY) == 0)
            (void)rpc_details_parse(GRPC_SLICE_START_PTR(entry->value),
                                    GRPC_SLICE_LENGTH(entry->value), status);
    }
}

static void end_if_done(struct rpc_client_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (!call->has_started || !call->has_status || call->is_receiving)
        return;
    (void)pthread_mutex_lock(&call->lock);
    call->has_ended = true;
    (void)pthread_mutex_unlock(&call->lock);
    make_status(call, &status);
    rpc_counts_end(call->counts, (int)status.code, call->started_ns);
    call->handlers.on_end(call->handlers.user, &status);
    if (call->on_gone)
        call->on_gone(call);
    (void)rpc_client_unref(call);
}

static void on_started(struct rpc_client_call *call, bool is_ok)
{
    (void)is_ok; /* the status tells why */
    call->has_started = true;
    end_if_done(call);
}

static void on_status(struct rpc_client_call *call, bool is_ok)
{
    (void)is_ok;
    call->has_status = true;
    end_if_done(call);
}

static void fail(struct rpc_client_call *call, const struct rpc_status *status)
{
    call->failure = malloc(sizeof(*call->failure));
    if (call->failure) {
        /* That the answer is bad is no fault of our caller's argument. */
        rpc_status_set(call->failure,
                       status->code == RPC_INVALID_ARGUMENT ? RPC_INTERNAL : status->code,
                       "the response cannot be read: %s", status->message);
    }
    (void)grpc_call_cancel(call->core, NULL);
}

/* Returns true when the next message is wanted. */
static bool keep(struct rpc_client_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (call->message) /* a unary method that answers twice; gRPC leaves it open */
        return true;
    call->message = rpc_core_unpack_owned(UNPACK_FACTOR * call->max_response_bytes, call->response,
                                          call->received, &status);
    if (!call->message)
        fail(call, &status);
    return true;
}

static bool deliver(struct rpc_client_call *call)
{
    struct rpc_arena *arena = rpc_arena_new(UNPACK_FACTOR * call->max_response_bytes);
    struct rpc_status status = RPC_STATUS_INIT;
    const ProtobufCMessage *message = NULL;
    bool wants_more = true;

    if (arena)
        message = rpc_core_unpack(arena, call->response, call->received, &status);
    else
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory");
    if (!message)
        fail(call, &status);
    else if (call->handlers.on_message)
        wants_more = call->handlers.on_message(call->handlers.user, message);
    (void)rpc_arena_free(arena);
    return wants_more;
}

static void on_receive(struct rpc_client_call *call, bool is_ok)
{
    bool wants_more = true;

    call->is_receiving = false;
    if (!is_ok || !call->received) {
        end_if_done(call);
        return;
    }
    rpc_counts_receive(call->counts);
    if (!call->failure)
        wants_more = call->keeps_message ? keep(call) : deliver(call);
    grpc_byte_buffer_destroy(call->received);
    call->received = NULL;
    call->is_paused = !wants_more;
    if (wants_more)
        receive(call);
    else
        end_if_done(call);
}

static void on_resumed(struct rpc_client_call *call, bool is_ok)
{
    bool has_ended;

    (void)is_ok;
    (void)pthread_mutex_lock(&call->lock);
    call->has_resume = false;
    has_ended = call->has_ended;
    (void)pthread_mutex_unlock(&call->lock);
    if (call->is_paused && !has_ended) {
        call->is_paused = false;
        receive(call);
    }
    (void)rpc_client_unref(call);
}

void rpc_client_cancel(struct rpc_client_call *call)
{
    (void)grpc_call_cancel(call->core, NULL);
}

void rpc_client_resume(struct rpc_client_call *call)
{
    (void)pthread_mutex_lock(&call->lock);
    /* After the end the queue may be shut down, and a batch on it would abort. */
    if (!call->has_ended && !call->has_resume) {
        call->has_resume = true;
        (void)atomic_fetch_add(&call->refs, 1);
        rpc_core_start_batch(call->core, NULL, 0, &call->resume_tag);
    }
    (void)pthread_mutex_unlock(&call->lock);
}

static void on_sent(struct rpc_client_call *call, bool is_ok)
{
    bool has_ended;

    (void)pthread_mutex_lock(&call->lock);
    call->is_sending = false;
    has_ended = call->has_ended;
    (void)pthread_mutex_unlock(&call->lock);
    if (is_ok && !has_ended && call->handlers.on_writable)
        call->handlers.on_writable(call->handlers.user);
    (void)rpc_client_unref(call);
}

/* Starts the batch unless the call cannot take it; see rpc_client_resume for the end. */
static bool start_send(struct rpc_client_call *call, const grpc_op *op)
{
    bool can_send;

    (void)pthread_mutex_lock(&call->lock);
    can_send = !call->has_ended && !call->is_sending;
    if (can_send) {
        call->is_sending = true;
        (void)atomic_fetch_add(&call->refs, 1);
        rpc_core_start_batch(call->core, op, 1, &call->send_tag);
    }
    (void)pthread_mutex_unlock(&call->lock);
    return can_send;
}

bool rpc_client_send(struct rpc_client_call *call, const ProtobufCMessage *message)
{
    grpc_byte_buffer *buffer = rpc_core_pack(message);
    grpc_op send = {.op = GRPC_OP_SEND_MESSAGE};
    bool is_sent;

    send.data.send_message.send_message = buffer;
    is_sent = start_send(call, &send);
    if (is_sent)
        rpc_counts_send(call->counts);
    grpc_byte_buffer_destroy(buffer); /* the batch holds its slices */
    return is_sent;
}

bool rpc_client_close_send(struct rpc_client_call *call)
{
    const grpc_op end = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

    return start_send(call, &end);
}
