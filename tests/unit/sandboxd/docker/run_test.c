/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/docker/run.h"
#include "tests/harness/test.h"

static const struct {
    enum sbx_docker_state from;
    enum sbx_docker_state to;
} edges[] = {
    {SBX_DOCKER_FREE, SBX_DOCKER_CREATING},     {SBX_DOCKER_CREATING, SBX_DOCKER_ATTACHING},
    {SBX_DOCKER_CREATING, SBX_DOCKER_FREE},     {SBX_DOCKER_ATTACHING, SBX_DOCKER_STARTING},
    {SBX_DOCKER_ATTACHING, SBX_DOCKER_FREE},    {SBX_DOCKER_STARTING, SBX_DOCKER_INSPECTING},
    {SBX_DOCKER_STARTING, SBX_DOCKER_FREE},     {SBX_DOCKER_INSPECTING, SBX_DOCKER_PREPARING},
    {SBX_DOCKER_INSPECTING, SBX_DOCKER_FREE},   {SBX_DOCKER_PREPARING, SBX_DOCKER_RUNNING},
    {SBX_DOCKER_PREPARING, SBX_DOCKER_KILLING}, {SBX_DOCKER_RUNNING, SBX_DOCKER_KILLING},
    {SBX_DOCKER_KILLING, SBX_DOCKER_DRAINING},  {SBX_DOCKER_KILLING, SBX_DOCKER_FREE},
    {SBX_DOCKER_DRAINING, SBX_DOCKER_FREE},
};

static bool is_edge(enum sbx_docker_state from, enum sbx_docker_state to)
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
    for (int from = 0; from <= SBX_DOCKER_STATE_COUNT; from++) {
        for (int to = 0; to <= SBX_DOCKER_STATE_COUNT; to++)
            assert_int_equal(
                sbx_docker_run_can_move((enum sbx_docker_state)from, (enum sbx_docker_state)to),
                is_edge((enum sbx_docker_state)from, (enum sbx_docker_state)to));
    }
}

static void the_next_look_is_the_earliest(void **state)
{
    struct sbx_docker_run run;

    (void)state;
    sbx_docker_run_init(&run, 3);
    assert_int_equal(sbx_docker_run_next_ns(&run), INT64_MAX);
    run.state = SBX_DOCKER_RUNNING;
    run.deadline_ns = 1000;
    assert_int_equal(sbx_docker_run_next_ns(&run), 1000);
    run.poll_ns = 500;
    assert_int_equal(sbx_docker_run_next_ns(&run), 500);
    run.oom_poll_ns = 100; /* only while an OOM kill is announced */
    assert_int_equal(sbx_docker_run_next_ns(&run), 500);
    run.oom_until_ns = 2000;
    assert_int_equal(sbx_docker_run_next_ns(&run), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_these_moves_are_legal),
        cmocka_unit_test(the_next_look_is_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
