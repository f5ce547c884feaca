/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/verify/json_value.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

static struct agt_json_value *parse(const char *text)
{
    struct agt_json_value *value = NULL;

    assert_int_equal(agt_json_value_parse(text, strlen(text), &value, NULL), 0);
    return value;
}

static void values_are_compared_as_they_are_meant(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool is_equal;
    } cases[] = {
        {"1", "1", true},
        {"9007199254740993", "9007199254740992", false}, /* the same as doubles */
        {"123456789012345678901234567890", "123456789012345678901234567890", true},
        {"0.30000000000000004", "0.3", true},
        {"1.001", "1", false},
        {"1.0", "1", true},
        {"1e3", "1000", true},
        {"-0.5E+1", "-5", true},
        {"-1", "1", false},
        {"1e999", "25", false}, /* infinite as a double, and no number is far from that */
        {"-1e999", "2.5", false},
        {"1e999", "-1e999", false},
        {"1e999", "1e999", true},
        {"1e-999", "25", false},
        {"\"1\"", "1", false},
        {"\"#1\"", "1", false},
        {"\"a\\\"b\"", "\"a\\u0022b\"", true},
        {"true", "1", false},
        {"true", "false", false},
        {"null", "false", false},
        {"[1,2]", " [ 1 , 2 ] ", true},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2,3]", false},
        {"[]", "{}", false},
        {"{\"a\":1,\"b\":[{}]}", "{\"b\":[{}],\"a\":1}", true},
        {"{\"a\":1}", "{\"A\":1}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"\"\\u00f1\"", "\"ñ\"", true},
        {"\"\\\\u0000\"", "\"\\u005cu0000\"", true}, /* no NUL in it */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agt_json_value *a = parse(cases[i].a);
        struct agt_json_value *b = parse(cases[i].b);

        assert_int_equal(agt_json_value_equals(a, b), cases[i].is_equal);
        assert_int_equal(agt_json_value_equals(b, a), cases[i].is_equal);
        agt_json_value_free(a);
        agt_json_value_free(b);
    }
}

static void what_is_no_value_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "nope",
                                        "1 2",
                                        "[1,",
                                        "{\"a\"}",
                                        "'a'",
                                        "\"\\u0000\"",
                                        "NaN",
                                        "[1]x",
                                        "01",
                                        "-",
                                        "1.",
                                        "[.5]",
                                        "1e",
                                        "1e+",
                                        "-01",
                                        "[1.e3]",
                                        "{\"a\":1,\"a\":1}",
                                        "[{\"b\":{\"a\":1,\"c\":2,\"a\":3}}]"};
    struct agt_json_value *value = NULL;
    char deep[301];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(agt_json_value_parse(texts[i], strlen(texts[i]), &value, &err), -EINVAL);
        assert_true(err.text[0] != '\0');
    }
    memset(deep, '[', 150);
    memset(deep + 150, ']', 150);
    deep[300] = '\0';
    assert_int_equal(agt_json_value_parse(deep, 300, &value, NULL), -EINVAL);
    assert_null(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_compared_as_they_are_meant),
        cmocka_unit_test(what_is_no_value_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
