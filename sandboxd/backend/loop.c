/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "common/turns.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/wire/lifeline.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS_PER_ROUND 64
#define STOP_DEADLINE_NS (12 * CR_NS_PER_S)
#define TELL_NS CR_NS_PER_S                 /* counts go to the front no more often */
#define TURN_NS (CR_TURN_MS * CR_NS_PER_MS) /* the supervisor hears of us so often */

/* What epoll gives back: kind, slot (from 1; 0: none), generation. */
static uint64_t make_tag(uint32_t kind, const struct sbx_job *job)
{
    if (!job)
        return kind;
    return (uint64_t)kind | (uint64_t)(job->slot + 1) << 8 | (uint64_t)job->generation << 32;
}

static uint32_t kind_of(uint64_t tag)
{
    return (uint32_t)(tag & 0xff);
}

int sbx_backend_watch(struct sbx_backend *backend, int fd, uint32_t events, uint32_t kind,
                      const struct sbx_job *job)
{
    struct epoll_event event = {.events = events, .data.u64 = make_tag(kind, job)};

    if (epoll_ctl(backend->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    return epoll_ctl(backend->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

void sbx_backend_unwatch(const struct sbx_backend *backend, int fd)
{
    if (fd >= 0)
        (void)epoll_ctl(backend->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* or it was not watched */
}

void sbx_backend_send(struct sbx_backend *backend, const union sbx_msg *msg)
{
    sbx_link_send(&backend->link, msg);
}

void sbx_backend_abandon_all(struct sbx_backend *backend)
{
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (backend->jobs[i]->state != SBX_JOB_FREE)
            sbx_job_abandon(backend, backend->jobs[i]);
    }
}

void sbx_backend_begin_stop(struct sbx_backend *backend, const char *why)
{
    if (backend->is_stopping)
        return;
    cr_log_info("stopping why=\"%s\"", why);
    backend->is_stopping = true;
    backend->stop_deadline_ns = cr_clock_mono_ns() + cr_patience_ns(STOP_DEADLINE_NS);
    cr_close_fd(&backend->link.fd);
    sbx_backend_abandon_all(backend);
}

static void on_front(struct sbx_backend *backend)
{
    int r = sbx_link_read(&backend->link);

    if (r < 0)
        sbx_backend_begin_stop(backend, r == -EPIPE ? "the front is gone" : "protocol error");
}

static void on_lifeline(struct sbx_backend *backend)
{
    char byte;
    ssize_t n = recv(backend->lifeline_fd, &byte, sizeof(byte), MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    cr_close_fd(&backend->lifeline_fd);
    sbx_backend_begin_stop(backend, "the supervisor is gone");
}

static void dispatch(struct sbx_backend *backend, uint64_t tag)
{
    uint32_t place = (uint32_t)(tag >> 8 & 0xff);
    struct sbx_job *job = place > 0 ? backend->jobs[place - 1] : NULL;

    if (job && (job->state == SBX_JOB_FREE || job->generation != (uint32_t)(tag >> 32)))
        return; /* an event of this round about a run that ended in it */
    switch (kind_of(tag)) {
    case SBX_WATCH_FRONT:
        on_front(backend);
        break;
    case SBX_WATCH_LIFELINE:
        on_lifeline(backend);
        break;
    case SBX_WATCH_CONTROL:
        sbx_job_on_control(backend, job);
        break;
    case SBX_WATCH_OOM:
        sbx_job_on_oom(backend, job);
        break;
    case SBX_WATCH_COLLECTOR:
        sbx_job_on_collector(backend, job);
        break;
    default:
        backend->ops->on_event(backend, job, kind_of(tag));
        break;
    }
}

static bool has_news(const struct sbx_backend *backend)
{
    return !backend->is_stopping &&
           memcmp(backend->counts, backend->told, sizeof(backend->counts)) != 0;
}

static void tell_counts(struct sbx_backend *backend, int64_t now_ns)
{
    union sbx_msg msg;

    backend->counts[SBX_COUNT_POOL_READY] = backend->pool_ready;
    if (backend->ops->count)
        backend->ops->count(backend);
    if (!has_news(backend) || now_ns < backend->told_ns + TELL_NS)
        return;
    sbx_msg_init(&msg, SBX_MSG_COUNTS, 0);
    memcpy(msg.counts.value, backend->counts, sizeof(backend->counts));
    memcpy(backend->told, backend->counts, sizeof(backend->told));
    backend->told_ns = now_ns;
    sbx_backend_send(backend, &msg);
}

/* One that does not get through says nothing of us: the supervisor is slow, or gone. */
static void tell_turn(struct sbx_backend *backend, int64_t now_ns)
{
    if (backend->lifeline_fd < 0 || now_ns < backend->turn_ns)
        return;
    backend->turn_ns = now_ns + TURN_NS;
    (void)sbx_lifeline_send(backend->lifeline_fd, SBX_LIFELINE_TURNS, 0, -1);
}

static int64_t next_ns(struct sbx_backend *backend)
{
    int64_t turn_ns = backend->lifeline_fd >= 0 ? backend->turn_ns : INT64_MAX;
    int64_t next = backend->is_stopping ? backend->stop_deadline_ns : turn_ns;
    int64_t own_ns = backend->ops->next_ns ? backend->ops->next_ns(backend) : INT64_MAX;

    for (uint32_t i = 0; i < backend->slot_count; i++) {
        int64_t job_ns = sbx_job_next_ns(backend->jobs[i]);

        next = job_ns < next ? job_ns : next;
    }
    if (has_news(backend) && backend->told_ns + TELL_NS < next)
        next = backend->told_ns + TELL_NS;
    next = own_ns < next ? own_ns : next;
    own_ns = sbx_sessions_next_ns(backend);
    return own_ns < next ? own_ns : next;
}

static int wait_for_events(struct sbx_backend *backend, struct epoll_event *events)
{
    int64_t next = next_ns(backend);
    int64_t left = next - cr_clock_mono_ns();
    struct timespec timeout;
    int n;

    left = left > 0 ? left : 0;
    timeout = (struct timespec){.tv_sec = left / CR_NS_PER_S, .tv_nsec = left % CR_NS_PER_S};
    n = epoll_pwait2(backend->epoll_fd, events, EVENTS_PER_ROUND,
                     next == INT64_MAX ? NULL : &timeout, NULL);
    return n < 0 && errno == EINTR ? 0 : n;
}

static bool is_idle(struct sbx_backend *backend)
{
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (backend->jobs[i]->state != SBX_JOB_FREE)
            return false;
    }
    return sbx_sessions_count(backend) == 0 &&
           (!backend->ops->is_idle || backend->ops->is_idle(backend));
}

/* OOM before the front's messages and the clocks: events of one round count as simultaneous. */
static void dispatch_round(struct sbx_backend *backend, const struct epoll_event *events, int count)
{
    int64_t now_ns;

    for (int i = 0; i < count; i++) {
        if (kind_of(events[i].data.u64) == SBX_WATCH_OOM)
            dispatch(backend, events[i].data.u64);
    }
    for (int i = 0; i < count; i++) {
        if (kind_of(events[i].data.u64) != SBX_WATCH_OOM)
            dispatch(backend, events[i].data.u64);
    }
    now_ns = cr_clock_mono_ns();
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (sbx_job_next_ns(backend->jobs[i]) <= now_ns)
            sbx_job_on_time(backend, backend->jobs[i], now_ns);
    }
    if (backend->ops->on_time)
        backend->ops->on_time(backend, now_ns);
    sbx_sessions_on_time(backend, now_ns);
    tell_counts(backend, now_ns);
    tell_turn(backend, now_ns);
}

int sbx_backend_loop(struct sbx_backend *backend, struct cr_err *err)
{
    struct epoll_event events[EVENTS_PER_ROUND];

    while (!backend->is_stopping || !is_idle(backend)) {
        int count = wait_for_events(backend, events);

        if (count < 0)
            return cr_err_sys(err, errno, "wait for events");
        dispatch_round(backend, events, count);
        if (backend->is_stopping && cr_clock_mono_ns() > backend->stop_deadline_ns)
            return cr_err_set(err, ETIMEDOUT, "%s", backend->ops->stuck);
    }
    return 0;
}
