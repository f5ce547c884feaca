/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/unit/sandboxd/backend/job_fixture.h"

#include <signal.h>

/* ---- the table ---- */

static const struct {
    enum sbx_job_state from;
    enum sbx_job_state to;
} edges[] = {
    {SBX_JOB_FREE, SBX_JOB_STARTING},     {SBX_JOB_STARTING, SBX_JOB_PREPARING},
    {SBX_JOB_STARTING, SBX_JOB_FREE},     {SBX_JOB_PREPARING, SBX_JOB_RUNNING},
    {SBX_JOB_PREPARING, SBX_JOB_KILLING}, {SBX_JOB_RUNNING, SBX_JOB_KILLING},
    {SBX_JOB_KILLING, SBX_JOB_DRAINING},  {SBX_JOB_KILLING, SBX_JOB_FREE},
    {SBX_JOB_DRAINING, SBX_JOB_FREE},
};

static bool is_edge(enum sbx_job_state from, enum sbx_job_state to)
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
    for (int from = 0; from <= SBX_JOB_STATE_COUNT; from++) {
        for (int to = 0; to <= SBX_JOB_STATE_COUNT; to++)
            assert_int_equal(sbx_job_can_move((enum sbx_job_state)from, (enum sbx_job_state)to),
                             is_edge((enum sbx_job_state)from, (enum sbx_job_state)to));
    }
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < SBX_JOB_STATE_COUNT; i++)
        assert_string_not_equal(sbx_job_state_name((enum sbx_job_state)i), "unknown");
    assert_string_equal(sbx_job_state_name(SBX_JOB_STATE_COUNT), "unknown");
}

static void the_next_look_is_the_earliest(void **state)
{
    struct sbx_job job;

    (void)state;
    sbx_job_init(&job, 3);
    assert_int_equal(sbx_job_next_ns(&job), INT64_MAX);
    job.state = SBX_JOB_RUNNING;
    job.deadline_ns = 1000;
    assert_int_equal(sbx_job_next_ns(&job), 1000);
    job.poll_ns = 500;
    assert_int_equal(sbx_job_next_ns(&job), 500);
    job.oom_poll_ns = 100; /* only while an OOM kill is announced */
    assert_int_equal(sbx_job_next_ns(&job), 500);
    job.oom_until_ns = 700;
    assert_int_equal(sbx_job_next_ns(&job), 100);
}

/* ---- runs ---- */

static void a_program_that_ends_is_measured_and_answered(void **state)
{
    int fds = test_count_fds();
    union sbx_msg result;

    (void)state;
    fake.cpu_us = 1000;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    fake.cpu_us = 5000;
    job_init_says(
        &(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = 3 << 8, .leftovers = 2});
    result = job_end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_NONZERO_EXIT);
    assert_int_equal(result.result.exit_code, 3);
    assert_int_equal(result.result.killed_leftovers, 2);
    assert_int_equal(result.result.cpu_total_us, 4000);
    assert_int_equal(result.result.cpu_user_us + result.result.cpu_system_us, 4000);
    assert_int_equal(fake.kills, 1);
    cr_close_fd(&fake.init_fd);
    assert_int_equal(test_count_fds(), fds);
}

static void the_first_limit_wins_and_is_stored_before_the_kill(void **state)
{
    const struct sbx_msg_output_limit over = {.header = {.run = 7}, .observed = 9};
    union sbx_msg result;

    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    fake.oom_kills = 1; /* memory wins a tie with output */
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    result = job_end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_MEMORY_LIMIT);
    assert_int_equal(result.result.other_hit_count, 1);
    assert_int_equal(fake.kills, 1);
}

static void a_forbidden_call_ends_the_run_and_is_named(void **state)
{
    union sbx_msg result;

    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_VIOLATION, .detail = 101});
    assert_int_equal(fake.kills, 1);
    /* What the rest of the box says on its way out changes nothing. */
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED, .detail = SBX_INIT_WATCHED});
    result = job_end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_SECURITY_VIOLATION);
    assert_int_equal(result.result.has_forbidden_call, 1);
    assert_int_equal(result.result.forbidden_call, 101);
    assert_int_equal(result.result.signal, SIGSYS);
}

static void assert_signal_gives(uint32_t detail, uint32_t verdict)
{
    union sbx_msg result;

    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(
        &(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = SIGSYS, .detail = detail});
    result = job_end();
    assert_int_equal(result.result.verdict, verdict);
    assert_int_equal(result.result.has_forbidden_call, 0);
}

static void a_sigsys_of_a_watched_program_is_its_own(void **state)
{
    (void)state;
    assert_signal_gives(SBX_INIT_WATCHED, SBX_VERDICT_SIGNALED);
}

static void a_sigsys_that_nobody_watched_is_a_violation(void **state)
{
    (void)state;
    assert_signal_gives(0, SBX_VERDICT_SECURITY_VIOLATION);
}

static void time_is_up_by_either_clock(void **state)
{
    static const struct {
        uint64_t cpu_ms;
        int64_t after_ms;
        enum sbx_verdict verdict;
    } rows[] = {
        {0, 10000, SBX_VERDICT_WALL_TIME_LIMIT},
        {10000, 9999, SBX_VERDICT_CPU_TIME_LIMIT},
        {10000, 10000, SBX_VERDICT_CPU_TIME_LIMIT}, /* both: by the order of ties */
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        assert_int_equal(job_set_up(state), 0);
        job_run();
        (void)job_receive(SBX_MSG_STARTED);
        fake.job.limits.value[SBX_LIMIT_WALL_TIME] = 10000;
        fake.job.limits.value[SBX_LIMIT_CPU_TIME] = 10000;
        fake.job.deadline_ns = fake.job.go_ns + 10000 * CR_NS_PER_MS;
        fake.job.poll_ns = fake.job.go_ns;
        fake.cpu_us = rows[i].cpu_ms * 1000;
        sbx_job_on_time(&fake.backend, &fake.job, fake.job.go_ns + rows[i].after_ms * CR_NS_PER_MS);
        assert_int_equal(job_end().result.verdict, rows[i].verdict);
        (void)job_tear_down(state);
    }
    assert_int_equal(job_set_up(state), 0);
}

/* By CPU time: one that only waits stays young, and is looked at less and less. */
static void a_program_is_old_when_it_has_had_its_time(void **state)
{
    int64_t age_ns;

    (void)state;
    job_run();
    age_ns = fake.job.age_ns;
    fake.cpu_us = SBX_JOB_YOUNG_CPU_US - 1;
    assert_int_equal(sbx_job_next_ns(&fake.job), age_ns);
    sbx_job_on_time(&fake.backend, &fake.job, age_ns);
    assert_int_equal(fake.olds, 0);
    assert_int_equal(fake.job.age_ns - age_ns, 2 * (age_ns - fake.job.go_ns));

    fake.cpu_us = SBX_JOB_YOUNG_CPU_US;
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.age_ns - 1);
    assert_int_equal(fake.olds, 0);
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.age_ns);
    assert_int_equal(fake.olds, 1);
    assert_int_equal(fake.job.age_ns, INT64_MAX);
    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
}

static void a_box_that_was_taken_away_is_lost(void **state)
{
    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    fake.job.is_lost = true;
    sbx_job_kill(&fake.backend, &fake.job, cr_clock_mono_ns());
    assert_int_equal(job_end().result.verdict, SBX_VERDICT_SANDBOX_LOST);
}

static void a_stop_ends_every_state_without_an_answer(void **state)
{
    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    sbx_backend_begin_stop(&fake.backend, "test");
    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_backend_begin_stop(&fake.backend, "again");
    sbx_job_on_empty(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(fake.kills, 1);
}

static void a_control_that_is_left_out_does_not_end_a_run(void **state)
{
    const struct sbx_msg_output_limit over = {.header = {.run = 7}, .observed = 9};

    (void)state;
    fake.backend.weakened = SBX_CONTROL_OUTPUT;
    job_run();
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_empty(&fake.backend, &fake.job);
    sbx_job_abandon(&fake.backend, &fake.job);
    fake.backend.weakened = SBX_CONTROL_WALL_TIME;
    cr_close_fd(&fake.init_fd);
    job_run();
    assert_int_equal(fake.job.deadline_ns, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_these_moves_are_legal),
        cmocka_unit_test(every_state_has_a_name),
        cmocka_unit_test(the_next_look_is_the_earliest),
        JOB_TEST(a_program_that_ends_is_measured_and_answered),
        JOB_TEST(the_first_limit_wins_and_is_stored_before_the_kill),
        JOB_TEST(a_forbidden_call_ends_the_run_and_is_named),
        JOB_TEST(a_sigsys_of_a_watched_program_is_its_own),
        JOB_TEST(a_sigsys_that_nobody_watched_is_a_violation),
        JOB_TEST(time_is_up_by_either_clock),
        JOB_TEST(a_program_is_old_when_it_has_had_its_time),
        JOB_TEST(a_box_that_was_taken_away_is_lost),
        JOB_TEST(a_stop_ends_every_state_without_an_answer),
        JOB_TEST(a_control_that_is_left_out_does_not_end_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
