/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

/* ---- a backend whose box is the test ---- */

static struct {
    struct sbx_backend backend;
    struct sbx_job job;
    int front_fd;
    int init_fd; /* sandbox-init's end of the control socket */
    uint64_t oom_kills;
    uint64_t cpu_us;
    int kills;
    int releases;
    int olds;
    bool is_measure_broken;
    bool is_alone;
} fake;

static int fake_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                      struct cr_err *err)
{
    (void)group;
    (void)err;
    *ret_usage = (struct sbx_cgroup_usage){.cpu_total_us = fake.cpu_us,
                                           .cpu_user_us = fake.cpu_us / 4,
                                           .cpu_system_us = fake.cpu_us / 4,
                                           .oom_kills = fake.oom_kills};
    return fake.is_measure_broken ? -EIO : 0;
}

static int fake_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    (void)group;
    *ret_us = fake.cpu_us;
    return 0;
}

static int fake_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    (void)group;
    *ret_count = fake.oom_kills;
    return 0;
}

static const struct sbx_cgroup_ops cgroup_ops = {
    .version = 2,
    .usage = fake_usage,
    .cpu_us = fake_cpu_us,
    .oom_kills = fake_oom_kills,
};

static void start(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    job->group = (struct sbx_cgroup){.host = &fake.backend.cgroups, .event_fd = -1};
    job->has_group = true;
}

static void on_start_time(struct sbx_backend *backend, struct sbx_job *job)
{
    sbx_job_fail_start(backend, job, SBX_STAGE_CLONE, ETIMEDOUT);
}

static void on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job)
{
    sbx_job_finish(backend, job);
}

static void note_kill(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    fake.kills++;
}

static void measure(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)sbx_job_read_counters(job, NULL);
}

static bool is_alone(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    return fake.is_alone;
}

static void note_old(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    fake.olds++;
}

static void release(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    fake.releases++;
}

static const struct sbx_backend_ops ops = {
    .stuck = "stuck",
    .start = start,
    .on_start_time = on_start_time,
    .on_start_cancelled = on_start_cancelled,
    .on_old = note_old,
    .is_alone = is_alone,
    .kill = note_kill,
    .on_kill_time = note_kill,
    .measure = measure,
    .release = release,
};

static int set_up(void **state)
{
    int pair[2];

    (void)state;
    memset(&fake, 0, sizeof(fake));
    sbx_backend_init(&fake.backend, &ops);
    fake.backend.cgroups.ops = &cgroup_ops;
    fake.backend.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    fake.backend.link.fd = pair[0];
    fake.front_fd = pair[1];
    fake.init_fd = -1;
    sbx_job_init(&fake.job, 0);
    sbx_backend_add_slot(&fake.backend, &fake.job);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sbx_backend_close(&fake.backend);
    cr_close_fd(&fake.job.control_fd);
    cr_close_fd(&fake.front_fd);
    cr_close_fd(&fake.init_fd);
    return 0;
}

/* ---- steps ---- */

static void begin(void)
{
    union sbx_msg msg;
    int fds[SBX_RUN_FDS];

    sbx_msg_init(&msg, SBX_MSG_RUN, 7);
    msg.run.limits = sbx_default_limits;
    for (int i = 0; i < SBX_RUN_FDS; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    sbx_job_begin(&fake.backend, &fake.job, &msg.run, fds);
}

static void prepare(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fake.job.control_fd = pair[0];
    fake.init_fd = pair[1];
    assert_int_equal(sbx_job_watch(&fake.backend, &fake.job), 0);
    sbx_job_prepare(&fake.job);
}

static void init_says(const struct sbx_init_msg *msg)
{
    assert_int_equal(send(fake.init_fd, msg, sizeof(*msg), 0), sizeof(*msg));
    sbx_job_on_control(&fake.backend, &fake.job);
}

static void run(void)
{
    begin();
    prepare();
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});
    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
}

/* The next message to the front must be of that type. */
static union sbx_msg receive(enum sbx_msg_type type)
{
    int fds[SBX_RUN_FDS];
    size_t count = 0;
    union sbx_msg msg;

    assert_int_equal(sbx_msg_receive(fake.front_fd, &msg, fds, &count, NULL), 0);
    assert_int_equal(msg.header.type, type);
    assert_int_equal(msg.header.run, 7);
    return msg;
}

/* The box is dead, and the front has read what it left. */
static union sbx_msg end(void)
{
    const struct sbx_msg_drained over = {.header = {.run = 7}};
    union sbx_msg result;
    char byte;

    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)receive(SBX_MSG_EXITED);
    result = receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.is_early, 1);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &over), 0);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(fake.releases, 1);
    assert_int_equal(recv(fake.front_fd, &byte, 1, MSG_DONTWAIT), -1); /* it holds */
    return result;
}

static const struct sbx_msg_drained drained = {.header = {.run = 7}};

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
    run();
    (void)receive(SBX_MSG_STARTED);
    fake.cpu_us = 5000;
    init_says(
        &(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = 3 << 8, .leftovers = 2});
    result = end();
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
    run();
    (void)receive(SBX_MSG_STARTED);
    fake.oom_kills = 1; /* memory wins a tie with output */
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    result = end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_MEMORY_LIMIT);
    assert_int_equal(result.result.other_hit_count, 1);
    assert_int_equal(fake.kills, 1);
}

static void a_forbidden_call_ends_the_run_and_is_named(void **state)
{
    union sbx_msg result;

    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_VIOLATION, .detail = 101});
    assert_int_equal(fake.kills, 1);
    /* What the rest of the box says on its way out changes nothing. */
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED, .detail = SBX_INIT_WATCHED});
    result = end();
    assert_int_equal(result.result.verdict, SBX_VERDICT_SECURITY_VIOLATION);
    assert_int_equal(result.result.has_forbidden_call, 1);
    assert_int_equal(result.result.forbidden_call, 101);
    assert_int_equal(result.result.signal, SIGSYS);
}

static void assert_signal_gives(uint32_t detail, uint32_t verdict)
{
    union sbx_msg result;

    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(
        &(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = SIGSYS, .detail = detail});
    result = end();
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
        assert_int_equal(set_up(state), 0);
        run();
        (void)receive(SBX_MSG_STARTED);
        fake.job.limits.value[SBX_LIMIT_WALL_TIME] = 10000;
        fake.job.limits.value[SBX_LIMIT_CPU_TIME] = 10000;
        fake.job.deadline_ns = fake.job.go_ns + 10000 * CR_NS_PER_MS;
        fake.job.poll_ns = fake.job.go_ns;
        fake.cpu_us = rows[i].cpu_ms * 1000;
        sbx_job_on_time(&fake.backend, &fake.job, fake.job.go_ns + rows[i].after_ms * CR_NS_PER_MS);
        assert_int_equal(end().result.verdict, rows[i].verdict);
        (void)tear_down(state);
    }
    assert_int_equal(set_up(state), 0);
}

static void a_cancelled_start_never_says_started(void **state)
{
    (void)state;
    begin();
    sbx_job_on_cancel(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_CANCELLED);
}

static void a_start_that_takes_too_long_names_its_stage(void **state)
{
    union sbx_msg result;

    (void)state;
    begin();
    sbx_job_on_time(&fake.backend, &fake.job, INT64_MAX);
    result = receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.verdict, SBX_VERDICT_SANDBOX_ERROR);
    assert_int_equal(result.result.stage, SBX_STAGE_CLONE);
    assert_int_equal(result.result.stage_errno, ETIMEDOUT);
}

static void an_init_that_never_is_ready_is_our_fault(void **state)
{
    (void)state;
    begin();
    prepare();
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job); /* nothing ran: no DRAINING */
    assert_int_equal(receive(SBX_MSG_RESULT).result.stage, SBX_STAGE_INIT);
}

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
        assert_int_equal(set_up(state), 0);
        run();
        (void)receive(SBX_MSG_STARTED);
        init_says(&lies[i]);
        assert_int_equal(end().result.verdict, SBX_VERDICT_SANDBOX_ERROR);
        (void)tear_down(state);
    }
    assert_int_equal(set_up(state), 0);
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
    run();
    (void)receive(SBX_MSG_STARTED);
    assert_int_equal(send(fake.init_fd, &exited, sizeof(exited), 0), sizeof(exited));
    init_ends_deaf();
    sbx_job_on_control(&fake.backend, &fake.job);
    assert_int_equal(end().result.verdict, SBX_VERDICT_NONZERO_EXIT);
}

static void nothing_is_heard_of_an_init_whose_box_is_empty(void **state)
{
    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = SBX_STAGE_COUNT});
    init_ends_deaf();
    sbx_job_on_control(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    assert_int_equal(fake.kills, 1);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), 0);
}

static void the_end_of_an_init_that_is_alone_is_not_waited_for(void **state)
{
    (void)state;
    fake.is_alone = true;
    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = 3 << 8});

    assert_int_equal(fake.job.state, SBX_JOB_DRAINING);
    assert_int_equal(fake.kills, 1);
    assert_int_equal(fake.job.control_fd, -1);
    (void)receive(SBX_MSG_EXITED);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), 0);
    assert_int_equal(receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_NONZERO_EXIT);
}

/* The program may be running while READY is on its way: its time counts from LOAD on. */
static void go_that_went_along_is_not_sent_again(void **state)
{
    const struct sbx_cgroup_usage idle = {.cpu_total_us = 40};
    struct sbx_init_msg msg;

    (void)state;
    fake.is_measure_broken = true; /* nothing is read at READY */
    begin();
    sbx_job_go_along(&fake.job, &idle);
    prepare();
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});

    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    assert_int_equal(fake.job.go_ns, fake.job.along_ns);
    assert_int_equal(fake.job.baseline.cpu_total_us, 40);
    assert_int_equal(recv(fake.init_fd, &msg, sizeof(msg), MSG_DONTWAIT), -1);
    (void)receive(SBX_MSG_STARTED);
}

/* Nobody says READY then. */
static void what_went_along_runs_without_a_word(void **state)
{
    const struct sbx_cgroup_usage idle = {.cpu_total_us = 40};
    struct sbx_init_msg msg;

    (void)state;
    fake.is_measure_broken = true; /* nothing is read */
    begin();
    sbx_job_go_along(&fake.job, &idle);
    prepare();
    sbx_job_run_along(&fake.backend, &fake.job);

    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    assert_int_equal(fake.job.go_ns, fake.job.along_ns);
    assert_int_equal(fake.job.baseline.cpu_total_us, 40);
    assert_int_equal(recv(fake.init_fd, &msg, sizeof(msg), MSG_DONTWAIT), -1);
    (void)receive(SBX_MSG_STARTED);
}

/* By CPU time: one that only waits stays young, and is looked at less and less. */
static void a_program_is_old_when_it_has_had_its_time(void **state)
{
    int64_t age_ns;

    (void)state;
    run();
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

static void counters_that_cannot_be_read_stop_the_start(void **state)
{
    (void)state;
    fake.is_measure_broken = true;
    begin();
    prepare();
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});
    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job);
    assert_int_equal(receive(SBX_MSG_RESULT).result.stage, SBX_STAGE_MEASURE);
}

static void a_box_that_was_taken_away_is_lost(void **state)
{
    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
    fake.job.is_lost = true;
    sbx_job_kill(&fake.backend, &fake.job, cr_clock_mono_ns());
    assert_int_equal(end().result.verdict, SBX_VERDICT_SANDBOX_LOST);
}

static void an_early_result_gives_way_to_an_overflow(void **state)
{
    const struct sbx_msg_drained over = {
        .header = {.run = 7}, .overflow_stream = 1, .observed = 99};
    union sbx_msg result;

    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)receive(SBX_MSG_EXITED);
    assert_int_equal(receive(SBX_MSG_RESULT).result.verdict, SBX_VERDICT_OK);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &over), 0);

    result = receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.is_early, 0);
    assert_int_equal(result.result.verdict, SBX_VERDICT_OUTPUT_LIMIT);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

static void a_front_that_does_not_drain_gets_another_result(void **state)
{
    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
    init_says(&(struct sbx_init_msg){.event = SBX_INIT_EXITED});
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)receive(SBX_MSG_EXITED);
    assert_int_equal(receive(SBX_MSG_RESULT).result.is_early, 1);
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(receive(SBX_MSG_RESULT).result.is_early, 0);
}

static void drained_is_legal_once_and_only_when_draining(void **state)
{
    (void)state;
    run();
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), -EPROTO);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), -EPROTO);
    sbx_job_on_empty(&fake.backend, &fake.job);
    fake.job.collector_pid = 1; /* not done yet */
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), 0);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &drained), -EPROTO);
    fake.job.collector_pid = -1;
    sbx_job_abandon(&fake.backend, &fake.job);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

static void a_front_that_never_drains_loses_the_run(void **state)
{
    (void)state;
    run();
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_empty(&fake.backend, &fake.job);
    sbx_job_on_time(&fake.backend, &fake.job, fake.job.deadline_ns);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
}

static void a_stop_ends_every_state_without_an_answer(void **state)
{
    (void)state;
    run();
    (void)receive(SBX_MSG_STARTED);
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
    run();
    sbx_job_on_output_limit(&fake.backend, &fake.job, &over);
    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
    sbx_job_on_cancel(&fake.backend, &fake.job);
    sbx_job_on_empty(&fake.backend, &fake.job);
    sbx_job_abandon(&fake.backend, &fake.job);
    fake.backend.weakened = SBX_CONTROL_WALL_TIME;
    cr_close_fd(&fake.init_fd);
    run();
    assert_int_equal(fake.job.deadline_ns, INT64_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_these_moves_are_legal),
        cmocka_unit_test(every_state_has_a_name),
        cmocka_unit_test(the_next_look_is_the_earliest),
        CASE(a_program_that_ends_is_measured_and_answered),
        CASE(the_first_limit_wins_and_is_stored_before_the_kill),
        CASE(a_forbidden_call_ends_the_run_and_is_named),
        CASE(a_sigsys_of_a_watched_program_is_its_own),
        CASE(a_sigsys_that_nobody_watched_is_a_violation),
        CASE(time_is_up_by_either_clock),
        CASE(a_cancelled_start_never_says_started),
        CASE(a_start_that_takes_too_long_names_its_stage),
        CASE(an_init_that_never_is_ready_is_our_fault),
        CASE(an_init_that_lies_is_killed),
        CASE(last_words_are_heard_of_an_init_that_did_not_listen),
        CASE(nothing_is_heard_of_an_init_whose_box_is_empty),
        CASE(the_end_of_an_init_that_is_alone_is_not_waited_for),
        CASE(go_that_went_along_is_not_sent_again),
        CASE(what_went_along_runs_without_a_word),
        CASE(a_program_is_old_when_it_has_had_its_time),
        CASE(counters_that_cannot_be_read_stop_the_start),
        CASE(a_box_that_was_taken_away_is_lost),
        CASE(an_early_result_gives_way_to_an_overflow),
        CASE(a_front_that_does_not_drain_gets_another_result),
        CASE(drained_is_legal_once_and_only_when_draining),
        CASE(a_front_that_never_drains_loses_the_run),
        CASE(a_stop_ends_every_state_without_an_answer),
        CASE(a_control_that_is_left_out_does_not_end_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
