/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/audit.h"
#include "tests/harness/test.h"

#include <string.h>

#define TWO                                                                                        \
    "import pytest\nfrom solution import f\n\n\ndef test_a():\n    assert f(1) == 1\n\n\n"         \
    "@pytest.mark.parametrize('x, y', [(1, 2), (3, 4)])\ndef test_b(x, y):\n    assert f(x) == "   \
    "y\n    with pytest.raises(ValueError):\n        f(None)\n"

static struct agt_audit audit(const char *before, const char *after)
{
    struct agt_audit audit;

    assert_int_equal(agt_audit_tests(before, after, &audit), 0);
    return audit;
}

static void counts_are_right(void **state)
{
    struct agt_audit result = audit(TWO, TWO);

    (void)state;
    assert_false(result.is_change);
    assert_int_equal(result.before.tests, 2);
    assert_int_equal(result.before.asserts, 3);
    assert_int_equal(result.before.cases, 2);
    assert_int_equal(result.before.skips, 0);
}

static void comments_and_layout_are_no_change(void **state)
{
    (void)state;
    assert_false(audit("def test_a():\n    assert f( 1)==1  # x\n",
                       "# y\ndef test_a():\n  assert f(1) == 1\n")
                     .is_change);
}

static void corrected_and_added_tests_are_accepted(void **state)
{
    static const char *const after[] = {
        "def test_a():\n    assert f(1) == 2\n",
        "def test_a():\n    assert f(1) == 1\n\ndef test_b():\n    assert f(2) == 2\n",
        "def test_a():\n    assert f(1) == 1\n    assert f(2) == 2\n",
        "def test_a():\n    tests = [1]\n    for t in tests: assert f(t) == t\n",
        "def test_a():\n    def inner():\n        return 1\n    assert f(inner()) == 1\n",
        "def test_a():\n    assert f(1) == 1\n\ndef test_b():\n    test_a = [1]\n    "
        "test_a.append(2)\n    assert test_a\n    del test_a\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        struct agt_audit result = audit("def test_a():\n    assert f(1) == 1\n", after[i]);

        assert_true(result.is_change);
        assert_true(result.accepted);
        assert_string_equal(result.reason, "");
    }
}

#define NESTED(name)                                                                               \
    "class " name ":\n    class TestInner:\n        def test_a(self):\n            assert 1\n"

static void a_test_of_another_class_takes_no_place(void **state)
{
    struct agt_audit result = audit(NESTED("TestA"), NESTED("TestA") NESTED("TestB"));

    (void)state;
    assert_true(result.accepted);
    result = audit(NESTED("TestA"), NESTED("TestB"));
    assert_false(result.accepted);
    assert_non_null(strstr(result.reason, "test_a is missing"));
}

static void weaker_tests_are_refused_with_the_reason(void **state)
{
    static const struct {
        const char *before;
        const char *after;
        const char *reason;
    } cases[] = {
        {"def test_a():\n    assert 1\ndef test_b():\n    assert 1\n",
         "def test_a():\n    assert 1\n    assert 1\n", "test_b is missing"},
        {"def test_a():\n    assert 1\n", "def test_x():\n    assert 1\n", "test_a is missing"},
        {"class TestA:\n    def test_a(self):\n        assert 1\n",
         "class TestB:\n    def test_a(self):\n        assert 1\n", "test_a is missing"},
        {"def test_a():\n    assert 1\n    assert 2\n", "def test_a():\n    assert 1\n",
         "1 assertions and there were 2"},
        {"def test_a():\n    with raises(E):\n        f()\n", "def test_a():\n    f()\n",
         "0 assertions and there were 1"},
        {"@p.parametrize('x', [1, 2])\ndef test_a(x):\n    assert x\n",
         "@p.parametrize('x', [1])\ndef test_a(x):\n    assert x\n", "1 parametrized cases"},
        {"def test_a():\n    assert 1\n", "@pytest.mark.skip\ndef test_a():\n    assert 1\n",
         "A skip or an expected failure"},
        {"def test_a():\n    assert 1\n", "def test_a():\n    pytest.xfail()\n    assert 1\n",
         "A skip or an expected failure"},
        {"def test_a():\n    assert f()\n",
         "def test_a():\n    assert f()\n\ndef test_a():\n    assert 1\n", "test_a is there twice"},
        {"class TestA:\n    def test_a(self):\n        assert 1\n",
         "class TestA:\n    def test_a(self):\n        assert 1\n    def test_a(self):\n        "
         "pass\n",
         "test_a is there twice"},
        {"def test_a():\n    assert f()\n", "def test_a():\n    'x'\n    return\n    assert f()\n",
         "test_a returns before"},
        {"def test_a():\n    assert f()\n", "def test_a():\n    assert f()\ntest_a = None\n",
         "A test is taken away"},
        {"def test_a():\n    assert f()\n", "def test_a():\n    assert f()\ndel x, test_a\n",
         "A test is taken away"},
        {"def test_a():\n    assert f()\n",
         "def test_a():\n    assert f()\ntest_a.__test__ = False\n", "A test is taken away"},
        {"def test_a():\n    assert f()\n",
         "def test_a():\n    assert f()\ndef g():\n    test_a.__test__ = False\n",
         "A test is taken away"},
        {"def test_a():\n    assert f()\n",
         "def test_a():\n    assert f()\ndef g():\n    global test_a\n    test_a = None\n",
         "A test is taken away"},
        {"def test_a():\n    assert 1\n", "def test_a():\n    assert (1\n", "not Python: line 3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agt_audit result = audit(cases[i].before, cases[i].after);

        assert_true(result.is_change);
        if (result.accepted || !strstr(result.reason, cases[i].reason))
            fail_msg("case %zu: '%s'", i, result.reason);
    }
}

static void tests_that_are_not_python_may_be_replaced(void **state)
{
    struct agt_audit result = audit("def test_a(:\n    '\n", "def test_b():\n    assert 1\n");

    (void)state;
    assert_true(result.is_change);
    assert_true(result.accepted);
    assert_int_equal(result.after.tests, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_right),
        cmocka_unit_test(comments_and_layout_are_no_change),
        cmocka_unit_test(corrected_and_added_tests_are_accepted),
        cmocka_unit_test(a_test_of_another_class_takes_no_place),
        cmocka_unit_test(weaker_tests_are_refused_with_the_reason),
        cmocka_unit_test(tests_that_are_not_python_may_be_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
