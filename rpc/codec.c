/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/codec.h"

#include "common/auto.h"
#include "rpc/status.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>

#define FIRST_CHUNK_BYTES 4096U
#define CHUNK_BYTES_MAX ((size_t)256 * 1024)

/* One piece of memory; the first is small, so that a small call costs little. */
struct chunk {
    struct chunk *next;
    size_t size; /* of data */
    size_t used;
    alignas(max_align_t) uint8_t data[];
};

struct rpc_arena {
    struct chunk *chunks; /* newest first; only the newest has room */
    size_t cap;
    size_t taken; /* bytes of all chunks, headers included */
    bool is_full; /* an allocation would have passed the cap */
    bool is_out;  /* malloc had no more */
    ProtobufCAllocator allocator;
};

static struct chunk *add_chunk(struct rpc_arena *arena, size_t need)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK_BYTES;
    size_t left = arena->cap - arena->taken;
    struct chunk *chunk;

    if (left < sizeof(*chunk) || need > left - sizeof(*chunk)) {
        arena->is_full = true;
        return NULL;
    }
    if (size > CHUNK_BYTES_MAX)
        size = CHUNK_BYTES_MAX;
    if (size < need)
        size = need;
    if (size > left - sizeof(*chunk))
        size = left - sizeof(*chunk);
    chunk = malloc(sizeof(*chunk) + size);
    if (!chunk) {
        arena->is_out = true;
        return NULL;
    }
    *chunk = (struct chunk){.next = arena->chunks, .size = size};
    arena->chunks = chunk;
    arena->taken += sizeof(*chunk) + size;
    return chunk;
}

static void *arena_alloc(void *user, size_t size)
{
    const size_t align = alignof(max_align_t);
    struct rpc_arena *arena = user;
    struct chunk *chunk = arena->chunks;
    void *memory;

    if (size > arena->cap) {
        arena->is_full = true;
        return NULL;
    }
    size = (size + align - 1) / align * align;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = add_chunk(arena, size);
    if (!chunk)
        return NULL;
    memory = chunk->data + chunk->used;
    chunk->used += size;
    return memory;
}

/* Everything goes at once, with the arena. */
static void arena_free_nothing(void *user, void *memory)
{
    (void)user;
    (void)memory;
}

struct rpc_arena *rpc_arena_new(size_t cap_bytes)
{
    struct rpc_arena *arena = calloc(1, sizeof(*arena));

    if (!arena)
        return NULL;
    arena->cap = cap_bytes;
    arena->allocator = (ProtobufCAllocator){
        .alloc = arena_alloc, .free = arena_free_nothing, .allocator_data = arena};
    return arena;
}

struct rpc_arena *rpc_arena_free(struct rpc_arena *arena)
{
    if (!arena)
        return NULL;
    while (arena->chunks) {
        struct chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        free(chunk);
    }
    free(arena);
    return NULL;
}

ProtobufCMessage *rpc_unpack(struct rpc_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                             const void *data, size_t size, struct rpc_status *ret_status)
{
    ProtobufCMessage *message;

    if (rpc_wire_check(descriptor, data, size, ret_status) < 0)
        return NULL;
    message = protobuf_c_message_unpack(descriptor, &arena->allocator, size, data);
    if (message)
        return message;
    *ret_status = (struct rpc_status)RPC_STATUS_INIT;
    if (arena->is_full)
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED,
                       "the message needs more than %zu bytes of memory when unpacked; send fewer "
                       "or smaller items",
                       arena->cap);
    else if (arena->is_out)
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory");
    else
        rpc_status_set(ret_status, RPC_INVALID_ARGUMENT, "the message cannot be read as %s",
                       descriptor->name);
    return NULL;
}
