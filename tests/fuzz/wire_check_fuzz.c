/* SPDX-License-Identifier: Apache-2.0 */
#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "everything.pb-c.h"
#include "rpc/codec.h"
#include "rpc/status.h"
#include "tests/fuzz/fuzz.h"

#define ARENA_BYTES ((size_t)4 << 20)

static const ProtobufCMessageDescriptor *const types[] = {
    &crisol__test__v1__everything__descriptor,
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__execute_response__descriptor,
    &crisol__agent__v1__run_event__descriptor,
};

/* What was unpacked can be packed, and passes the check again. */
static void check_packed(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size + 1);
    struct rpc_status status = RPC_STATUS_INIT;

    FUZZ_CHECK(packed);
    FUZZ_CHECK(protobuf_c_message_pack(message, packed) == size);
    FUZZ_CHECK(rpc_wire_check(message->descriptor, packed, size, &status) == 0);
    free(packed);
}

/* The first byte chooses the type. Whatever the check lets through, protobuf-c must be able to
 * read: only the cap may still refuse it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rpc_status status = RPC_STATUS_INIT;
    const ProtobufCMessageDescriptor *type;
    struct rpc_arena *arena;
    const ProtobufCMessage *message;
    int r;

    if (size == 0)
        return 0;
    type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    r = rpc_wire_check(type, data + 1, size - 1, &status);
    FUZZ_CHECK((r == 0) == (status.code == RPC_OK));
    arena = rpc_arena_new(ARENA_BYTES);
    FUZZ_CHECK(arena);
    message = rpc_unpack(arena, type, data + 1, size - 1, &status);
    if (message)
        check_packed(message);
    else
        FUZZ_CHECK(r < 0 || status.code == RPC_RESOURCE_EXHAUSTED);
    (void)rpc_arena_free(arena);
    return 0;
}
