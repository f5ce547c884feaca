/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/native/run.h"
#include "tests/harness/test.h"

#include <string.h>

static const struct {
    enum sbx_run_state from;
    enum sbx_run_state to;
} edges[] = {
    {SBX_RUN_FREE, SBX_RUN_WAITING},      {SBX_RUN_WAITING, SBX_RUN_PREPARING},
    {SBX_RUN_WAITING, SBX_RUN_FREE},      {SBX_RUN_PREPARING, SBX_RUN_RUNNING},
    {SBX_RUN_PREPARING, SBX_RUN_KILLING}, {SBX_RUN_RUNNING, SBX_RUN_KILLING},
    {SBX_RUN_KILLING, SBX_RUN_DRAINING},  {SBX_RUN_KILLING, SBX_RUN_FREE},
    {SBX_RUN_DRAINING, SBX_RUN_FREE},
};

static bool is_edge(enum sbx_run_state from, enum sbx_run_state to)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(edges); i++) {
        if (edges[i].from == from && edges[i].to == to)
            return true;
    }
    return false;
}

/* One past the last state stands for any number that is no state. */
static void exactly_these_moves_are_legal(void **state)
{
    (void)state;
    for (int from = 0; from <= SBX_RUN_STATE_COUNT; from++) {
        for (int to = 0; to <= SBX_RUN_STATE_COUNT; to++)
            assert_int_equal(sbx_run_can_move((enum sbx_run_state)from, (enum sbx_run_state)to),
                             is_edge((enum sbx_run_state)from, (enum sbx_run_state)to));
    }
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < SBX_RUN_STATE_COUNT; i++)
        assert_string_not_equal(sbx_run_state_name((enum sbx_run_state)i), "unknown");
    assert_string_equal(sbx_run_state_name(SBX_RUN_STATE_COUNT), "unknown");
}

static void the_next_look_is_the_earliest(void **state)
{
    struct sbx_run run;

    (void)state;
    sbx_run_init(&run, 3, -1);
    assert_int_equal(sbx_run_next_ns(&run), INT64_MAX);
    run.state = SBX_RUN_RUNNING;
    run.deadline_ns = 1000;
    assert_int_equal(sbx_run_next_ns(&run), 1000);
    run.poll_ns = 500;
    assert_int_equal(sbx_run_next_ns(&run), 500);
    run.oom_poll_ns = 100; /* only while an OOM kill is announced */
    assert_int_equal(sbx_run_next_ns(&run), 500);
    run.oom_until_ns = 700;
    assert_int_equal(sbx_run_next_ns(&run), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_these_moves_are_legal),
        cmocka_unit_test(every_state_has_a_name),
        cmocka_unit_test(the_next_look_is_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
