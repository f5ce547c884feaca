/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/readiness.h"
#include "tests/harness/test.h"

static void readiness_waits_for_a_backend_and_then_for_a_run(void **state)
{
    struct sbx_readiness readiness = {0};

    (void)state;
    assert_int_equal(sbx_readiness_next(&readiness, false, 0), SBX_READINESS_WAIT);
    assert_int_equal(sbx_readiness_next(&readiness, true, 1), SBX_READINESS_PROVE);
    assert_true(sbx_readiness_conclude(&readiness, 1, 1, true));
    assert_int_equal(sbx_readiness_next(&readiness, true, 1), SBX_READINESS_SERVE);
}

static void readiness_takes_no_run_that_failed(void **state)
{
    struct sbx_readiness readiness = {0};

    (void)state;
    assert_false(sbx_readiness_conclude(&readiness, 1, 1, false));
    assert_int_equal(sbx_readiness_next(&readiness, true, 1), SBX_READINESS_PROVE);
    assert_true(sbx_readiness_conclude(&readiness, 1, 1, true)); /* tried again */
    assert_int_equal(sbx_readiness_next(&readiness, true, 1), SBX_READINESS_SERVE);
}

static void readiness_ends_with_its_backend(void **state)
{
    struct sbx_readiness readiness = {.has_proven = true, .proven = 1};

    (void)state;
    assert_int_equal(sbx_readiness_next(&readiness, false, 2), SBX_READINESS_WAIT);
    assert_int_equal(sbx_readiness_next(&readiness, true, 3), SBX_READINESS_PROVE);
}

static void readiness_does_not_believe_a_run_of_a_backend_that_went(void **state)
{
    struct sbx_readiness readiness = {0};

    (void)state;
    assert_false(sbx_readiness_conclude(&readiness, 1, 2, true));
    assert_int_equal(sbx_readiness_next(&readiness, true, 2), SBX_READINESS_PROVE);
    assert_int_equal(sbx_readiness_next(&readiness, true, 1), SBX_READINESS_PROVE);
}

static void readiness_of_generation_0_has_to_be_shown_too(void **state)
{
    struct sbx_readiness readiness = {0};

    (void)state;
    assert_int_equal(sbx_readiness_next(&readiness, true, 0), SBX_READINESS_PROVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readiness_waits_for_a_backend_and_then_for_a_run),
        cmocka_unit_test(readiness_takes_no_run_that_failed),
        cmocka_unit_test(readiness_ends_with_its_backend),
        cmocka_unit_test(readiness_does_not_believe_a_run_of_a_backend_that_went),
        cmocka_unit_test(readiness_of_generation_0_has_to_be_shown_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
