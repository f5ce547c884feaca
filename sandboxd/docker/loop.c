/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
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
    cr_close_fd(&docker->front_fd);
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
    int r;

    if (docker->front_fd < 0)
        return;
    r = sbx_msg_send(docker->front_fd, msg, NULL, 0);
    if (r < 0) {
        cr_log_error("the front does not take a message error=%s", strerrordesc_np(-r));
        /* The EOF that follows stops us: not here, in the middle of a run's own step. */
        (void)shutdown(docker->front_fd, SHUT_RDWR);
    }
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

/* The front checks these too and answers the caller; here they are enforced. */
static int check_run(const struct sbx_docker *docker, const struct sbx_msg_run *msg)
{
    size_t runtime_count;

    (void)sbx_runtimes(&runtime_count);
    if (msg->runtime >= runtime_count)
        return EINVAL;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (msg->limits.value[i] > docker->maximum.value[i])
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

static void refuse(struct sbx_docker *docker, uint64_t id, int error)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, id);
    msg.result.verdict = SBX_VERDICT_SANDBOX_ERROR;
    msg.result.stage = SBX_STAGE_REFUSED;
    msg.result.stage_errno = error;
    msg.result.cgroup_version = docker->cgroups.ops->version;
    sbx_docker_send(docker, &msg);
}

static int on_run(struct sbx_docker *docker, const struct sbx_msg_run *msg, int fds[SBX_RUN_FDS])
{
    struct sbx_docker_run *run = sbx_wreckage_is_full(&docker->wreckage) ? NULL : find_free(docker);
    int error = run ? check_run(docker, msg) : EBUSY;

    if (find_run(docker, msg->header.run)) {
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
        refuse(docker, msg->header.run, error);
        return 0;
    }
    sbx_docker_run_begin(docker, run, msg, fds);
    for (int i = 0; i < SBX_RUN_FDS; i++)
        fds[i] = -1;
    return 0;
}

/*
 * Messages about a run that has just ended cross its RESULT on the way: they
 * are ignored. What no front may ever send is -EPROTO.
 */
static int on_message(struct sbx_docker *docker, const union sbx_msg *msg, int fds[SBX_RUN_FDS])
{
    struct sbx_docker_run *run = find_run(docker, msg->header.run);

    switch (msg->header.type) {
    case SBX_MSG_RUN:
        return on_run(docker, &msg->run, fds);
    case SBX_MSG_CANCEL:
        if (run)
            sbx_docker_run_on_cancel(docker, run);
        return 0;
    case SBX_MSG_OUTPUT_LIMIT:
        if (run)
            sbx_docker_run_on_output_limit(docker, run, &msg->output_limit);
        return 0;
    case SBX_MSG_DRAINED:
        return run ? sbx_docker_run_on_drained(docker, run, &msg->drained) : 0;
    default:
        return -EPROTO;
    }
}

static void on_front(struct sbx_docker *docker)
{
    for (int i = 0; i < MESSAGES_PER_ROUND && docker->front_fd >= 0; i++) {
        struct cr_err err = CR_ERR_INIT;
        union sbx_msg msg;
        int fds[SBX_RUN_FDS] = {-1, -1, -1, -1, -1};
        size_t fd_count = 0;
        int r = sbx_msg_receive(docker->front_fd, &msg, fds, &fd_count, &err);

        if (r == -EAGAIN)
            return;
        if (r == 0) {
            r = on_message(docker, &msg, fds);
            for (int j = 0; j < SBX_RUN_FDS; j++)
                cr_close_fd(&fds[j]);
            if (r < 0)
                cr_log_error("illegal message of the front type=%u run=%" PRIu64,
                             (unsigned int)msg.header.type, msg.header.run);
        } else if (r != -EPIPE) {
            cr_log_error("illegal message of the front error=\"%s\"", err.text);
        }
        if (r < 0) {
            sbx_docker_begin_stop(docker, r == -EPIPE ? "the front is gone" : "protocol error");
            return;
        }
    }
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
