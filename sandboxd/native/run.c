/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/run.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include <sys/epoll.h>

#define GROUP_DEADLINE_NS (3 * CR_NS_PER_S)
#define WEAK_FACTOR 16 /* of a workspace whose limits are left out: see weaken.h */

static struct sbx_run *run_of(struct sbx_job *job)
{
    return (struct sbx_run *)job;
}

static void reset(struct sbx_run *run)
{
    run->workspace_fd = -1;
    run->box = (struct sbx_box)SBX_BOX_INIT;
}

void sbx_run_init(struct sbx_run *run, uint32_t slot, int userns_fd)
{
    sbx_job_init(&run->job, slot);
    run->userns_fd = userns_fd;
    reset(run);
}

/* On the host: whose the files of the program are. */
static uid_t owner_of(const struct sbx_native *native, const struct sbx_run *run)
{
    return native->uid_base + run->job.slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
}

/* ---- making the box ---- */

static int watch_box(struct sbx_native *native, struct sbx_run *run)
{
    int r = sbx_job_watch(&native->base, &run->job);

    return r < 0 ? r
                 : sbx_backend_watch(&native->base, run->box.pidfd, EPOLLIN, SBX_NATIVE_WATCH_DEAD,
                                     &run->job);
}

/* Control group and workspace. Returns the stage that failed, or NONE. */
static enum sbx_stage make_surroundings(struct sbx_native *native, struct sbx_run *run,
                                        struct cr_err *err)
{
    const struct sbx_limits *limits = &run->job.limits;
    uint64_t weak = sbx_is_weakened(&native->base, SBX_CONTROL_TMPFS) ? WEAK_FACTOR : 1;

    if (sbx_cgroup_limit(&run->job.group, limits, err) < 0 ||
        sbx_cgroup_arm(&run->job.group, err) < 0)
        return SBX_STAGE_CGROUP;
    if (sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES] * weak,
                           limits->value[SBX_LIMIT_WORKSPACE_INODES] * weak, owner_of(native, run),
                           &run->workspace_fd, err) < 0)
        return SBX_STAGE_MOUNT;
    return SBX_STAGE_NONE;
}

static int start_box(struct sbx_native *native, struct sbx_run *run, struct cr_err *err)
{
    struct sbx_job *job = &run->job;
    struct sbx_box_plan plan = {
        .group = &job->group,
        .limits = &job->limits,
        .init_fd = native->init_fd,
        .seccomp_fd = native->seccomp_fd,
        .userns_fd = run->userns_fd,
        .workspace_fd = run->workspace_fd,
        .payload_fd = job->fds[0],
        .stdio_fds = {job->fds[1], job->fds[2], job->fds[3]},
        .weakened = native->base.weakened,
    };
    int r = sbx_box_start(&plan, &run->box, err);

    if (r < 0)
        return r;
    job->control_fd = cr_take_fd(&run->box.control_fd);
    /* Only the box holds these from now on: their end is the end of the box. */
    for (int i = 1; i <= 3; i++)
        cr_close_fd(&job->fds[i]);
    return 0;
}

void sbx_run_on_group(struct sbx_native *native, struct sbx_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    enum sbx_stage stage;
    int r;

    if (sbx_groups_take(native, &run->job.group) < 0)
        return; /* comes again when the keeper has made one */
    run->job.has_group = true;
    stage = make_surroundings(native, run, &err);
    if (stage == SBX_STAGE_NONE && start_box(native, run, &err) < 0)
        stage = SBX_STAGE_CLONE;
    if (stage != SBX_STAGE_NONE) {
        cr_log_error("cannot start a box run=%" PRIu64 " error=\"%s\"", run->job.id, err.text);
        sbx_job_fail_start(&native->base, &run->job, stage, -err.code);
        return;
    }
    sbx_job_prepare(&run->job);
    r = watch_box(native, run);
    if (r < 0) {
        /* Without its events we would not see its end: this one wait is synchronous. */
        sbx_job_fail(&native->base, &run->job, SBX_STAGE_CLONE, -r);
        sbx_run_on_dead(native, run);
    }
}

void sbx_run_start(struct sbx_backend *backend, struct sbx_job *job)
{
    reset(run_of(job));
    job->deadline_ns = cr_clock_mono_ns() + GROUP_DEADLINE_NS;
    sbx_run_on_group(sbx_native_of(backend), run_of(job));
}

int sbx_run_before_go(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err)
{
    (void)backend;
    return sbx_cgroup_limit_cpu(&job->group, &job->limits, err);
}

void sbx_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job)
{
    sbx_job_fail_start(backend, job, SBX_STAGE_CGROUP, ETIMEDOUT);
}

void sbx_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job)
{
    sbx_job_finish(backend, job);
}

/* ---- its end ---- */

void sbx_run_kill(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    (void)sbx_cgroup_kill(&job->group);
    sbx_box_kill(&run_of(job)->box);
}

void sbx_run_on_kill_time(struct sbx_backend *backend, struct sbx_job *job)
{
    cr_log_error("a killed box does not end run=%" PRIu64 " slot=%" PRIu32, job->id, job->slot);
    sbx_run_kill(backend, job);
}

void sbx_run_on_dead(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_job *job = &run->job;

    if (run->box.pidfd < 0)
        return; /* reaped earlier in this round of events */
    sbx_job_read_last_words(&native->base, job);
    /* Unless we did, it went by itself: an OOM kill, or our fault. */
    sbx_job_kill(&native->base, job, cr_clock_mono_ns());
    sbx_box_reap(&run->box);
    cr_close_fd(&job->control_fd);
    job->dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(&native->base, job);
}

void sbx_run_measure(struct sbx_backend *backend, struct sbx_job *job)
{
    struct cr_err err = CR_ERR_INIT;

    (void)backend;
    if (sbx_job_read_counters(job, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", job->id, err.text);
        job->facts.stage = SBX_STAGE_MEASURE;
        job->facts.error = -err.code;
    }
    if (sbx_workspace_usage(run_of(job)->workspace_fd, &job->facts.workspace_bytes,
                            &job->facts.workspace_inodes, &job->facts.is_workspace_full) < 0)
        cr_log_warn("cannot read the size of a workspace run=%" PRIu64, job->id);
}

int sbx_run_open_folder(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner)
{
    struct sbx_run *run = run_of(job);
    int fd = openat(run->workspace_fd, "w", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    *ret_owner = owner_of(sbx_native_of(backend), run);
    return fd < 0 ? -errno : fd;
}

void sbx_run_release(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_run *run = run_of(job);

    if (job->has_group)
        sbx_groups_give_back(sbx_native_of(backend), &job->group, &run->workspace_fd);
    cr_close_fd(&run->workspace_fd);
}
