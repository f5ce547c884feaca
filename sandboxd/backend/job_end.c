/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/job_parts.h"
#include "sandboxd/backend/weaken.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define COLLECT_DEADLINE_NS (20 * CR_NS_PER_S)
#define DRAIN_DEADLINE_NS (60 * CR_NS_PER_S)

#define COLLECT_FD 4

/* Counters since GO. A counter that went backwards would be a kernel's fault: then 0. */
static uint64_t since(uint64_t end, uint64_t start)
{
    return end > start ? end - start : 0;
}

/*
 * v1 counts user and system time by ticks and the total exactly: the parts are
 * scaled to the total, as the kernel does for times(2).
 */
static void split_cpu(struct sbx_cgroup_usage *usage)
{
    uint64_t sum = usage->cpu_user_us + usage->cpu_system_us;

    if (sum == 0)
        return;
    usage->cpu_user_us =
        (uint64_t)((double)usage->cpu_total_us * ((double)usage->cpu_user_us / (double)sum));
    usage->cpu_system_us = usage->cpu_total_us - usage->cpu_user_us;
}

int sbx_job_read_counters(struct sbx_job *job, struct cr_err *err)
{
    struct sbx_cgroup_usage usage;
    int r = sbx_cgroup_usage(&job->group, &usage, err);

    if (r < 0)
        return r;
    usage.cpu_total_us = since(usage.cpu_total_us, job->baseline.cpu_total_us);
    usage.cpu_user_us = since(usage.cpu_user_us, job->baseline.cpu_user_us);
    usage.cpu_system_us = since(usage.cpu_system_us, job->baseline.cpu_system_us);
    usage.cpu_throttled_us = since(usage.cpu_throttled_us, job->baseline.cpu_throttled_us);
    usage.oom_kills = since(usage.oom_kills, job->baseline.oom_kills);
    usage.process_limit_hits = since(usage.process_limit_hits, job->baseline.process_limit_hits);
    split_cpu(&usage);
    job->facts.usage = usage;
    return 0;
}

/* ---- the collector ---- */

/* The front passes something that is no pipe when there is nothing to collect. */
static bool wants_collect(const struct sbx_job *job)
{
    struct stat stat;

    return fstat(job->fds[COLLECT_FD], &stat) == 0 &&
           (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode));
}

/*
 * The kernel counts no write beyond RLIMIT_FSIZE, and a child that died of it,
 * or a program that got EFBIG, ends as it likes. But it leaves a file of
 * exactly the limit: what to look for after a failure, 0 when there cannot be
 * one.
 */
static uint64_t size_to_look_for(const struct sbx_job *job)
{
    uint64_t limit = job->limits.value[SBX_LIMIT_FILE_SIZE];

    return sbx_facts_leader_failed(&job->facts) && job->facts.workspace_bytes >= limit ? limit : 0;
}

static int fork_collector(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_collector_plan plan = {
        .payload_fd = job->fds[0],
        .out_fd = job->fds[COLLECT_FD],
        .size = size_to_look_for(job),
    };
    CR_AUTO_CLOSE int folder = backend->ops->open_folder(backend, job, &plan.id);
    struct cr_err err = CR_ERR_INIT;

    plan.workspace_fd = folder;
    plan.place_count = backend->ops->get_places(backend, job, plan.places);
    if (folder < 0 || sbx_collector_start(&plan, &job->collector_pid, &err) < 0) {
        cr_log_error("cannot start the collector run=%" PRIu64 " error=\"%s\"", job->id,
                     folder < 0 ? strerrordesc_np(-folder) : err.text);
        return -ECHILD;
    }
    job->collector_pidfd = pidfd_open(job->collector_pid, 0);
    return 0;
}

/* False: there is none, and the front sees an empty pipe and says what is missing. */
static bool has_collector(struct sbx_backend *backend, struct sbx_job *job)
{
    if (!backend->ops->take_collector ||
        !backend->ops->take_collector(backend, job, &job->collector_pid, &job->collector_pidfd))
        return fork_collector(backend, job) == 0;
    return job->collector_pid > 0;
}

static void start_collector(struct sbx_backend *backend, struct sbx_job *job)
{
    if (!has_collector(backend, job))
        return;
    assert(job->collector_pid > 0); /* kill(2) knows other numbers, too */
    if (job->collector_pidfd < 0 ||
        sbx_backend_watch(backend, job->collector_pidfd, EPOLLIN, SBX_WATCH_COLLECTOR, job) < 0) {
        (void)kill(job->collector_pid, SIGKILL);
        (void)waitpid(job->collector_pid, NULL, 0);
        job->collector_pid = -1;
        cr_close_fd(&job->collector_pidfd);
    }
}

static void kill_collector(const struct sbx_job *job)
{
    if (job->collector_pidfd >= 0)
        (void)pidfd_send_signal(job->collector_pidfd, SIGKILL, NULL, 0);
}

/* ---- the answer ---- */

static uint64_t microseconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (uint64_t)((to_ns - from_ns) / CR_NS_PER_US) : 0;
}

static uint32_t narrow(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* What the programs before it left in the folder may be in the way of the files of a run. */
static bool is_own_obstacle(const struct sbx_job *job, const struct sbx_msg_result *result)
{
    static const int obstacles[] = {EACCES,    EPERM, EEXIST,       EISDIR, ENOTDIR,
                                    ENOTEMPTY, ELOOP, ENAMETOOLONG, EXDEV};

    for (size_t i = 0; i < CR_ARRAY_SIZE(obstacles); i++) {
        if (job->session != 0 && result->stage == SBX_STAGE_PAYLOAD &&
            result->stage_errno == obstacles[i])
            return true;
    }
    return false;
}

static void fill_verdict(const struct sbx_job *job, struct sbx_msg_result *result)
{
    sbx_verdict_decide(&job->facts, result);
    if (result->verdict == SBX_VERDICT_SANDBOX_ERROR && is_own_obstacle(job, result))
        result->verdict = SBX_VERDICT_EXEC_FAILED;
    /* CANCELLED: its start was called off, and not by its caller. */
    if (job->is_lost && (result->verdict == SBX_VERDICT_SANDBOX_ERROR ||
                         result->verdict == SBX_VERDICT_CANCELLED)) {
        result->verdict = SBX_VERDICT_SANDBOX_LOST;
        result->stage = SBX_STAGE_NONE;
        result->stage_errno = 0;
    }
}

bool sbx_job_keeps_box(const struct sbx_job *job)
{
    struct sbx_msg_result result;

    if (!job->is_parked || job->is_session_over)
        return false;
    fill_verdict(job, &result);
    return result.verdict == SBX_VERDICT_OK || result.verdict == SBX_VERDICT_NONZERO_EXIT ||
           result.verdict == SBX_VERDICT_COLLECT_FAILED;
}

static uint32_t kept(const struct sbx_job *job)
{
    if (job->session == 0)
        return 0;
    return (job->is_session_over ? 0 : SBX_KEPT_SESSION) |
           (sbx_job_keeps_box(job) ? SBX_KEPT_STATE : 0) | (job->is_new_state ? SBX_KEPT_NEW : 0);
}

static void fill_result(const struct sbx_backend *backend, const struct sbx_job *job,
                        struct sbx_msg_result *result)
{
    const struct sbx_facts *facts = &job->facts;

    fill_verdict(job, result);
    result->cgroup_version = backend->cgroups.ops->version;
    result->prepare_us =
        microseconds(job->received_ns, job->go_ns > 0 ? job->go_ns : cr_clock_mono_ns());
    result->wall_us = microseconds(job->go_ns, job->end_ns);
    result->kill_us = microseconds(job->kill_ns, job->dead_ns);
    result->collect_us = microseconds(job->dead_ns, job->collected_ns);
    result->cpu_total_us = facts->usage.cpu_total_us;
    result->cpu_user_us = facts->usage.cpu_user_us;
    result->cpu_system_us = facts->usage.cpu_system_us;
    result->cpu_throttled_us = facts->usage.cpu_throttled_us;
    result->memory_peak_bytes = facts->usage.memory_peak_bytes;
    result->workspace_bytes = facts->workspace_bytes;
    result->workspace_inodes = narrow(facts->workspace_inodes);
    result->oom_kills = narrow(facts->usage.oom_kills);
    result->processes_peak = narrow(facts->usage.processes_peak);
    result->process_limit_hits = narrow(facts->usage.process_limit_hits);
    result->killed_leftovers = job->leftovers;
    result->is_pool_hit = job->is_pool_hit;
    result->is_inferred = backend->is_inferring;
    result->start_mode = job->start_mode;
    result->pool_ready = (uint8_t)backend->pool_ready;
    result->kept = kept(job);
}

static void send_result(struct sbx_backend *backend, const struct sbx_job *job, bool is_early)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, job->id);
    fill_result(backend, job, &msg.result);
    msg.result.is_early = is_early;
    cr_log_debug("run ended run=%" PRIu64 " verdict=%s stage=%s errno=%d early=%d", job->id,
                 sbx_verdict_name(msg.result.verdict), sbx_stage_name(msg.result.stage),
                 msg.result.stage_errno, is_early);
    if (msg.result.verdict == SBX_VERDICT_SANDBOX_ERROR)
        cr_log_error("a run failed run=%" PRIu64 " stage=%s error=%s", job->id,
                     sbx_stage_name(msg.result.stage), strerrordesc_np(msg.result.stage_errno));
    sbx_backend_send(backend, &msg);
}

/* ---- draining ---- */

void sbx_job_on_empty(struct sbx_backend *backend, struct sbx_job *job)
{
    int64_t now_ns = cr_clock_mono_ns();
    union sbx_msg msg;

    backend->ops->measure(backend, job);
    if (job->go_ns == 0 || backend->is_stopping) {
        sbx_job_finish(backend, job);
        return;
    }
    sbx_job_move(job, SBX_JOB_DRAINING, now_ns + cr_patience_ns(DRAIN_DEADLINE_NS));
    sbx_msg_init(&msg, SBX_MSG_EXITED, job->id);
    sbx_backend_send(backend, &msg);
    if (wants_collect(job) || size_to_look_for(job) > 0)
        start_collector(backend, job);
    if (job->collector_pid >= 0)
        job->poll_ns = now_ns + cr_patience_ns(COLLECT_DEADLINE_NS);
    else
        job->collected_ns = now_ns;
    /* The front has yet to read what is left in the pipes, which rarely changes anything. */
    job->is_told = job->collector_pid < 0;
    if (job->is_told)
        send_result(backend, job, true);
    cr_close_fd(&job->fds[COLLECT_FD]);
    cr_close_fd(&job->fds[0]);
}

static void finish_when_done(struct sbx_backend *backend, struct sbx_job *job)
{
    if (job->is_drained && job->collector_pid < 0)
        sbx_job_finish(backend, job);
}

void sbx_job_on_collector(struct sbx_backend *backend, struct sbx_job *job)
{
    int status = 0;

    if (job->collector_pid < 0)
        return; /* reaped earlier in this round of events */
    job->facts.is_file_at_limit = waitpid(job->collector_pid, &status, 0) > 0 &&
                                  WIFEXITED(status) &&
                                  WEXITSTATUS(status) == SBX_COLLECTOR_SIZE_SEEN;
    job->collector_pid = -1;
    sbx_backend_unwatch(backend, job->collector_pidfd);
    cr_close_fd(&job->collector_pidfd);
    job->collected_ns = cr_clock_mono_ns();
    job->poll_ns = INT64_MAX;
    finish_when_done(backend, job);
}

void sbx_job_on_drain_time(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns)
{
    if (now_ns >= job->poll_ns) {
        cr_log_warn("the collector takes too long, killing it run=%" PRIu64, job->id);
        job->poll_ns = INT64_MAX;
        kill_collector(job);
    }
    if (now_ns >= job->deadline_ns) {
        cr_log_warn("the front does not drain a run, ending it run=%" PRIu64, job->id);
        job->deadline_ns = INT64_MAX;
        job->is_told = false; /* it still waits for an answer */
        sbx_job_abandon_drain(backend, job);
    }
}

int sbx_job_on_drained(struct sbx_backend *backend, struct sbx_job *job,
                       const struct sbx_msg_drained *msg)
{
    if (job->state != SBX_JOB_DRAINING || job->is_drained)
        return -EPROTO;
    job->is_drained = true;
    job->is_told = job->is_told && msg->overflow_stream == 0 && msg->collect_failed == 0;
    job->facts.is_output_over =
        msg->overflow_stream != 0 && !sbx_is_weakened(backend, SBX_CONTROL_OUTPUT);
    job->facts.output_observed = msg->observed;
    job->facts.is_collect_failed = msg->collect_failed != 0;
    finish_when_done(backend, job);
    return 0;
}

void sbx_job_abandon_drain(struct sbx_backend *backend, struct sbx_job *job)
{
    job->is_drained = true;
    kill_collector(job);
    finish_when_done(backend, job);
}

void sbx_job_finish(struct sbx_backend *backend, struct sbx_job *job)
{
    /* Free before the answer: the front may send the next RUN at once. */
    for (int i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&job->fds[i]);
    sbx_backend_unwatch(backend, job->control_fd);
    cr_close_fd(&job->control_fd);
    if (job->has_group)
        sbx_backend_unwatch(backend, job->group.event_fd);
    backend->ops->release(backend, job);
    job->has_group = false;
    sbx_job_move(job, SBX_JOB_FREE, INT64_MAX);
    if (!job->is_told)
        send_result(backend, job, false);
}
