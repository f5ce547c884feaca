/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "everything.pb-c.h"
#include "rpc/json.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVERYTHING (&crisol__test__v1__everything__descriptor)
#define EXECUTE (&crisol__sandbox__v1__execute_request__descriptor)

/* Text with its length, so that it may hold NUL. */
#define TEXT(literal) (literal), sizeof(literal) - 1

static ProtobufCMessage *read_ok(const ProtobufCMessageDescriptor *descriptor, const char *text)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;

    if (rpc_json_read(descriptor, text, strlen(text), &message, &status) < 0)
        fail_msg("%s: %s", text, status.message);
    return message;
}

/* What is read and written again, for each style, or the same text when NULL. */
static const struct {
    const char *in;
    const char *out;
} round_trips[] = {
    {"{}", NULL},
    {" { } \r\n\t", "{}"},
    {"{\"anInt32\":-2147483648,\"anInt64\":\"-9223372036854775808\",\"anUint32\":4294967295,"
     "\"anUint64\":\"18446744073709551615\"}",
     NULL},
    {"{\"anInt64\":9007199254740993}", "{\"anInt64\":\"9007199254740993\"}"},
    {"{\"anInt32\":1e3,\"anUint32\":20.0,\"aSint32\":\"-7\"}",
     "{\"anInt32\":1000,\"anUint32\":20,\"aSint32\":-7}"},
    {"{\"an_int32\":5,\"some_bytes\":\"AAH/\"}", "{\"anInt32\":5,\"someBytes\":\"AAH/\"}"},
    {"{\"anInt32\":null,\"child\":null,\"strings\":null,\"chosenText\":null}", "{}"},
    {"{\"aFloat\":0.1,\"aDouble\":0.1}", NULL},
    {"{\"aFloat\":3.4028235e+38,\"aDouble\":1.7976931348623157e+308}", NULL},
    {"{\"aFloat\":\"NaN\",\"aDouble\":\"-Infinity\"}", NULL},
    {"{\"aDouble\":\"2.5\"}", "{\"aDouble\":2.5}"},
    {"{\"aBool\":true,\"aString\":\"\\u00e9\\n\\\"\\\\/\"}",
     "{\"aBool\":true,\"aString\":\"\xC3\xA9\\n\\\"\\\\/\"}"},
    {"{\"aString\":\"\\ud83d\\ude00\\u0001\\b\\f\\r\\t\\/\"}",
     "{\"aString\":\"\xF0\x9F\x98\x80\\u0001\\b\\f\\r\\t/\"}"},
    {"{\"\\u0061String\":\"escaped name\"}", "{\"aString\":\"escaped name\"}"},
    {"{\"someBytes\":\"-_8\"}", "{\"someBytes\":\"+/8=\"}"},
    {"{\"someBytes\":\"\\/\\/8=\"}", "{\"someBytes\":\"//8=\"}"},
    {"{\"manyBytes\":[\"\",\"YQ==\",\"YWI\",\"YWJj\"]}",
     "{\"manyBytes\":[\"\",\"YQ==\",\"YWI=\",\"YWJj\"]}"},
    {"{\"aColour\":\"COLOUR_RED\"}", NULL},
    {"{\"aColour\":\"DARK_BLUE\"}", "{\"aColour\":\"COLOUR_DARK_BLUE\"}"},
    {"{\"aColour\":-5}", "{\"aColour\":\"COLOUR_MINUS\"}"},
    {"{\"colours\":[99,1]}", "{\"colours\":[99,\"COLOUR_RED\"]}"},
    {"{\"int32s\":[1,2,3,4,5],\"bools\":[true,false],\"strings\":[\"a\",\"\"]}", NULL},
    {"{\"children\":[{},{\"anInt32\":1}],\"child\":{\"child\":{}}}",
     "{\"child\":{\"child\":{}},\"children\":[{},{\"anInt32\":1}]}"},
    {"{\"stringMap\":{\"a\":\"1\",\"\":\"2\"},\"intMap\":{\"-3\":\"RED\"}}",
     "{\"stringMap\":{\"a\":\"1\",\"\":\"2\"},\"intMap\":{\"-3\":\"COLOUR_RED\"}}"},
    {"{\"boolMap\":{\"true\":\"YQ==\",\"false\":\"\"}}", NULL},
    {"{\"messageMap\":{\"18446744073709551615\":{\"anInt32\":1},\"0\":{}}}", NULL},
    {"{\"doubleMap\":{\"x\":1.5}}", NULL},
    {"{\"chosenNumber\":0}", NULL},
    {"{\"chosenText\":\"\"}", NULL},
    {"{\"chosenChild\":{}}", NULL},
    {"{\"chosenBytes\":\"\"}", NULL},
};

static void json_reads_and_writes_every_kind_of_field(void **state)
{
    const struct rpc_json_style style = {.use_snake_case = false};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(round_trips); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        ProtobufCMessage *message = read_ok(EVERYTHING, round_trips[i].in);

        cr_buf_init(&buf, 4096);
        assert_int_equal(rpc_json_write(message, &style, &buf), 0);
        assert_string_equal(cr_buf_str(&buf),
                            round_trips[i].out ? round_trips[i].out : round_trips[i].in);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static const struct {
    const ProtobufCMessageDescriptor *descriptor;
    const char *text;
    size_t size;
    const char *field; /* "" when no field is to blame */
    const char *expects;
} bad[] = {
    {EXECUTE, TEXT("{\"limits\":{\"wall_time_ms\":-1}}"), "limits.wall_time_ms",
     "limits.wall_time_ms: not a whole number from 0 to 4294967295"},
    {EXECUTE, TEXT("{\"limits\":{\"wallTimeMs\":4294967296}}"), "limits.wallTimeMs",
     "not a whole number from 0 to 4294967295"},
    {EXECUTE, TEXT("{\"limits\":{\"wallTimeMs\":1.5}}"), "limits.wallTimeMs", "not a whole number"},
    {EXECUTE, TEXT("{\"limits\":{\"wallTimeMs\":\"10s\"}}"), "limits.wallTimeMs",
     "not a whole number"},
    {EXECUTE, TEXT("{\"limits\":{\"memory_bytes\":18446744073709551616}}"), "limits.memory_bytes",
     "not a whole number from 0 to 18446744073709551615"},
    {EXECUTE, TEXT("{\"limits\":{\"memory_bytes\":true}}"), "limits.memory_bytes",
     "must be a whole number"},
    {EXECUTE, TEXT("{\"files\":[{\"path\":\"a\"},{},{\"path\":7}]}"), "files[2].path",
     "must be text in quotes"},
    {EXECUTE, TEXT("{\"env\":{\"KEY\":1}}"), "env[\"KEY\"]", "must be text"},
    {EXECUTE, TEXT("{\"env\":{\"KEY\":null}}"), "env[\"KEY\"]", "must not be null"},
    {EXECUTE, TEXT("{\"env\":{\"A\":\"1\",\"B\":\"2\",\"\\u0041\":\"3\"}}"), "env",
     "has the same key twice"},
    {EXECUTE, TEXT("{\"env\":[]}"), "env", "must be an object"},
    {EXECUTE, TEXT("{\"args\":\"x\"}"), "args", "must be a list"},
    {EXECUTE, TEXT("{\"args\":[null]}"), "args[0]", "must not be null"},
    {EXECUTE, TEXT("{\"limits\":[]}"), "limits", "must be an object"},
    {EXECUTE, TEXT("{\"limits\":{\"wall\":1}}"), "limits.wall", "limits.wall: unknown field"},
    {EXECUTE, TEXT("{\"a\\nb\":1}"), "a\\nb", "unknown field; known: "},
    {EXECUTE, TEXT("{\"code\":\"a\",\"code\":\"b\"}"), "code", "is given twice"},
    {EXECUTE, TEXT("{\"requestId\":\"a\",\"request_id\":\"b\"}"), "request_id", "is given twice"},
    {EXECUTE, TEXT("{\"code\":null,\"code\":\"b\"}"), "code", "is given twice"},
    {EXECUTE, TEXT("{\"code\":\"a\\u0000b\"}"), "code", "NUL character"},
    {EXECUTE, TEXT("{\"code\":\"\\ud800\"}"), "code", "half a surrogate pair"},
    {EXECUTE, TEXT("{\"code\":\"\\udc00\\ud800\"}"), "code", "half a surrogate pair"},
    {EXECUTE, TEXT("{\"code\":\"\\ud800\\u0041\"}"), "code", "half a surrogate pair"},
    {EXECUTE, TEXT("{\"code\":\"\\ud800"), "code", "half a surrogate pair"},
    {EXECUTE, TEXT("{\"code\":\"\xff\"}"), "code", "not valid UTF-8"},
    {EXECUTE, TEXT("{\"code\":\"a\nb\"}"), "code", "control character"},
    {EXECUTE, TEXT("{\"code\":\"a\0b\"}"), "code", "control character"},
    {EXECUTE, TEXT("{\"code\":\"\\x\"}"), "code", "unknown escape"},
    {EXECUTE, TEXT("{\"code\":\"\\u12\"}"), "code", "malformed \\u escape"},
    {EXECUTE, TEXT("{\"code\":\"x"), "code", "closing quote"},
    {EXECUTE, TEXT("{\"code\":\"x\\"), "code", "closing quote"},
    {EXECUTE, TEXT("{\"code\":}"), "code", "line 1, column 9: a value expected"},
    {EXECUTE, TEXT("{\"code\" \"x\"}"), "code", "':' expected"},
    {EXECUTE, TEXT("{\"code\":\"x\" \"args\":[]}"), "", "',' or '}' expected"},
    {EXECUTE, TEXT("{\"code\":\"x\",}"), "", "a name in quotes expected"},
    {EXECUTE, TEXT("{\"args\":[\"x\",]}"), "args[1]", "a value expected"},
    {EXECUTE, TEXT("{\"args\":[\"x\" \"y\"]}"), "args", "',' or ']' expected"},
    {EXECUTE, TEXT("{\"args\":[\"x\""), "args", "but the text ends"},
    {EXECUTE, TEXT("{code:1}"), "", "line 1, column 2: unexpected character"},
    {EXECUTE, TEXT("{\"outputText\":tru}"), "outputText", "unexpected character"},
    {EXECUTE, TEXT("{\"outputText\":1}"), "outputText", "must be true or false"},
    {EXECUTE, TEXT("{\"outputText\":\"true\"}"), "outputText", "must be true or false"},
    {EXECUTE, TEXT("{\"backend\":\"LXC\"}"), "backend",
     "'LXC' is unknown; allowed: NATIVE, DOCKER"},
    {EXECUTE, TEXT("{\"backend\":1.5}"), "backend", "allowed: NATIVE, DOCKER"},
    {EXECUTE, TEXT("{\"backend\":true}"), "backend", "must be the name"},
    {EXECUTE, TEXT("{\"stdinData\":\"a\"}"), "stdinData", "base64"},
    {EXECUTE, TEXT("{\"stdinData\":\"a===\"}"), "stdinData", "base64"},
    {EXECUTE, TEXT("{\"stdinData\":\"a*bc\"}"), "stdinData", "base64"},
    {EXECUTE, TEXT("{\"stdinData\":[1]}"), "stdinData", "base64"},
    {EXECUTE, TEXT(""), "", "but the text ends"},
    {EXECUTE, TEXT("  "), "", "but the text ends"},
    {EXECUTE, TEXT("[]"), "", "the text must be an object"},
    {EXECUTE, TEXT("null"), "", "must be an object"},
    {EXECUTE, TEXT("{} x"), "", "unexpected character"},
    {EXECUTE, TEXT("{}{}"), "", "the end of the text expected"},
    {EXECUTE, TEXT("{}\0"), "", "unexpected character"},
    {EXECUTE, TEXT("\xEF\xBB\xBF{}"), "", "unexpected character"},
    {EXECUTE, TEXT("{\n \"code\": \"x\",\n  oops}"), "", "line 3, column 3"},
    {EVERYTHING, TEXT("{\"anInt32\":01}"), "anInt32", "malformed number"},
    {EVERYTHING, TEXT("{\"anInt32\":+1}"), "anInt32", "unexpected character"},
    {EVERYTHING, TEXT("{\"anInt32\":-}"), "anInt32", "malformed number"},
    {EVERYTHING, TEXT("{\"anInt32\":1.}"), "anInt32", "malformed number"},
    {EVERYTHING, TEXT("{\"anInt32\":1e}"), "anInt32", "malformed number"},
    {EVERYTHING, TEXT("{\"anInt32\":\"0x10\"}"), "anInt32", "not a whole number"},
    {EVERYTHING, TEXT("{\"anInt32\":\"\"}"), "anInt32", "not a whole number"},
    {EVERYTHING, TEXT("{\"anInt32\":\" 1\"}"), "anInt32", "not a whole number"},
    {EVERYTHING, TEXT("{\"anInt32\":2147483648}"), "anInt32",
     "not a whole number from -2147483648 to 2147483647"},
    {EVERYTHING, TEXT("{\"anInt64\":-9223372036854775809}"), "anInt64", "not a whole number"},
    {EVERYTHING, TEXT("{\"anInt64\":1e19}"), "anInt64", "not a whole number"},
    {EVERYTHING, TEXT("{\"aFloat\":1e39}"), "aFloat", "fits a float"},
    {EVERYTHING, TEXT("{\"aDouble\":1e999}"), "aDouble", "fits a double"},
    {EVERYTHING, TEXT("{\"aDouble\":\"nan\"}"), "aDouble", "fits a double"},
    {EVERYTHING, TEXT("{\"aDouble\":{}}"), "aDouble", "must be a number"},
    {EVERYTHING, TEXT("{\"chosenText\":\"a\",\"chosenNumber\":1}"), "chosenNumber",
     "cannot be given together with 'chosen_text'"},
    {EVERYTHING, TEXT("{\"chosenChild\":{\"x\":1}}"), "chosenChild.x", "unknown field"},
    {EVERYTHING, TEXT("{\"chosenBytes\":1}"), "chosenBytes", "base64"},
    {EVERYTHING, TEXT("{\"boolMap\":{\"yes\":\"\"}}"), "boolMap[\"yes\"]", "\"true\" or \"false\""},
    {EVERYTHING, TEXT("{\"intMap\":{\"x\":1}}"), "intMap[\"x\"]", "not a whole number"},
    {EVERYTHING, TEXT("{\"intMap\":{\"1\":1,\"2\":1,\"01\":1}}"), "intMap", "same key twice"},
    {EVERYTHING, TEXT("{\"messageMap\":{\"7\":{\"children\":[{},{\"x\":1}]}}}"),
     "messageMap[\"7\"].children[1].x", "unknown field"},
};

static void json_names_the_path_and_what_is_allowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        ProtobufCMessage *message = NULL;
        int r = rpc_json_read(bad[i].descriptor, bad[i].text, bad[i].size, &message, &status);

        print_message("%s\n", status.message);
        assert_int_equal(r, -EINVAL);
        assert_null(message);
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
        assert_non_null(strstr(status.message, bad[i].expects));
        assert_int_equal(status.violation_count, bad[i].field[0] ? 1 : 0);
        if (bad[i].field[0])
            assert_string_equal(status.violations[0].field, bad[i].field);
    }
}

static const struct rpc_json_leniency lenient = {
    .skips_unknown = true, .takes_scalars = true, .rounds_up = true};

/* What a lenient reader takes, and what it makes of that; NULL: it is refused, too. */
static const struct {
    const char *in;
    const char *out;
} leniencies[] = {
    {"{\"x\":1,\"anInt32\":1,\"y\":{\"a\":[1,\"b\",null,{},[]],\"c\":true},\"z\":[]}",
     "{\"anInt32\":1}"},
    {"{\"child\":{\"x\":{\"anInt32\":1},\"anInt32\":2}}", "{\"child\":{\"anInt32\":2}}"},
    {"{\"strings\":[\"a\",1,true,false,1.50]}",
     "{\"strings\":[\"a\",\"1\",\"true\",\"false\",\"1.5\"]}"},
    {"{\"strings\":[-0,1.0,1e3,1e20,1e21,-1.25e25,123456789012345678901]}",
     "{\"strings\":[\"0\",\"1\",\"1000\",\"100000000000000000000\",\"1e+21\",\"-1.25e+25\","
     "\"123456789012345680000\"]}"},
    {"{\"strings\":[0.1,0.000001,1e-7,12.5e-8,5e-324,0.30000000000000004,-17.25]}",
     "{\"strings\":[\"0.1\",\"0.000001\",\"1e-7\",\"1.25e-7\",\"5e-324\","
     "\"0.30000000000000004\",\"-17.25\"]}"},
    {"{\"anInt32\":0.25}", "{\"anInt32\":1}"},
    {"{\"anInt32\":2147483646.5}", "{\"anInt32\":2147483647}"},
    {"{\"anInt32\":2147483647.5}", NULL},
    {"{\"anInt32\":-0.5}", NULL},
    {"{\"anInt32\":\"NaN\"}", NULL},
    {"{\"anInt32\":\"Infinity\"}", NULL},
    {"{\"strings\":[1e400]}", NULL},
    {"{\"strings\":[null]}", NULL},
    {"{\"strings\":[{}]}", NULL},
    {"{\"aString\":1}", NULL},
    {"{\"x\"}", NULL},
    {"{\"x\":}", NULL},
    {"{\"x\":[1,]}", NULL},
    {"{\"x\":{\"a\"}}", NULL},
    {"{\"x\":{\"a\":tru}}", NULL},
    {"{\"x\":[1}", NULL},
    {"{\"x\":{\"a\":1]}", NULL},
};

static void a_lenient_reader_skips_what_is_unknown_and_takes_scalars_as_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(leniencies); i++) {
        const char *in = leniencies[i].in;
        struct rpc_status status = RPC_STATUS_INIT;
        CR_AUTO_BUF struct cr_buf buf = {0};
        ProtobufCMessage *message = NULL;
        int r = rpc_json_read_leniently(EVERYTHING, in, strlen(in), &lenient, &message, &status);

        print_message("%s %s\n", in, status.message);
        assert_int_equal(r, leniencies[i].out ? 0 : -EINVAL);
        if (r < 0)
            continue;
        cr_buf_init(&buf, 4096);
        assert_int_equal(rpc_json_write(message, NULL, &buf), 0);
        assert_string_equal(cr_buf_str(&buf), leniencies[i].out);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void what_is_skipped_has_no_more_levels_than_what_is_read(void **state)
{
    char text[512] = "{\"x\":";
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;

    (void)state;
    memset(text + strlen(text), '[', 64);
    assert_int_equal(
        rpc_json_read_leniently(EVERYTHING, text, strlen(text), &lenient, &message, &status),
        -EINVAL);
    assert_non_null(strstr(status.message, "nested too deep; at most 64"));
}

/* Every text that is cut short must be refused, and leak nothing (under ASan). */
static void json_refuses_every_cut_of_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(round_trips); i++) {
        const char *text = round_trips[i].in;
        const char *end = strrchr(text, '}');

        for (size_t size = 0; size < (size_t)(end - text); size++) {
            struct rpc_status status = RPC_STATUS_INIT;
            ProtobufCMessage *message = NULL;

            assert_int_equal(rpc_json_read(EVERYTHING, text, size, &message, &status), -EINVAL);
        }
    }
}

static void json_styles_change_names_defaults_and_numbers(void **state)
{
    static const struct rpc_json_style STYLE = {.use_snake_case = true,
                                                .with_defaults = true,
                                                .int64_as_number = true,
                                                .strip_enum_prefix = true};
    CR_AUTO_BUF struct cr_buf buf = {0};
    Crisol__Sandbox__V1__LimitHit hit = CRISOL__SANDBOX__V1__LIMIT_HIT__INIT;

    (void)state;
    cr_buf_init(&buf, 4096);
    hit.value = 9007199254740992U;
    hit.observed = 9007199254740993U;

    assert_int_equal(rpc_json_write(&hit.base, &STYLE, &buf), 0);

    assert_string_equal(cr_buf_str(&buf),
                        "{\"limit\":\"\",\"value\":9007199254740992,"
                        "\"observed\":\"9007199254740993\",\"killed_by\":\"UNSPECIFIED\"}");
}

static void json_repairs_text_that_is_not_utf8(void **state)
{
    char text[] = "a\xff\xC3";
    CR_AUTO_BUF struct cr_buf buf = {0};
    Crisol__Test__V1__Everything message = CRISOL__TEST__V1__EVERYTHING__INIT;

    (void)state;
    cr_buf_init(&buf, 4096);
    message.a_string = text;

    assert_int_equal(rpc_json_write(&message.base, NULL, &buf), 0);

    assert_string_equal(cr_buf_str(&buf), "{\"aString\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\"}");
}

static void json_write_adds_nothing_when_the_buffer_is_full(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    ProtobufCMessage *message = read_ok(EVERYTHING, "{\"aString\":\"0123456789\"}");

    (void)state;
    cr_buf_init(&buf, 20);
    assert_int_equal(cr_buf_add_str(&buf, "before"), 0);

    assert_int_equal(rpc_json_write(message, NULL, &buf), -ENOSPC);

    assert_string_equal(cr_buf_str(&buf), "before");
    protobuf_c_message_free_unpacked(message, NULL);
}

static void json_bounds_depth_size_and_memory(void **state)
{
    enum {
        HUGE_SIZE = (4 << 20) + 1,
        LEVELS = 65
    };
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    char *text = calloc(1, HUGE_SIZE);
    size_t size = 0;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < LEVELS; i++) {
        memcpy(text + size, "{\"child\":", 9);
        size += 9;
    }
    assert_int_equal(rpc_json_read(EVERYTHING, text, size, &message, &status), -EINVAL);
    assert_non_null(strstr(status.message, "nested too deep; at most 64"));

    assert_int_equal(rpc_json_read(EVERYTHING, text, HUGE_SIZE, &message, &status), -EINVAL);
    assert_non_null(strstr(status.message, "at most 4194304 are allowed"));

    size = 13;
    memcpy(text, "{\"children\":[", size);
    for (; size + 3 < HUGE_SIZE; size += 3)
        memcpy(text + size, "{},", 3);
    assert_int_equal(rpc_json_read(EVERYTHING, text, size, &message, &status), -ENOMEM);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    free(text);
}

static void json_cuts_long_names_in_errors_at_a_character(void **state)
{
    static const char TEXT_OF_EUROS[] =
        "{\"xx\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"
        "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2"
        "\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\":1}";
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;

    (void)state;
    assert_int_equal(
        rpc_json_read(EXECUTE, TEXT_OF_EUROS, sizeof(TEXT_OF_EUROS) - 1, &message, &status),
        -EINVAL);
    assert_int_equal(strlen(status.violations[0].field), 2 + 19 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_reads_and_writes_every_kind_of_field),
        cmocka_unit_test(json_names_the_path_and_what_is_allowed),
        cmocka_unit_test(a_lenient_reader_skips_what_is_unknown_and_takes_scalars_as_text),
        cmocka_unit_test(what_is_skipped_has_no_more_levels_than_what_is_read),
        cmocka_unit_test(json_refuses_every_cut_of_a_text),
        cmocka_unit_test(json_styles_change_names_defaults_and_numbers),
        cmocka_unit_test(json_repairs_text_that_is_not_utf8),
        cmocka_unit_test(json_write_adds_nothing_when_the_buffer_is_full),
        cmocka_unit_test(json_bounds_depth_size_and_memory),
        cmocka_unit_test(json_cuts_long_names_in_errors_at_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
