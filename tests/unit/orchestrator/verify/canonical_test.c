/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/verify/canonical.h"
#include "tests/harness/test.h"

#include <string.h>

static bool are_same(const char *a, const char *b)
{
    struct cr_buf left;
    struct cr_buf right;
    bool is_same;

    cr_buf_init(&left, 65536);
    cr_buf_init(&right, 65536);
    assert_int_equal(agt_py_add_canonical(a, &left), 0);
    assert_int_equal(agt_py_add_canonical(b, &right), 0);
    is_same = strcmp(cr_buf_str(&left), cr_buf_str(&right)) == 0;
    cr_buf_done(&left);
    cr_buf_done(&right);
    return is_same;
}

static void comments_layout_and_docstrings_are_no_difference(void **state)
{
    const char *plain = "def f(a, b):\n    return a + b\n";
    static const char *const same[] = {
        "# why\ndef f(a,b):\n\n    return a+b  # sum\n\n\n",
        "def f(a, b):\n\treturn a + b",
        "def f(\n    a, b\n):\n    \"\"\"Adds.\"\"\"\n    return a + \\\n        b\n",
        "\"\"\"A module.\"\"\"\ndef f(a, b):\n    'doc' 'string'\n    return a + b\n",
    };
    static const char *const others[] = {
        "def f(a, b):\n    return a - b\n", "def f(a, b):\n    return a\n",
        "def f(a, b): return a + b\n",      "def f(a, b):\n    return a + b\nx = 1\n",
        "def fa(b):\n    return a + b\n",   "def f(a, b):\n    return (a + b\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        assert_true(are_same(plain, same[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(are_same(plain, others[i]));
    assert_false(are_same("x = 'a'\n", "x = 'b'\n"));
    assert_false(are_same("if a:\n    b\n    c\n", "if a:\n    b\nc\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_layout_and_docstrings_are_no_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
