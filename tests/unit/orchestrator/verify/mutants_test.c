/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/verify/mutants.h"
#include "tests/unit/orchestrator/verify/source.h"

#include <stdio.h>
#include <stdlib.h>

#define MUTANTS_MAX 8

/* Writes "line:before>after " for each. */
static void list(const char *text, size_t max, char *ret_list, size_t size)
{
    struct agt_mutant mutants[MUTANTS_MAX];
    struct source source = source_read(text);
    size_t count = agt_mutants_choose(&source.tokens, &source.outline, mutants, max);

    ret_list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(ret_list);

        (void)snprintf(ret_list + used, size - used, "%u:%s>%s ", mutants[i].line,
                       mutants[i].before, mutants[i].after);
    }
    source_done(&source);
}

static void changes_are_where_code_decides(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"def f(a, b=1):\n    return a + b\n", "2:+>- "},
        {"def f(a):\n    return a < 1 and not a\n", "2:<>>= 2:1>2 2:and>or 2:not> "},
        {"def f(*a, **k):\n    return g(*a, **k), -a\n", ""},
        {"def f(a):\n    return a not in b or a is not c\n", "2:or>and "},
        {"def f(a) -> int | None:\n    x: int | None = a\n    return x == True\n",
         "3:==>!= 3:True>False "},
        {"def f(a):\n    x: list[int] = [1]\n", "2:1>2 "},
        {"def f(a):\n    if a: raise ValueError(1 + 1)\n    assert a > 1\n    return '%d' % a\n",
         "4:'%d'>\"\" "},
        {"X = 1 + 1\nclass A:\n    n = 1\n\n    @d(1)\n    def f(self): return self.n * 2\n",
         "6:*>+ 6:2>3 "},
        {"def f():\n    def g(a=1): return a\n    return 0x10 + 007.5 + 1_0\n", "3:+>- 3:+>- "},
        {"def f(a):\n    a += 1\n    if a: a -= 2\n", "2:+=>-= 2:1>2 3:-=>+= 3:2>3 "},
        {"def f(a):\n    \"doc\"\n    'x'\n    return a['key'] + \"\" + f'{a}' + 'long enough to "
         "be a message' + \"\"\"y\"\"\"\n",
         "4:'key'>\"\" 4:+>- "},
        {"def f(a):\n    (\"doc\"\n     'x')\n    'y'; return a['key']\n", "4:'key'>\"\" "},
        {"def f(a):\n    'doc' \\\n    'x'\n    return ('k' 'l')\n", "4:'k'>\"\" 4:'l'>\"\" "},
        {"def f():\n    pass\n", ""},
        {"def f():\n    return x.True\n", ""},
    };

    char found[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        list(cases[i].text, MUTANTS_MAX, found, sizeof(found));
        assert_string_equal(found, cases[i].expected);
    }
}

static void of_many_changes_some_are_chosen_evenly(void **state)
{
    char found[512];

    (void)state;
    list("def f(a):\n    return [a+1,\n a+2,\n a+3,\n a+4,\n a+5,\n a+6]\n", 3, found,
         sizeof(found));
    assert_string_equal(found, "3:+>- 5:+>- 7:+>- ");
    list("def f(a):\n    return [a+1]\n", 1, found, sizeof(found));
    assert_string_equal(found, "2:1>2 ");
}

static void change_leaves_all_else_as_it_is(void **state)
{
    const char *text = "def f(a):  # x\n    return not a <= 12  # y\n";
    struct source source = source_read(text);
    struct agt_mutant mutants[MUTANTS_MAX];
    struct cr_buf buf;

    (void)state;
    assert_int_equal(agt_mutants_choose(&source.tokens, &source.outline, mutants, MUTANTS_MAX), 3);
    cr_buf_init(&buf, 4096);
    assert_int_equal(agt_mutant_add(&source.tokens, &mutants[0], &buf), 0);
    assert_int_equal(agt_mutant_add(&source.tokens, &mutants[1], &buf), 0);
    assert_int_equal(agt_mutant_add(&source.tokens, &mutants[2], &buf), 0);
    assert_string_equal(cr_buf_str(&buf), "def f(a):  # x\n    return  a <= 12  # y\n"
                                          "def f(a):  # x\n    return not a > 12  # y\n"
                                          "def f(a):  # x\n    return not a <= 13  # y\n");
    cr_buf_done(&buf);
    source_done(&source);
}

/* Words that skip the rest of their line, on one: to find its end for each would take minutes. */
static void many_words_that_skip_a_line_find_its_end_once(void **state)
{
    static const char word[] = "raise ";
    const size_t size = sizeof(word) - 1;
    struct agt_mutant mutants[4];
    struct source source;
    char *text = calloc(300001, size + 1);

    (void)state;
    for (size_t i = 0; i < 300000; i++)
        memcpy(text + i * size, word, size);
    source = source_read(text);
    assert_int_equal(agt_mutants_choose(&source.tokens, &source.outline, mutants, 4), 0);
    source_done(&source);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_where_code_decides),
        cmocka_unit_test(of_many_changes_some_are_chosen_evenly),
        cmocka_unit_test(change_leaves_all_else_as_it_is),
        cmocka_unit_test(many_words_that_skip_a_line_find_its_end_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
