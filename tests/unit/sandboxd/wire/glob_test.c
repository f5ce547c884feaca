/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/wire/glob.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

static bool matches(const char *pattern, const char *path)
{
    return sbx_glob_matches(pattern, strlen(pattern), path, strlen(path));
}

static const struct {
    const char *pattern;
    const char *path;
    bool expected;
} rows[] = {
    {"a", "a", true},
    {"a", "b", false},
    {"a", "a/a", false},
    {"a/b", "a/b", true},
    {"*", "a", true},
    {"*", "a/b", false},
    {"*", ".hidden", true},
    {"*.txt", "a.txt", true},
    {"*.txt", ".txt", true},
    {"*.txt", "a.txt.gz", false},
    {"*.txt", "d/a.txt", false},
    {"a*b*c", "abc", true},
    {"a*b*c", "aXbYbZc", true},
    {"a*b*c", "aXbYbZ", false},
    {"*a*", "bab", true},
    {"a?c", "abc", true},
    {"a?c", "ac", false},
    {"?", "\xc3\xa9", true}, /* one character of two bytes */
    {"??", "\xc3\xa9", false},
    {"*\xa9", "\xc3\xa9", false}, /* not the half of one */
    {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
    {"[abc]", "b", true},
    {"[abc]", "d", false},
    {"[a-c]x", "bx", true},
    {"[a-c]x", "dx", false},
    {"[!a-c]", "d", true},
    {"[!a-c]", "a", false},
    {"[!a-c]", "\xc3\xa9", true},
    {"[a-c]", "\xc3\xa9", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[*]", "*", true},
    {"[*]", "a", false},
    {"[[]", "[", true},
    {"[a-]", "-", true},
    {"**", "a", true},
    {"**", "a/b/c", true},
    {"**/x", "x", true},
    {"**/x", "a/b/x", true},
    {"**/x", "a/b/y", false},
    {"a/**", "a", false},
    {"a/**", "a/b", true},
    {"a/**", "a/b/c", true},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "a/x/y/c", false},
    {"**/a/**/b", "x/a/y/a/z/b", true},
    {"**/a/*/b", "x/a/y/a/z/b", true},
    {"**/*.py", "main.py", true},
    {"**/*.py", "d/e/main.py", true},
    {"out/*/[0-9].json", "out/x/7.json", true},
    {"out/*/[0-9].json", "out/x/77.json", false},
};

static void glob_matches_as_the_table_says(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        assert_null(sbx_glob_problem(rows[i].pattern, strlen(rows[i].pattern)));
        if (matches(rows[i].pattern, rows[i].path) == rows[i].expected)
            continue;
        print_error("'%s' and '%s': expected %d\n", rows[i].pattern, rows[i].path,
                    rows[i].expected);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void glob_that_cannot_be_is_named(void **state)
{
    static const char *const bad[] = {
        "",      "/a", "a/", "a//b", "../a", "a/./b", "a\nb", "a**",        "**a",          "***",
        "a/**b", "[",  "[a", "[]",   "[!]",  "[a/b]", "a[",   "[\xc3\xa9]", "[!a-\xc3\xa9]"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        if (!sbx_glob_problem(bad[i], strlen(bad[i])))
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void glob_gives_only_what_has_a_name_in_the_contract(void **state)
{
    (void)state;
    assert_true(sbx_glob_may_give("a/\xc3\xa9", 4));
    assert_true(sbx_glob_may_give("a/.crisol", 9));
    assert_false(sbx_glob_may_give(".crisol-report.xml", 18));
    assert_false(sbx_glob_may_give("a\xff", 2));
    assert_false(sbx_glob_may_give("a\nb", 3));
    assert_false(sbx_glob_may_give("../a", 4));
    assert_false(sbx_glob_may_give("", 0));
}

/* The patterns that take others minutes: many stars, all of which have to be tried. */
static void glob_is_quick_with_patterns_made_to_be_slow(void **state)
{
    char pattern[1024] = "";
    char path[1024] = "";

    (void)state;
    for (int i = 0; i < 15; i++) {
        (void)strncat(pattern, i % 2 ? "*a*a*a*a*a*a*a*a*a*a*b/" : "**/", sizeof(pattern) - 300);
        (void)strncat(path, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/",
                      sizeof(path) - 300);
    }
    pattern[strlen(pattern) - 1] = '\0';
    path[strlen(path) - 1] = '\0';
    assert_null(sbx_glob_problem(pattern, strlen(pattern)));
    for (int i = 0; i < 1000; i++)
        assert_false(matches(pattern, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glob_matches_as_the_table_says),
        cmocka_unit_test(glob_that_cannot_be_is_named),
        cmocka_unit_test(glob_gives_only_what_has_a_name_in_the_contract),
        cmocka_unit_test(glob_is_quick_with_patterns_made_to_be_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
