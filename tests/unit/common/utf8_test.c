/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/utf8.h"
#include "tests/harness/test.h"

#include <string.h>

static const struct {
    const char *bytes;
    bool is_valid;
    const char *lossy;
} cases[] = {
    {"", true, ""},
    {"plain", true, "plain"},
    {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", true, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
    {"\xC0\x80", false, "\xEF\xBF\xBD\xEF\xBF\xBD"}, /* overlong */
    {"\xE0\x80\x80", false, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xED\xA0\x80", false, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* surrogate */
    {"\xF4\x90\x80\x80", false, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xE2\x82", false, "\xEF\xBF\xBD"}, /* cut: one maximal subpart */
    {"a\xFFz", false, "a\xEF\xBF\xBDz"},
    {"\xE2\x28\xA1", false, "\xEF\xBF\xBD(\xEF\xBF\xBD"},
};

static void utf8_validity_and_replacement_follow_the_standard(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        size_t size = strlen(cases[i].bytes);

        cr_buf_init(&buf, 100);
        assert_int_equal(cr_utf8_is_valid(cases[i].bytes, size), cases[i].is_valid);
        assert_int_equal(cr_utf8_add_lossy(&buf, cases[i].bytes, size), 0);
        assert_string_equal(cr_buf_str(&buf), cases[i].lossy);
        assert_true(cr_utf8_is_valid(buf.data, buf.size));
    }
}

static void utf8_lossy_replaces_nul(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 100);
    assert_int_equal(cr_utf8_add_lossy(&buf, NULL, 0), 0);
    assert_int_equal(cr_utf8_add_lossy(&buf, "a\0b", 3), 0);
    assert_string_equal(cr_buf_str(&buf), "a\xEF\xBF\xBD"
                                          "b");
}

static void utf8_complete_prefix_waits_only_for_a_character_that_can_still_come(void **state)
{
    static const char EURO[] = "x\xE2\x82\xAC";

    (void)state;
    assert_int_equal(cr_utf8_complete_prefix(EURO, 4), 4);
    assert_int_equal(cr_utf8_complete_prefix(EURO, 3), 1);
    assert_int_equal(cr_utf8_complete_prefix(EURO, 2), 1);
    assert_int_equal(cr_utf8_complete_prefix("x\x80\x80", 3), 3);
    assert_int_equal(cr_utf8_complete_prefix("\xFF", 1), 1);
    assert_int_equal(cr_utf8_complete_prefix("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_validity_and_replacement_follow_the_standard),
        cmocka_unit_test(utf8_lossy_replaces_nul),
        cmocka_unit_test(utf8_complete_prefix_waits_only_for_a_character_that_can_still_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
