/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/span.h"
#include "tests/harness/test.h"

#define SPAN(text)                                                                                 \
    {                                                                                              \
        (const uint8_t *)(text), sizeof(text) - 1                                                  \
    }

static void every_wire_type_is_read(void **state)
{
    struct rpc_span span = SPAN("\x08\x96\x01"                         /* 1: varint */
                                "\x11\x01\x02\x03\x04\x05\x06\x07\x08" /* 2: 64 bits */
                                "\x1A\x03"
                                "abc"                    /* 3: bytes */
                                "\x25\x01\x02\x03\x04"); /* 4: 32 bits */
    static const size_t sizes[] = {2, 8, 3, 4};
    struct rpc_span value;
    uint32_t field;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(rpc_span_next(&span, &field, &value));
        assert_int_equal(field, i + 1);
        assert_int_equal(value.size, sizes[i]);
    }
    assert_false(rpc_span_next(&span, &field, &value));
    assert_int_equal(span.size, 0);
}

static void malformed_bytes_leave_a_rest(void **state)
{
    static const struct rpc_span bad[] = {
        SPAN("\x08"),                                             /* no value */
        SPAN("\x08\x80"),                                         /* varint cut */
        SPAN("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), /* varint too long */
        SPAN("\x0A\x05"
             "ab"),                                           /* bytes cut */
        SPAN("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), /* 2^64 - 1 bytes */
        SPAN("\x0D\x01\x02"),                                 /* 32 bits cut */
        SPAN("\x09\x01"),                                     /* 64 bits cut */
        SPAN("\x0B\x0C"),                                     /* group */
        SPAN("\x02\x00"),                                     /* field 0 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rpc_span span = bad[i];
        struct rpc_span value;
        uint32_t field;

        assert_false(rpc_span_next(&span, &field, &value));
        assert_int_equal(span.size, bad[i].size);
    }
}

static void get_gives_the_first_value(void **state)
{
    const struct rpc_span span = SPAN("\x0A\x01"
                                      "a"
                                      "\x12\x01"
                                      "b"
                                      "\x12\x01"
                                      "c");

    (void)state;
    assert_int_equal(rpc_span_get(span, 2).data[0], 'b');
    assert_int_equal(rpc_span_get(span, 3).size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wire_type_is_read),
        cmocka_unit_test(malformed_bytes_leave_a_rest),
        cmocka_unit_test(get_gives_the_first_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
