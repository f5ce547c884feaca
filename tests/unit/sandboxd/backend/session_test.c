/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/session.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#include <sys/socket.h>

#define SECOND_MS 1000U

static struct {
    struct sbx_backend backend;
    struct sbx_session sessions[2];
    struct sbx_job job;
    int front_fd;
    int make_error;
    int drops;
    int checks;
    int late_checks;
    bool is_gone; /* what rests has ended */
    int kills;
} fake;

static int make(struct sbx_backend *backend, struct sbx_session *session)
{
    (void)backend;
    (void)session;
    return fake.make_error;
}

static void drop(struct sbx_backend *backend, struct sbx_session *session)
{
    (void)backend;
    (void)session;
    fake.drops++;
}

static bool note_check(struct sbx_backend *backend, struct sbx_session *session, bool is_late)
{
    (void)backend;
    (void)session;
    fake.checks++;
    fake.late_checks += is_late;
    return !fake.is_gone;
}

static void note_kill(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    fake.kills++;
}

static const struct sbx_backend_ops ops = {
    .stuck = "stuck",
    .make_session = make,
    .drop_session = drop,
    .check_session = note_check,
    .kill = note_kill,
};

static int set_up(void **state)
{
    int pair[2];

    (void)state;
    memset(&fake, 0, sizeof(fake));
    sbx_backend_init(&fake.backend, &ops);
    fake.backend.cgroups.ops = &sbx_cgroup_v2;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    fake.backend.link.fd = pair[0];
    fake.front_fd = pair[1];
    sbx_job_init(&fake.job, 0);
    fake.backend.sessions.life_ms = 10 * SECOND_MS;
    for (size_t i = 0; i < CR_ARRAY_SIZE(fake.sessions); i++)
        sbx_sessions_add(&fake.backend, &fake.sessions[i]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sbx_backend_close(&fake.backend);
    cr_close_fd(&fake.front_fd);
    return 0;
}

/* ---- steps ---- */

static int open_one(uint64_t id, uint32_t life_ms)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_OPEN, id);
    msg.open.caller = 5;
    msg.open.idle_ms = SECOND_MS;
    msg.open.life_ms = life_ms;
    msg.open.limits = sbx_default_limits;
    return sbx_sessions_open(&fake.backend, &msg.open);
}

static struct sbx_msg_run run_in(uint64_t session)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RUN, 7);
    msg.run.caller = 5;
    msg.run.session = session;
    msg.run.limits = sbx_default_limits;
    return msg.run;
}

/* A run that has the session. */
static struct sbx_session *begin_in(uint64_t id)
{
    struct sbx_session *session;

    fake.job.session = id;
    fake.job.state = SBX_JOB_RUNNING;
    fake.job.group.host = &fake.backend.cgroups;
    session = sbx_session_of(&fake.backend, &fake.job);
    assert_non_null(session);
    sbx_session_begin(session, &fake.job);
    return session;
}

static void assert_told(uint64_t id, uint32_t reason)
{
    union sbx_msg msg;
    int fds[SBX_RUN_FDS];
    size_t count;

    assert_int_equal(sbx_msg_receive(fake.front_fd, &msg, fds, &count, NULL), 0);
    assert_int_equal(msg.header.type, SBX_MSG_CLOSED);
    assert_int_equal(msg.header.run, id);
    assert_int_equal(msg.closed.reason, reason);
}

static void pass(uint32_t ms)
{
    sbx_sessions_on_time(&fake.backend, cr_clock_mono_ns() + ms * CR_NS_PER_MS);
}

/* ---- cases ---- */

static void there_are_as_many_as_the_backend_has(void **state)
{
    (void)state;
    assert_int_equal(open_one(1, 10 * SECOND_MS), 0);
    assert_int_equal(open_one(1, 10 * SECOND_MS), EEXIST);
    assert_int_equal(open_one(2, 10 * SECOND_MS + 1), EINVAL);
    assert_int_equal(open_one(2, SECOND_MS), 0);
    assert_int_equal(open_one(3, SECOND_MS), EBUSY);
    assert_int_equal(sbx_sessions_count(&fake.backend), 2);
}

static void one_that_cannot_be_made_takes_no_place(void **state)
{
    (void)state;
    fake.make_error = ENOMEM;
    assert_int_equal(open_one(1, SECOND_MS), ENOMEM);
    assert_int_equal(sbx_sessions_count(&fake.backend), 0);
    assert_int_equal(fake.drops, 0);
}

static void a_run_gets_in_by_its_caller_and_limits_alone(void **state)
{
    struct sbx_msg_run run = run_in(1);

    (void)state;
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), ESRCH);
    assert_int_equal(open_one(1, 9 * SECOND_MS), 0);
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), 0);
    run.limits.value[SBX_LIMIT_WALL_TIME]--; /* of each call */
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), 0);
    run.limits.value[SBX_LIMIT_MEMORY]--;
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), EINVAL);
    run = run_in(1);
    run.caller = 6;
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), EPERM);
    run = run_in(0);
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), 0);
    (void)begin_in(1);
    run = run_in(1);
    assert_int_equal(sbx_sessions_admit(&fake.backend, &run), EBUSY);
}

static void both_of_its_times_end_one(void **state)
{
    (void)state;
    assert_int_equal(open_one(1, 9 * SECOND_MS), 0);
    pass(SECOND_MS / 2);
    assert_int_equal(sbx_sessions_count(&fake.backend), 1);
    pass(2 * SECOND_MS);
    assert_told(1, SBX_CLOSED_IDLE);
    assert_int_equal(open_one(2, SECOND_MS), 0);
    pass(2 * SECOND_MS);
    assert_told(2, SBX_CLOSED_LIFE);
    assert_int_equal(fake.drops, 2);
    assert_true(sbx_sessions_next_ns(&fake.backend) == INT64_MAX);
}

static void a_run_stops_the_clock_of_idleness_and_not_that_of_life(void **state)
{
    struct sbx_session *session;

    (void)state;
    assert_int_equal(open_one(1, 9 * SECOND_MS), 0);
    session = begin_in(1);
    pass(5 * SECOND_MS);
    assert_int_equal(session->closing, 0);
    pass(9 * SECOND_MS);
    /* The run ends first, and is told that nobody but its session did that. */
    assert_int_equal(session->closing, SBX_CLOSED_LIFE);
    assert_int_equal(fake.kills, 1);
    assert_int_equal(fake.drops, 0);
    assert_true(fake.job.is_lost && fake.job.is_session_over);
    sbx_session_end_run(&fake.backend, session);
    assert_told(1, SBX_CLOSED_LIFE);
    assert_int_equal(fake.drops, 1);
}

static void what_was_kept_can_be_lost_with_and_without_a_run(void **state)
{
    struct sbx_session *session;

    (void)state;
    assert_int_equal(open_one(1, 9 * SECOND_MS), 0);
    sbx_session_lose(&fake.backend, &fake.sessions[0]);
    assert_told(1, SBX_CLOSED_LOST);
    assert_int_equal(open_one(2, 9 * SECOND_MS), 0);
    session = begin_in(2);
    sbx_session_lose(&fake.backend, session);
    sbx_sessions_close(&fake.backend, 2); /* comes later, and changes nothing */
    sbx_session_end_run(&fake.backend, session);
    assert_told(2, SBX_CLOSED_LOST);
}

/* A sandbox whose interpreter has rested for half a second, with a minute to live. */
static struct sbx_session *rest_one(void)
{
    struct sbx_session *session;

    fake.backend.sessions.life_ms = 60 * SECOND_MS;
    assert_int_equal(open_one(1, 60 * SECOND_MS), 0);
    session = begin_in(1);
    sbx_session_rest(&fake.backend, session);
    sbx_session_end_run(&fake.backend, session);
    session->idle_at_ns = INT64_MAX;
    pass(SECOND_MS / 2);
    assert_int_equal(fake.checks, 0);
    return session;
}

static void what_rests_is_looked_at_once_unless_a_run_begins(void **state)
{
    struct sbx_session *session = rest_one();

    (void)state;
    assert_true(sbx_sessions_next_ns(&fake.backend) == session->still_by_ns);
    /* A small share of many processors may be owed for seconds. */
    pass(9 * SECOND_MS);
    assert_int_equal(fake.checks, 0);
    pass(11 * SECOND_MS);
    pass(12 * SECOND_MS);
    assert_int_equal(fake.checks, 1);
    assert_int_equal(fake.late_checks, 1);
    sbx_session_rest(&fake.backend, session);
    (void)begin_in(1);
    pass(12 * SECOND_MS);
    assert_int_equal(fake.checks, 1);
    session->job = NULL;
}

/* On version 1 the end of who is frozen is no event: somebody has to look. */
static void what_rests_where_nobody_tells_is_looked_at_each_second(void **state)
{
    struct sbx_session *session;

    (void)state;
    fake.backend.cgroups.ops = &sbx_cgroup_v1;
    session = rest_one();
    for (uint32_t i = 1; i <= 5; i++) {
        assert_true(sbx_sessions_next_ns(&fake.backend) == session->look_ns);
        pass((i + 1) * SECOND_MS);
    }
    assert_int_equal(fake.checks, 5);
    assert_int_equal(fake.late_checks, 0);
    pass(11 * SECOND_MS);
    pass(13 * SECOND_MS);
    assert_int_equal(fake.checks, 7);
    assert_int_equal(fake.late_checks, 1);
    fake.is_gone = true;
    pass(15 * SECOND_MS);
    pass(17 * SECOND_MS);
    assert_int_equal(fake.checks, 8);
    assert_true(sbx_sessions_next_ns(&fake.backend) == session->end_ns);
}

/* Where nobody can be frozen, a stop can be undone from inside. */
static void a_host_that_cannot_freeze_is_told_of(void **state)
{
    uint8_t *control = &fake.backend.controls[SBX_CONTROL_WALL_TIME];

    (void)state;
    fake.backend.cgroups.ops = &sbx_cgroup_v2;
    fake.backend.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = 0;
    *control = SBX_ENFORCED;
    sbx_sessions_judge(&fake.backend);
    assert_int_equal(*control, SBX_ENFORCED);
    fake.backend.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    sbx_sessions_judge(&fake.backend);
    assert_int_equal(*control, SBX_PARTIAL);
    *control = SBX_ENFORCED;
    fake.backend.sessions.most = 0; /* nobody waits between two calls */
    sbx_sessions_judge(&fake.backend);
    assert_int_equal(*control, SBX_ENFORCED);
}

static void a_backend_that_stops_ends_all(void **state)
{
    (void)state;
    assert_int_equal(open_one(1, 9 * SECOND_MS), 0);
    assert_int_equal(open_one(2, 9 * SECOND_MS), 0);
    fake.backend.is_stopping = true;
    pass(0);
    assert_int_equal(sbx_sessions_count(&fake.backend), 0);
    assert_int_equal(fake.drops, 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_are_as_many_as_the_backend_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_made_takes_no_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_gets_in_by_its_caller_and_limits_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(both_of_its_times_end_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_stops_the_clock_of_idleness_and_not_that_of_life,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_kept_can_be_lost_with_and_without_a_run, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_rests_is_looked_at_once_unless_a_run_begins, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_rests_where_nobody_tells_is_looked_at_each_second,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_host_that_cannot_freeze_is_told_of, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_backend_that_stops_ends_all, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
