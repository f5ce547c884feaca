/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sandboxd/backend/job_fixture.h"

#include "common/auto.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>

struct job_fixture fake;

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

static int note_park(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)job;
    fake.parks++;
    return -fake.park_error;
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
    .park = note_park,
    .kill = note_kill,
    .on_kill_time = note_kill,
    .measure = measure,
    .release = release,
};

int job_set_up(void **state)
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

int job_tear_down(void **state)
{
    (void)state;
    sbx_backend_close(&fake.backend);
    cr_close_fd(&fake.job.control_fd);
    cr_close_fd(&fake.front_fd);
    cr_close_fd(&fake.init_fd);
    return 0;
}

void job_begin(void)
{
    union sbx_msg msg;
    int fds[SBX_RUN_FDS];

    sbx_msg_init(&msg, SBX_MSG_RUN, 7);
    msg.run.limits = sbx_default_limits;
    for (int i = 0; i < SBX_RUN_FDS; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    sbx_job_begin(&fake.backend, &fake.job, &msg.run, fds);
}

void job_prepare(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fake.job.control_fd = pair[0];
    fake.init_fd = pair[1];
    assert_int_equal(sbx_job_watch(&fake.backend, &fake.job), 0);
    sbx_job_prepare(&fake.job);
}

void job_init_says(const struct sbx_init_msg *msg)
{
    assert_int_equal(send(fake.init_fd, msg, sizeof(*msg), 0), sizeof(*msg));
    sbx_job_on_control(&fake.backend, &fake.job);
}

void job_run(void)
{
    job_begin();
    job_prepare();
    job_init_says(&(struct sbx_init_msg){.event = SBX_INIT_READY});
    assert_int_equal(fake.job.state, SBX_JOB_RUNNING);
}

union sbx_msg job_receive(enum sbx_msg_type type)
{
    int fds[SBX_RUN_FDS];
    size_t count = 0;
    union sbx_msg msg;

    assert_int_equal(sbx_msg_receive(fake.front_fd, &msg, fds, &count, NULL), 0);
    assert_int_equal(msg.header.type, type);
    assert_int_equal(msg.header.run, 7);
    return msg;
}

const struct sbx_msg_drained job_drained = {.header = {.run = 7}};

union sbx_msg job_end(void)
{
    union sbx_msg result;
    char byte;

    assert_int_equal(fake.job.state, SBX_JOB_KILLING);
    sbx_job_on_empty(&fake.backend, &fake.job);
    (void)job_receive(SBX_MSG_EXITED);
    result = job_receive(SBX_MSG_RESULT);
    assert_int_equal(result.result.is_early, 1);
    assert_int_equal(sbx_job_on_drained(&fake.backend, &fake.job, &job_drained), 0);
    assert_int_equal(fake.job.state, SBX_JOB_FREE);
    assert_int_equal(fake.releases, 1);
    assert_int_equal(recv(fake.front_fd, &byte, 1, MSG_DONTWAIT), -1); /* it holds */
    return result;
}
