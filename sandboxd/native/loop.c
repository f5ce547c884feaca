/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS_PER_ROUND 64
#define STOP_DEADLINE_NS (8 * CR_NS_PER_S)

/* What epoll gives back: kind, slot, generation. */
static uint64_t make_tag(enum sbx_watch_kind kind, const struct sbx_run *run)
{
    if (!run)
        return kind;
    return (uint64_t)kind | (uint64_t)run->slot << 8 | (uint64_t)run->generation << 32;
}

int sbx_native_watch(struct sbx_native *native, int fd, uint32_t events, enum sbx_watch_kind kind,
                     const struct sbx_run *run)
{
    struct epoll_event event = {.events = events, .data.u64 = make_tag(kind, run)};

    return epoll_ctl(native->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void sbx_native_begin_stop(struct sbx_native *native, const char *why)
{
    if (native->is_stopping)
        return;
    cr_log_info("stopping why=\"%s\"", why);
    native->is_stopping = true;
    native->stop_deadline_ns = cr_clock_mono_ns() + STOP_DEADLINE_NS;
    cr_close_fd(&native->link.fd);
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (native->runs[i].state != SBX_RUN_FREE)
            sbx_run_abandon(native, &native->runs[i]);
    }
}

void sbx_native_send(struct sbx_native *native, const union sbx_msg *msg)
{
    sbx_link_send(&native->link, msg);
}

static struct sbx_run *find_run(struct sbx_native *native, uint64_t id)
{
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (native->runs[i].state != SBX_RUN_FREE && native->runs[i].id == id)
            return &native->runs[i];
    }
    return NULL;
}

static struct sbx_run *find_free(struct sbx_native *native)
{
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (native->runs[i].state == SBX_RUN_FREE)
            return &native->runs[i];
    }
    return NULL;
}

/* ---- the front's messages; link.c has checked them ---- */

static bool is_live(void *user, uint64_t id)
{
    return find_run(user, id) != NULL;
}

static int begin(void *user, const struct sbx_msg_run *msg, const int fds[SBX_RUN_FDS])
{
    struct sbx_native *native = user;
    struct sbx_run *run = find_free(native);

    if (!run)
        return EBUSY;
    sbx_run_begin(native, run, msg, fds);
    return 0;
}

static void cancel(void *user, uint64_t id)
{
    sbx_run_on_cancel(user, find_run(user, id));
}

static void output_limit(void *user, const struct sbx_msg_output_limit *msg)
{
    sbx_run_on_output_limit(user, find_run(user, msg->header.run), msg);
}

static int drained(void *user, const struct sbx_msg_drained *msg)
{
    return sbx_run_on_drained(user, find_run(user, msg->header.run), msg);
}

const struct sbx_link_ops sbx_native_link_ops = {
    .is_live = is_live,
    .begin = begin,
    .cancel = cancel,
    .output_limit = output_limit,
    .drained = drained,
};

static void on_front(struct sbx_native *native)
{
    int r = sbx_link_read(&native->link);

    if (r < 0)
        sbx_native_begin_stop(native, r == -EPIPE ? "the front is gone" : "protocol error");
}

static void on_lifeline(struct sbx_native *native)
{
    char byte;
    ssize_t n = recv(native->lifeline_fd, &byte, sizeof(byte), MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    cr_close_fd(&native->lifeline_fd);
    sbx_native_begin_stop(native, "the supervisor is gone");
}

static void on_keeper(struct sbx_native *native)
{
    if (sbx_groups_on_keeper(native) == 0)
        return;
    cr_log_error("the keeper is gone");
    (void)epoll_ctl(native->epoll_fd, EPOLL_CTL_DEL, native->keeper.fd, NULL);
    sbx_native_begin_stop(native, "the keeper is gone");
}

static void dispatch(struct sbx_native *native, uint64_t tag)
{
    enum sbx_watch_kind kind = (enum sbx_watch_kind)(tag & 0xff);
    struct sbx_run *run = &native->runs[tag >> 8 & 0xff];

    switch (kind) {
    case SBX_WATCH_FRONT:
        on_front(native);
        return;
    case SBX_WATCH_LIFELINE:
        on_lifeline(native);
        return;
    case SBX_WATCH_KEEPER:
        on_keeper(native);
        return;
    default:
        break;
    }
    if (run->state == SBX_RUN_FREE || run->generation != (uint32_t)(tag >> 32))
        return; /* an event of this round about a run that ended in it */
    if (kind == SBX_WATCH_CONTROL)
        sbx_run_on_control(native, run);
    else if (kind == SBX_WATCH_DEAD)
        sbx_run_on_dead(native, run);
    else if (kind == SBX_WATCH_OOM)
        sbx_run_on_oom(native, run);
    else
        sbx_run_on_collector(native, run);
}

static int64_t next_ns(const struct sbx_native *native)
{
    int64_t next = native->is_stopping ? native->stop_deadline_ns : INT64_MAX;

    for (uint32_t i = 0; i < native->slot_count; i++) {
        int64_t run_ns = sbx_run_next_ns(&native->runs[i]);

        next = run_ns < next ? run_ns : next;
    }
    return next;
}

static int wait_for_events(const struct sbx_native *native, struct epoll_event *events)
{
    int64_t next = next_ns(native);
    int64_t left = next - cr_clock_mono_ns();
    struct timespec timeout;
    int n;

    left = left > 0 ? left : 0;
    timeout = (struct timespec){.tv_sec = left / CR_NS_PER_S, .tv_nsec = left % CR_NS_PER_S};
    n = epoll_pwait2(native->epoll_fd, events, EVENTS_PER_ROUND,
                     next == INT64_MAX ? NULL : &timeout, NULL);
    return n < 0 && errno == EINTR ? 0 : n;
}

static bool is_idle(const struct sbx_native *native)
{
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (native->runs[i].state != SBX_RUN_FREE)
            return false;
    }
    return true;
}

/* OOM before the front's messages and the clocks: events of one round count as simultaneous. */
static void dispatch_round(struct sbx_native *native, const struct epoll_event *events, int count)
{
    int64_t now_ns;

    for (int i = 0; i < count; i++) {
        if ((events[i].data.u64 & 0xff) == SBX_WATCH_OOM)
            dispatch(native, events[i].data.u64);
    }
    for (int i = 0; i < count; i++) {
        if ((events[i].data.u64 & 0xff) != SBX_WATCH_OOM)
            dispatch(native, events[i].data.u64);
    }
    now_ns = cr_clock_mono_ns();
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (sbx_run_next_ns(&native->runs[i]) <= now_ns)
            sbx_run_on_time(native, &native->runs[i], now_ns);
    }
}

int sbx_native_loop(struct sbx_native *native, struct cr_err *err)
{
    struct epoll_event events[EVENTS_PER_ROUND];

    while (!native->is_stopping || !is_idle(native)) {
        int count = wait_for_events(native, events);

        if (count < 0)
            return cr_err_sys(err, errno, "wait for events");
        dispatch_round(native, events, count);
        if (native->is_stopping && cr_clock_mono_ns() > native->stop_deadline_ns)
            return cr_err_set(err, ETIMEDOUT, "a box does not die; leaving it to the keeper");
    }
    return 0;
}
