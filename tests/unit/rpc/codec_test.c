/* SPDX-License-Identifier: Apache-2.0 */
#include "everything.pb-c.h"
#include "rpc/codec.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define EVERYTHING (&crisol__test__v1__everything__descriptor)

static void codec_unpacks_into_the_arena(void **state)
{
    static const char BYTES[] = "\x08\x2a\x72\x02hi\x92\x02\x01x\x92\x02\x01y";
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_arena *arena = rpc_arena_new(4096);
    const Crisol__Test__V1__Everything *message;

    (void)state;
    message = (const Crisol__Test__V1__Everything *)rpc_unpack(arena, EVERYTHING, BYTES,
                                                               sizeof(BYTES) - 1, &status);

    assert_non_null(message);
    assert_int_equal(message->an_int32, 42);
    assert_string_equal(message->a_string, "hi");
    assert_int_equal(message->n_strings, 2);
    assert_string_equal(message->strings[1], "y");
    assert_null(rpc_arena_free(arena));
}

static void codec_unpacks_the_empty_message(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_arena *arena = rpc_arena_new(4096);

    (void)state;
    assert_non_null(rpc_unpack(arena, EVERYTHING, NULL, 0, &status));
    (void)rpc_arena_free(arena);
}

static void codec_takes_several_messages_into_one_arena(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_arena *arena = rpc_arena_new((size_t)1 << 20);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_non_null(rpc_unpack(arena, EVERYTHING, "\x72\x02hi", 4, &status));
    (void)rpc_arena_free(arena);
}

/* 20,000 empty messages are 60 KB on the wire and some 10 MB in memory. */
static void codec_refuses_what_passes_the_cap(void **state)
{
    enum {
        COUNT = 20000
    };
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_arena *arena = rpc_arena_new((size_t)1 << 20);
    uint8_t *bytes = malloc((size_t)COUNT * 3);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(bytes + 3 * i, "\xaa\x02\x00", 3);

    assert_null(rpc_unpack(arena, EVERYTHING, bytes, (size_t)COUNT * 3, &status));

    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(status.message, "1048576 bytes"));
    free(bytes);
    (void)rpc_arena_free(arena);
}

static void codec_holds_at_every_cap(void **state)
{
    static const char BYTES[] =
        "\x72\x02hi\x92\x02\x01x\x92\x02\x01y\x8a\x01\x02\x08\x01\xaa\x01\x03\x01\x96\x01";
    int refused = 0;

    (void)state;
    for (size_t cap = 0; cap < 4096; cap += 16) {
        struct rpc_status status = RPC_STATUS_INIT;
        struct rpc_arena *arena = rpc_arena_new(cap);

        assert_non_null(arena);
        if (!rpc_unpack(arena, EVERYTHING, BYTES, sizeof(BYTES) - 1, &status)) {
            assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
            refused++;
        }
        (void)rpc_arena_free(arena);
    }
    assert_in_range(refused, 1, 255);
}

static void codec_says_what_is_wrong_with_bad_bytes(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_arena *arena = rpc_arena_new(4096);

    (void)state;
    assert_null(rpc_unpack(arena, EVERYTHING, "\x72\x01\xff", 3, &status));

    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    assert_string_equal(status.violations[0].field, "a_string");
    (void)rpc_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codec_unpacks_into_the_arena),
        cmocka_unit_test(codec_unpacks_the_empty_message),
        cmocka_unit_test(codec_takes_several_messages_into_one_arena),
        cmocka_unit_test(codec_refuses_what_passes_the_cap),
        cmocka_unit_test(codec_holds_at_every_cap),
        cmocka_unit_test(codec_says_what_is_wrong_with_bad_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
