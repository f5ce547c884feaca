/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/sleepers.h"
#include "tests/harness/test.h"

#include <errno.h>

#define MANY 1000

/* 7919 is prime, so that every number below MANY comes once, in no order. */
static void sleepers_wake_in_the_order_of_their_time(void **state)
{
    struct replay_sleepers sleepers = {0};

    (void)state;
    for (int64_t i = 0; i < MANY; i++) {
        const struct replay_sleeper sleeper = {.due_ns = i * 7919 % MANY};

        assert_int_equal(replay_sleepers_add(&sleepers, &sleeper, MANY), 0);
    }

    for (int64_t i = 0; i < MANY; i++) {
        assert_int_equal(replay_sleepers_due_ns(&sleepers), i);
        assert_int_equal(replay_sleepers_take(&sleepers).due_ns, i);
    }
    assert_int_equal(replay_sleepers_due_ns(&sleepers), INT64_MAX);
    replay_sleepers_done(&sleepers);
}

static void no_more_sleep_than_may(void **state)
{
    const struct replay_sleeper sleeper = {.due_ns = 1};
    struct replay_sleepers sleepers = {0};

    (void)state;
    assert_int_equal(replay_sleepers_add(&sleepers, &sleeper, 1), 0);

    assert_int_equal(replay_sleepers_add(&sleepers, &sleeper, 1), -ENOSPC);

    assert_int_equal(sleepers.count, 1);
    replay_sleepers_done(&sleepers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleepers_wake_in_the_order_of_their_time),
        cmocka_unit_test(no_more_sleep_than_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
