/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "tests/unit/sandboxd/backend/job_fixture.h"

#include <errno.h>

#include <sys/socket.h>

/* ---- what sandbox-init says of it ---- */

/* What no sandbox-init of ours says: the box is killed and nothing in it is believed. */
static void an_init_that_lies_is_killed(void **state)
{
    static const struct sbx_init_msg lies[] = {
        {.event = SBX_INIT_EXITED, .wait_status = 0x10000},
        {.event = SBX_INIT_EXITED, .wait_status = 0x7f}, /* stopped */
        {.event = SBX_INIT_FAILED, .stage = SBX_STAGE_COUNT},
        {.event = SBX_INIT_FAILED, .error = -1},
        {.event = SBX_INIT_READY}, /* a second time */
        {.event = 99},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(lies); i++) {
        assert_int_equal(job_set_up(state), 0);
        job_run();
        (void)job_receive(SBX_MSG_STARTED);
        job_init_says(&lies[i]);
        assert_int_equal(job_end().result.verdict, SBX_VERDICT_SANDBOX_ERROR);
        (void)job_tear_down(state);
    }
    assert_int_equal(job_set_up(state), 0);
}

/* It ends, with a message of ours unread: the kernel tells us so before what it said. */
static void init_ends_deaf(void)
{
    assert_int_equal(send(fake.job.control_fd, "x", 1, 0), 1);
    cr_close_fd(&fake.init_fd);
}

static void last_words_are_heard_of_an_init_that_did_not_listen(void **state)
{
    static const struct sbx_init_msg exited = {.event = SBX_INIT_EXITED, .wait_status = 3 << 8};

    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    assert_int_equal(send(fake.init_fd, &exited, sizeof(exited), 0), sizeof(exited));
    init_ends_deaf();
    sbx_job_on_control(&fake.backend, &fake.job);
    assert_int_equal(job_end().result.verdict, SBX_VERDICT_NONZERO_EXIT);
}

static void nothing_is_heard_of_an_init_whose_box_is_empty(void **state)
{
    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = SBX_STAGE_COUNT});
    init_ends_deaf();
    sbx_job_on_control(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    assert_int_equal(fake.kills, 1);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), 0);
}

static void the_end_of_an_init_that_is_alone_is_not_waited_for(void **state)
{
    (void)state;
    fake.is_alone = true;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = 3 << 8});

    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    assert_int_equal(fake.kills, 1);
    assert_int_equal(fake.job.control_fd, -1);
    (void)job_receive(SBX_MSG_EXITED);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), 0);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_NONZERO_EXIT);
}

/* ---- what the front reads of it ---- */

static void park(void)
{
    job_begin();
    fake.job.session = 1;
    fake.job.flags = SBX_RUN_HAS_CELL;
    job_prepare();
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED, .detail = SBX_INIT_PARKED});
    assert_int_equal(fake.parks, 1);
}

static void an_interpreter_that_is_held_stays(void **state)
{
    (void)state;
    park();
    assert_int_equal(fake.kills, 0);
    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    (void)job_receive(SBX_MSG_EXITED);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), 0);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.kept, SBX_KEPT_SESSION | SBX_KEPT_STATE);
}

/* It would go on, beside no run and with no clock: it is killed, its end is waited for, and the
 * caller is told that his names are gone. */
static void an_interpreter_that_cannot_be_held_is_ended(void **state)
{
    union sbx_msg result;

    (void)state;
    fake.park_error = EIO;
    park();
    assert_int_equal(fake.kills, 1);
    assert_false(fake.job.is_parked);
    result = job_end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_OK);
    assert_int_equal(result.result.kept, SBX_KEPT_SESSION);
}

static void an_early_result_gives_way_to_an_overflow(void **state)
{
    const struct sbx_msg_drained over = {
        .header = {.run = 7}, .overflow_stream = 1, .observed = 99};
    union sbx_msg result;

    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)job_receive(SBX_MSG_EXITED);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_OK);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &over), 0);

    result = job_receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.is_early, 0);
    assert_int_equal(result.result.verdict, SBX_VERDICT_OUTPUT_LIMIT);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

static void a_front_that_does_not_drain_gets_another_result(void **state)
{
    (void)state;
    job_run();
    (void)job_receive(SBX_MSG_STARTED);
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)job_receive(SBX_MSG_EXITED);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.is_early, 1);
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(job_receive(SBX_MSG_RESULT).result.is_early, 0);
}

static void drained_is_legal_once_and_only_when_draining(void **state)
{
    (void)state;
    job_run();
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), -EPROTO);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), -EPROTO);
    sbx_job_on_empty(&fake.backend, &fake.job);
    fake.job.collector_pid = 1; /* not done yet */
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), 0);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), -EPROTO);
    fake.job.collector_pid = -1;
    sbx_job_abandon(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

static void a_front_that_never_drains_loses_the_run(void **state)
{
    (void)state;
    job_run();
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_empty(&fake.backend, &fake.job);
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST(an_init_that_lies_is_killed),
        JOB_TEST(last_words_are_heard_of_an_init_that_did_not_listen),
        JOB_TEST(nothing_is_heard_of_an_init_whose_box_is_empty),
        JOB_TEST(the_end_of_an_init_that_is_alone_is_not_waited_for),
        JOB_TEST(an_interpreter_that_is_held_stays),
        JOB_TEST(an_interpreter_that_cannot_be_held_is_ended),
        JOB_TEST(an_early_result_gives_way_to_an_overflow),
        JOB_TEST(a_front_that_does_not_drain_gets_another_result),
        JOB_TEST(drained_is_legal_once_and_only_when_draining),
        JOB_TEST(a_front_that_never_drains_loses_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
