/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/session.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/pending.h"
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

static struct sbx_native_session *of(struct sbx_native *native, const struct sbx_job *job)
{
    return (struct sbx_native_session *)sbx_session_of(&native->base, job);
}

/* ---- coming and going ---- */

static int make_workspace(struct sbx_native *native, struct sbx_native_session *session,
                          struct cr_err *err)
{
    const uint64_t *limit = session->base.limits.value;
    const int place = sbx_place_take(native);
    int r;

    if (place < 0)
        return cr_err_set(err, EAGAIN, "no host ids are free");
    session->place = (uint32_t)place;
    session->workspace_fd = -1;
    session->space_fd = -1;
    session->cell = (struct sbx_cell)SBX_CELL_INIT;
    session->cell.place = session->place;
    r = sbx_workspace_make(limit[SBX_LIMIT_WORKSPACE_BYTES], limit[SBX_LIMIT_WORKSPACE_INODES],
                           sbx_cell_owner(native, &session->cell), &session->workspace_fd, err);
    if (r == 0)
        r = sbx_vault_put(&native->vault, session->workspace_fd, &session->space_fd, err);
    if (r < 0) {
        cr_close_fd(&session->workspace_fd);
        sbx_place_drop(native, session->place);
    }
    session->cell = (struct sbx_cell)SBX_CELL_INIT;
    return r;
}

int sbx_native_session_make(struct sbx_backend *backend, struct sbx_session *base)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct cr_err err = CR_ERR_INIT;

    if (make_workspace(native, (struct sbx_native_session *)base, &err) == 0)
        return 0;
    cr_log_error("cannot make a session error=\"%s\"", err.text);
    return -err.code;
}

/* Kills the interpreter that waits; its cell is given back when it is dead. */
static void discard_box(struct sbx_native *native, struct sbx_native_session *session)
{
    if (session->cell.box.pidfd < 0)
        return;
    sbx_backend_unwatch(&native->base, session->cell.box.pidfd);
    sbx_cell_kill(&session->cell);
    sbx_ending_close(native, &session->cell);
}

/* Its ids are free when the last box is dead that had them. */
void sbx_native_session_drop(struct sbx_backend *backend, struct sbx_session *base)
{
    struct sbx_native *native = sbx_native_of(backend);
    struct sbx_native_session *session = (struct sbx_native_session *)base;

    discard_box(native, session);
    if (sbx_keeper_drop(&native->keeper, session->space_fd) < 0)
        cr_log_debug("the keeper takes no workspace, dropping it here");
    cr_close_fd(&session->workspace_fd); /* the mount goes with its namespace */
    cr_close_fd(&session->space_fd);
    sbx_place_drop(native, session->place);
}

/* ---- runs ---- */

bool sbx_native_session_enter(struct sbx_native *native, struct sbx_run *run)
{
    const struct sbx_init_msg load = {.event = SBX_INIT_LOAD};
    struct sbx_native_session *session = of(native, &run->job);
    int r;

    assert(session);
    sbx_session_begin(&session->base, &run->job);
    if (!(run->job.flags & SBX_RUN_HAS_CELL) || session->cell.box.pidfd < 0)
        return false;
    (void)sbx_cgroup_catch_up(&session->cell.group); /* what the run before it had is not its own */
    r = sbx_cell_freeze(&session->cell, false);
    if (r == 0)
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

int sbx_native_session_open_cell(struct sbx_native *native, struct sbx_run *run)
{
    const struct sbx_native_session *session = of(native, &run->job);
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
        cr_log_error("%s session=%" PRIu64, err.text, session->base.id);
    run->cell = cell;
    return 0;
}

void sbx_native_session_take_off(struct sbx_native *native, struct sbx_run *run,
                                 struct sbx_limits *limits)
{
    const struct sbx_native_session *session = of(native, &run->job);
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
static bool keep_box(struct sbx_native *native, struct sbx_native_session *session,
                     struct sbx_run *run)
{
    if (native->base.is_stopping || session->base.closing || !sbx_job_keeps_box(&run->job) ||
        run->cell.box.pidfd < 0 || sbx_box_is_dead(&run->cell.box) ||
        sbx_backend_watch(&native->base, run->cell.box.pidfd, EPOLLIN, SBX_NATIVE_WATCH_SESSION,
                          NULL) < 0)
        return false;
    session->cell = run->cell;
    session->box_bytes = run->box_bytes;
    run->cell = (struct sbx_cell)SBX_CELL_INIT;
    return true;
}

void sbx_native_session_leave(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_native_session *session = of(native, &run->job);

    assert(session && session->base.job == &run->job);
    if (!keep_box(native, session, run) && run->job.is_parked)
        sbx_cell_kill(&run->cell);
    else if (session->cell.is_frozen)
        sbx_session_rest(&native->base, &session->base);
    sbx_session_end_run(&native->base, &session->base);
}

bool sbx_native_session_check(struct sbx_backend *backend, struct sbx_session *base, bool is_late)
{
    struct sbx_native_session *session = (struct sbx_native_session *)base;
    struct sbx_native *native = sbx_native_of(backend);

    if (session->cell.box.pidfd < 0)
        return false;
    if (sbx_pending_has_kill(native->vault.proc_fd, session->cell.box.pid))
        cr_log_warn("an interpreter that waits was killed from outside session=%" PRIu64, base->id);
    else if (is_late && !sbx_cgroup_is_frozen(&session->cell.group))
        cr_log_warn("an interpreter that waits does not stand still, ending it session=%" PRIu64,
                    base->id);
    else
        return true;
    discard_box(native, session);
    return false;
}

void sbx_native_session_on_event(struct sbx_native *native)
{
    for (uint32_t i = 0; i < native->base.sessions.most; i++) {
        struct sbx_native_session *session = &native->sessions[i];

        if (session->base.id == 0 || !sbx_box_is_dead(&session->cell.box))
            continue;
        cr_log_debug("an interpreter that waited has died session=%" PRIu64, session->base.id);
        discard_box(native, session);
    }
}
