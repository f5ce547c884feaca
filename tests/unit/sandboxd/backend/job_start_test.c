/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sandboxd/backend/job_fixture.h"

#include <errno.h>

#include <sys/socket.h>

static void a_cancelled_start_never_says_started(void **state)
{
    (void)state;
    job_begin();
    sbx_job_on_cancel(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_CANCELLED);
}

static void a_start_whose_sandbox_ends_is_lost_and_not_cancelled(void **state)
{
    (void)state;
    job_begin();
    sbx_job_lose(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_SANDBOX_LOST);
}

static void a_start_that_takes_too_long_names_its_stage(void **state)
{
    union sbx_msg result;

    (void)state;
    job_begin();
    sbx_job_on_time(&fake.backend, &fake.job, INT64_MAX);
    result = job_receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.verdict, SBX_VERDICT_SANDBOX_ERROR);
    assert_int_equal(result.result.stage, SBX_STAGE_CLONE);
    assert_int_equal(result.result.stage_errno, ETIMEDOUT);
}

static void an_init_that_never_is_ready_is_our_fault(void **state)
{
    (void)state;
    job_begin();
    job_prepare();
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job); /* nothing ran: no DRAINING */
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.stage, SBX_STAGE_INIT);
}

static void counters_that_cannot_be_read_stop_the_start(void **state)
{
    (void)state;
    fake.is_measure_broken = true;
    job_begin();
    job_prepare();
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});
    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.stage, SBX_STAGE_MEASURE);
}

/* The program may be running while READY is on its way: its time counts from LOAD on. */
static void go_that_went_along_is_not_sent_again(void **state)
{
    const struct sbx_cgroup_usage idle = {.cpu_total_us = 40};
    struct sbx_init_msg msg;

    (void)state;
    fake.is_measure_broken = true; /* nothing is read at READY */
    job_begin();
    sbx_job_go_along(&fake.job, &idle);
    job_prepare();
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});

    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    assert_int_equal(fake.job.go_ns, fake.job.along_ns);
    assert_int_equal(fake.job.baseline.cpu_total_us, 40);
    assert_int_equal(recv(fake.init_fd, &msg, sizeof(msg), MSG_DONTWAIT), -1);
    (void)job_receive(SBX_MSG_STARTED);
}

/* Nobody says READY then. */
static void what_went_along_runs_without_a_word(void **state)
{
    const struct sbx_cgroup_usage idle = {.cpu_total_us = 40};
    struct sbx_init_msg msg;

    (void)state;
    fake.is_measure_broken = true; /* nothing is read */
    job_begin();
    sbx_job_go_along(&fake.job, &idle);
    job_prepare();
    sbx_job_run_along(&fake.backend, &fake.job);

    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    assert_int_equal(fake.job.go_ns, fake.job.along_ns);
    assert_int_equal(fake.job.baseline.cpu_total_us, 40);
    assert_int_equal(recv(fake.init_fd, &msg, sizeof(msg), MSG_DONTWAIT), -1);
    (void)job_receive(SBX_MSG_STARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST(a_cancelled_start_never_says_started),
        JOB_TEST(a_start_whose_sandbox_ends_is_lost_and_not_cancelled),
        JOB_TEST(a_start_that_takes_too_long_names_its_stage),
        JOB_TEST(an_init_that_never_is_ready_is_our_fault),
        JOB_TEST(counters_that_cannot_be_read_stop_the_start),
        JOB_TEST(go_that_went_along_is_not_sent_again),
        JOB_TEST(what_went_along_runs_without_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
