/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/signal_name.h"
#include "tests/harness/test.h"

#include <limits.h>
#include <signal.h>

static const struct {
    int number;
    const char *name;
} rows[] = {
    {1, "SIGHUP"},      {SIGSEGV, "SIGSEGV"}, {31, "SIGSYS"},
    {32, "SIG32"},      {33, "SIG33"},        {34, "SIGRTMIN"},
    {35, "SIGRTMIN+1"}, {49, "SIGRTMIN+15"},  {50, "SIGRTMAX-14"},
    {63, "SIGRTMAX-1"}, {64, "SIGRTMAX"},     {65, "SIG65"},
    {0, "SIG0"},        {-1, "SIG-1"},        {INT_MIN, "SIG-2147483648"},
};

static void signals_are_named_as_kill_lists_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        char text[CR_SIGNAL_NAME_SIZE];

        assert_string_equal(cr_signal_name(rows[i].number, text), rows[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_named_as_kill_lists_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
