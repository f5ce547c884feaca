/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/session.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

/* Nobody in it runs a line of its own any more, but to halt takes a turn on a processor: for a
 * group that has the least share, and owes the kernel a tick on each of many, that takes seconds.
 */
#define STILL_NS (10 * CR_NS_PER_S)
/* How soon it is seen that somebody killed what is frozen, where the kernel does not tell. */
#define LOOK_NS CR_NS_PER_S

void sbx_sessions_add(struct sbx_backend *backend, struct sbx_session *session)
{
    assert(backend->sessions.most < SBX_SESSIONS_MAX);
    backend->sessions.list[backend->sessions.most++] = session;
}

/* With 0, a place that is free. */
static struct sbx_session *find(const struct sbx_backend *backend, uint64_t id)
{
    for (uint32_t i = 0; i < backend->sessions.most; i++) {
        if (backend->sessions.list[i]->id == id)
            return backend->sessions.list[i];
    }
    return NULL;
}

/* ---- coming and going ---- */

int sbx_sessions_open(struct sbx_backend *backend, const struct sbx_msg_open *msg)
{
    struct sbx_session *session = find(backend, 0);
    const int64_t now_ns = cr_clock_mono_ns();
    int error;

    if (msg->life_ms > backend->sessions.life_ms)
        return EINVAL;
    if (find(backend, msg->header.run))
        return EEXIST;
    if (!session)
        return EBUSY;
    *session = (struct sbx_session){
        .caller = msg->caller,
        .limits = msg->limits,
        .idle_ns = msg->idle_ms * CR_NS_PER_MS,
        .idle_at_ns = now_ns + msg->idle_ms * CR_NS_PER_MS,
        .end_ns = now_ns + msg->life_ms * CR_NS_PER_MS,
        .still_by_ns = INT64_MAX,
        .look_ns = INT64_MAX,
    };
    error = backend->ops->make_session(backend, session);
    if (error != 0)
        return error;
    session->id = msg->header.run;
    cr_log_debug("a session begins session=%" PRIu64, session->id);
    return 0;
}

/* No run is in it. */
static void finish(struct sbx_backend *backend, struct sbx_session *session, uint32_t reason)
{
    union sbx_msg msg;

    assert(!session->job);
    backend->ops->drop_session(backend, session);
    cr_log_debug("a session ends session=%" PRIu64 " reason=%" PRIu32, session->id, reason);
    sbx_msg_init(&msg, SBX_MSG_CLOSED, session->id);
    msg.closed.reason = reason;
    sbx_backend_send(backend, &msg);
    session->id = 0;
}

static void close_session(struct sbx_backend *backend, struct sbx_session *session,
                          enum sbx_closed reason)
{
    if (session->closing)
        return;
    if (!session->job) {
        finish(backend, session, reason);
        return;
    }
    session->closing = reason;
    session->job->is_session_over = true;
    /* What the caller did to its own run is no loss. */
    if (reason == SBX_CLOSED_ASKED)
        sbx_job_on_cancel(backend, session->job);
    else
        sbx_job_lose(backend, session->job);
}

void sbx_sessions_close(struct sbx_backend *backend, uint64_t id)
{
    struct sbx_session *session = id != 0 ? find(backend, id) : NULL;

    if (session)
        close_session(backend, session, SBX_CLOSED_ASKED);
}

void sbx_session_lose(struct sbx_backend *backend, struct sbx_session *session)
{
    close_session(backend, session, SBX_CLOSED_LOST);
}

/* ---- runs ---- */

int sbx_sessions_admit(const struct sbx_backend *backend, const struct sbx_msg_run *msg)
{
    /* What a box that waits was made with cannot be changed. */
    static const enum sbx_limit of_session[] = {
        SBX_LIMIT_MEMORY,           SBX_LIMIT_PROCESSES, SBX_LIMIT_OPEN_FILES,
        SBX_LIMIT_FILE_SIZE,        SBX_LIMIT_STACK,     SBX_LIMIT_WORKSPACE_BYTES,
        SBX_LIMIT_WORKSPACE_INODES,
    };
    const struct sbx_session *session;

    if (msg->session == 0)
        return 0;
    session = find(backend, msg->session);
    if (!session || session->closing)
        return ESRCH;
    if (session->caller != msg->caller)
        return EPERM;
    for (size_t i = 0; i < CR_ARRAY_SIZE(of_session); i++) {
        if (msg->limits.value[of_session[i]] != session->limits.value[of_session[i]])
            return EINVAL;
    }
    return session->job ? EBUSY : 0;
}

struct sbx_session *sbx_session_of(const struct sbx_backend *backend, const struct sbx_job *job)
{
    return job->session != 0 ? find(backend, job->session) : NULL;
}

void sbx_session_begin(struct sbx_session *session, struct sbx_job *job)
{
    assert(!session->job); /* it was admitted in this very step */
    session->job = job;
    session->idle_at_ns = INT64_MAX;
    session->still_by_ns = INT64_MAX;
    session->look_ns = INT64_MAX;
}

/* On version 2 the frozen can be killed, and their end is an event as any other. */
static int64_t next_look_ns(const struct sbx_backend *backend, int64_t now_ns)
{
    return backend->cgroups.ops->version == 1 ? now_ns + LOOK_NS : INT64_MAX;
}

void sbx_session_rest(const struct sbx_backend *backend, struct sbx_session *session)
{
    const int64_t now_ns = cr_clock_mono_ns();

    session->still_by_ns = now_ns + cr_patience_ns(STILL_NS);
    session->look_ns = next_look_ns(backend, now_ns);
}

void sbx_session_end_run(struct sbx_backend *backend, struct sbx_session *session)
{
    session->job = NULL;
    session->idle_at_ns = cr_clock_mono_ns() + session->idle_ns;
    if (session->closing)
        finish(backend, session, session->closing);
}

/* ---- time ---- */

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

int64_t sbx_sessions_next_ns(const struct sbx_backend *backend)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < backend->sessions.most; i++) {
        const struct sbx_session *session = backend->sessions.list[i];

        if (session->id != 0 && !session->closing)
            next = earlier(next, earlier(earlier(session->still_by_ns, session->look_ns),
                                         earlier(session->idle_at_ns, session->end_ns)));
    }
    return next;
}

static void look(struct sbx_backend *backend, struct sbx_session *session, int64_t now_ns)
{
    const bool is_late = now_ns >= session->still_by_ns;

    if (is_late)
        session->still_by_ns = INT64_MAX;
    session->look_ns = next_look_ns(backend, now_ns);
    if (backend->ops->check_session(backend, session, is_late))
        return;
    session->still_by_ns = INT64_MAX;
    session->look_ns = INT64_MAX;
}

void sbx_sessions_on_time(struct sbx_backend *backend, int64_t now_ns)
{
    for (uint32_t i = 0; i < backend->sessions.most; i++) {
        struct sbx_session *session = backend->sessions.list[i];

        if (session->id == 0)
            continue;
        if (now_ns >= session->end_ns || backend->is_stopping)
            close_session(backend, session, SBX_CLOSED_LIFE);
        else if (now_ns >= session->idle_at_ns)
            close_session(backend, session, SBX_CLOSED_IDLE);
        else if (now_ns >= session->look_ns || now_ns >= session->still_by_ns)
            look(backend, session, now_ns);
    }
}

void sbx_sessions_judge(struct sbx_backend *backend)
{
    if (backend->sessions.most > 0 && !sbx_cgroup_can_freeze(&backend->cgroups) &&
        backend->controls[SBX_CONTROL_WALL_TIME] == SBX_ENFORCED)
        backend->controls[SBX_CONTROL_WALL_TIME] = SBX_PARTIAL;
}

uint32_t sbx_sessions_count(const struct sbx_backend *backend)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < backend->sessions.most; i++)
        count += backend->sessions.list[i]->id != 0;
    return count;
}
