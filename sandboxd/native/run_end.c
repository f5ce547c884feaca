/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/run_end.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/run.h"
#include "sandboxd/native/weaken.h"

#include <fcntl.h>
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

static void measure(struct sbx_run *run)
{
    struct sbx_cgroup_usage *usage = &run->facts.usage;
    struct cr_err err = CR_ERR_INIT;

    if (sbx_cgroup_usage(&run->group, usage, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        run->facts.stage = SBX_STAGE_MEASURE;
        run->facts.error = -err.code;
    }
    usage->cpu_total_us = since(usage->cpu_total_us, run->baseline.cpu_total_us);
    usage->cpu_user_us = since(usage->cpu_user_us, run->baseline.cpu_user_us);
    usage->cpu_system_us = since(usage->cpu_system_us, run->baseline.cpu_system_us);
    usage->cpu_throttled_us = since(usage->cpu_throttled_us, run->baseline.cpu_throttled_us);
    split_cpu(usage);
    if (sbx_workspace_usage(run->workspace_fd, &run->facts.workspace_bytes,
                            &run->facts.workspace_inodes, &run->facts.is_workspace_full) < 0)
        cr_log_warn("cannot read the size of a workspace run=%" PRIu64, run->id);
}

/* The front passes something that is no pipe when there is nothing to collect. */
static bool wants_collect(const struct sbx_run *run)
{
    struct stat stat;

    return fstat(run->fds[COLLECT_FD], &stat) == 0 &&
           (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode));
}

static void start_collector(struct sbx_native *native, struct sbx_run *run)
{
    uid_t uid = native->uid_base + run->slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
    CR_AUTO_CLOSE int folder =
        openat(run->workspace_fd, "w", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct cr_err err = CR_ERR_INIT;

    if (folder < 0 || sbx_collector_start(folder, run->fds[0], run->fds[COLLECT_FD], uid, uid,
                                          &run->collector_pid, &err) < 0) {
        cr_log_error("cannot start the collector run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        return; /* the front sees an empty pipe and says what is missing */
    }
    run->collector_pidfd = pidfd_open(run->collector_pid, 0);
    if (run->collector_pidfd < 0 ||
        sbx_native_watch(native, run->collector_pidfd, EPOLLIN, SBX_WATCH_COLLECTOR, run) < 0) {
        (void)kill(run->collector_pid, SIGKILL);
        (void)waitpid(run->collector_pid, NULL, 0);
        run->collector_pid = -1;
        cr_close_fd(&run->collector_pidfd);
    }
}

void sbx_run_on_empty(struct sbx_native *native, struct sbx_run *run)
{
    int64_t now_ns = cr_clock_mono_ns();
    union sbx_msg msg;

    measure(run);
    if (run->go_ns == 0 || native->is_stopping) {
        sbx_run_finish(native, run);
        return;
    }
    sbx_run_move(run, SBX_RUN_DRAINING, now_ns + DRAIN_DEADLINE_NS);
    sbx_msg_init(&msg, SBX_MSG_EXITED, run->id);
    sbx_native_send(native, &msg);
    if (wants_collect(run))
        start_collector(native, run);
    if (run->collector_pid >= 0)
        run->poll_ns = now_ns + COLLECT_DEADLINE_NS;
    else
        run->collected_ns = now_ns;
    cr_close_fd(&run->fds[COLLECT_FD]);
    cr_close_fd(&run->fds[0]);
}

static void finish_when_done(struct sbx_native *native, struct sbx_run *run)
{
    if (run->is_drained && run->collector_pid < 0)
        sbx_run_finish(native, run);
}

static void kill_collector(const struct sbx_run *run)
{
    if (run->collector_pidfd >= 0)
        (void)pidfd_send_signal(run->collector_pidfd, SIGKILL, NULL, 0);
}

void sbx_run_on_collector(struct sbx_native *native, struct sbx_run *run)
{
    if (run->collector_pid < 0)
        return; /* reaped earlier in this round of events */
    (void)waitpid(run->collector_pid, NULL, 0);
    run->collector_pid = -1;
    cr_close_fd(&run->collector_pidfd);
    run->collected_ns = cr_clock_mono_ns();
    run->poll_ns = INT64_MAX;
    finish_when_done(native, run);
}

void sbx_run_on_drain_time(struct sbx_native *native, struct sbx_run *run, int64_t now_ns)
{
    if (now_ns >= run->poll_ns) {
        cr_log_warn("the collector takes too long, killing it run=%" PRIu64, run->id);
        run->poll_ns = INT64_MAX;
        kill_collector(run);
    }
    if (now_ns >= run->deadline_ns) {
        cr_log_warn("the front does not drain a run, ending it run=%" PRIu64, run->id);
        run->deadline_ns = INT64_MAX;
        run->is_drained = true;
        kill_collector(run);
        finish_when_done(native, run);
    }
}

int sbx_run_on_drained(struct sbx_native *native, struct sbx_run *run,
                       const struct sbx_msg_drained *msg)
{
    if (run->state != SBX_RUN_DRAINING || run->is_drained)
        return -EPROTO;
    run->is_drained = true;
    run->facts.is_output_over =
        msg->overflow_stream != 0 && !sbx_is_weakened(native, SBX_CONTROL_OUTPUT);
    run->facts.output_observed = msg->observed;
    run->facts.is_collect_failed = msg->collect_failed != 0;
    finish_when_done(native, run);
    return 0;
}

void sbx_run_abandon_drain(struct sbx_native *native, struct sbx_run *run)
{
    run->is_drained = true;
    kill_collector(run);
    finish_when_done(native, run);
}

static uint64_t microseconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (uint64_t)((to_ns - from_ns) / CR_NS_PER_US) : 0;
}

static uint32_t narrow(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void fill_result(const struct sbx_native *native, const struct sbx_run *run,
                        struct sbx_msg_result *result)
{
    const struct sbx_facts *facts = &run->facts;

    sbx_verdict_decide(facts, result);
    result->cgroup_version = native->cgroups.ops->version;
    result->prepare_us =
        microseconds(run->received_ns, run->go_ns > 0 ? run->go_ns : cr_clock_mono_ns());
    result->wall_us = microseconds(run->go_ns, run->end_ns);
    result->kill_us = microseconds(run->kill_ns, run->dead_ns);
    result->collect_us = microseconds(run->dead_ns, run->collected_ns);
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
    result->killed_leftovers = run->leftovers;
}

void sbx_run_finish(struct sbx_native *native, struct sbx_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, run->id);
    fill_result(native, run, &msg.result);
    cr_log_debug("run ended run=%" PRIu64 " verdict=%s stage=%s errno=%d", run->id,
                 sbx_verdict_name(msg.result.verdict), sbx_stage_name(msg.result.stage),
                 msg.result.stage_errno);
    if (msg.result.verdict == SBX_VERDICT_SANDBOX_ERROR)
        cr_log_error("a run failed run=%" PRIu64 " stage=%s error=%s", run->id,
                     sbx_stage_name(msg.result.stage), strerrordesc_np(msg.result.stage_errno));
    /* Free before the answer: the front may send the next RUN at once. */
    for (int i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&run->fds[i]);
    if (run->has_group)
        sbx_groups_give_back(native, &run->group, &run->workspace_fd);
    run->has_group = false;
    cr_close_fd(&run->workspace_fd);
    sbx_run_move(run, SBX_RUN_FREE, INT64_MAX);
    sbx_native_send(native, &msg);
}
