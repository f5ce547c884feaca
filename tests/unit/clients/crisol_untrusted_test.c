/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *text;
    const char *shown;
} cases[] = {
    {"plain\tand\nlines", "plain\tand\nlines"},
    {"\033[2Jwiped", "\\x1b[2Jwiped"},
    {"a\rb\bc\ad", "a\\x0db\\x08c\\x07d"},
    {"\xC2\x9B"
     "31m",
     "\\x9b31m"}, /* CSI as one C1 character */
    {"caf\xC3\xA9 \xE2\x9C\x93", "caf\xC3\xA9 \xE2\x9C\x93"},
    {"\x7F", "\\x7f"},
    {"", ""},
};

static void control_characters_cannot_reach_the_terminal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *shown = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&shown, &size);

        assert_non_null(file);
        cli_print_untrusted(file, cases[i].text, strlen(cases[i].text));
        assert_int_equal(fclose(file), 0);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}

/* What a service or a file says may be part of what went wrong. */
static void nor_do_they_in_what_went_wrong(void **state)
{
    int before = dup(STDERR_FILENO);
    char shown[64] = "";
    int pair[2];

    (void)state;
    assert_true(before >= 0);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(dup2(pair[1], STDERR_FILENO), STDERR_FILENO);
    (void)cli_fail("cannot write '%s'", "\033[2Jwiped");
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    assert_true(read(pair[0], shown, sizeof(shown) - 1) > 0);
    assert_string_equal(shown, "crisol: cannot write '\\x1b[2Jwiped'\n");
    assert_int_equal(close(pair[0]), 0);
    assert_int_equal(close(pair[1]), 0);
    assert_int_equal(close(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_cannot_reach_the_terminal),
        cmocka_unit_test(nor_do_they_in_what_went_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
