/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/json_out.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static void assert_text(const void *text, size_t size, const char *expected)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct agt_json json;

    cr_buf_init(&buf, 1024);
    agt_json_begin(&json, &buf);
    agt_json_text(&json, NULL, text, size);
    assert_int_equal(agt_json_end(&json), 0);
    assert_string_equal(cr_buf_str(&buf), expected);
}

static void text_from_outside_is_escaped(void **state)
{
    (void)state;
    assert_text("", 0, "\"\"");
    assert_text("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
    assert_text("\r\n\t\b\f", 5, "\"\\r\\n\\t\\b\\f\"");
    assert_text("\x1b[31m\x7f", 6, "\"\\u001b[31m\\u007f\"");
    assert_text("a\0b", 3, "\"a\\u0000b\"");
    assert_text("\xe2\x80\xa8|\xe2\x80\xa9", 7, "\"\\u2028|\\u2029\"");
    assert_text("h\xc3\xa9 \xf0\x9f\x98\x80", 8, "\"h\xc3\xa9 \xf0\x9f\x98\x80\"");
}

static void ill_formed_text_is_replaced(void **state)
{
    (void)state;
    assert_text("a\xff\"", 3, "\"a\xef\xbf\xbd\\\"\"");
    assert_text("\xe2\x80", 2, "\"\xef\xbf\xbd\"");
}

static void containers_and_values_take_their_commas(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct agt_json json;

    (void)state;
    cr_buf_init(&buf, 1024);
    agt_json_begin(&json, &buf);
    agt_json_open(&json, NULL, '{');
    agt_json_open(&json, "a", '[');
    agt_json_int(&json, NULL, -1);
    agt_json_bool(&json, NULL, true);
    agt_json_open(&json, NULL, '{');
    agt_json_close(&json, '}');
    agt_json_close(&json, ']');
    agt_json_null(&json, "b\n");
    agt_json_seconds(&json, "c", 0.25);
    agt_json_str(&json, "d", NULL);
    agt_json_close(&json, '}');
    assert_int_equal(agt_json_end(&json), 0);
    assert_string_equal(cr_buf_str(&buf),
                        "{\"a\":[-1,true,{}],\"b\\n\":null,\"c\":0.250000,\"d\":\"\"}");
}

static void base64_pads_every_remainder(void **state)
{
    static const char *const expected[] = {"\"\"", "\"Zg==\"", "\"Zm8=\"", "\"Zm9v\"",
                                           "\"Zm9vYg==\""};

    (void)state;
    for (size_t size = 0; size < CR_ARRAY_SIZE(expected); size++) {
        CR_AUTO_BUF struct cr_buf buf;
        struct agt_json json;

        cr_buf_init(&buf, 1024);
        agt_json_begin(&json, &buf);
        agt_json_base64(&json, NULL, "foob", size);
        assert_string_equal(cr_buf_str(&buf), expected[size]);
    }
}

static void errors_stick(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct agt_json json;

    (void)state;
    cr_buf_init(&buf, 4);
    agt_json_begin(&json, &buf);
    agt_json_str(&json, NULL, "too long");
    agt_json_int(&json, NULL, 1);
    assert_int_equal(agt_json_end(&json), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_from_outside_is_escaped),
        cmocka_unit_test(ill_formed_text_is_replaced),
        cmocka_unit_test(containers_and_values_take_their_commas),
        cmocka_unit_test(base64_pads_every_remainder),
        cmocka_unit_test(errors_stick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
