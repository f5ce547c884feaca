/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "rpc/call.h"
#include "rpc/core.h"
#include "rpc/details.h"
#include "rpc/status.h"

#include <stdlib.h>

#include <grpc/byte_buffer.h>

void rpc_call_batch(struct rpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag)
{
    (void)rpc_call_ref(call);
    rpc_core_start_batch(call->core, ops, count, tag);
}

void rpc_ending_done(struct rpc_ending *ending)
{
    grpc_slice_unref(ending->text);
    grpc_slice_unref(ending->details);
    if (ending->last)
        grpc_byte_buffer_destroy(ending->last);
    ending->text = grpc_empty_slice();
    ending->details = grpc_empty_slice();
    ending->last = NULL;
}

/* The headers go with the first message or with the end. */
static size_t add_metadata_op(struct rpc_call *call, grpc_op *ops)
{
    if (call->has_sent_metadata)
        return 0;
    call->has_sent_metadata = true;
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    return 1;
}

static bool send_buffer(struct rpc_call *call, grpc_byte_buffer *buffer, uint32_t flags)
{
    grpc_op ops[2] = {0};
    size_t count = add_metadata_op(call, ops);

    ops[count].op = GRPC_OP_SEND_MESSAGE;
    /* With the headers in the batch, core would hold back both, and complete neither. */
    ops[count].flags = count == 0 ? flags : 0;
    ops[count++].data.send_message.send_message = buffer;
    call->is_sending = true;
    rpc_counts_send(call->counts);
    rpc_stall_start(&call->server->write_stalls, &call->write_stall, cr_clock_mono_ns());
    rpc_call_batch(call, ops, count, &call->send_tag);
    grpc_byte_buffer_destroy(buffer); /* the batch holds its slices */
    return true;
}

bool rpc_call_can_send(const struct rpc_call *call)
{
    return !call->is_sending && !call->is_finished && !atomic_load(&call->is_cancelled);
}

bool rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    return rpc_call_can_send(call) && send_buffer(call, rpc_core_pack(message), 0);
}

bool rpc_call_send_packed(struct rpc_call *call, const void *data, size_t size)
{
    return rpc_call_can_send(call) && send_buffer(call, rpc_core_copy(data, size, NULL, 0), 0);
}

bool rpc_call_send_pieces(struct rpc_call *call, const void *head, size_t head_size,
                          const void *data, size_t size, bool has_more)
{
    return rpc_call_can_send(call) && send_buffer(call, rpc_core_copy(head, head_size, data, size),
                                                  has_more ? GRPC_WRITE_BUFFER_HINT : 0);
}

void rpc_call_receive(struct rpc_call *call)
{
    grpc_op op = {0};

    if (call->is_receiving || call->is_finished || call->is_half_closed)
        return;
    call->is_receiving = true;
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &call->received;
    rpc_call_batch(call, &op, 1, &call->receive_tag);
}

void rpc_call_read(struct rpc_call *call)
{
    if (call->method->kind == RPC_BIDI)
        rpc_call_receive(call);
}

void rpc_call_send_ending(struct rpc_call *call)
{
    struct rpc_ending *ending = &call->ending;
    grpc_metadata details = {.key = grpc_slice_from_static_string(RPC_DETAILS_KEY),
                             .value = ending->details};
    grpc_op ops[3] = {0};
    size_t count = add_metadata_op(call, ops);
    grpc_op *op;

    if (ending->last) {
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = ending->last;
    }
    op = &ops[count++];
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = ending->code;
    op->data.send_status_from_server.status_details = &ending->text;
    if (!GRPC_SLICE_IS_EMPTY(ending->details)) {
        op->data.send_status_from_server.trailing_metadata_count = 1;
        op->data.send_status_from_server.trailing_metadata = &details;
    }
    rpc_stall_start(&call->server->write_stalls, &call->write_stall, cr_clock_mono_ns());
    rpc_call_batch(call, ops, count, &call->end_tag);
    rpc_ending_done(ending);
}

/* Without details when memory is short: the code is what counts. */
static grpc_slice pack_details(const struct rpc_status *status)
{
    grpc_slice slice = grpc_empty_slice();
    uint8_t *data = NULL;
    size_t size = 0;

    if (rpc_details_pack(status, &data, &size) == 0 && size > 0)
        slice = grpc_slice_from_copied_buffer((const char *)data, size);
    free(data);
    return slice;
}

static void set_ending(struct rpc_call *call, const struct rpc_status *status,
                       const ProtobufCMessage *last)
{
    bool is_unary = call->method && call->method->kind == RPC_UNARY;
    struct rpc_status lost;

    if (is_unary && !last && (!status || status->code == RPC_OK)) {
        rpc_status_set(&lost, RPC_INTERNAL, "the handler gave no answer");
        status = &lost;
    }
    if (status) {
        call->ending.code = (grpc_status_code)status->code;
        call->ending.text = grpc_slice_from_copied_string(status->message);
        call->ending.details = pack_details(status);
    } else {
        call->ending.code = GRPC_STATUS_OK;
    }
    /* A unary answer beside an error would be a protocol error for some clients. */
    if (last && (!is_unary || call->ending.code == GRPC_STATUS_OK))
        call->ending.last = rpc_core_pack(last);
}

void rpc_call_finish(struct rpc_call *call, const struct rpc_status *status,
                     const ProtobufCMessage *last)
{
    if (call->is_finished)
        return;
    call->is_finished = true;
    rpc_stall_stop(&call->request_stall);
    set_ending(call, status, last);
    if (call->ending.last)
        rpc_counts_send(call->counts);
    rpc_counts_end(call->counts, (int)call->ending.code, call->started_ns);
    if (!call->is_sending)
        rpc_call_send_ending(call);
}

void rpc_call_wake(struct rpc_call *call)
{
    /* An empty batch puts its tag on the queue of the call at once, from any thread. */
    if (!atomic_exchange(&call->has_wake, true))
        rpc_call_batch(call, NULL, 0, &call->wake_tag);
}

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    (void)atomic_fetch_add(&call->refs, 1);
    return call;
}

struct rpc_call *rpc_call_unref(struct rpc_call *call)
{
    if (!call || atomic_fetch_sub(&call->refs, 1) != 1)
        return NULL;
    /* on_free belongs on the thread of the other callbacks. */
    if (pthread_equal(pthread_self(), call->server->thread))
        call->free_tag.run(call, true);
    else
        rpc_core_start_batch(call->core, NULL, 0, &call->free_tag);
    return NULL;
}

bool rpc_call_is_cancelled(const struct rpc_call *call)
{
    return atomic_load(&call->is_cancelled);
}

int64_t rpc_call_deadline_ns(const struct rpc_call *call)
{
    return call->deadline_ns;
}

bool rpc_call_metadata(const struct rpc_call *call, const char *key, const char **ret_value,
                       size_t *ret_size)
{
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *entry = &call->metadata.metadata[i];

        if (grpc_slice_str_cmp(entry->key, key) != 0)
            continue;
        *ret_value = (const char *)GRPC_SLICE_START_PTR(entry->value);
        *ret_size = GRPC_SLICE_LENGTH(entry->value);
        return true;
    }
    return false;
}

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
    return &call->peer;
}

const char *rpc_call_path(const struct rpc_call *call)
{
    return call->method->path;
}

void rpc_call_set_user(struct rpc_call *call, void *user)
{
    call->user = user;
}

void *rpc_call_user(const struct rpc_call *call)
{
    return call->user;
}

void *rpc_call_context(const struct rpc_call *call)
{
    return call->server->options.context;
}
