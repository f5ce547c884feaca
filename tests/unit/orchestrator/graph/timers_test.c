/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/timers.h"
#include "tests/harness/test.h"

#include <stdlib.h>

#define START_NS (INT64_C(1000) * CR_NS_PER_S)
#define MANY 1000

struct fixture {
    struct agt_timers timers;
    struct agt_run runs[MANY];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    assert_null(agt_timers_take(&fixture->timers, START_NS));
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void each_is_called_after_its_time_and_at_most_two_ticks_late(void **state)
{
    struct fixture *fixture = *state;
    size_t taken = 0;

    for (int64_t i = 0; i < MANY; i++)
        agt_timers_set(&fixture->timers, &fixture->runs[i],
                       START_NS + i * 7919 % MANY * CR_NS_PER_MS);

    for (int64_t ns = START_NS; ns < START_NS + 2 * CR_NS_PER_S; ns += AGT_TIMER_TICK_NS) {
        const struct agt_run *run;

        assert_true(agt_timers_due_ns(&fixture->timers) >= ns);
        while ((run = agt_timers_take(&fixture->timers, ns))) {
            int64_t due_ns = START_NS + (run - fixture->runs) * 7919 % MANY * CR_NS_PER_MS;

            assert_true(due_ns <= ns && ns - due_ns <= 2 * AGT_TIMER_TICK_NS);
            taken++;
        }
    }
    assert_int_equal(taken, MANY);
    assert_true(agt_timers_due_ns(&fixture->timers) == INT64_MAX);
}

static void a_time_can_be_changed_and_taken_back(void **state)
{
    struct fixture *fixture = *state;
    struct agt_run *run = &fixture->runs[0];

    agt_timers_set(&fixture->timers, run, START_NS + CR_NS_PER_S);
    agt_timers_set(&fixture->timers, run, START_NS + 3 * CR_NS_PER_S);
    agt_timers_set(&fixture->timers, &fixture->runs[1], START_NS + CR_NS_PER_S);
    agt_timers_set(&fixture->timers, &fixture->runs[1], INT64_MAX);

    assert_null(agt_timers_take(&fixture->timers, START_NS + 2 * CR_NS_PER_S));
    assert_ptr_equal(agt_timers_take(&fixture->timers, START_NS + 4 * CR_NS_PER_S), run);
}

static void one_that_is_due_at_once_again_waits_for_the_next_tick(void **state)
{
    struct fixture *fixture = *state;
    struct agt_run *run = &fixture->runs[0];
    int64_t now_ns = START_NS + CR_NS_PER_S;

    agt_timers_set(&fixture->timers, run, START_NS);
    assert_ptr_equal(agt_timers_take(&fixture->timers, now_ns), run);

    agt_timers_set(&fixture->timers, run, START_NS);

    assert_null(agt_timers_take(&fixture->timers, now_ns));
    assert_ptr_equal(agt_timers_take(&fixture->timers, now_ns + AGT_TIMER_TICK_NS), run);
}

static void what_is_far_away_comes_by_and_is_set_again(void **state)
{
    struct fixture *fixture = *state;
    struct agt_run *run = &fixture->runs[0];
    int64_t due_ns = START_NS + 3600 * CR_NS_PER_S;
    int64_t ns = START_NS;

    agt_timers_set(&fixture->timers, run, due_ns);

    while (ns < due_ns) {
        ns = agt_timers_due_ns(&fixture->timers);
        assert_ptr_equal(agt_timers_take(&fixture->timers, ns), run);
        agt_timers_set(&fixture->timers, run, due_ns);
    }
    assert_true(ns - due_ns <= AGT_TIMER_TICK_NS);
}

static void nothing_is_lost_in_a_long_silence(void **state)
{
    struct fixture *fixture = *state;
    int64_t now_ns = START_NS + 86400 * CR_NS_PER_S;

    for (int64_t i = 0; i < MANY; i++)
        agt_timers_set(&fixture->timers, &fixture->runs[i], START_NS + i * 100 * CR_NS_PER_MS);

    for (int i = 0; i < MANY; i++)
        assert_non_null(agt_timers_take(&fixture->timers, now_ns));
    assert_null(agt_timers_take(&fixture->timers, now_ns));
}

int main(void)
{
#define TIMERS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TIMERS_TEST(each_is_called_after_its_time_and_at_most_two_ticks_late),
        TIMERS_TEST(a_time_can_be_changed_and_taken_back),
        TIMERS_TEST(one_that_is_due_at_once_again_waits_for_the_next_tick),
        TIMERS_TEST(what_is_far_away_comes_by_and_is_set_again),
        TIMERS_TEST(nothing_is_lost_in_a_long_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
