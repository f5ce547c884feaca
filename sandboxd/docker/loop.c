/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS_PER_ROUND 64
#define STOP_DEADLINE_NS (8 * CR_NS_PER_S)

/* What epoll gives back: kind, slot, generation. */
static uint64_t make_tag(enum sbx_docker_watch_kind kind, const struct sbx_docker_run *run)
{
    if (!run)
        return kind;
    return (uint64_t)kind | (uint64_t)run->slot << 8 | (uint64_t)run->generation << 32;
}

int sbx_docker_watch(struct sbx_docker *docker, int fd, uint32_t events,
                     enum sbx_docker_watch_kind kind, const struct sbx_docker_run *run)
{
    struct epoll_event event = {.events = events, .data.u64 = make_tag(kind, run)};

    return epoll_ctl(docker->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void sbx_docker_begin_stop(struct sbx_docker *docker, const char *why)
{
    if (docker->is_stopping)
        return;
    cr_log_info("stopping why=\"%s\"", why);
    docker->is_stopping = true;
    docker->stop_deadline_ns = cr_clock_mono_ns() + STOP_DEADLINE_NS;
    cr_close_fd(&docker->link.fd);
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (docker->runs[i].state != SBX_DOCKER_FREE)
            sbx_docker_run_abandon(docker, &docker->runs[i]);
    }
}

void sbx_docker_lose_engine(struct sbx_docker *docker, const char *text)
{
    if (docker->is_engine_lost)
        return;
    cr_log_error("%s; every run is lost, starting anew", text);
    docker->is_engine_lost = true;
    sbx_docker_begin_stop(docker, "the docker engine is gone");
    /* Those that waited for an answer when we began to stop earlier. */
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (docker->runs[i].state != SBX_DOCKER_FREE)
            sbx_docker_run_abandon(docker, &docker->runs[i]);
    }
}

void sbx_docker_send(struct sbx_docker *docker, const union sbx_msg *msg)
{
    sbx_link_send(&docker->link, msg);
}

static struct sbx_docker_run *find_run(struct sbx_docker *docker, uint64_t id)
{
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (docker->runs[i].state != SBX_DOCKER_FREE && docker->runs[i].id == id)
            return &docker->runs[i];
    }
    return NULL;
}

static struct sbx_docker_run *find_free(struct sbx_docker *docker)
{
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (docker->runs[i].state == SBX_DOCKER_FREE)
            return &docker->runs[i];
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
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = find_free(docker);

    if (!run)
        return EBUSY;
    if (sbx_wreckage_is_full(&docker->wreckage))
        return EBUSY;
    sbx_docker_run_begin(docker, run, msg, fds);
    return 0;
}

static void cancel(void *user, uint64_t id)
{
    sbx_docker_run_on_cancel(user, find_run(user, id));
}

static void output_limit(void *user, const struct sbx_msg_output_limit *msg)
{
    sbx_docker_run_on_output_limit(user, find_run(user, msg->header.run), msg);
}

static int drained(void *user, const struct sbx_msg_drained *msg)
{
    return sbx_docker_run_on_drained(user, find_run(user, msg->header.run), msg);
}

const struct sbx_link_ops sbx_docker_link_ops = {
    .is_live = is_live,
    .begin = begin,
    .cancel = cancel,
    .output_limit = output_limit,
    .drained = drained,
};

static void on_front(struct sbx_docker *docker)
{
    int r = sbx_link_read(&docker->link);

    if (r < 0)
        sbx_docker_begin_stop(docker, r == -EPIPE ? "the front is gone" : "protocol error");
}

static void on_lifeline(struct sbx_docker *docker)
{
    char byte;
    ssize_t n = recv(docker->lifeline_fd, &byte, sizeof(byte), MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    cr_close_fd(&docker->lifeline_fd);
    sbx_docker_begin_stop(docker, "the supervisor is gone");
}

static void dispatch_run(struct sbx_docker *docker, struct sbx_docker_run *run,
                         enum sbx_docker_watch_kind kind)
{
    switch (kind) {
    case SBX_DOCKER_WATCH_ATTACH:
        sbx_docker_run_on_attach(docker, run);
        break;
    case SBX_DOCKER_WATCH_CONTROL:
        sbx_docker_run_on_control(docker, run);
        break;
    case SBX_DOCKER_WATCH_RELAY:
        sbx_docker_run_on_relay(docker, run);
        break;
    case SBX_DOCKER_WATCH_BOX:
        sbx_docker_run_on_box(docker, run);
        break;
    case SBX_DOCKER_WATCH_OOM:
        sbx_docker_run_on_oom(docker, run);
        break;
    default:
        sbx_docker_run_on_collector(docker, run);
        break;
    }
}

static void dispatch(struct sbx_docker *docker, uint64_t tag)
{
    enum sbx_docker_watch_kind kind = (enum sbx_docker_watch_kind)(tag & 0xff);
    struct sbx_docker_run *run = &docker->runs[tag >> 8 & 0xff];

    switch (kind) {
    case SBX_DOCKER_WATCH_FRONT:
        on_front(docker);
        return;
    case SBX_DOCKER_WATCH_LIFELINE:
        on_lifeline(docker);
        return;
    case SBX_DOCKER_WATCH_ENGINE:
        sbx_engine_run(docker->engine);
        return;
    default:
        break;
    }
    if (run->state == SBX_DOCKER_FREE || run->generation != (uint32_t)(tag >> 32))
        return; /* an event of this round about a run that ended in it */
    dispatch_run(docker, run, kind);
}

static int64_t next_ns(const struct sbx_docker *docker)
{
    int64_t next = docker->is_stopping ? docker->stop_deadline_ns : INT64_MAX;

    for (uint32_t i = 0; i < docker->slot_count; i++) {
        int64_t run_ns = sbx_docker_run_next_ns(&docker->runs[i]);

        next = run_ns < next ? run_ns : next;
    }
    if (sbx_wreckage_next_ns(&docker->wreckage) < next)
        next = sbx_wreckage_next_ns(&docker->wreckage);
    if (sbx_engine_next_ns(docker->engine) < next)
        next = sbx_engine_next_ns(docker->engine);
    return next;
}

static int wait_for_events(const struct sbx_docker *docker, struct epoll_event *events)
{
    int64_t next = next_ns(docker);
    int64_t left = next - cr_clock_mono_ns();
    struct timespec timeout;
    int n;

    left = left > 0 ? left : 0;
    timeout = (struct timespec){.tv_sec = left / CR_NS_PER_S, .tv_nsec = left % CR_NS_PER_S};
    n = epoll_pwait2(docker->epoll_fd, events, EVENTS_PER_ROUND,
                     next == INT64_MAX ? NULL : &timeout, NULL);
    return n < 0 && errno == EINTR ? 0 : n;
}

static bool is_idle(const struct sbx_docker *docker)
{
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (docker->runs[i].state != SBX_DOCKER_FREE)
            return false;
    }
    return docker->is_engine_lost || docker->wreckage.count == docker->wreckage.quarantined;
}

/* OOM before the front's messages and the clocks: events of one round count as simultaneous. */
static void dispatch_round(struct sbx_docker *docker, const struct epoll_event *events, int count)
{
    int64_t now_ns;

    for (int i = 0; i < count; i++) {
        if ((events[i].data.u64 & 0xff) == SBX_DOCKER_WATCH_OOM)
            dispatch(docker, events[i].data.u64);
    }
    for (int i = 0; i < count; i++) {
        if ((events[i].data.u64 & 0xff) != SBX_DOCKER_WATCH_OOM)
            dispatch(docker, events[i].data.u64);
    }
    now_ns = cr_clock_mono_ns();
    for (uint32_t i = 0; i < docker->slot_count; i++) {
        if (sbx_docker_run_next_ns(&docker->runs[i]) <= now_ns)
            sbx_docker_run_on_time(docker, &docker->runs[i], now_ns);
    }
    if (sbx_engine_next_ns(docker->engine) <= now_ns)
        sbx_engine_run(docker->engine);
    sbx_wreckage_on_time(docker, now_ns);
}

int sbx_docker_loop(struct sbx_docker *docker, struct cr_err *err)
{
    struct epoll_event events[EVENTS_PER_ROUND];

    while (!docker->is_stopping || !is_idle(docker)) {
        int count = wait_for_events(docker, events);

        if (count < 0)
            return cr_err_sys(err, errno, "wait for events");
        dispatch_round(docker, events, count);
        if (docker->is_stopping && cr_clock_mono_ns() > docker->stop_deadline_ns)
            return cr_err_set(err, ETIMEDOUT,
                              "containers do not go away; leaving them to the next start");
    }
    return 0;
}
