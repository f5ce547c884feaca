/* SPDX-License-Identifier: Apache-2.0 */
#include "everything.pb-c.h"
#include "rpc/codec.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define EVERYTHING (&crisol__test__v1__everything__descriptor)

/* Bytes with their length, so that they may hold NUL. */
#define WIRE(literal) (literal), sizeof(literal) - 1

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    const char *field;   /* expected path; NULL: the message is good; "": no field is named */
    const char *expects; /* part of the description */
} cases[] = {
    {"empty", WIRE(""), NULL, NULL},
    {"varint", WIRE("\x08\x2a"), NULL, NULL},
    {"negative int32 takes ten bytes", WIRE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), NULL,
     NULL},
    {"text", WIRE("\x72\x05h\xC3\xA9j!"), NULL, NULL},
    {"bytes may hold anything", WIRE("\x7a\x03\x00\xff\x80"), NULL, NULL},
    {"packed numbers", WIRE("\xaa\x01\x03\x01\x96\x01"), NULL, NULL},
    {"unpacked numbers of a packed field", WIRE("\xa8\x01\x01\xa8\x01\x02"), NULL, NULL},
    {"unknown field", WIRE("\xc0\x3e\x01"), NULL, NULL},
    {"unknown bytes", WIRE("\xc2\x3e\x02\xff\x00"), NULL, NULL},
    {"number twice", WIRE("\x08\x01\x08\x02"), NULL, NULL},
    {"map entry", WIRE("\xca\x02\x06\x0a\x01k\x12\x01v"), NULL, NULL},

    {"NUL in text", WIRE("\x72\x03x\0y"), "a_string", "NUL"},
    {"text that is no UTF-8", WIRE("\x72\x02\xC3("), "a_string", "UTF-8"},
    {"surrogate in text", WIRE("\x72\x03\xED\xA0\x80"), "a_string", "UTF-8"},
    {"bad text in a list", WIRE("\x92\x02\x01x\x92\x02\x01y\x92\x02\x01\xff"), "strings[2]",
     "UTF-8"},
    {"bad text below", WIRE("\x8a\x01\x03\x72\x01\xff"), "child.a_string", "UTF-8"},
    {"bad text below a list", WIRE("\xaa\x02\x00\xaa\x02\x03\x72\x01\xff"), "children[1].a_string",
     "UTF-8"},
    {"bad text in a oneof", WIRE("\xa2\x03\x01\xff"), "chosen_text", "UTF-8"},
    {"bad map key", WIRE("\xca\x02\x03\x0a\x01\xff"), "string_map[0].key", "UTF-8"},
    {"cut in a tag", WIRE("\xa8"), "", "tag"},
    {"cut in a varint", WIRE("\x08\x80"), "an_int32", "cut off"},
    {"cut in a fixed64", WIRE("\x41\x01\x02\x03"), "a_fixed64", "cut off"},
    {"cut in a fixed32", WIRE("\x3d\x01"), "a_fixed32", "cut off"},
    {"length past the end", WIRE("\x72\x05xy"), "a_string", "cut off"},
    {"length past the end of its message", WIRE("\x8a\x01\x03\x72\x05x!!!!"), "child.a_string",
     "cut off"},
    {"huge length", WIRE("\x72\xff\xff\xff\xff\x0f"), "a_string", "cut off"},
    {"length of eleven bytes", WIRE("\x72\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), "a_string",
     "cut off"},
    {"varint of eleven bytes", WIRE("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), "an_int32",
     "cut off"},
    {"varint in a text field", WIRE("\x70\x01"), "a_string", "wire type"},
    {"text in a number field", WIRE("\x0a\x01x"), "an_int32", "wire type"},
    {"fixed32 in a fixed64 field", WIRE("\x45\x00\x00\x00\x00"), "a_fixed64", "wire type"},
    {"packed list cut in a varint", WIRE("\xaa\x01\x02\x01\x80"), "int32s", "list of numbers"},
    {"packed fixed32 of 6 bytes", WIRE("\xda\x01\x06\0\0\0\0\0\0"), "fixed32s", "list of numbers"},
    {"field number 0", WIRE("\x00\x01"), "", "tag"},
    {"group", WIRE("\x0b\x0c"), "an_int32", "groups"},
    {"wire type 7", WIRE("\x0f"), "an_int32", "wire type"},
    {"message twice", WIRE("\x8a\x01\x00\x8a\x01\x02\x08\x01"), "child", "given twice"},
    {"message of a oneof twice", WIRE("\xb2\x03\x00\xb2\x03\x00"), "chosen_child", "given twice"},
    {"unknown field cut", WIRE("\xc2\x3e\x05x"), "", "unknown field"},
};

static void wire_check_names_the_field_and_the_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        int r = rpc_wire_check(EVERYTHING, cases[i].bytes, cases[i].size, &status);

        print_message("%s: %s\n", cases[i].name, status.message);
        assert_int_equal(r, cases[i].field ? -EINVAL : 0);
        if (!cases[i].field)
            continue;
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
        assert_non_null(strstr(status.message, cases[i].expects));
        assert_int_equal(status.violation_count, cases[i].field[0] ? 1 : 0);
        if (cases[i].field[0])
            assert_string_equal(status.violations[0].field, cases[i].field);
    }
}

/* Whatever the check lets through, protobuf-c must be able to read: the two must not disagree. */
static void wire_check_agrees_with_protobuf_c(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ProtobufCMessage *message;

        if (cases[i].field)
            continue;
        message = protobuf_c_message_unpack(EVERYTHING, NULL, cases[i].size,
                                            (const uint8_t *)cases[i].bytes);
        assert_non_null(message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

/* Packs `levels` messages, each the child of the one before. Lengths fit into one byte below 42. */
static size_t nest(uint8_t *bytes, size_t levels)
{
    size_t size = 0;

    for (size_t left = levels; left > 0; left--) {
        bytes[size++] = 0x8a;
        bytes[size++] = 0x01;
        bytes[size++] = (uint8_t)(3 * (left - 1));
    }
    return size;
}

static void wire_check_bounds_the_depth(void **state)
{
    uint8_t bytes[128];
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    assert_int_equal(rpc_wire_check(EVERYTHING, bytes, nest(bytes, 32), &status), 0);

    assert_int_equal(rpc_wire_check(EVERYTHING, bytes, nest(bytes, 33), &status), -EINVAL);
    assert_non_null(strstr(status.message, "32 levels"));
    assert_true(strncmp(status.violations[0].field, "child.child.", 12) == 0);
}

static void wire_check_refuses_every_cut_of_a_message(void **state)
{
    static const char BYTES[] =
        "\x72\x02hi\x41\x01\x02\x03\x04\x05\x06\x07\x08\x8a\x01\x02\x08\x01";
    size_t good = 0;

    (void)state;
    for (size_t size = 0; size < sizeof(BYTES); size++) {
        struct rpc_status status = RPC_STATUS_INIT;

        good += rpc_wire_check(EVERYTHING, BYTES, size, &status) == 0;
    }
    /* Only the borders between fields: nothing, text, text and number, all. */
    assert_int_equal(good, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wire_check_names_the_field_and_the_fault),
        cmocka_unit_test(wire_check_agrees_with_protobuf_c),
        cmocka_unit_test(wire_check_bounds_the_depth),
        cmocka_unit_test(wire_check_refuses_every_cut_of_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
