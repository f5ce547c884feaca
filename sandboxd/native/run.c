/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/run.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/native.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include <sys/epoll.h>

#define GROUP_DEADLINE_NS (3 * CR_NS_PER_S)
#define TEMPLATE_DEADLINE_NS (5 * CR_NS_PER_S)

static struct sbx_run *run_of(struct sbx_job *job)
{
    return (struct sbx_run *)job;
}

void sbx_run_init(struct sbx_run *run, uint32_t slot)
{
    sbx_job_init(&run->job, slot);
    run->cell = (struct sbx_cell)SBX_CELL_INIT;
}

/* ---- making the box ---- */

static int watch_box(struct sbx_native *native, struct sbx_run *run)
{
    int r = sbx_job_watch(&native->base, &run->job);

    return r < 0 ? r
                 : sbx_backend_watch(&native->base, run->cell.box.pidfd, EPOLLIN,
                                     SBX_NATIVE_WATCH_DEAD, &run->job);
}

/* Only the box holds these from now on: their end is the end of the box. */
static void close_streams(struct sbx_job *job)
{
    for (int i = 1; i <= 3; i++)
        cr_close_fd(&job->fds[i]);
}

/* The cell holds a box that is on its way to READY, or at first to WAITING. */
static void go_on(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_job *job = &run->job;
    int r;

    job->group = run->cell.group;
    job->has_group = true;
    job->start_mode = (uint8_t)sbx_templates_mode(run->cell.asked_of);
    job->control_fd = cr_take_fd(&run->cell.box.control_fd);
    sbx_job_prepare(job);
    r = watch_box(native, run);
    if (r < 0) {
        /* Without its events we would not see its end: this one wait is synchronous. */
        sbx_job_fail(&native->base, job, SBX_STAGE_CLONE, -r);
        sbx_run_on_dead(native, run);
    } else if (job->along_ns > 0) {
        sbx_job_run_along(&native->base, job);
    }
}

static void fail_start(struct sbx_native *native, struct sbx_run *run, enum sbx_stage stage,
                       const struct cr_err *err)
{
    cr_log_error("cannot start a box run=%" PRIu64 " error=\"%s\"", run->job.id, err->text);
    run->job.group = run->cell.group;
    sbx_job_fail_start(&native->base, &run->job, stage, -err->code);
}

static enum sbx_box_mode mode_of(const struct sbx_job *job)
{
    if (job->flags & SBX_RUN_HAS_CELL)
        return SBX_BOX_CELLS;
    if (job->flags & SBX_RUN_NO_PROGRAM)
        return SBX_BOX_FILES;
    return job->flags & SBX_RUN_HAS_TERMINAL ? SBX_BOX_TERMINAL : SBX_BOX_RUN;
}

/* From nothing. */
static void start_cold(struct sbx_native *native, struct sbx_run *run)
{
    const enum sbx_box_mode mode = mode_of(&run->job);
    const bool is_later = mode == SBX_BOX_CELLS; /* they go with LOAD, for this run and the next */
    struct cr_err err = CR_ERR_INIT;

    run->cell.root_fd = native->roots.fds[run->job.runtime];
    run->cell.columns = run->job.columns;
    run->cell.rows = run->job.rows;
    if (sbx_cell_start(native, &run->cell, mode, is_later ? NULL : run->job.fds, &err) < 0) {
        fail_start(native, run, SBX_STAGE_CLONE, &err);
        return;
    }
    run->job.is_new_state = is_later;
    if (!is_later)
        close_streams(&run->job);
    go_on(native, run);
}

/* Whatever made its box ahead or forks it: such a run has a box that is made for it. */
static bool is_usual(const struct sbx_job *job)
{
    return job->session == 0 && !(job->flags & SBX_RUN_HAS_TERMINAL);
}

static int open_cell(struct sbx_native *native, struct sbx_run *run)
{
    return run->job.session != 0
               ? sbx_native_session_open_cell(native, run)
               : sbx_cell_open(native, !sbx_templates_suit(native, &run->job), &run->cell);
}

void sbx_run_on_group(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_job *job = &run->job;
    struct sbx_limits limits = job->limits;
    struct cr_err err = CR_ERR_INIT;
    enum sbx_stage stage;

    if (run->cell.asked != 0 || open_cell(native, run) < 0)
        return; /* comes again when the keeper has made a group */
    run->box_bytes = (int64_t)native->box_bytes;
    if (job->session != 0 && run->cell.workspace_fd < 0) {
        (void)cr_err_set(&err, EIO, "the workspace of a session cannot be had");
        fail_start(native, run, SBX_STAGE_MOUNT, &err);
        return;
    }
    if (job->session != 0)
        sbx_native_session_take_off(native, run, &limits);
    stage = sbx_cell_furnish(native, &run->cell, &limits, run->box_bytes, &err);
    if (stage != SBX_STAGE_NONE)
        fail_start(native, run, stage, &err);
    else if (is_usual(job) && sbx_templates_ask_for(native, job, &run->cell) == 0)
        job->deadline_ns = cr_clock_mono_ns() + cr_patience_ns(TEMPLATE_DEADLINE_NS);
    else
        start_cold(native, run);
}

void sbx_run_on_template(struct sbx_native *native, struct sbx_run *run, const struct sbx_box *box)
{
    struct sbx_job *job = &run->job;

    if (box) {
        run->cell.box.pid = box->pid;
        run->cell.box.pidfd = box->pidfd;
        go_on(native, run);
        if (job->state == SBX_JOB_PREPARING && job->facts.event_count > 0)
            sbx_job_kill(&native->base, job, cr_clock_mono_ns()); /* cancelled in between */
        return;
    }
    cr_close_fd(&run->cell.box.control_fd);
    run->cell.asked_of = -1;
    run->cell.shared_bytes = 0;
    if (job->facts.event_count == 0) {
        start_cold(native, run);
        return;
    }
    job->group = run->cell.group;
    sbx_job_finish(&native->base, job);
}

/* A box of a template, or of a session, waits for what it is to run; it is charged for what it
 * brought along. */
bool sbx_run_on_own_message(struct sbx_backend *backend, struct sbx_job *job,
                            const struct sbx_init_msg *msg)
{
    const struct sbx_init_msg load = {.event = SBX_INIT_LOAD};
    struct sbx_run *run = run_of(job);
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (msg->event != SBX_INIT_WAITING || job->state != SBX_JOB_PREPARING || job->fds[1] < 0)
        return false;
    r = sbx_cell_measure(&run->cell, &run->box_bytes, &err);
    if (r == 0)
        r = sbx_cell_limit_group(&run->cell, &job->limits, run->box_bytes, &err);
    if (r == 0)
        r = sbx_fds_send(job->control_fd, &load, sizeof(load), job->fds, SBX_INIT_LOAD_FDS);
    close_streams(job);
    if (r < 0)
        sbx_job_fail(backend, job, SBX_STAGE_INIT, -r);
    return true;
}

void sbx_run_start(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct sbx_run *run = run_of(job);

    run->cell = (struct sbx_cell)SBX_CELL_INIT;
    run->elsewhere = 0;
    job->is_pool_hit = is_usual(job) && sbx_pool_take(native, job, &run->cell, &run->box_bytes);
    if (job->is_pool_hit || (job->session != 0 && sbx_native_session_enter(native, run))) {
        close_streams(job);
        go_on(native, run);
        return;
    }
    job->deadline_ns = cr_clock_mono_ns() + cr_patience_ns(GROUP_DEADLINE_NS);
    sbx_run_on_group(native, run);
}

int sbx_run_before_go(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err)
{
    (void)backend;
    return sbx_cell_limit_cpu(&run_of(job)->cell, &job->limits, err);
}

void sbx_run_on_old(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    sbx_cgroup_fall_behind(&run_of(job)->cell.group);
}

void sbx_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job)
{
    const struct sbx_cell *cell = &run_of(job)->cell;

    if (cell->asked != 0) {
        sbx_templates_give_up(sbx_native_of(backend), (uint32_t)cell->asked_of);
        return;
    }
    sbx_job_fail_start(backend, job, SBX_STAGE_CGROUP, ETIMEDOUT);
}

void sbx_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job)
{
    if (run_of(job)->cell.asked != 0)
        return; /* its box comes and is killed, see sbx_run_on_template() */
    sbx_job_finish(backend, job);
}

/* ---- its end ---- */

int sbx_run_park(struct sbx_backend *backend, struct sbx_job *job)
{
    int r = sbx_cell_freeze(&run_of(job)->cell, true);

    if (r < 0) {
        cr_log_warn("an interpreter cannot be held still, ending it run=%" PRIu64, job->id);
        return r;
    }
    sbx_backend_unwatch(backend, job->control_fd);
    run_of(job)->cell.box.control_fd = cr_take_fd(&job->control_fd);
    return 0;
}

/* A process that is neither ours nor sandbox-init's counts there until it is reaped. */
bool sbx_run_is_alone(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    return sbx_cgroup_is_alone(&job->group);
}

void sbx_run_kill(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    sbx_cell_kill(&run_of(job)->cell);
}

void sbx_run_on_kill_time(struct sbx_backend *backend, struct sbx_job *job)
{
    cr_log_error("a killed box does not end run=%" PRIu64 " slot=%" PRIu32, job->id, job->slot);
    sbx_run_kill(backend, job);
}

void sbx_run_on_dead(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_job *job = &run->job;

    if (run->cell.box.pidfd < 0)
        return; /* reaped earlier in this round of events */
    sbx_job_read_last_words(&native->base, job);
    // cppcheck-suppress knownConditionTrueFalse ; the run may have ended in there
    if (run->cell.box.pidfd < 0)
        return; /* answered already: it is one of those that end */
    /* Unless we did, it went by itself: an OOM kill, or our fault. */
    if (job->state != SBX_JOB_DRAINING)
        sbx_job_kill(&native->base, job, cr_clock_mono_ns());
    sbx_backend_unwatch(&native->base, run->cell.box.pidfd);
    sbx_backend_unwatch(&native->base, job->control_fd);
    sbx_box_reap(&run->cell.box);
    sbx_cgroup_watch_end(&run->cell.group, run->cell.box.user_us, run->cell.box.system_us);
    cr_close_fd(&job->control_fd);
    if (job->state == SBX_JOB_DRAINING)
        return; /* the rest does not wait for this */
    job->dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(&native->base, job);
}

void sbx_run_measure(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_run *run = run_of(job);
    uint64_t *peak = &job->facts.usage.memory_peak_bytes;
    struct cr_err err = CR_ERR_INIT;

    (void)backend;
    if (sbx_job_read_counters(job, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", job->id, err.text);
        job->facts.stage = SBX_STAGE_MEASURE;
        job->facts.error = -err.code;
    }
    job->facts.usage.processes_peak += run->elsewhere;
    *peak = (int64_t)*peak > run->box_bytes ? (uint64_t)((int64_t)*peak - run->box_bytes) : 0;
    if (sbx_workspace_usage(run->cell.workspace_fd, &job->facts.workspace_bytes,
                            &job->facts.workspace_inodes, &job->facts.is_workspace_full) < 0)
        cr_log_warn("cannot read the size of a workspace run=%" PRIu64, job->id);
}

int sbx_run_open_folder(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner)
{
    struct sbx_run *run = run_of(job);
    int fd = openat(run->cell.workspace_fd, "w", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    *ret_owner = sbx_cell_owner(sbx_native_of(backend), &run->cell);
    return fd < 0 ? -errno : fd;
}

/* One tmpfs holds them all: /workspace, /tmp and /dev/shm are folders of it. */
size_t sbx_run_get_places(struct sbx_backend *backend, struct sbx_job *job,
                          int ret_fds[SBX_COLLECTOR_PLACES])
{
    (void)backend;
    ret_fds[0] = run_of(job)->cell.workspace_fd;
    return 1;
}

void sbx_run_release(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct sbx_run *run = run_of(job);

    run->cell.is_net_clean = job->has_no_socket;
    if (job->session != 0)
        sbx_native_session_leave(native, run);
    sbx_ending_close(native, &run->cell); /* unless the session has it */
}
