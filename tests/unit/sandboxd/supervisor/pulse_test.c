/* SPDX-License-Identifier: Apache-2.0 */
#include "common/patience.h"
#include "sandboxd/supervisor/pulse.h"
#include "tests/harness/test.h"

/* How many looks in a row, the first included, until one says `state`; 0: not in a thousand. */
static int looks_until(struct sbx_pulse *pulse, enum sbx_pulse_state state)
{
    for (int i = 1; i <= 1000; i++) {
        if (sbx_pulse_look(pulse) == state)
            return i;
    }
    return 0;
}

static void pulse_of_a_child_that_starts_is_not_asked_for(void **state)
{
    struct sbx_pulse pulse = {0};

    (void)state;
    assert_int_equal(looks_until(&pulse, SBX_PULSE_STILL), 0);
}

static void pulse_is_well_while_words_come(void **state)
{
    struct sbx_pulse pulse = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        sbx_pulse_hear(&pulse);
        assert_int_equal(sbx_pulse_look(&pulse), SBX_PULSE_WELL);
        assert_int_equal(sbx_pulse_look(&pulse), SBX_PULSE_WELL); /* one word was late */
    }
}

static void pulse_of_one_that_stands_still_is_told_and_comes_back(void **state)
{
    struct sbx_pulse pulse = {0};

    (void)state;
    sbx_pulse_hear(&pulse);
    assert_int_equal(looks_until(&pulse, SBX_PULSE_STILL), 4); /* the first finds the word */
    assert_int_equal(sbx_pulse_look(&pulse), SBX_PULSE_STILL);
    sbx_pulse_hear(&pulse);
    assert_int_equal(sbx_pulse_look(&pulse), SBX_PULSE_WELL);
}

static void pulse_is_given_up_once_in_a_while_and_later_on_a_slow_host(void **state)
{
    struct sbx_pulse pulse = {0};

    (void)state;
    sbx_pulse_hear(&pulse);
    assert_int_equal(looks_until(&pulse, SBX_PULSE_DEAD), 41);
    assert_int_equal(sbx_pulse_look(&pulse), SBX_PULSE_STILL);
    assert_int_equal(looks_until(&pulse, SBX_PULSE_DEAD), 39);
    cr_patience_set(20);
    pulse = (struct sbx_pulse){0};
    sbx_pulse_hear(&pulse);
    assert_int_equal(looks_until(&pulse, SBX_PULSE_DEAD), 801);
    cr_patience_set(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pulse_of_a_child_that_starts_is_not_asked_for),
        cmocka_unit_test(pulse_is_well_while_words_come),
        cmocka_unit_test(pulse_of_one_that_stands_still_is_told_and_comes_back),
        cmocka_unit_test(pulse_is_given_up_once_in_a_while_and_later_on_a_slow_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
