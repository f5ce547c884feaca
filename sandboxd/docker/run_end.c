/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/run_parts.h"
#include "sandboxd/init/program.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define COLLECT_DEADLINE_NS (20 * CR_NS_PER_S)
#define DRAIN_DEADLINE_NS (60 * CR_NS_PER_S)

#define COLLECT_FD 4

/* Counters since GO. A counter that went backwards would be a kernel's fault: then 0. */
static uint64_t since(uint64_t end, uint64_t start)
{
    return end > start ? end - start : 0;
}

/* The root of a file system is an inode too; one without a limit of inodes counts none. */
static void add_folder(struct sbx_facts *facts, int fd)
{
    struct statfs stat;

    if (fd < 0 || fstatfs(fd, &stat) < 0)
        return;
    facts->workspace_bytes += (stat.f_blocks - stat.f_bfree) * (uint64_t)stat.f_bsize;
    if (stat.f_files > 0)
        facts->workspace_inodes += since(stat.f_files - stat.f_ffree, 1);
    facts->is_out_of_inodes = facts->is_out_of_inodes || (stat.f_files > 0 && stat.f_ffree == 0);
    facts->is_workspace_full =
        facts->is_workspace_full || facts->is_out_of_inodes || stat.f_bfree == 0;
}

static void measure_folders(struct sbx_docker_run *run)
{
    run->facts.workspace_bytes = 0;
    run->facts.workspace_inodes = 0;
    run->facts.is_workspace_full = false;
    run->facts.is_out_of_inodes = false;
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        add_folder(&run->facts, run->folder_fds[i]);
}

void sbx_docker_run_measure(struct sbx_docker_run *run)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;

    measure_folders(run);
    if (!run->has_group || run->go_ns == 0)
        return;
    if (sbx_cgroup_usage(&run->group, &usage, &err) < 0) {
        if (run->is_lost)
            return; /* the engine takes the group away with the container */
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        run->facts.stage = SBX_STAGE_MEASURE;
        run->facts.error = -err.code;
        return;
    }
    usage.cpu_total_us = since(usage.cpu_total_us, run->baseline.cpu_total_us);
    usage.cpu_user_us = since(usage.cpu_user_us, run->baseline.cpu_user_us);
    usage.cpu_system_us = since(usage.cpu_system_us, run->baseline.cpu_system_us);
    usage.cpu_throttled_us = since(usage.cpu_throttled_us, run->baseline.cpu_throttled_us);
    run->facts.usage = usage;
    run->is_lost = run->is_lost && usage.oom_kills == 0;
}

/* The front passes something that is no pipe when there is nothing to collect. */
static bool wants_collect(const struct sbx_docker_run *run)
{
    struct stat stat;

    return run->folder_fds[SBX_DOCKER_WORKSPACE] >= 0 && fstat(run->fds[COLLECT_FD], &stat) == 0 &&
           (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode));
}

static void start_collector(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;

    if (sbx_collector_start(run->folder_fds[SBX_DOCKER_WORKSPACE], run->fds[0],
                            run->fds[COLLECT_FD], SBX_PROGRAM_UID, SBX_PROGRAM_GID,
                            &run->collector_pid, &err) < 0) {
        cr_log_error("cannot start the collector run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        return; /* the front sees an empty pipe and says what is missing */
    }
    run->collector_pidfd = pidfd_open(run->collector_pid, 0);
    if (run->collector_pidfd < 0 || sbx_docker_watch(docker, run->collector_pidfd, EPOLLIN,
                                                     SBX_DOCKER_WATCH_COLLECTOR, run) < 0) {
        (void)kill(run->collector_pid, SIGKILL);
        (void)waitpid(run->collector_pid, NULL, 0);
        run->collector_pid = -1;
        cr_close_fd(&run->collector_pidfd);
    }
}

void sbx_docker_run_on_empty(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    int64_t now_ns = cr_clock_mono_ns();
    union sbx_msg msg;

    measure_folders(run);
    if (run->go_ns == 0 || docker->is_stopping) {
        sbx_docker_run_finish(docker, run);
        return;
    }
    sbx_docker_run_move(run, SBX_DOCKER_DRAINING, now_ns + DRAIN_DEADLINE_NS);
    sbx_msg_init(&msg, SBX_MSG_EXITED, run->id);
    sbx_docker_send(docker, &msg);
    if (wants_collect(run))
        start_collector(docker, run);
    if (run->collector_pid >= 0)
        run->poll_ns = now_ns + COLLECT_DEADLINE_NS;
    else
        run->collected_ns = now_ns;
    cr_close_fd(&run->fds[COLLECT_FD]);
    cr_close_fd(&run->fds[0]);
}

static void finish_when_done(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->is_drained && run->collector_pid < 0)
        sbx_docker_run_finish(docker, run);
}

static void kill_collector(const struct sbx_docker_run *run)
{
    if (run->collector_pidfd >= 0)
        (void)pidfd_send_signal(run->collector_pidfd, SIGKILL, NULL, 0);
}

void sbx_docker_run_on_collector(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->collector_pid < 0)
        return; /* reaped earlier in this round of events */
    (void)waitpid(run->collector_pid, NULL, 0);
    run->collector_pid = -1;
    cr_close_fd(&run->collector_pidfd);
    run->collected_ns = cr_clock_mono_ns();
    run->poll_ns = INT64_MAX;
    finish_when_done(docker, run);
}

void sbx_docker_run_on_drain_time(struct sbx_docker *docker, struct sbx_docker_run *run,
                                  int64_t now_ns)
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
        finish_when_done(docker, run);
    }
}

int sbx_docker_run_on_drained(struct sbx_docker *docker, struct sbx_docker_run *run,
                              const struct sbx_msg_drained *msg)
{
    if (run->state != SBX_DOCKER_DRAINING || run->is_drained)
        return -EPROTO;
    run->is_drained = true;
    run->facts.is_output_over = msg->overflow_stream != 0;
    run->facts.output_observed = msg->observed;
    run->facts.is_collect_failed = msg->collect_failed != 0;
    finish_when_done(docker, run);
    return 0;
}

void sbx_docker_run_abandon_drain(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    run->is_drained = true;
    kill_collector(run);
    finish_when_done(docker, run);
}

static uint64_t microseconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (uint64_t)((to_ns - from_ns) / CR_NS_PER_US) : 0;
}

static uint32_t narrow(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void fill_result(const struct sbx_docker *docker, const struct sbx_docker_run *run,
                        struct sbx_msg_result *result)
{
    const struct sbx_facts *facts = &run->facts;

    sbx_verdict_decide(facts, result);
    if (run->is_lost && result->verdict == SBX_VERDICT_SANDBOX_ERROR) {
        result->verdict = SBX_VERDICT_SANDBOX_LOST;
        result->stage = SBX_STAGE_NONE;
        result->stage_errno = 0;
    }
    result->cgroup_version = docker->cgroups.ops->version;
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

static void release(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    for (int i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&run->fds[i]);
    cr_close_fd(&run->attach_fd); /* a sandbox-init that waits for it ends itself */
    sbx_relay_kill(&run->relay);
    sbx_relay_reap(&run->relay);
    if (run->box_pidfd >= 0)
        (void)pidfd_send_signal(run->box_pidfd, SIGKILL, NULL, 0);
    cr_close_fd(&run->box_pidfd);
    if (run->has_group)
        sbx_cgroup_close(&run->group);
    run->has_group = false;
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        cr_close_fd(&run->folder_fds[i]);
    if (run->container[0] && !docker->is_engine_lost)
        sbx_wreckage_add(docker, run->container);
    run->container[0] = '\0';
}

void sbx_docker_run_finish(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, run->id);
    fill_result(docker, run, &msg.result);
    cr_log_debug("run ended run=%" PRIu64 " verdict=%s stage=%s errno=%d", run->id,
                 sbx_verdict_name(msg.result.verdict), sbx_stage_name(msg.result.stage),
                 msg.result.stage_errno);
    if (msg.result.verdict == SBX_VERDICT_SANDBOX_ERROR)
        cr_log_error("a run failed run=%" PRIu64 " stage=%s error=%s", run->id,
                     sbx_stage_name(msg.result.stage), strerrordesc_np(msg.result.stage_errno));
    /* Free before the answer: the front may send the next RUN at once. */
    release(docker, run);
    sbx_docker_run_move(run, SBX_DOCKER_FREE, INT64_MAX);
    sbx_docker_send(docker, &msg);
}
