/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/job.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job_parts.h"
#include "sandboxd/backend/weaken.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define READY_DEADLINE_NS (15 * CR_NS_PER_S)

#define BIT(state) (1U << (state))

static const struct {
    const char *name;
    uint32_t next; /* bit set of the states that may follow */
} states[] = {
    [SBX_JOB_FREE] = {"free", BIT(SBX_JOB_STARTING)},
    [SBX_JOB_STARTING] = {"starting", BIT(SBX_JOB_PREPARING) | BIT(SBX_JOB_FREE)},
    [SBX_JOB_PREPARING] = {"preparing", BIT(SBX_JOB_RUNNING) | BIT(SBX_JOB_KILLING)},
    [SBX_JOB_RUNNING] = {"running", BIT(SBX_JOB_KILLING)},
    [SBX_JOB_KILLING] = {"killing", BIT(SBX_JOB_DRAINING) | BIT(SBX_JOB_FREE)},
    [SBX_JOB_DRAINING] = {"draining", BIT(SBX_JOB_FREE)},
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_JOB_STATE_COUNT, "one row per state");

bool sbx_job_can_move(enum sbx_job_state from, enum sbx_job_state to)
{
    return from < SBX_JOB_STATE_COUNT && to < SBX_JOB_STATE_COUNT &&
           (states[from].next & BIT(to)) != 0;
}

const char *sbx_job_state_name(enum sbx_job_state state)
{
    return state < SBX_JOB_STATE_COUNT ? states[state].name : "unknown";
}

void sbx_job_move(struct sbx_job *job, enum sbx_job_state to, int64_t deadline_ns)
{
    assert(sbx_job_can_move(job->state, to));
    cr_log_debug("run moves run=%" PRIu64 " slot=%" PRIu32 " from=%s to=%s", job->id, job->slot,
                 states[job->state].name, states[to].name);
    job->state = to;
    job->deadline_ns = deadline_ns;
    job->poll_ns = INT64_MAX;
    job->age_ns = INT64_MAX;
    job->oom_until_ns = 0;
}

void sbx_job_init(struct sbx_job *job, uint32_t slot)
{
    *job = (struct sbx_job){
        .slot = slot,
        .control_fd = -1,
        .collector_pid = -1,
        .collector_pidfd = -1,
        .deadline_ns = INT64_MAX,
        .poll_ns = INT64_MAX,
        .age_ns = INT64_MAX,
    };
    for (int i = 0; i < SBX_RUN_FDS; i++)
        job->fds[i] = -1;
}

void sbx_job_begin(struct sbx_backend *backend, struct sbx_job *job, const struct sbx_msg_run *msg,
                   const int fds[SBX_RUN_FDS])
{
    uint32_t generation = job->generation + 1;

    sbx_job_init(job, job->slot);
    job->generation = generation;
    job->id = msg->header.run;
    job->runtime = msg->runtime;
    job->flags = msg->flags;
    job->caller = msg->caller;
    job->session = msg->session;
    job->columns = msg->columns;
    job->rows = msg->rows;
    job->limits = msg->limits;
    job->received_ns = cr_clock_mono_ns();
    job->facts.limits = &job->limits;
    job->facts.is_sandboxd_killing = backend->cgroups.ops->look_ns > 0;
    memcpy(job->fds, fds, sizeof(job->fds));
    sbx_job_move(job, SBX_JOB_STARTING, INT64_MAX);
    backend->ops->start(backend, job);
}

void sbx_job_prepare(struct sbx_job *job)
{
    sbx_job_move(job, SBX_JOB_PREPARING, cr_clock_mono_ns() + cr_patience_ns(READY_DEADLINE_NS));
}

void sbx_job_go_along(struct sbx_job *job, const struct sbx_cgroup_usage *baseline)
{
    job->baseline = *baseline;
    job->along_ns = cr_clock_mono_ns();
}

int sbx_job_watch(struct sbx_backend *backend, const struct sbx_job *job)
{
    bool is_v2 = backend->cgroups.ops->version == 2;
    int r = sbx_backend_watch(backend, job->control_fd, EPOLLIN, SBX_WATCH_CONTROL, job);

    if (r == 0 && job->group.event_fd >= 0)
        r = sbx_backend_watch(backend, job->group.event_fd, is_v2 ? EPOLLPRI : EPOLLIN,
                              SBX_WATCH_OOM, job);
    return r;
}

void sbx_job_kill(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns)
{
    if (job->state == SBX_JOB_KILLING)
        return;
    job->kill_ns = now_ns;
    if (job->end_ns == 0)
        job->end_ns = now_ns;
    job->facts.is_killed = !job->facts.has_leader && !job->is_lost;
    if (!job->is_parked)
        backend->ops->kill(backend, job);
    sbx_job_move(job, SBX_JOB_KILLING, now_ns + cr_patience_ns(SBX_JOB_KILL_DEADLINE_NS));
}

void sbx_job_fail(struct sbx_backend *backend, struct sbx_job *job, enum sbx_stage stage, int error)
{
    job->facts.stage = stage;
    job->facts.error = error;
    sbx_job_kill(backend, job, cr_clock_mono_ns());
}

void sbx_job_fail_start(struct sbx_backend *backend, struct sbx_job *job, enum sbx_stage stage,
                        int error)
{
    job->facts.stage = stage;
    job->facts.error = error;
    sbx_job_finish(backend, job);
}

/* ---- sandbox-init ---- */

static void send_started(struct sbx_backend *backend, const struct sbx_job *job)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_STARTED, job->id);
    msg.started.prepare_us = (uint64_t)((job->go_ns - job->received_ns) / CR_NS_PER_US);
    sbx_backend_send(backend, &msg);
}

/* Returns when GO was sent, or 0: then the job has failed. */
static int64_t let_go(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_init_msg go = {.event = SBX_INIT_GO};
    struct cr_err err = CR_ERR_INIT;
    int64_t now_ns;

    if (backend->ops->before_go && backend->ops->before_go(backend, job, &err) < 0) {
        cr_log_error("cannot let a box go run=%" PRIu64 " error=\"%s\"", job->id, err.text);
        sbx_job_fail(backend, job, SBX_STAGE_CGROUP, -err.code);
        return 0;
    }
    if (sbx_cgroup_usage(&job->group, &job->baseline, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", job->id, err.text);
        sbx_job_fail(backend, job, SBX_STAGE_MEASURE, -err.code);
        return 0;
    }
    now_ns = cr_clock_mono_ns();
    if (send(job->control_fd, &go, sizeof(go), MSG_NOSIGNAL) != sizeof(go)) {
        sbx_job_fail(backend, job, SBX_STAGE_INIT, errno);
        return 0;
    }
    return now_ns;
}

static void start_clocks(struct sbx_backend *backend, struct sbx_job *job, int64_t go_ns)
{
    sbx_job_start_clocks(backend, job, go_ns);
    send_started(backend, job);
}

void sbx_job_run_along(struct sbx_backend *backend, struct sbx_job *job)
{
    start_clocks(backend, job, job->along_ns);
}

static void on_ready(struct sbx_backend *backend, struct sbx_job *job)
{
    int64_t go_ns = job->along_ns > 0 ? job->along_ns : let_go(backend, job);

    if (go_ns > 0)
        start_clocks(backend, job, go_ns);
}

/* True when the numbers are what a sandbox-init of ours can say. */
static bool is_plausible(const struct sbx_init_msg *msg)
{
    return msg->stage < SBX_STAGE_COUNT && msg->error >= 0 && msg->error < 4096 &&
           msg->wait_status >= 0 && msg->wait_status <= 0xffff &&
           (WIFEXITED(msg->wait_status) || WIFSIGNALED(msg->wait_status));
}

/* Before all limits: the process is held back, so that nothing else can come of it. */
static void on_violation(struct sbx_backend *backend, struct sbx_job *job, uint32_t call)
{
    job->facts.has_forbidden_call = true;
    job->facts.forbidden_call = call;
    sbx_facts_add(&job->facts, SBX_VERDICT_SECURITY_VIOLATION, 0);
    sbx_job_check_memory(job);
    sbx_job_kill(backend, job, cr_clock_mono_ns());
}

/*
 * It has reaped everybody before it said so, and ends now itself: there is no
 * need to wait for that when the kernel, too, sees nobody but it. In a session it may
 * also have stopped everybody, and wait for the next run.
 */
static void on_exited(struct sbx_backend *backend, struct sbx_job *job,
                      const struct sbx_init_msg *msg)
{
    job->facts.has_leader = true;
    job->facts.is_watched = (msg->detail & SBX_INIT_WATCHED) != 0;
    job->facts.wait_status = msg->wait_status;
    job->has_no_socket = (msg->detail & SBX_INIT_NO_SOCKET) != 0;
    job->leftovers = msg->leftovers;
    job->end_ns = cr_clock_mono_ns();
    job->is_parked = (msg->detail & SBX_INIT_PARKED) != 0 && (job->flags & SBX_RUN_HAS_CELL) != 0;
    if (job->is_parked && backend->ops->park(backend, job) < 0)
        job->is_parked = false; /* whom nobody holds is killed with the rest */
    sbx_job_kill(backend, job, job->end_ns);
    if (!job->is_parked && (!backend->ops->is_alone || !backend->ops->is_alone(backend, job)))
        return;
    sbx_backend_unwatch(backend, job->control_fd);
    cr_close_fd(&job->control_fd);
    job->dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(backend, job);
}

/* Its box can still fail: later what sandbox-init says, or ceases to say, changes nothing. */
static bool is_alive(const struct sbx_job *job)
{
    return job->state == SBX_JOB_PREPARING || job->state == SBX_JOB_RUNNING;
}

static void on_init_message(struct sbx_backend *backend, struct sbx_job *job,
                            const struct sbx_init_msg *msg)
{
    if (backend->ops->on_own_message && backend->ops->on_own_message(backend, job, msg))
        return;
    if (msg->event == SBX_INIT_READY && job->state == SBX_JOB_PREPARING) {
        on_ready(backend, job);
    } else if (msg->event == SBX_INIT_FAILED && is_alive(job)) {
        sbx_job_fail(backend, job, msg->stage == SBX_STAGE_NONE ? SBX_STAGE_INIT : msg->stage,
                     msg->error);
    } else if (msg->event == SBX_INIT_VIOLATION && job->state == SBX_JOB_RUNNING) {
        on_violation(backend, job, msg->detail);
    } else if (msg->event == SBX_INIT_EXITED && job->state == SBX_JOB_RUNNING) {
        on_exited(backend, job, msg);
    } else if (is_alive(job)) {
        sbx_job_fail(backend, job, SBX_STAGE_INIT, EPROTO);
    }
}

ssize_t sbx_job_receive(const struct sbx_job *job, void *ret_data, size_t size, int flags)
{
    ssize_t n;

    do {
        n = recv(job->control_fd, ret_data, size, flags | MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    return n;
}

void sbx_job_on_control(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_init_msg msg;
    ssize_t n;

    if (job->control_fd < 0)
        return; /* closed earlier in this round of events */
    n = sbx_job_receive(job, &msg, sizeof(msg), 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n == sizeof(msg) && is_plausible(&msg)) {
        on_init_message(backend, job, &msg);
        return;
    }
    /* Its end: the pidfd tells the rest. Anything else is not our sandbox-init any more. */
    (void)epoll_ctl(backend->epoll_fd, EPOLL_CTL_DEL, job->control_fd, NULL);
    if (n != 0 && is_alive(job))
        sbx_job_fail(backend, job, SBX_STAGE_INIT, EPROTO);
}

void sbx_job_read_last_words(struct sbx_backend *backend, struct sbx_job *job)
{
    for (enum sbx_job_state before = SBX_JOB_FREE; before != job->state;) {
        before = job->state;
        if (is_alive(job))
            sbx_job_on_control(backend, job);
    }
}

/* ---- the front ---- */

static void end_early(struct sbx_backend *backend, struct sbx_job *job)
{
    sbx_facts_add(&job->facts, SBX_VERDICT_CANCELLED, 0);
    if (job->state == SBX_JOB_STARTING)
        backend->ops->on_start_cancelled(backend, job);
    else
        sbx_job_kill(backend, job, cr_clock_mono_ns());
}

void sbx_job_on_cancel(struct sbx_backend *backend, struct sbx_job *job)
{
    if (job->state == SBX_JOB_RUNNING)
        sbx_job_check_limits(backend, job, cr_clock_mono_ns());
    if (job->state <= SBX_JOB_RUNNING)
        end_early(backend, job); /* else it is over: whatever ended it came first */
}

/* What does not arrive is for a program that is about to end. */
static void tell_init(const struct sbx_job *job, enum sbx_init_event event, uint32_t detail)
{
    const struct sbx_init_msg msg = {.event = (uint32_t)event, .detail = detail};

    if (job->state == SBX_JOB_RUNNING && job->control_fd >= 0)
        (void)!send(job->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void sbx_job_on_signal(const struct sbx_backend *backend, const struct sbx_job *job,
                       uint32_t number)
{
    if (backend->features & SBX_FEATURE_SIGNALS)
        tell_init(job, SBX_INIT_SIGNAL, number);
}

void sbx_job_on_resize(const struct sbx_backend *backend, const struct sbx_job *job,
                       uint32_t columns, uint32_t rows)
{
    if ((backend->features & SBX_FEATURE_TERMINAL) && (job->flags & SBX_RUN_HAS_TERMINAL))
        tell_init(job, SBX_INIT_RESIZE, columns << 16 | rows);
}

void sbx_job_lose(struct sbx_backend *backend, struct sbx_job *job)
{
    job->is_session_over = true;
    if (job->state > SBX_JOB_RUNNING || job->facts.event_count > 0)
        return;
    job->is_lost = true;
    if (job->state == SBX_JOB_STARTING)
        end_early(backend, job);
    else
        sbx_job_kill(backend, job, cr_clock_mono_ns());
}

void sbx_job_on_output_limit(struct sbx_backend *backend, struct sbx_job *job,
                             const struct sbx_msg_output_limit *msg)
{
    if (job->state != SBX_JOB_RUNNING || sbx_is_weakened(backend, SBX_CONTROL_OUTPUT))
        return;
    sbx_job_check_memory(job); /* it wins a tie, the clocks do not */
    sbx_facts_add(&job->facts, SBX_VERDICT_OUTPUT_LIMIT, msg->observed);
    sbx_job_kill(backend, job, cr_clock_mono_ns());
}

void sbx_job_abandon(struct sbx_backend *backend, struct sbx_job *job)
{
    if (job->state == SBX_JOB_DRAINING)
        sbx_job_abandon_drain(backend, job);
    else if (job->state <= SBX_JOB_RUNNING)
        end_early(backend, job);
}
