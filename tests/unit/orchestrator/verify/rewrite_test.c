/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/verify/rewrite.h"
#include "tests/unit/orchestrator/verify/source.h"

#include <stdio.h>
#include <stdlib.h>

#define GUARD "if \"m\" in globals() or __name__ == \"__main__\": return"

/* "G" stands for the guard. */
static void expect_stub(const char *text, const char *expected, size_t expected_count)
{
    struct source source = source_read(text);
    struct cr_buf buf;
    char wanted[1024] = "";
    size_t count = 99;

    for (size_t size = 0; *expected; expected++) {
        size += (size_t)snprintf(wanted + size, sizeof(wanted) - size, "%.*s",
                                 *expected == 'G' ? (int)strlen(GUARD) : 1,
                                 *expected == 'G' ? GUARD : expected);
    }
    (void)strncat(wanted, "\nm = True\n", sizeof(wanted) - strlen(wanted) - 1);
    cr_buf_init(&buf, 65536);
    assert_int_equal(
        agt_stub_add(&source.tokens, &source.outline, AGT_STUB_NONE, "m", &buf, &count), 0);
    assert_string_equal(cr_buf_str(&buf), wanted);
    assert_int_equal(count, expected_count);
    cr_buf_done(&buf);
    source_done(&source);
}

static void functions_are_emptied_where_they_begin(void **state)
{
    (void)state;
    expect_stub("def f(x):\n    return x\n", "def f(x):\n    G\n    return x\n", 1);
    expect_stub("@d\nasync def f(x: int = 1) -> int:\n\treturn x\n",
                "@d\nasync def f(x: int = 1) -> int:\n\tG\n\treturn x\n", 1);
    expect_stub("def f():\n    \"\"\"doc\n    more\"\"\"  # why\n    return 1\n",
                "def f():\n    \"\"\"doc\n    more\"\"\"\n    G  # why\n    return 1\n", 1);
    expect_stub("def f(x): return x * 2; y\n", "def f(x): \n    G\n    return x * 2; y\n", 1);
    expect_stub(
        "class A:\n    n = 1\n\n    def f(self):\n        def g(): return 1\n        return g\n",
        "class A:\n    n = 1\n\n    def f(self):\n        G\n        def g(): \n            "
        "G\n            return 1\n        return g\n",
        2);
    expect_stub("def f(a,\n      b={1: 2}):  # x\n\n    # y\n    return a\n",
                "def f(a,\n      b={1: 2}):  # x\n\n    # y\n    G\n    return a\n", 1);
}

static void functions_that_do_nothing_stay(void **state)
{
    static const char *const texts[] = {
        "def f():\n    pass\n",
        "def f(): ...\n",
        "def f():\n    \"\"\"doc\"\"\"\n",
        "def f():\n    'doc'\n    return None\n",
        "class A:\n    def f(self):\n        raise NotImplementedError(\"x\")\n    n = 1\n",
        "class E(Enum):\n    A = 1\n    B = 2\n",
        "f = lambda x: x\n",
        "x = 1\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect_stub(texts[i], texts[i], 0);
    expect_stub("def f():\n    pass\n    return 1\n", "def f():\n    G\n    pass\n    return 1\n",
                1);
    expect_stub("def f():\n    return None or 1\n", "def f():\n    G\n    return None or 1\n", 1);
}

static void raising_stub_raises(void **state)
{
    struct source source = source_read("def f():\n    return 1\n");
    struct cr_buf buf;
    size_t count;

    (void)state;
    cr_buf_init(&buf, 65536);
    assert_int_equal(
        agt_stub_add(&source.tokens, &source.outline, AGT_STUB_RAISE, "m", &buf, &count), 0);
    assert_non_null(strstr(cr_buf_str(&buf), "\"__main__\": raise NotImplementedError\n"));
    cr_buf_done(&buf);
    source_done(&source);
}

static void what_the_tests_are_about_is_told_by_names(void **state)
{
    static const struct {
        const char *solution;
        const char *tests;
        bool is_under_test;
        bool has_data;
    } cases[] = {
        {"def f():\n    return 1\n", "from solution import f\n", true, false},
        {"def f():\n    return 1\n", "import solution\n", false, false},
        {"T = 1\ndef f():\n    return 1\n", "from solution import T\n", false, true},
        {"T: int = 1\nU = 2\n", "T\n", false, true},
        {"class A:\n    x: int\n    def __str__(self):\n        return 'a'\n", "A(1).x\n", false,
         true},
        {"class A:\n    def __init__(self):\n        self.x = 1\n", "A().x\n", true, false},
        {"class A:\n    def f(self):\n        x = 1\n        return x\n", "A()\n", false, false},
        {"if a:\n    T = 1\nelse:\n    U = 2\n", "T, U\n", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct source solution = source_read(cases[i].solution);
        struct source tests = source_read(cases[i].tests);

        assert_int_equal(agt_stub_is_under_test(&solution.tokens, &solution.outline, &tests.tokens),
                         cases[i].is_under_test);
        assert_int_equal(
            agt_stub_has_data_under_test(&solution.tokens, &solution.outline, &tests.tokens),
            cases[i].has_data);
        source_done(&solution);
        source_done(&tests);
    }
}

static void outline_knows_parents_and_ends(void **state)
{
    struct source source =
        source_read("class A:\n    def f(self):\n        x\n\n    def g(self): y\n"
                    "def h():\n    z\nw\n");
    const struct agt_py_def *defs = source.outline.items;

    (void)state;
    assert_int_equal(source.outline.count, 4);
    assert_true(defs[0].is_class);
    assert_int_equal(defs[0].parent, AGT_PY_NONE);
    assert_int_equal(defs[1].parent, 0);
    assert_int_equal(defs[2].parent, 0);
    assert_int_equal(defs[3].parent, AGT_PY_NONE);
    assert_int_equal(defs[0].end, defs[3].keyword);
    assert_int_equal(defs[1].end, defs[2].keyword);
    assert_true(agt_py_is(&source.tokens, defs[3].end, "w"));
    source_done(&source);
}

static void canary_is_a_test_more(void **state)
{
    struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 65536);
    assert_int_equal(agt_canary_add("x\n", "test_c", "why", &buf), 0);
    assert_string_equal(cr_buf_str(&buf), "x\n\n\ndef test_c():\n    assert False, \"why\"\n");
    cr_buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_emptied_where_they_begin),
        cmocka_unit_test(functions_that_do_nothing_stay),
        cmocka_unit_test(raising_stub_raises),
        cmocka_unit_test(what_the_tests_are_about_is_told_by_names),
        cmocka_unit_test(outline_knows_parents_and_ends),
        cmocka_unit_test(canary_is_a_test_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
