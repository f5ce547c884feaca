/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/model/json_front.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define FFFD "\xEF\xBF\xBD"

/* A literal with its size, so that it may hold NUL. */
struct text {
    const char *data;
    size_t size;
};

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static void strings_are_repaired_and_flagged(void **state)
{
    static const struct {
        struct text json;
        const char *value;
        uint32_t flags;
    } cases[] = {
        {TEXT("{\"a\":\"plain\"}"), "plain", 0},
        {TEXT("\xEF\xBB\xBF {\"a\":\"bom\"}\r\n"), "bom", 0},
        {TEXT("{\"a\":\"ab\\u0000cd\"}"), "ab" FFFD "cd", AGT_JSON_REPLACED_NUL},
        {TEXT("{\"a\":\"ab\0cd\"}"), "ab" FFFD "cd", AGT_JSON_REPLACED_NUL | AGT_JSON_RAW_CONTROL},
        {TEXT("{\"a\":\"\\ud83d\\ude00\"}"), "\xF0\x9F\x98\x80", 0},
        {TEXT("{\"a\":\"\\uD83D\\uDE00\"}"), "\xF0\x9F\x98\x80", 0},
        {TEXT("{\"a\":\"x\\ud83d\"}"), "x" FFFD, AGT_JSON_REPLACED_SURROGATE},
        {TEXT("{\"a\":\"\\ud83dx\"}"), FFFD "x", AGT_JSON_REPLACED_SURROGATE},
        {TEXT("{\"a\":\"\\ude00\\ud83d\"}"), FFFD FFFD, AGT_JSON_REPLACED_SURROGATE},
        {TEXT("{\"a\":\"\\ud83d\\ud83d\\ude00\"}"), FFFD "\xF0\x9F\x98\x80",
         AGT_JSON_REPLACED_SURROGATE},
        {TEXT("{\"a\":\"\xC0\x80|\xFF\"}"), FFFD FFFD "|" FFFD, AGT_JSON_REPLACED_UTF8},
        {TEXT("{\"a\":\"\xF0\x9F\x98\"}"), FFFD, AGT_JSON_REPLACED_UTF8},
        {TEXT("{\"a\":\"one\ntwo\"}"), "one\ntwo", AGT_JSON_RAW_CONTROL},
        {TEXT("{\"a\":\"\x7F\xE2\x80\xA8\"}"), "\x7F\xE2\x80\xA8", 0},
        {TEXT("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}"), "\"\\/\b\f\n\r\t", 0},
        {TEXT("{\"a\":\"{[\\\"}]\"}"), "{[\"}]", 0},
        {TEXT("{\"a\":\"first\",\"a\":\"second\"}"), "first", 0},
        {TEXT("{\"A\":\"other\",\"a\":\"exact\"}"), "exact", 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        cJSON *root = NULL;
        uint32_t flags = 0;
        struct cr_err err = CR_ERR_INIT;

        if (agt_json_parse(cases[i].json.data, cases[i].json.size, NULL, &root, &flags, &err) < 0)
            fail_msg("case %zu: %s", i, err.text);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "a")),
                            cases[i].value);
        assert_int_equal(flags, cases[i].flags);
        cJSON_Delete(root);
    }
}

static void what_is_not_json_is_refused(void **state)
{
    static const struct {
        struct text json;
        int code;
    } cases[] = {
        {TEXT(""), -ENODATA},
        {TEXT(" \n"), -ENODATA},
        {TEXT("{\"a\":1"), -ENODATA},
        {TEXT("{\"a"), -ENODATA},
        {TEXT("{\"a\\"), -ENODATA},
        {TEXT("{\"a\\u12"), -ENODATA},
        {TEXT("[[1]"), -ENODATA},
        {TEXT("1"), -EBADMSG},
        {TEXT("\"a\""), -EBADMSG},
        {TEXT("<html>"), -EBADMSG},
        {TEXT("{\"a\":\"\\x\"}"), -EBADMSG},
        {TEXT("{\"a\":\"\\u12g4\"}"), -EBADMSG},
        {TEXT("{\"a\" 1}"), -EBADMSG},
        {TEXT("[}"), -EBADMSG},
        {TEXT("[1\0]"), -EBADMSG},
        {TEXT("{} {}"), -EBADMSG},
        {TEXT("[1]x"), -EBADMSG},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        cJSON *root = NULL;
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(
            agt_json_parse(cases[i].json.data, cases[i].json.size, NULL, &root, NULL, &err),
            cases[i].code);
        assert_null(root);
        assert_string_not_equal(err.text, "");
    }
}

static void trailing_data_can_be_allowed(void **state)
{
    const struct agt_json_options options = {.allow_trailing = true};
    static const char json[] = "{\"a\":1}\n{\"a\":2}";
    cJSON *root = NULL;
    uint32_t flags = 0;

    (void)state;
    assert_int_equal(agt_json_parse(json, strlen(json), &options, &root, &flags, NULL), 0);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(root, "a")->valueint, 1);
    assert_int_equal(flags, AGT_JSON_TRAILING);
    cJSON_Delete(root);
}

static void limits_are_kept(void **state)
{
    static const struct {
        struct agt_json_options options;
        const char *json;
        int code;
    } cases[] = {
        {{.max_depth = 2}, "[[1]]", 0},    {{.max_depth = 2}, "[[[1]]]", -EMSGSIZE},
        {{.max_values = 4}, "[1,2,3]", 0}, {{.max_values = 3}, "[1,2,3,4]", -EMSGSIZE},
        {{.max_size = 3}, "[1]", 0},       {{.max_size = 3}, "[12]", -EMSGSIZE},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        cJSON *root = NULL;

        assert_int_equal(agt_json_parse(cases[i].json, strlen(cases[i].json), &cases[i].options,
                                        &root, NULL, NULL),
                         cases[i].code);
        cJSON_Delete(root);
    }
}

static void deep_nesting_and_white_space_do_no_harm(void **state)
{
    enum {
        DEPTH = 1500,
        BLANKS = 1 << 20
    };

    CR_AUTO_FREE char *deep = malloc(DEPTH);
    CR_AUTO_FREE char *blank = malloc(BLANKS + 2);
    cJSON *root = NULL;

    (void)state;
    assert_non_null(deep);
    assert_non_null(blank);
    memset(deep, '[', DEPTH);
    assert_int_equal(agt_json_parse(deep, DEPTH, NULL, &root, NULL, NULL), -EMSGSIZE);

    memset(blank, ' ', BLANKS);
    memcpy(blank + BLANKS, "{}", 2);
    assert_int_equal(agt_json_parse(blank, BLANKS + 2, NULL, &root, NULL, NULL), 0);
    cJSON_Delete(root);
}

static void halves_of_a_pair_are_joined_across_strings(void **state)
{
    static const struct {
        const char *parts[3];
        const char *value;
    } cases[] = {
        {{"a\xED\xA0\xBD",
          "\xED\xB8\x80"
          "b",
          ""},
         "a\xF0\x9F\x98\x80"
         "b"},
        {{"\xED\xA0\xBD", "", "\xED\xB8\x80"}, "\xF0\x9F\x98\x80"},
        {{"\xED\xA0\xBD", "x", "\xED\xB8\x80"}, FFFD "x" FFFD},
        {{"\xED\xB8\x80", "\xED\xA0\xBD", ""}, FFFD FFFD},
        {{"\xED\xA0\xBD\xED\xA0\xBD", "\xED\xB8\x80", ""}, FFFD "\xF0\x9F\x98\x80"},
        {{"\xED\x95\x9C", "\xED\x9F\xBF", ""}, "\xED\x95\x9C\xED\x9F\xBF"}, /* Hangul, no half */
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_json_join join = {0};
        CR_AUTO_BUF struct cr_buf buf;

        cr_buf_init(&buf, 100);
        for (size_t j = 0; j < CR_ARRAY_SIZE(cases[i].parts); j++)
            assert_int_equal(
                agt_json_join_add(&join, &buf, cases[i].parts[j], strlen(cases[i].parts[j])), 0);
        assert_int_equal(agt_json_join_end(&join, &buf), 0);
        assert_string_equal(cr_buf_str(&buf), cases[i].value);
    }
}

static void kept_halves_come_as_three_bytes(void **state)
{
    const struct agt_json_options options = {.keep_surrogates = true};
    static const char json[] = "[\"\\ud83d\",\"\\ude00\"]";
    cJSON *root = NULL;

    (void)state;
    assert_int_equal(agt_json_parse(json, strlen(json), &options, &root, NULL, NULL), 0);
    assert_string_equal(cJSON_GetArrayItem(root, 0)->valuestring, "\xED\xA0\xBD");
    assert_string_equal(cJSON_GetArrayItem(root, 1)->valuestring, "\xED\xB8\x80");
    cJSON_Delete(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_repaired_and_flagged),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(trailing_data_can_be_allowed),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(deep_nesting_and_white_space_do_no_harm),
        cmocka_unit_test(halves_of_a_pair_are_joined_across_strings),
        cmocka_unit_test(kept_halves_come_as_three_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
