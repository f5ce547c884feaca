/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void buf_refuses_what_passes_its_cap_and_keeps_the_rest(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 4);

    assert_int_equal(cr_buf_add(&buf, "abcd", 4), 0);
    assert_int_equal(cr_buf_add_char(&buf, 'e'), -ENOSPC);

    assert_string_equal(cr_buf_str(&buf), "abcd");
}

static void buf_is_a_string_at_every_size(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 5000);
    assert_string_equal(cr_buf_str(&buf), "");

    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(cr_buf_add_char(&buf, 'x'), 0);
        assert_int_equal(strlen(cr_buf_str(&buf)), i + 1);
    }
}

static void buf_consume_keeps_the_tail(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 100);
    assert_int_equal(cr_buf_printf(&buf, "%d-%s", 42, "tail"), 0);

    cr_buf_consume(&buf, 3);
    assert_string_equal(cr_buf_str(&buf), "tail");

    cr_buf_consume(&buf, 99);
    assert_int_equal(buf.size, 0);
}

static void buf_take_str_hands_over_and_leaves_it_empty(void **state)
{
    struct cr_buf buf = {0};
    char *text;

    (void)state;
    cr_buf_init(&buf, 100);
    assert_int_equal(cr_buf_add_str(&buf, "mine"), 0);

    text = cr_buf_take_str(&buf);
    assert_string_equal(text, "mine");
    assert_int_equal(buf.size, 0);
    free(text);

    text = cr_buf_take_str(&buf);
    assert_string_equal(text, "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_refuses_what_passes_its_cap_and_keeps_the_rest),
        cmocka_unit_test(buf_is_a_string_at_every_size),
        cmocka_unit_test(buf_consume_keeps_the_tail),
        cmocka_unit_test(buf_take_str_hands_over_and_leaves_it_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
