/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/diff.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *old_text;
    const char *new_text;
    const char *diff; /* without the two lines of names */
} cases[] = {
    {"a\n", "a\n", NULL},
    {"", "", NULL},
    {"a\n", "b\n", "@@ -1,1 +1,1 @@\n-a\n+b\n"},
    {"", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
    {"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
    {"a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
    {"1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\nx\n",
     "@@ -5,4 +5,4 @@\n 5\n 6\n 7\n-8\n+x\n"},
    {"x\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\ny\n",
     "@@ -1,4 +1,4 @@\n-x\n+1\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n"},
    /* Six lines between two changes: their contexts touch, so it is one hunk. */
    {"x\n2\n3\n4\n5\n6\n7\nx\n", "1\n2\n3\n4\n5\n6\n7\n8\n",
     "@@ -1,8 +1,8 @@\n-x\n+1\n 2\n 3\n 4\n 5\n 6\n 7\n-x\n+8\n"},
    {"a\nb\nc\nd\n", "b\nc\ne\nd\n", "@@ -1,4 +1,4 @@\n-a\n b\n c\n+e\n d\n"},
};

static void differences_are_shown_with_context(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        char expected[1024] = "";

        cr_buf_init(&buf, 65536);
        if (cases[i].diff)
            (void)snprintf(expected, sizeof(expected), "--- a/solution.py\n+++ b/solution.py\n%s",
                           cases[i].diff);
        assert_int_equal(agt_diff_add("solution.py", cases[i].old_text, cases[i].new_text, &buf),
                         0);
        assert_string_equal(cr_buf_str(&buf), expected);
    }
}

static char *make_lines(size_t count, const char *prefix)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, 1024 * 1024);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(cr_buf_printf(&buf, "%s%zu\n", prefix, i), 0);
    return cr_buf_take_str(&buf);
}

static void texts_too_different_are_replaced_whole(void **state)
{
    CR_AUTO_FREE char *old_text = make_lines(3000, "a");
    CR_AUTO_FREE char *new_text = make_lines(3000, "b");
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 1024 * 1024);
    assert_int_equal(agt_diff_add("x", old_text, new_text, &buf), 0);

    assert_non_null(strstr(cr_buf_str(&buf), "@@ -1,3000 +1,3000 @@\n-a0\n-a1\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "-a2999\n+b0\n"));
}

static void diff_that_meets_the_cap_says_that_it_was_cut(void **state)
{
    CR_AUTO_FREE char *old_text = make_lines(100, "a");
    CR_AUTO_FREE char *new_text = make_lines(100, "b");

    (void)state;
    for (size_t cap = 64; cap < 1000; cap += 13) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        const char *text;

        cr_buf_init(&buf, cap);
        assert_int_equal(cr_buf_add_str(&buf, "before\n"), 0);
        assert_int_equal(agt_diff_add("x", old_text, new_text, &buf), 0);

        text = cr_buf_str(&buf);
        assert_true(buf.size <= cap);
        assert_memory_equal(text, "before\n", 7);
        assert_string_equal(text + buf.size - strlen("\n... (diff cut)\n"), "\n... (diff cut)\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_shown_with_context),
        cmocka_unit_test(texts_too_different_are_replaced_whole),
        cmocka_unit_test(diff_that_meets_the_cap_says_that_it_was_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
