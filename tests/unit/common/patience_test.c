/* SPDX-License-Identifier: Apache-2.0 */
#include "common/patience.h"
#include "tests/harness/test.h"

#include <limits.h>

static int forget(void **state)
{
    (void)state;
    cr_patience_set(1);
    return 0;
}

static void a_usual_machine_gets_what_is_usual(void **state)
{
    (void)state;
    assert_int_equal(cr_patience(), 1);
    assert_int_equal(cr_patience_ms(15000), 15000);
    assert_int_equal(cr_patience_ns(INT64_C(8000000000)), INT64_C(8000000000));
}

static void a_slow_machine_gets_so_many_times_more(void **state)
{
    (void)state;
    cr_patience_set(12);
    assert_int_equal(cr_patience(), 12);
    assert_int_equal(cr_patience_ms(15000), 180000);
    assert_int_equal(cr_patience_ns(INT64_C(8000000000)), INT64_C(96000000000));
}

/* What no setting can have: of a structure that was only cleared, and of a caller's mistake. */
static void numbers_out_of_range_are_the_nearest(void **state)
{
    (void)state;
    cr_patience_set(0);
    assert_int_equal(cr_patience(), 1);
    cr_patience_set(UINT64_MAX);
    assert_int_equal(cr_patience(), CR_SLOWNESS_MAX);
}

static void more_than_an_int_is_the_most_that_it_holds(void **state)
{
    (void)state;
    cr_patience_set(CR_SLOWNESS_MAX);
    assert_int_equal(cr_patience_ms(INT_MAX / CR_SLOWNESS_MAX),
                     INT_MAX / CR_SLOWNESS_MAX * CR_SLOWNESS_MAX);
    assert_int_equal(cr_patience_ms(INT_MAX / 2), INT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_usual_machine_gets_what_is_usual, forget),
        cmocka_unit_test_teardown(a_slow_machine_gets_so_many_times_more, forget),
        cmocka_unit_test_teardown(numbers_out_of_range_are_the_nearest, forget),
        cmocka_unit_test_teardown(more_than_an_int_is_the_most_that_it_holds, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
