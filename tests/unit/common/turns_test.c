/* SPDX-License-Identifier: Apache-2.0 */
#include "common/turns.h"
#include "tests/harness/test.h"

#include <limits.h>

static void turns_count_looks_that_find_a_loop_where_it_was(void **state)
{
    struct cr_turns_watch watch = {0, 0};

    (void)state;
    assert_int_equal(cr_turns_look(&watch, 5), 0);
    assert_int_equal(cr_turns_look(&watch, 5), 1);
    assert_int_equal(cr_turns_look(&watch, 5), 2);
}

static void turns_forget_as_soon_as_it_turns(void **state)
{
    struct cr_turns_watch watch = {.turns = 7, .looks = 29};

    (void)state;
    assert_int_equal(cr_turns_look(&watch, 8), 0);
    assert_int_equal(cr_turns_look(&watch, 8), 1);
    watch = (struct cr_turns_watch){.turns = UINT64_MAX, .looks = 1};
    assert_int_equal(cr_turns_look(&watch, 0), 0); /* it went round */
}

static void turns_of_one_that_never_began_are_looks_like_others(void **state)
{
    struct cr_turns_watch watch = {0, 0};

    (void)state;
    assert_int_equal(cr_turns_look(&watch, 0), 1);
    watch.looks = UINT_MAX;
    assert_int_equal(cr_turns_look(&watch, 0), UINT_MAX);
}

static void a_wait_is_never_longer_than_a_turn(void **state)
{
    (void)state;
    assert_int_equal(cr_turn_ms(-1), CR_TURN_MS);
    assert_int_equal(cr_turn_ms(60000), CR_TURN_MS);
    assert_int_equal(cr_turn_ms(0), 0);
    assert_int_equal(cr_turn_ms(20), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_count_looks_that_find_a_loop_where_it_was),
        cmocka_unit_test(turns_forget_as_soon_as_it_turns),
        cmocka_unit_test(turns_of_one_that_never_began_are_looks_like_others),
        cmocka_unit_test(a_wait_is_never_longer_than_a_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
