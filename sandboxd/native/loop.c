/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"
#include "sandboxd/runtimes/table.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define EVENTS_PER_ROUND 64
#define MESSAGES_PER_ROUND 32 /* the front's, so that it cannot starve the clocks */
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
    cr_close_fd(&native->front_fd);
    for (uint32_t i = 0; i < native->slot_count; i++) {
        if (native->runs[i].state != SBX_RUN_FREE)
            sbx_run_abandon(native, &native->runs[i]);
    }
}

void sbx_native_send(struct sbx_native *native, const union sbx_msg *msg)
{
    int r;

    if (native->front_fd < 0)
        return;
    r = sbx_msg_send(native->front_fd, msg, NULL, 0);
    if (r < 0) {
        cr_log_error("the front does not take a message error=%s", strerrordesc_np(-r));
        /* The EOF that follows stops us: not here, in the middle of a run's own step. */
        (void)shutdown(native->front_fd, SHUT_RDWR);
    }
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

/* The front checks these too and answers the caller; here they are enforced. */
static int check_run(const struct sbx_native *native, const struct sbx_msg_run *msg)
{
    size_t runtime_count;

    (void)sbx_runtimes(&runtime_count);
    if (msg->runtime >= runtime_count)
        return EINVAL;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (msg->limits.value[i] > native->maximum.value[i])
            return EINVAL;
    }
    return 0;
}

/*
 * A payload that nobody can change any more, and streams. A folder or a file
 * of the host handed in as "stdin" would be a door out of the box.
 */
static bool are_fds_legal(const int fds[SBX_RUN_FDS])
{
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int found = fcntl(fds[0], F_GET_SEALS);

    if (found < 0 || (found & seals) != seals)
        return false;
    for (int i = 1; i < SBX_RUN_FDS; i++) {
        struct stat stat;

        if (fstat(fds[i], &stat) < 0 || !(S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode) ||
                                          (S_ISCHR(stat.st_mode) && stat.st_rdev == makedev(1, 3))))
            return false;
    }
    return true;
}

static void refuse(struct sbx_native *native, uint64_t id, int error)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, id);
    msg.result.verdict = SBX_VERDICT_SANDBOX_ERROR;
    msg.result.stage = SBX_STAGE_REFUSED;
    msg.result.stage_errno = error;
    msg.result.cgroup_version = native->cgroups.ops->version;
    sbx_native_send(native, &msg);
}

static int on_run(struct sbx_native *native, const struct sbx_msg_run *msg, int fds[SBX_RUN_FDS])
{
    struct sbx_run *run = find_free(native);
    int error = run ? check_run(native, msg) : EBUSY;

    if (find_run(native, msg->header.run)) {
        cr_log_error("the front used the number of a live run again run=%" PRIu64, msg->header.run);
        return -EPROTO;
    }
    if (!are_fds_legal(fds)) {
        cr_log_error("a run came with fds that are no payload and streams run=%" PRIu64,
                     msg->header.run);
        return -EPROTO;
    }
    if (error != 0) {
        cr_log_warn("refused a run run=%" PRIu64 " error=%s", msg->header.run,
                    strerrordesc_np(error));
        refuse(native, msg->header.run, error);
        return 0;
    }
    sbx_run_begin(native, run, msg, fds);
    for (int i = 0; i < SBX_RUN_FDS; i++)
        fds[i] = -1;
    return 0;
}

/*
 * Messages about a run that has just ended cross its RESULT on the way: they
 * are ignored. What no front may ever send is -EPROTO.
 */
static int on_message(struct sbx_native *native, const union sbx_msg *msg, int fds[SBX_RUN_FDS])
{
    struct sbx_run *run = find_run(native, msg->header.run);

    switch (msg->header.type) {
    case SBX_MSG_RUN:
        return on_run(native, &msg->run, fds);
    case SBX_MSG_CANCEL:
        if (run)
            sbx_run_on_cancel(native, run);
        return 0;
    case SBX_MSG_OUTPUT_LIMIT:
        if (run)
            sbx_run_on_output_limit(native, run, &msg->output_limit);
        return 0;
    case SBX_MSG_DRAINED:
        return run ? sbx_run_on_drained(native, run, &msg->drained) : 0;
    default:
        return -EPROTO;
    }
}

static void on_front(struct sbx_native *native)
{
    for (int i = 0; i < MESSAGES_PER_ROUND && native->front_fd >= 0; i++) {
        struct cr_err err = CR_ERR_INIT;
        union sbx_msg msg;
        int fds[SBX_RUN_FDS] = {-1, -1, -1, -1, -1};
        size_t fd_count = 0;
        int r = sbx_msg_receive(native->front_fd, &msg, fds, &fd_count, &err);

        if (r == -EAGAIN)
            return;
        if (r == 0) {
            r = on_message(native, &msg, fds);
            for (int j = 0; j < SBX_RUN_FDS; j++)
                cr_close_fd(&fds[j]);
            if (r < 0)
                cr_log_error("illegal message of the front type=%u run=%" PRIu64,
                             (unsigned int)msg.header.type, msg.header.run);
        } else if (r != -EPIPE) {
            cr_log_error("illegal message of the front error=\"%s\"", err.text);
        }
        if (r < 0) {
            sbx_native_begin_stop(native, r == -EPIPE ? "the front is gone" : "protocol error");
            return;
        }
    }
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
