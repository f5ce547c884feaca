/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/service/reach.h"
#include "tests/harness/test.h"

enum answer {
    NONE,
    NOT_SERVING,
    SERVING
};

/* One look; returns whether it changed the whole. */
static bool look(struct agt_reach *reach, enum answer answer)
{
    assert_true(agt_reach_begin(reach));
    if (answer != NONE)
        agt_reach_hear(reach, answer == SERVING);
    return agt_reach_end(reach);
}

static void reach_begins_with_nobody_and_takes_the_first_that_serves(void **state)
{
    struct agt_reach reach = {0};

    (void)state;
    assert_false(look(&reach, NONE));
    assert_false(look(&reach, NOT_SERVING));
    assert_false(reach.is_reached);
    assert_true(look(&reach, SERVING));
    assert_true(reach.is_reached);
    assert_false(look(&reach, SERVING));
}

static void reach_forgives_one_miss_and_not_two(void **state)
{
    static const enum answer misses[] = {NONE, NOT_SERVING};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(misses); i++) {
        struct agt_reach reach = {.is_reached = true};

        assert_false(look(&reach, misses[i]));
        assert_true(reach.is_reached);
        assert_false(look(&reach, SERVING)); /* which counts the misses anew */
        assert_false(look(&reach, misses[i]));
        assert_true(look(&reach, misses[1 - i]));
        assert_false(reach.is_reached);
    }
}

static void reach_looks_once_at_a_time(void **state)
{
    struct agt_reach reach = {0};

    (void)state;
    assert_true(agt_reach_begin(&reach));
    agt_reach_hear(&reach, true);
    assert_false(agt_reach_begin(&reach));
    assert_true(agt_reach_end(&reach)); /* what was heard is not lost to the second */
    assert_true(agt_reach_begin(&reach));
}

static void reach_does_not_carry_an_answer_over_to_the_next_look(void **state)
{
    struct agt_reach reach = {0};

    (void)state;
    assert_true(look(&reach, SERVING));
    assert_false(look(&reach, NONE));
    assert_true(look(&reach, NONE));
    assert_false(reach.is_reached);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach_begins_with_nobody_and_takes_the_first_that_serves),
        cmocka_unit_test(reach_forgives_one_miss_and_not_two),
        cmocka_unit_test(reach_looks_once_at_a_time),
        cmocka_unit_test(reach_does_not_carry_an_answer_over_to_the_next_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
