/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/session.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/native/native.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sys/epoll.h>

/* A program gets so much in any case: less, and none could say that there is no more. */
#define LEAST_BYTES (INT64_C(1) << 20)

static struct sbx_session *find(struct sbx_native *native, uint64_t id)
{
    for (uint32_t i = 0; i < native->sessions.most; i++) {
        if (native->sessions.list[i].id == id)
            return &native->sessions.list[i];
    }
    return NULL;
}

/* ---- coming and going ---- */

static int make(struct sbx_native *native, struct sbx_session *session,
                const struct sbx_msg_open *msg, struct cr_err *err)
{
    const uint64_t *limit = msg->limits.value;
    const int place = sbx_place_take(native);
    struct sbx_cell cell = SBX_CELL_INIT;
    int r;

    if (place < 0)
        return cr_err_set(err, EAGAIN, "no host ids are free");
    cell.place = (uint32_t)place;
    *session = (struct sbx_session){
        .place = cell.place, .workspace_fd = -1, .space_fd = -1, .limits = msg->limits};
    r = sbx_workspace_make(limit[SBX_LIMIT_WORKSPACE_BYTES], limit[SBX_LIMIT_WORKSPACE_INODES],
                           sbx_cell_owner(native, &cell), &session->workspace_fd, err);
    if (r == 0)
        r = sbx_vault_put(&native->vault, session->workspace_fd, &session->space_fd, err);
    if (r < 0) {
        cr_close_fd(&session->workspace_fd);
        sbx_place_drop(native, session->place);
    }
    return r;
}

int sbx_session_open(struct sbx_backend *backend, const struct sbx_msg_open *msg)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct sbx_session *session = find(native, 0);
    const int64_t now_ns = cr_clock_mono_ns();
    struct cr_err err = CR_ERR_INIT;

    if (find(native, msg->header.run))
        return EEXIST;
    if (!session)
        return EBUSY;
    if (make(native, session, msg, &err) < 0) {
        cr_log_error("cannot make a session error=\"%s\"", err.text);
        return -err.code;
    }
    session->id = msg->header.run;
    session->caller = msg->caller;
    session->cell = (struct sbx_cell)SBX_CELL_INIT;
    session->idle_ns = msg->idle_ms * CR_NS_PER_MS;
    session->idle_at_ns = now_ns + session->idle_ns;
    session->end_ns = now_ns + msg->life_ms * CR_NS_PER_MS;
    cr_log_debug("a session begins session=%" PRIu64, session->id);
    return 0;
}

/* Kills the interpreter that waits; its cell is given back when it is dead. */
static void discard_box(struct sbx_native *native, struct sbx_session *session)
{
    if (session->cell.box.pidfd < 0)
        return;
    sbx_backend_unwatch(&native->base, session->cell.box.pidfd);
    (void)sbx_cgroup_kill(&session->cell.group);
    sbx_ending_close(native, &session->cell);
}

/* No run is in it. Its ids are free when the last box is dead that had them. */
static void finish(struct sbx_native *native, struct sbx_session *session, uint32_t reason)
{
    union sbx_msg msg;

    assert(!session->job);
    discard_box(native, session);
    if (sbx_keeper_drop(&native->keeper, session->space_fd) < 0)
        cr_log_debug("the keeper takes no workspace, dropping it here");
    cr_close_fd(&session->workspace_fd); /* the mount goes with its namespace */
    cr_close_fd(&session->space_fd);
    sbx_place_drop(native, session->place);
    cr_log_debug("a session ends session=%" PRIu64 " reason=%" PRIu32, session->id, reason);
    sbx_msg_init(&msg, SBX_MSG_CLOSED, session->id);
    msg.closed.reason = reason;
    sbx_backend_send(&native->base, &msg);
    session->id = 0;
}

static void close_session(struct sbx_native *native, struct sbx_session *session,
                          enum sbx_closed reason)
{
    if (session->closing)
        return;
    if (!session->job) {
        finish(native, session, reason);
        return;
    }
    session->closing = reason;
    session->job->is_session_over = true;
    /* What the caller did to its own run is no loss. */
    if (reason == SBX_CLOSED_ASKED)
        sbx_job_on_cancel(&native->base, session->job);
    else
        sbx_job_lose(&native->base, session->job);
}

void sbx_session_close(struct sbx_backend *backend, uint64_t id)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct sbx_session *session = find(native, id);

    if (session)
        close_session(native, session, SBX_CLOSED_ASKED);
}

/* ---- runs ---- */

int sbx_session_admit(struct sbx_backend *backend, const struct sbx_msg_run *msg)
{
    static const enum sbx_limit of_session[] = {
        SBX_LIMIT_MEMORY,           SBX_LIMIT_PROCESSES, SBX_LIMIT_OPEN_FILES,
        SBX_LIMIT_FILE_SIZE,        SBX_LIMIT_STACK,     SBX_LIMIT_WORKSPACE_BYTES,
        SBX_LIMIT_WORKSPACE_INODES,
    };
    const struct sbx_session *session;

    if (msg->session == 0)
        return 0;
    session = find(sbx_native_of(backend), msg->session);
    if (!session || session->closing)
        return ESRCH;
    if (session->caller != msg->caller)
        return EPERM;
    /* What the interpreter that waits was made with cannot be changed. */
    for (size_t i = 0; i < CR_ARRAY_SIZE(of_session); i++) {
        if (msg->limits.value[of_session[i]] != session->limits.value[of_session[i]])
            return EINVAL;
    }
    return session->job ? EBUSY : 0;
}

bool sbx_session_enter(struct sbx_native *native, struct sbx_run *run)
{
    const struct sbx_init_msg load = {.event = SBX_INIT_LOAD};
    struct sbx_session *session = find(native, run->job.session);
    int r;

    assert(session && !session->job); /* it was admitted in this very step */
    session->job = &run->job;
    session->idle_at_ns = INT64_MAX;
    if (!(run->job.flags & SBX_RUN_HAS_CELL) || session->cell.box.pidfd < 0)
        return false;
    r = sbx_fds_send(session->cell.box.control_fd, &load, sizeof(load), run->job.fds,
                     SBX_INIT_LOAD_FDS);
    if (r < 0) {
        cr_log_warn("an interpreter that waited cannot be used, starting another run=%" PRIu64
                    " error=%s",
                    run->job.id, strerrordesc_np(-r));
        discard_box(native, session);
        return false;
    }
    run->cell = session->cell;
    run->box_bytes = session->box_bytes;
    session->cell = (struct sbx_cell)SBX_CELL_INIT;
    return true;
}

int sbx_session_open_cell(struct sbx_native *native, struct sbx_run *run)
{
    const struct sbx_session *session = find(native, run->job.session);
    struct sbx_cell cell = SBX_CELL_INIT;
    struct cr_err err = CR_ERR_INIT;

    assert(session);
    if (sbx_groups_take(native, true, &cell) < 0)
        return -EAGAIN;
    native->places[session->place].users++;
    cell.place = session->place;
    /* Without it the run fails. */
    if (sbx_vault_copy(&native->vault, session->space_fd, session->workspace_fd, &cell.workspace_fd,
                       &err) < 0)
        cr_log_error("%s session=%" PRIu64, err.text, session->id);
    run->cell = cell;
    return 0;
}

void sbx_session_take_off(struct sbx_native *native, struct sbx_run *run, struct sbx_limits *limits)
{
    const struct sbx_session *session = find(native, run->job.session);
    uint64_t *processes = &limits->value[SBX_LIMIT_PROCESSES];
    int64_t most = (int64_t)limits->value[SBX_LIMIT_MEMORY] - LEAST_BYTES;
    uint64_t bytes = 0;
    uint64_t count = 0;

    if (!session || session->cell.box.pidfd < 0)
        return;
    if (sbx_cgroup_memory_bytes(&session->cell.group, &bytes) == 0 &&
        (int64_t)bytes > session->box_bytes)
        run->box_bytes -=
            (int64_t)bytes - session->box_bytes < most ? (int64_t)bytes - session->box_bytes : most;
    /* One of them is sandbox-init. */
    if (sbx_cgroup_count(&session->cell.group, SBX_CGROUP_FILE_PROCESSES, NULL, &count) == 0 &&
        count > 1)
        run->elsewhere = count - 1 < *processes ? (uint32_t)count - 1 : (uint32_t)*processes - 1;
    *processes -= run->elsewhere;
}

/* Watched as the session's from now on; its end is seen when another run comes, if not before. */
static bool keep_box(struct sbx_native *native, struct sbx_session *session, struct sbx_run *run)
{
    if (native->base.is_stopping || session->closing || !sbx_job_keeps_box(&run->job) ||
        run->cell.box.pidfd < 0 || sbx_box_is_dead(&run->cell.box) ||
        sbx_backend_watch(&native->base, run->cell.box.pidfd, EPOLLIN, SBX_NATIVE_WATCH_SESSION,
                          NULL) < 0)
        return false;
    session->cell = run->cell;
    session->box_bytes = run->box_bytes;
    run->cell = (struct sbx_cell)SBX_CELL_INIT;
    return true;
}

void sbx_session_leave(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_session *session = find(native, run->job.session);

    assert(session && session->job == &run->job);
    if (!keep_box(native, session, run) && run->job.is_parked)
        (void)sbx_cgroup_kill(&run->cell.group);
    session->job = NULL;
    session->idle_at_ns = cr_clock_mono_ns() + session->idle_ns;
    if (session->closing)
        finish(native, session, session->closing);
}

void sbx_session_on_event(struct sbx_native *native)
{
    for (uint32_t i = 0; i < native->sessions.most; i++) {
        struct sbx_session *session = &native->sessions.list[i];

        if (session->id == 0 || !sbx_box_is_dead(&session->cell.box))
            continue;
        cr_log_debug("an interpreter that waited has died session=%" PRIu64, session->id);
        discard_box(native, session);
    }
}

/* ---- time ---- */

int64_t sbx_session_next_ns(const struct sbx_native *native)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < native->sessions.most; i++) {
        const struct sbx_session *session = &native->sessions.list[i];
        int64_t end_ns =
            session->idle_at_ns < session->end_ns ? session->idle_at_ns : session->end_ns;

        if (session->id != 0 && !session->closing && end_ns < next)
            next = end_ns;
    }
    return next;
}

void sbx_session_on_time(struct sbx_native *native, int64_t now_ns)
{
    for (uint32_t i = 0; i < native->sessions.most; i++) {
        struct sbx_session *session = &native->sessions.list[i];

        if (session->id == 0)
            continue;
        if (now_ns >= session->end_ns || native->base.is_stopping)
            close_session(native, session, SBX_CLOSED_LIFE);
        else if (now_ns >= session->idle_at_ns)
            close_session(native, session, SBX_CLOSED_IDLE);
    }
}

uint32_t sbx_session_count(const struct sbx_native *native)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < native->sessions.most; i++)
        count += native->sessions.list[i].id != 0;
    return count;
}
