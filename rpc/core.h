/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>
#include <protobuf-c/protobuf-c.h>

struct rpc_arena;
struct rpc_status;

/*
 * Internal to rpc/: what server and client both need from gRPC core.
 */

/* Packs straight into one slice, without a copy. The caller destroys the buffer. */
grpc_byte_buffer *rpc_core_pack(const ProtobufCMessage *message);
/* Copies two pieces, one behind the other, into one slice. `data` may be NULL with size 0. */
grpc_byte_buffer *rpc_core_copy(const void *head, size_t head_size, const void *data, size_t size);

/*
 * Checks and unpacks what was received; `buffer` stays the caller's. Returns
 * the message, in `arena`, or NULL with ret_status filled in.
 */
ProtobufCMessage *rpc_core_unpack(struct rpc_arena *arena,
                                  const ProtobufCMessageDescriptor *descriptor,
                                  grpc_byte_buffer *buffer, struct rpc_status *ret_status);

/* As rpc_core_unpack, into at most `cap_bytes` of heap memory; freed by rpc_message_free. */
ProtobufCMessage *rpc_core_unpack_owned(size_t cap_bytes,
                                        const ProtobufCMessageDescriptor *descriptor,
                                        grpc_byte_buffer *buffer, struct rpc_status *ret_status);

/* All bytes as one slice, which the caller unrefs. One copy when there are several slices. */
grpc_slice rpc_core_flatten(grpc_byte_buffer *buffer);

/* CLOCK_MONOTONIC ns to core's own time type; INT64_MAX is "never". */
gpr_timespec rpc_core_time(int64_t mono_ns);

/* The other way, from any of core's clocks; "never" is INT64_MAX. */
int64_t rpc_core_mono_ns(gpr_timespec time);

/*
 * start_batch whose failure can only be a fault in our state machine: aborts,
 * because a batch that was not started never completes and its call would
 * never be freed.
 */
void rpc_core_start_batch(grpc_call *call, const grpc_op *ops, size_t count, void *tag);
