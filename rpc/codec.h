/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct rpc_status;

/*
 * Unpacking with what protobuf-c 1.4 lacks: a check of the wire bytes before
 * it (strings are UTF-8 without NUL, nesting at most 32, no truncated field),
 * and an arena with a cap, so that a small message cannot claim a large
 * memory (147 MB for 4 MiB were measured without it).
 */
struct rpc_arena;

/* `cap_bytes` bounds all memory of the arena. NULL on -ENOMEM. */
struct rpc_arena *rpc_arena_new(size_t cap_bytes);
struct rpc_arena *rpc_arena_free(struct rpc_arena *arena); /* NULL is allowed; returns NULL */

/*
 * Checks and unpacks. The message lives in the arena: never free it by
 * itself. On failure NULL, and ret_status says INVALID_ARGUMENT with the path
 * of the field, or RESOURCE_EXHAUSTED for the cap.
 */
ProtobufCMessage *rpc_unpack(struct rpc_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                             const void *data, size_t size, struct rpc_status *ret_status);

/* The check alone: pure, no allocation. Returns 0 or -EINVAL with ret_status filled in. */
int rpc_wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                   struct rpc_status *ret_status);
