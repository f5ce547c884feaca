/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/run.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/folders.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/init/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* What of the output is still on its way when the box is dead: the engine passes it on at once, so
 * that only a reader who does not read is waited for in vain. */
#define FLUSH_DEADLINE_NS (500 * CR_NS_PER_MS)

#define FOLDER_MODE_SHARED 01775

struct sbx_docker_run *sbx_docker_run_of(struct sbx_job *job)
{
    return (struct sbx_docker_run *)job;
}

/* ---- counters ---- */

void sbx_docker_run_measure(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker_run *run = sbx_docker_run_of(job);
    struct sbx_folders folders = {0};

    (void)backend;
    if (sbx_docker_of(backend)->plan.is_inside) {
        sbx_docker_inside_measure(run);
        return;
    }
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        sbx_folders_add(&folders, run->box.folder_fds[i]);
    job->facts.workspace_bytes = folders.bytes;
    job->facts.workspace_inodes = folders.inodes;
    job->facts.is_workspace_full = folders.is_full;
    job->facts.is_out_of_inodes = folders.is_out_of_inodes;
}

/* While the control group is still there: the engine takes it away with the container. */
static void read_counters(struct sbx_job *job)
{
    uint64_t *processes = &job->facts.usage.processes_peak;
    struct cr_err err = CR_ERR_INIT;

    if (!job->has_group || job->go_ns == 0)
        return;
    if (sbx_job_read_counters(job, &err) == 0) {
        /* Those of a session, see session.c: one of them may have been ours. */
        if (*processes > job->limits.value[SBX_LIMIT_PROCESSES])
            *processes = job->limits.value[SBX_LIMIT_PROCESSES];
        job->is_lost = job->is_lost && job->facts.usage.oom_kills == 0;
    } else if (!job->is_lost) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", job->id, err.text);
        job->facts.stage = SBX_STAGE_MEASURE;
        job->facts.error = -err.code;
    }
}

/* ---- the end of a box ---- */

/*
 * The pid 1 of the container is a process of this host: its end is the end of
 * its pid namespace, whether the engine answers or not.
 */
void sbx_docker_run_kill(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker_run *run = sbx_docker_run_of(job);

    if (sbx_docker_of(backend)->plan.is_inside) {
        sbx_docker_inside_kill(run);
        return;
    }
    sbx_docker_run_measure(backend, job);
    read_counters(job);
    if (sbx_docker_session_ask(sbx_docker_of(backend), run)) {
        run->is_alone = job->facts.has_leader && sbx_docker_session_is_quiet(run);
        return;
    }
    /*
     * What the program left was killed, too, and sandbox-init starts nothing any more. Its own end,
     * and that of its namespaces, takes many times as long as a short run: nobody waits for it, nor
     * for the relay, which has passed everything on.
     */
    run->is_alone = job->facts.has_leader && sbx_cgroup_is_alone(&job->group);
    if (run->box.pidfd >= 0 && !run->is_alone) {
        (void)pidfd_send_signal(run->box.pidfd, SIGKILL, NULL, 0);
        sbx_cgroup_hurry(&job->group);
    }
    /* Everything that the program wrote has come before the word of its end. */
    if (job->facts.has_leader)
        cr_close_fd(&job->control_fd);
}

/* Everybody is stopped: what the kernel counts beside sandbox-init from now on is who waits. */
int sbx_docker_run_park(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker_run *run = sbx_docker_run_of(job);
    uint64_t count = 0;

    read_counters(job);
    if (sbx_cgroup_count(&job->group, SBX_CGROUP_FILE_PROCESSES, NULL, &count) == 0 && count > 0)
        run->box.waiting = count - 1;
    (void)sbx_docker_session_ask(sbx_docker_of(backend), run);
    return 0; /* it is frozen when sandbox-init has ended what the run left, see session.c */
}

bool sbx_docker_run_is_alone(struct sbx_backend *backend, struct sbx_job *job)
{
    (void)backend;
    return sbx_docker_run_of(job)->is_alone;
}

void sbx_docker_run_on_kill_time(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker_run *run = sbx_docker_run_of(job);

    (void)backend;
    if (run->box.pidfd < 0) {
        sbx_relay_kill(&run->relay);
        return;
    }
    cr_log_error("a killed box does not end run=%" PRIu64 " container=%.12s", job->id,
                 run->box.container);
    (void)pidfd_send_signal(run->box.pidfd, SIGKILL, NULL, 0);
}

/* Then memory did, or somebody from outside. */
void sbx_docker_run_note_loss(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_job *job = &run->job;

    if (job->state != SBX_JOB_PREPARING && job->state != SBX_JOB_RUNNING)
        return;
    sbx_job_check_memory(job);
    job->is_lost = job->facts.event_count == 0;
    if (job->is_lost)
        cr_log_warn("a box ended and nobody here ended it run=%" PRIu64 " container=%.12s", job->id,
                    run->box.container);
    sbx_job_kill(&docker->base, job, cr_clock_mono_ns());
}

/* The end of both comes in any order. */
static void finish_when_dead(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->job.state != SBX_JOB_KILLING || run->relay.pid >= 0 || run->box.pidfd >= 0)
        return;
    if (run->job.dead_ns == 0)
        run->job.dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(&docker->base, &run->job);
}

void sbx_docker_run_on_box(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->box.pidfd < 0)
        return;
    sbx_job_read_last_words(&docker->base, &run->job);
    sbx_docker_run_note_loss(docker, run);
    sbx_backend_unwatch(&docker->base, run->box.pidfd);
    cr_close_fd(&run->box.pidfd);
    if (run->job.session != 0)
        sbx_docker_session_on_box(docker, run);
    if (run->job.state != SBX_JOB_KILLING)
        return; /* it was alone, and the run has gone on */
    run->job.dead_ns = cr_clock_mono_ns();
    run->job.deadline_ns = run->job.dead_ns + cr_patience_ns(FLUSH_DEADLINE_NS);
    finish_when_dead(docker, run);
}

void sbx_docker_run_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    int code;

    if (run->relay.pid < 0)
        return;
    if (docker->plan.is_inside) {
        sbx_docker_inside_on_relay(docker, run);
        return;
    }
    sbx_job_read_last_words(&docker->base, &run->job);
    sbx_docker_run_note_loss(docker, run);
    code = sbx_relay_reap(&run->relay);
    cr_close_fd(&run->job.control_fd);
    if (run->job.session != 0)
        sbx_docker_session_on_relay(docker, run, code);
    finish_when_dead(docker, run);
}

/* ---- its relay ---- */

/* See relay.h. The folder is still nobody's but sandbox-init's, which waits. */
static void share_folder(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    const struct sbx_init_msg answer = {.event = SBX_RELAY_SHARE};
    int folder = run->box.folder_fds[SBX_DOCKER_WORKSPACE];

    if (fchown(folder, (uid_t)docker->settings->relay_user, SBX_PROGRAM_GID) < 0 ||
        fchmod(folder, FOLDER_MODE_SHARED) < 0 ||
        send(run->job.control_fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
        sbx_job_fail(&docker->base, &run->job, SBX_STAGE_PAYLOAD, errno);
}

bool sbx_docker_run_on_own_message(struct sbx_backend *backend, struct sbx_job *job,
                                   const struct sbx_init_msg *msg)
{
    struct cr_err err = CR_ERR_INIT;

    if (sbx_docker_of(backend)->plan.is_inside)
        return sbx_docker_inside_on_message(sbx_docker_of(backend), sbx_docker_run_of(job), msg);
    if (job->session != 0 && msg->event == SBX_INIT_EMPTY)
        return true; /* the end of the relay says so, too, and that nothing else came */
    if (job->state != SBX_JOB_PREPARING)
        return false;
    job->is_new_state = (job->flags & SBX_RUN_HAS_CELL) && msg->event == SBX_INIT_READY &&
                        (msg->detail & SBX_INIT_NEW_STATE);
    if (msg->event == SBX_INIT_READY && job->along_ns > 0 &&
        sbx_docker_run_before_go(backend, job, &err) < 0) {
        cr_log_error("a box went with other limits run=%" PRIu64 " error=\"%s\"", job->id,
                     err.text);
        sbx_job_fail(backend, job, SBX_STAGE_LIMITS, -err.code);
        return true;
    }
    if (msg->event != SBX_RELAY_SHARE)
        return false;
    share_folder(sbx_docker_of(backend), sbx_docker_run_of(job));
    return true;
}

/* ---- collecting, and the end ---- */

int sbx_docker_run_open_folder(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner)
{
    int fd =
        fcntl(sbx_docker_run_of(job)->box.folder_fds[SBX_DOCKER_WORKSPACE], F_DUPFD_CLOEXEC, 0);

    (void)backend;
    *ret_owner = SBX_PROGRAM_UID;
    return fd < 0 ? -errno : fd;
}

size_t sbx_docker_run_get_places(struct sbx_backend *backend, struct sbx_job *job,
                                 int ret_fds[SBX_COLLECTOR_PLACES])
{
    _Static_assert(SBX_DOCKER_FOLDERS <= SBX_COLLECTOR_PLACES, "each is looked into");

    (void)backend;
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        ret_fds[i] = sbx_docker_run_of(job)->box.folder_fds[i];
    return SBX_DOCKER_FOLDERS;
}

void sbx_docker_run_release(struct sbx_backend *backend, struct sbx_job *job)
{
    struct sbx_docker *docker = sbx_docker_of(backend);
    struct sbx_docker_run *run = sbx_docker_run_of(job);

    if (job->session != 0)
        sbx_docker_session_leave(docker, run); /* with what it keeps of the following */
    sbx_relay_kill(&run->relay);
    (void)sbx_relay_reap(&run->relay);
    if (job->has_group)
        sbx_cgroup_close(&job->group);
    sbx_docker_box_drop(docker, &run->box);
    run->answer_ns = INT64_MAX;
}
