/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/session.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/pending.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/wire/boxctl.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#define REST_DEADLINE_NS (10 * CR_NS_PER_S)
#define NO_PLACE UINT8_MAX /* nothing is made for a session itself, see box.h */

static struct sbx_docker_session *of(const struct sbx_docker *docker,
                                     const struct sbx_docker_run *run)
{
    return (struct sbx_docker_session *)sbx_session_of(&docker->base, &run->job);
}

void sbx_docker_session_init(struct sbx_docker_session *session)
{
    sbx_docker_box_init(&session->box, NO_PLACE, NULL);
    session->relay = (struct sbx_relay)SBX_RELAY_INIT;
}

int sbx_docker_session_make(struct sbx_backend *backend, struct sbx_session *base)
{
    (void)backend;
    (void)base;
    return 0; /* the first run does */
}

static void end_relay(struct sbx_docker *docker, struct sbx_docker_session *session)
{
    sbx_relay_kill(&session->relay);
    sbx_backend_unwatch(&docker->base, session->relay.pidfd);
    (void)sbx_relay_reap(&session->relay);
}

void sbx_docker_session_drop(struct sbx_backend *backend, struct sbx_session *base)
{
    struct sbx_docker_session *session = (struct sbx_docker_session *)base;

    end_relay(sbx_docker_of(backend), session);
    sbx_docker_box_drop(sbx_docker_of(backend), &session->box);
}

/* ---- a run begins ---- */

/*
 * Counters go on over the runs of a container. For the files that go in first,
 * which takes a process of sandbox-init's, there is room beside an interpreter
 * that has all processes of the limit; sbx_docker_run_before_go() takes it back.
 */
static int prepare_group(struct sbx_docker_run *run, struct cr_err *err)
{
    struct sbx_limits limits = run->job.limits;
    int r = sbx_docker_box_freeze(&run->box, false);

    if (r < 0)
        return cr_err_sys(err, -r, "let a container go on");
    r = sbx_cgroup_usage(&run->box.group, &run->job.baseline, err);
    limits.value[SBX_LIMIT_PROCESSES]++;
    sbx_cgroup_forget_peak(&run->box.group);
    return r < 0 ? r : sbx_cgroup_limit(&run->box.group, &limits, err);
}

static void take_up(struct sbx_docker *docker, struct sbx_docker_session *session,
                    struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;

    run->is_waiting = false;
    run->job.deadline_ns = INT64_MAX;
    sbx_docker_box_move(docker, &session->box, &run->box);
    if (prepare_group(run, &err) < 0)
        sbx_docker_run_on_not_made(docker, run, SBX_STAGE_LIMITS, -err.code, err.text);
    else
        sbx_docker_run_on_made(docker, run);
}

bool sbx_docker_session_enter(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_docker_session *session = of(docker, run);

    if (!session)
        return false;
    sbx_session_begin(&session->base, &run->job);
    if (session->box.step != SBX_DOCKER_MADE)
        return false;
    if (session->relay.pid < 0) {
        take_up(docker, session, run);
        return true;
    }
    run->is_waiting = true;
    run->job.deadline_ns = cr_clock_mono_ns() + cr_patience_ns(REST_DEADLINE_NS);
    return true;
}

/* ---- and ends ---- */

bool sbx_docker_session_ask(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_init_msg end = {.event = SBX_INIT_KILL};

    if (run->job.session == 0 || run->job.is_session_over || docker->base.is_stopping ||
        run->box.pidfd < 0 || run->relay.pid < 0)
        return false;
    /* An interpreter whose run is cut off goes with it, even if its word that it stays is on the
     * way. */
    if ((run->job.flags & SBX_RUN_HAS_CELL) && run->job.go_ns > 0 && !run->job.is_parked) {
        run->box.waiting = 0;
        end.detail = SBX_STREAM_FRESH;
    }
    run->is_asked = send(run->relay.control_fd, &end, sizeof(end), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                    (ssize_t)sizeof(end);
    return run->is_asked;
}

bool sbx_docker_session_is_quiet(const struct sbx_docker_run *run)
{
    const struct sbx_cgroup *group = run->job.has_group ? &run->job.group : &run->box.group;
    uint64_t count;

    return sbx_cgroup_count(group, SBX_CGROUP_FILE_PROCESSES, NULL, &count) == 0 &&
           count <= 1 + run->box.waiting;
}

void sbx_docker_session_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run, int code)
{
    run->is_rested = code == SBX_RELAY_RESTED && sbx_docker_session_is_quiet(run);
    if (!run->is_rested) {
        if (run->box.pidfd >= 0)
            cr_log_warn("a run of a session leaves no container to go on with run=%" PRIu64
                        " container=%.12s code=%d",
                        run->job.id, run->box.container, code);
        sbx_docker_box_kill(&run->box); /* its end is seen, and ends the run if nothing else did */
        return;
    }
    if (run->job.state != SBX_JOB_KILLING)
        return; /* it was quiet before, and the run has gone on */
    run->job.dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(&docker->base, &run->job);
}

void sbx_docker_session_on_box(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_docker_session *session = of(docker, run);

    if (session && (run->box.is_kept || run->job.go_ns > 0))
        sbx_session_lose(&docker->base, &session->base);
}

static int watch(struct sbx_docker *docker, int pidfd)
{
    return sbx_backend_watch(&docker->base, pidfd, EPOLLIN, SBX_DOCKER_WATCH_SESSION, NULL);
}

/* Nobody but an interpreter that is stopped is in it besides sandbox-init, or nobody. False: nobody
 * would hold that where it is, although this host can. */
static bool rest(struct sbx_docker *docker, struct sbx_docker_session *session)
{
    if (session->box.waiting == 0)
        return true;
    if (sbx_docker_box_freeze(&session->box, true) < 0)
        return false;
    if (session->box.is_frozen)
        sbx_session_rest(&docker->base, &session->base);
    return true;
}

/* Watched as the session's from now on. */
static bool keep_box(struct sbx_docker *docker, struct sbx_docker_session *session,
                     struct sbx_docker_run *run)
{
    const bool is_resting = run->is_asked && run->relay.pid >= 0;
    const bool can_go_on = run->box.pidfd >= 0 && (run->is_rested || is_resting);

    if (!can_go_on || session->base.closing || docker->base.is_stopping || docker->is_engine_lost)
        return false;
    run->box.group = run->job.group;
    run->box.has_group = true;
    run->job.has_group = false;
    run->box.is_kept = true;
    run->box.must_renew = run->job.is_parked && !sbx_job_keeps_box(&run->job);
    sbx_docker_box_move(docker, &run->box, &session->box);
    session->relay = run->relay;
    run->relay = (struct sbx_relay)SBX_RELAY_INIT;
    return watch(docker, session->box.pidfd) == 0 &&
           (is_resting ? watch(docker, session->relay.pidfd) == 0 : rest(docker, session));
}

void sbx_docker_session_leave(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_docker_session *session = of(docker, run);

    assert(session && session->base.job == &run->job);
    if (!run->is_waiting && !keep_box(docker, session, run))
        sbx_docker_session_on_box(docker, run); /* or it has said so already */
    run->is_waiting = false;
    sbx_session_end_run(&docker->base, &session->base);
}

/* ---- between two runs ---- */

static bool is_lost(struct sbx_docker *docker, struct sbx_docker_session *session)
{
    if (session->relay.pid >= 0 && sbx_docker_has_ended(session->relay.pidfd)) {
        sbx_backend_unwatch(&docker->base, session->relay.pidfd);
        if (sbx_relay_reap(&session->relay) != SBX_RELAY_RESTED)
            return true;
        if (!session->base.job && !rest(docker, session))
            return true;
    }
    return session->box.pidfd >= 0 && sbx_docker_has_ended(session->box.pidfd);
}

bool sbx_docker_session_check(struct sbx_backend *backend, struct sbx_session *base, bool is_late)
{
    const struct sbx_docker_box *box = &((struct sbx_docker_session *)base)->box;
    const char *why = NULL;

    if (!box->is_frozen)
        return false;
    if (sbx_pending_has_kill(AT_FDCWD, box->pid))
        why = "was killed from outside";
    else if (is_late && !sbx_cgroup_is_frozen(&box->group))
        why = "does not stand still, ending it";
    if (!why)
        return true;
    cr_log_warn("an interpreter that waits %s session=%" PRIu64 " container=%.12s", why, base->id,
                box->container);
    sbx_session_lose(backend, base);
    return false;
}

void sbx_docker_session_on_event(struct sbx_docker *docker)
{
    for (uint32_t i = 0; i < docker->base.sessions.most; i++) {
        struct sbx_docker_session *session = &docker->sessions[i];
        struct sbx_docker_run *run = (struct sbx_docker_run *)session->base.job;

        if (session->base.id == 0)
            continue;
        if (is_lost(docker, session)) {
            cr_log_warn("a container of a session ended session=%" PRIu64 " container=%.12s",
                        session->base.id, session->box.container);
            sbx_session_lose(&docker->base, &session->base);
        } else if (run && run->is_waiting && session->relay.pid < 0) {
            take_up(docker, session, run);
        }
    }
}
