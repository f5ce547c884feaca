/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/core.h"

#include "common/clock.h"
#include "common/log.h"
#include "rpc/client.h"
#include "rpc/codec.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

/* A client can make core log (and chooses the text), so the lines are counted. */
#define LOG_LINES_PER_S 10

static bool may_log(void)
{
    static _Atomic int64_t second;
    static _Atomic int lines;
    int64_t now = cr_clock_mono_ns() / CR_NS_PER_S;

    if (atomic_exchange(&second, now) != now)
        atomic_store(&lines, 0);
    return atomic_fetch_add(&lines, 1) < LOG_LINES_PER_S;
}

static void log_line(gpr_log_func_args *args)
{
    if (args->severity != GPR_LOG_SEVERITY_ERROR)
        cr_log_debug("grpc core: %s", args->message);
    else if (may_log())
        cr_log_warn("grpc core: %s", args->message);
}

void rpc_init(void)
{
    gpr_set_log_function(log_line);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
    grpc_init();
}

void rpc_fini(void)
{
    grpc_shutdown_blocking();
}

grpc_byte_buffer *rpc_core_pack(const ProtobufCMessage *message)
{
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    grpc_byte_buffer *buffer;

    (void)protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

grpc_byte_buffer *rpc_core_copy(const void *head, size_t head_size, const void *data, size_t size)
{
    grpc_slice slice = grpc_slice_malloc(head_size + size);
    grpc_byte_buffer *buffer;

    memcpy(GRPC_SLICE_START_PTR(slice), head, head_size);
    if (size > 0)
        memcpy(GRPC_SLICE_START_PTR(slice) + head_size, data, size);
    buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

grpc_slice rpc_core_flatten(grpc_byte_buffer *buffer)
{
    grpc_byte_buffer_reader reader;
    grpc_slice slice;

    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return grpc_empty_slice();
    slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return slice;
}

ProtobufCMessage *rpc_core_unpack(struct rpc_arena *arena,
                                  const ProtobufCMessageDescriptor *descriptor,
                                  grpc_byte_buffer *buffer, struct rpc_status *ret_status)
{
    grpc_slice slice = rpc_core_flatten(buffer);
    ProtobufCMessage *message = rpc_unpack(arena, descriptor, GRPC_SLICE_START_PTR(slice),
                                           GRPC_SLICE_LENGTH(slice), ret_status);

    grpc_slice_unref(slice); /* protobuf-c copies strings and bytes */
    return message;
}

/* What is given back is not subtracted: protobuf-c only gives back when it fails. */
struct allowance {
    size_t left;
};

static void *take_allowed(void *user, size_t size)
{
    struct allowance *allowance = user;

    if (size > allowance->left)
        return NULL;
    allowance->left -= size;
    return malloc(size);
}

static void give_back(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static ProtobufCMessage *unpack_owned(size_t cap_bytes,
                                      const ProtobufCMessageDescriptor *descriptor,
                                      grpc_slice slice, struct rpc_status *ret_status)
{
    struct allowance allowance = {cap_bytes};
    ProtobufCAllocator allocator = {take_allowed, give_back, &allowance};
    const uint8_t *data = GRPC_SLICE_START_PTR(slice);
    size_t size = GRPC_SLICE_LENGTH(slice);
    ProtobufCMessage *message;

    if (rpc_wire_check(descriptor, data, size, ret_status) < 0)
        return NULL;
    message = protobuf_c_message_unpack(descriptor, &allocator, size, data);
    if (!message)
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED,
                       "the message needs more than %zu bytes of memory", cap_bytes);
    return message;
}

ProtobufCMessage *rpc_core_unpack_owned(size_t cap_bytes,
                                        const ProtobufCMessageDescriptor *descriptor,
                                        grpc_byte_buffer *buffer, struct rpc_status *ret_status)
{
    grpc_slice slice = rpc_core_flatten(buffer);
    ProtobufCMessage *message = unpack_owned(cap_bytes, descriptor, slice, ret_status);

    grpc_slice_unref(slice);
    return message;
}

void rpc_message_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

gpr_timespec rpc_core_time(int64_t mono_ns)
{
    int64_t left_ns = mono_ns - cr_clock_mono_ns();

    if (mono_ns == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns, GPR_TIMESPAN));
}

int64_t rpc_core_mono_ns(gpr_timespec time)
{
    gpr_timespec left;

    if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0)
        return INT64_MAX;
    left = gpr_time_sub(time, gpr_now(time.clock_type));
    /* A client may ask for 8 digits of hours; that is as good as never. */
    if (left.tv_sec > INT64_C(1000000000))
        return INT64_MAX;
    return cr_clock_mono_ns() + left.tv_sec * CR_NS_PER_S + left.tv_nsec;
}

void rpc_core_start_batch(grpc_call *call, const grpc_op *ops, size_t count, void *tag)
{
    grpc_call_error error = grpc_call_start_batch(call, ops, count, tag, NULL);

    if (error == GRPC_CALL_OK)
        return;
    cr_log_error("grpc core refused a batch: %s", grpc_call_error_to_string(error));
    abort();
}
