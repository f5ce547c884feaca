/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/place.h"
#include "sandboxd/docker/run.h"
#include "sandboxd/init/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include <sys/epoll.h>

#define COLLECT_FD 4 /* of the fds of RUN */

/* Nobody was told STARTED, and the program never ran. */
void sbx_docker_run_on_not_made(struct sbx_docker *docker, struct sbx_docker_run *run,
                                enum sbx_stage stage, int error, const char *text)
{
    if (run->job.facts.event_count == 0) { /* else it was cancelled meanwhile */
        cr_log_error("cannot start a box run=%" PRIu64 " step=%s error=\"%s\"", run->job.id,
                     sbx_stage_name(stage), text);
        run->job.facts.stage = stage;
        run->job.facts.error = error;
    }
    sbx_job_finish(&docker->base, &run->job);
}

int sbx_docker_start_relay(struct sbx_docker *docker, const struct sbx_docker_box *box,
                           bool has_filter, struct sbx_relay *ret_relay, struct cr_err *err)
{
    const struct sbx_relay_plan plan = {
        .socket_fd = box->attach_fd,
        .filter_fd = has_filter ? -1 : docker->filter_fd,
        .uid = (uid_t)docker->settings->relay_user,
        .gid = SBX_PROGRAM_GID,
    };

    return sbx_relay_start(&plan, ret_relay, err);
}

static enum sbx_stream_mode mode_of(const struct sbx_job *job)
{
    if (job->flags & SBX_RUN_HAS_CELL)
        return SBX_STREAM_MODE_CELL;
    if (job->flags & SBX_RUN_NO_PROGRAM)
        return SBX_STREAM_MODE_FILES;
    if (job->session != 0)
        return SBX_STREAM_MODE_CALL;
    return job->flags & SBX_RUN_HAS_TERMINAL ? SBX_STREAM_MODE_TERMINAL : SBX_STREAM_MODE_RUN;
}

/* That of a box that waited waits, too, unless it could not be had or died. */
static int load_relay(struct sbx_docker *docker, struct sbx_docker_run *run, struct cr_err *err)
{
    const struct sbx_relay_load load = {
        .stdio_fds = {run->job.fds[1], run->job.fds[2], run->job.fds[3]},
        .payload_fd = run->job.fds[0],
        .folder_fd = run->box.folder_fds[SBX_DOCKER_WORKSPACE],
        .collect_fd = docker->plan.is_inside ? run->job.fds[COLLECT_FD] : -1,
        .limits = run->job.is_pool_hit ? &run->job.limits : NULL,
        .is_going = run->job.along_ns > 0,
        .mode = mode_of(&run->job),
        .terminal_size = (uint32_t)run->job.columns << 16 | run->job.rows,
        .file_size_bytes = run->job.limits.value[SBX_LIMIT_FILE_SIZE],
        .is_fresh = run->box.must_renew,
    };
    const bool has_filter = run->box.is_kept || run->job.start_mode != SBX_START_COLD;
    int r;

    run->relay = run->box.relay;
    run->box.relay = (struct sbx_relay)SBX_RELAY_INIT;
    if (run->relay.pid >= 0 && sbx_relay_load(&run->relay, &load, err) == 0)
        return 0;
    sbx_relay_kill(&run->relay);
    (void)sbx_relay_reap(&run->relay);
    r = sbx_docker_start_relay(docker, &run->box, has_filter, &run->relay, err);
    return r < 0 ? r : sbx_relay_load(&run->relay, &load, err);
}

static int start_relay(struct sbx_docker *docker, struct sbx_docker_run *run, struct cr_err *err)
{
    int r = load_relay(docker, run, err);

    if (r < 0)
        return r;
    /* Only the relay holds these from now on: their end is its end. */
    for (int i = 1; i <= 3; i++)
        cr_close_fd(&run->job.fds[i]);
    if (run->job.session == 0) {
        run->job.control_fd = cr_take_fd(&run->relay.control_fd);
        cr_close_fd(&run->box.attach_fd);
        return 0;
    }
    /* The next run needs the connection, and the relay outlives this one. */
    run->job.control_fd = fcntl(run->relay.control_fd, F_DUPFD_CLOEXEC, 0);
    return run->job.control_fd < 0 ? cr_err_sys(err, errno, "keep the socket of a relay") : 0;
}

static int watch_box(struct sbx_docker *docker, struct sbx_docker_run *run, struct cr_err *err)
{
    struct sbx_backend *base = &docker->base;
    int r = sbx_job_watch(base, &run->job);

    if (r == 0)
        r = sbx_backend_watch(base, run->relay.pidfd, EPOLLIN, SBX_DOCKER_WATCH_RELAY, &run->job);
    if (r == 0 && run->box.pidfd >= 0)
        r = sbx_backend_watch(base, run->box.pidfd, EPOLLIN, SBX_DOCKER_WATCH_BOX, &run->job);
    return r < 0 ? cr_err_sys(err, -r, "watch a box") : 0;
}

void sbx_docker_run_on_made(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (docker->plan.is_inside)
        sbx_cgroup_open_told(&docker->base.cgroups, &run->told.usage, &run->job.group);
    else
        run->job.group = run->box.group;
    run->box.has_group = false;
    run->job.has_group = true;
    if (run->job.is_pool_hit && run->job.session == 0 && !docker->plan.is_inside &&
        sbx_ahead_is_small(&run->job))
        sbx_job_go_along(&run->job, &run->box.idle);
    r = start_relay(docker, run, &err);
    if (r == 0)
        r = watch_box(docker, run, &err);
    if (r < 0) {
        sbx_relay_kill(&run->relay);
        sbx_docker_run_on_not_made(docker, run, SBX_STAGE_CLONE, -r, err.text);
        return;
    }
    sbx_job_prepare(&run->job);
}

/* ---- the steps of the backend ---- */

static void reset(struct sbx_docker_run *run)
{
    run->relay = (struct sbx_relay)SBX_RELAY_INIT;
    run->told = (struct sbx_docker_told){.workspace_bytes = 0};
    run->is_alone = false;
    run->is_waiting = false;
    run->is_asked = false;
    run->is_rested = false;
    run->answer_ns = INT64_MAX;
}

void sbx_docker_run_init(struct sbx_docker_run *run, uint32_t slot)
{
    sbx_job_init(&run->job, slot);
    sbx_docker_box_init(&run->box, slot, run);
    reset(run);
}

/* Each call has a deadline of its own. */
void sbx_docker_run_start(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker *docker = sbx_docker_of(backend);
    struct sbx_docker_run *run = sbx_docker_run_of(job);

    reset(run);
    if (sbx_docker_session_enter(docker, run))
        return;
    job->is_pool_hit = sbx_docker_pool_take(docker, run);
    if (job->is_pool_hit)
        sbx_docker_run_on_made(docker, run);
    else
        sbx_docker_box_begin(docker, &run->box, sbx_docker_image_of(docker, job->runtime),
                             &job->limits);
}

/* What has no call is the hijack, and the wait for another run's end. */
void sbx_docker_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job)
{
    const bool is_waiting = sbx_docker_run_of(job)->is_waiting;

    cr_log_error("%s in time run=%" PRIu64,
                 is_waiting ? "a container of a session is not free"
                            : "the docker engine does not attach",
                 job->id);
    sbx_job_fail_start(backend, job, SBX_STAGE_CLONE, ETIMEDOUT);
}

/* A call is in flight, and its answer ends the run; unless none comes any more, or was made. */
void sbx_docker_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job)
{
    if (sbx_docker_of(backend)->is_engine_lost || sbx_docker_run_of(job)->is_waiting)
        sbx_job_finish(backend, job);
}

/* What sandbox-init took over from the relay is what the kernel has; where GO went along, this is
 * asked when it says READY. */
int sbx_docker_run_before_go(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err)
{
    const struct sbx_docker_box *box = &sbx_docker_run_of(job)->box;

    if (box->is_kept)
        return sbx_cgroup_limit(&job->group, &job->limits, err);
    if (!job->is_pool_hit || box->pidfd < 0 || sbx_is_weakened(backend, SBX_CONTROL_RLIMITS))
        return 0;
    return sbx_place_check_limits(box, &job->limits, err);
}
