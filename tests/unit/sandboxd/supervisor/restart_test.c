/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/restart.h"
#include "tests/harness/test.h"

static void restart_slows_down_and_gives_up(void **state)
{
    struct sbx_restart restart = {0};
    int last_ms = 0;

    (void)state;
    for (int i = 0; i < 12; i++) {
        int delay_ms = sbx_restart_delay_ms(&restart, 10);

        assert_true(delay_ms >= last_ms);
        assert_true(delay_ms > 0 && delay_ms <= 5000);
        last_ms = delay_ms;
    }
    assert_int_equal(last_ms, 5000);
    assert_int_equal(sbx_restart_delay_ms(&restart, 10), -1);
}

static void restart_forgets_after_a_long_life(void **state)
{
    struct sbx_restart restart = {0};
    int first_ms = sbx_restart_delay_ms(&restart, 0);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(sbx_restart_delay_ms(&restart, 60000), first_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_slows_down_and_gives_up),
        cmocka_unit_test(restart_forgets_after_a_long_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
