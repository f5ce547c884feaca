/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/verify/python.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One letter for each token. */
static void draw(const struct agt_py_tokens *tokens, char *drawing, size_t size)
{
    static const char letters[] = {
        [AGT_PY_NAME] = 'n',     [AGT_PY_NUMBER] = '1',  [AGT_PY_STRING] = 's',
        [AGT_PY_OPERATOR] = 'o', [AGT_PY_NEWLINE] = ';', [AGT_PY_INDENT] = '>',
        [AGT_PY_DEDENT] = '<',   [AGT_PY_END] = '.',
    };

    assert_true(tokens->count < size);
    for (size_t i = 0; i < tokens->count; i++)
        drawing[i] = letters[tokens->items[i].kind];
    drawing[tokens->count] = '\0';
}

static void expect(const char *text, const char *expected)
{
    AGT_AUTO_PY_TOKENS struct agt_py_tokens tokens = {.text = NULL};
    struct cr_err err = CR_ERR_INIT;
    char drawing[256];

    if (agt_py_scan(text, strlen(text), &tokens, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    draw(&tokens, drawing, sizeof(drawing));
    if (strcmp(drawing, expected) != 0)
        fail_msg("%s: %s, not %s", text, drawing, expected);
}

static void tokens_follow_the_lexical_rules(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"", "."},
        {"\n\n  # only this\n", "."},
        {"x = 1", "no1;."},
        {"\xef\xbb\xbfx = 1\r\ny = 2\r\n", "no1;no1;."},
        {"def f(x):\n    return x\n", "nnono"
                                      "o;>nn;<."},
        {"if a:\n  b\n\n  # c\nelse:\n\tb\n", "nno;>n;<no;>n;<."},
        {"f(\n  1,\n\n  # x\n  2)\n", "no1o1o;."},
        {"a = 1 + \\\n  2\n", "no1o1;."},
        {"s = 'a\\'b' \"c\" r'\\\\'\n", "nosss;."},
        {"x = \"\"\"a\n'b'\n\"\"\"\n", "nos;."},
        {"x = rb'a' + Rb\"b\" + f'{x}'\n", "nososos;."},
        {"1.5e-3 + 0xFFe-1 + 1_000j + .5\n", "1o1o1o1o1;."},
        {"a **= b // c -> d := e ... f\n", "nonononon"
                                           "on;."},
        {"π = 'ñ'\n", "nos;."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(cases[i].text, cases[i].expected);
}

static void f_strings_are_one_token_by_the_old_and_the_new_rule(void **state)
{
    static const char *const literals[] = {
        "f'{a}'",
        "f\"{a['b']}\"",
        "f\"{a[\"b\"]}\"",
        "f'{{'",
        "f'{a!r:>{width}}'",
        "f'{a:\"^10}'",
        "f'''{\na\n}'''",
        "f\"{f'{f\"{1}\"}'}\"",
        "f'{ {1: 2}[1] }'",
        "f'{(lambda x: x)(1)}'",
        "rf'\\{a}\\''",
        "f'{a:%H:%M}'",
        "f'{a=}' ",
        "f\"{'}'}\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "x = %s\n", literals[i]);
        expect(text, "nos;.");
    }
}

static void what_python_would_refuse_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"x = 1\ny = 'a\n", "line 2: a string is not closed"},
        {"x = '''a\n\n", "line 1: a string is not closed"},
        {"f(1\n", "line 2: a bracket is not closed"},
        {"f 1)\n", "line 1: a bracket is closed"},
        {"if a:\n    b\n  c\n", "line 3: the indent fits no line"},
        {"a = 1 \\ 2\n", "line 1: '\\'"},
        {"a = $\n", "line 1: a character"},
        {"a = \\\n", "behind '\\'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agt_py_tokens tokens = {.text = NULL};
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(agt_py_scan(cases[i].text, strlen(cases[i].text), &tokens, &err), -EINVAL);
        assert_null(tokens.items);
        if (!strstr(err.text, cases[i].complaint))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

static void depth_is_bounded(void **state)
{
    struct agt_py_tokens tokens = {.text = NULL};
    char *text = malloc(100000);

    (void)state;
    memset(text, '(', 99999);
    text[99999] = '\0';
    assert_int_equal(agt_py_scan(text, 99999, &tokens, NULL), -EINVAL);
    for (size_t i = 0; i + 3 < 99999; i += 3)
        memcpy(text + i, "f'{", 3);
    assert_int_equal(agt_py_scan(text, 99999, &tokens, NULL), -EINVAL);
    free(text);
}

/* A file of the older rule whose every f-string looks, by the newer one, as if it had no end. Were
 * each looked after to the end of the text, these would take hours. */
static void f_strings_of_the_older_rule_cost_no_look_at_all_that_follows(void **state)
{
    static const char line[] = "f\"\"\"{\"\"\"\n";
    const size_t size = 100000 * (sizeof(line) - 1);
    AGT_AUTO_PY_TOKENS struct agt_py_tokens tokens = {.text = NULL};
    char *text = malloc(size);

    (void)state;
    for (size_t at = 0; at < size; at += sizeof(line) - 1)
        memcpy(text + at, line, sizeof(line) - 1);
    assert_int_equal(agt_py_scan(text, size, &tokens, NULL), 0);
    assert_int_equal(tokens.count, 2 * 100000 + 1);
    free(text);
}

static void names_are_found_but_not_in_strings_and_comments(void **state)
{
    static const char text[] = "import a\nb = 'c'  # d\ne.f\n";
    AGT_AUTO_PY_TOKENS struct agt_py_tokens tokens = {.text = NULL};

    (void)state;
    assert_int_equal(agt_py_scan(text, strlen(text), &tokens, NULL), 0);
    assert_true(agt_py_mentions(&tokens, "a", 1));
    assert_true(agt_py_mentions(&tokens, "f", 1));
    assert_false(agt_py_mentions(&tokens, "c", 1));
    assert_false(agt_py_mentions(&tokens, "d", 1));
    assert_true(agt_py_is(&tokens, 0, "import"));
    assert_false(agt_py_is(&tokens, 1000, "import"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_follow_the_lexical_rules),
        cmocka_unit_test(f_strings_are_one_token_by_the_old_and_the_new_rule),
        cmocka_unit_test(what_python_would_refuse_is_refused_with_its_line),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(f_strings_of_the_older_rule_cost_no_look_at_all_that_follows),
        cmocka_unit_test(names_are_found_but_not_in_strings_and_comments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
