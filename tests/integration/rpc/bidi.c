/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rpc/bidi.h"

#include "rpc/channel.h"
#include "rpc/core.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <stdlib.h>

#include <grpc/byte_buffer.h>

struct bidi {
    grpc_call *core;
    grpc_completion_queue *queue; /* to pluck from; the address of an operation is its tag */
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *received;
    grpc_status_code code;
    grpc_slice text;
};

static void wait_for(struct bidi *bidi, void *tag)
{
    gpr_timespec due =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN));
    grpc_event event = grpc_completion_queue_pluck(bidi->queue, tag, due, NULL);

    assert_int_equal(event.type, GRPC_OP_COMPLETE);
}

static void run(struct bidi *bidi, const grpc_op *op)
{
    int tag;

    rpc_core_start_batch(bidi->core, op, 1, &tag);
    wait_for(bidi, &tag);
}

struct bidi *bidi_open(struct rpc_channel *channel, const char *path)
{
    struct bidi *bidi = calloc(1, sizeof(*bidi));
    grpc_slice slice = grpc_slice_from_copied_string(path);
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};

    assert_non_null(bidi);
    grpc_metadata_array_init(&bidi->initial);
    grpc_metadata_array_init(&bidi->trailing);
    bidi->queue = grpc_completion_queue_create_for_pluck(NULL);
    bidi->core =
        grpc_channel_create_call(channel->link->core, NULL, GRPC_PROPAGATE_DEFAULTS, bidi->queue,
                                 slice, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_slice_unref(slice);
    run(bidi, &op);
    op = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA};
    op.data.recv_initial_metadata.recv_initial_metadata = &bidi->initial;
    rpc_core_start_batch(bidi->core, &op, 1, &bidi->initial);
    op = (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &bidi->trailing;
    op.data.recv_status_on_client.status = &bidi->code;
    op.data.recv_status_on_client.status_details = &bidi->text;
    rpc_core_start_batch(bidi->core, &op, 1, &bidi->code);
    return bidi;
}

void bidi_send(struct bidi *bidi, const ProtobufCMessage *message)
{
    grpc_byte_buffer *buffer = rpc_core_pack(message);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};

    op.data.send_message.send_message = buffer;
    run(bidi, &op);
    grpc_byte_buffer_destroy(buffer);
}

void bidi_half_close(struct bidi *bidi)
{
    const grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

    run(bidi, &op);
}

ProtobufCMessage *bidi_receive(struct bidi *bidi, const ProtobufCMessageDescriptor *descriptor)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    struct rpc_status status;
    ProtobufCMessage *message;

    op.data.recv_message.recv_message = &bidi->received;
    run(bidi, &op);
    if (!bidi->received)
        return NULL;
    message = rpc_core_unpack_owned(1U << 20, descriptor, bidi->received, &status);
    assert_non_null(message);
    grpc_byte_buffer_destroy(bidi->received);
    bidi->received = NULL;
    return message;
}

void bidi_cancel(struct bidi *bidi)
{
    (void)grpc_call_cancel(bidi->core, NULL);
}

int bidi_finish(struct bidi *bidi)
{
    int code;

    wait_for(bidi, &bidi->code);
    wait_for(bidi, &bidi->initial);
    code = (int)bidi->code;
    grpc_slice_unref(bidi->text);
    grpc_metadata_array_destroy(&bidi->initial);
    grpc_metadata_array_destroy(&bidi->trailing);
    grpc_call_unref(bidi->core);
    grpc_completion_queue_shutdown(bidi->queue);
    grpc_completion_queue_destroy(bidi->queue);
    free(bidi);
    return code;
}
