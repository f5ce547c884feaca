/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_cannot_reach_the_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
