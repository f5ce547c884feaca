/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/front/backend_parts.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/lifeline.h"

#include <errno.h>
#include <unistd.h>

#include <sys/epoll.h>

/* ---- the wire ---- */

int sbx_backend_watch_source(struct sbx_backend *backend, struct sbx_source *source,
                             uint32_t events, bool is_new)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    return epoll_ctl(backend->host.epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, source->fd,
                     &event) < 0
               ? -errno
               : 0;
}

static int send_raw(struct sbx_backend *backend, const union sbx_msg *msg, const int *fds,
                    size_t fd_count)
{
    int r;

    if (backend->wire.fd < 0)
        return -EPIPE;
    r = sbx_msg_send(backend->wire.fd, msg, fds, fd_count);
    if (r == -EAGAIN && !backend->is_wire_blocked) {
        backend->is_wire_blocked = true;
        (void)sbx_backend_watch_source(backend, &backend->wire, EPOLLIN | EPOLLOUT, false);
    }
    return r;
}

static int send_about_sandbox(void *user, const union sbx_msg *msg)
{
    return send_raw(user, msg, NULL, 0);
}

int sbx_backend_flush_sandboxes(struct sbx_backend *backend)
{
    if (!backend->options.sandboxes)
        return 0;
    return sbx_sandboxes_flush(backend->options.sandboxes, send_about_sandbox, backend);
}

/* A sandbox is open before a run names it. */
int sbx_backend_send_wire(void *user, const union sbx_msg *msg, const int *fds, size_t fd_count)
{
    int r = sbx_backend_flush_sandboxes(user);

    return r < 0 ? r : send_raw(user, msg, fds, fd_count);
}

void sbx_backend_flush(struct sbx_backend *backend)
{
    backend->is_wire_blocked = false;
    (void)sbx_backend_watch_source(backend, &backend->wire, EPOLLIN, false);
    if (sbx_backend_flush_sandboxes(backend) < 0)
        return;
    for (struct sbx_execution *run = backend->admission.runs, *next; run; run = next) {
        next = run->next; /* it may end */
        sbx_run_flush(run);
    }
}

/* ---- coming and going of the backend ---- */

static void set_up(struct sbx_backend *backend, bool is_up, const struct sbx_msg_hello *hello)
{
    bool was_up = backend->is_up;

    (void)pthread_mutex_lock(&backend->lock);
    backend->is_up = is_up;
    backend->pool.ready = 0;
    if (hello)
        backend->hello = *hello;
    (void)pthread_mutex_unlock(&backend->lock);
    if (was_up != is_up && backend->options.on_state)
        backend->options.on_state(backend->options.user, is_up);
}

void sbx_backend_lose(struct sbx_backend *backend, const char *why)
{
    if (backend->wire.fd < 0)
        return;
    cr_log_warn("the backend is lost reason=%s runs=%u", why, backend->admission.run_count);
    cr_close_fd(&backend->wire.fd);
    backend->is_wire_blocked = false;
    set_up(backend, false, NULL);
    sbx_meter_lost(&backend->meter);
    if (backend->options.sandboxes)
        sbx_sandboxes_lose(backend->options.sandboxes);
    sbx_admission_lose(&backend->admission);
}

static void take_wire(struct sbx_backend *backend, int fd)
{
    sbx_backend_lose(backend, "replaced by the supervisor");
    backend->wire.fd = fd;
    if (sbx_backend_watch_source(backend, &backend->wire, EPOLLIN, true) < 0)
        sbx_backend_lose(backend, "cannot watch it");
}

/* Both sides must mean the same program by the same index. */
static bool is_compatible(const struct sbx_msg_hello *hello)
{
    size_t count;

    (void)sbx_runtimes(&count);
    return hello->runtime_count == count && hello->runtime_digest == sbx_runtimes_digest() &&
           hello->slots > 0;
}

static int on_hello(struct sbx_backend *backend, const struct sbx_msg_hello *hello)
{
    if (backend->is_up)
        return -EPROTO;
    if (!is_compatible(hello)) {
        cr_log_error("the backend was built with another runtime table: install binaries of one "
                     "build");
        return -EPROTO;
    }
    cr_log_info("backend is up slots=%u cgroup=%u", hello->slots, hello->cgroup_version);
    sbx_meter_started(&backend->meter);
    set_up(backend, true, hello);
    backend->admission.slots = hello->slots;
    backend->admission.memory_bytes = hello->memory_bytes;
    return 0;
}

static void note_result(struct sbx_backend *backend, const struct sbx_msg_result *result)
{
    bool is_hit = result->is_pool_hit != 0;

    (void)pthread_mutex_lock(&backend->lock);
    backend->pool.ready = result->pool_ready;
    backend->pool.hits += is_hit;
    backend->pool.misses += !is_hit && result->stage != SBX_STAGE_REFUSED;
    (void)pthread_mutex_unlock(&backend->lock);
}

static int set_pool_ready(struct sbx_backend *backend, uint64_t ready)
{
    if (!backend->is_up || ready > backend->hello.pool_slots)
        return -EPROTO;
    (void)pthread_mutex_lock(&backend->lock);
    backend->pool.ready = (uint32_t)ready;
    (void)pthread_mutex_unlock(&backend->lock);
    return 0;
}

static int on_counts(struct sbx_backend *backend, const struct sbx_msg_counts *counts)
{
    int r = set_pool_ready(backend, counts->value[SBX_COUNT_POOL_READY]);

    if (r == 0)
        sbx_meter_set_counts(&backend->meter, counts);
    return r;
}

static int on_message(struct sbx_backend *backend, const union sbx_msg *msg)
{
    struct sbx_execution *run;
    int r;

    if (msg->header.type == SBX_MSG_HELLO)
        return on_hello(backend, &msg->hello);
    if (msg->header.type == SBX_MSG_POOL)
        return set_pool_ready(backend, msg->pool.ready);
    if (msg->header.type == SBX_MSG_COUNTS)
        return on_counts(backend, &msg->counts);
    if (msg->header.type == SBX_MSG_CLOSED)
        return backend->options.sandboxes
                   ? sbx_sandboxes_closed(backend->options.sandboxes, msg->header.run,
                                          msg->closed.reason)
                   : -EPROTO;
    if (msg->header.type == SBX_MSG_RESULT)
        note_result(backend, &msg->result);
    run = sbx_admission_find(&backend->admission, msg->header.run);
    if (!run)
        return -EPROTO;
    (void)cr_trace_enter(&run->trace);
    r = sbx_run_message(run, msg);
    (void)cr_trace_enter(NULL);
    return r;
}

void sbx_backend_read_wire(struct sbx_backend *backend)
{
    while (backend->wire.fd >= 0) {
        struct cr_err err = CR_ERR_INIT;
        int fds[SBX_RUN_FDS];
        size_t fd_count = 0;
        union sbx_msg msg;
        int r = sbx_msg_receive(backend->wire.fd, &msg, fds, &fd_count, &err);

        if (r == -EAGAIN)
            break;
        for (size_t i = 0; i < fd_count; i++)
            (void)close(fds[i]); /* a backend sends none */
        if (r == 0)
            r = fd_count > 0 ? -EPROTO : on_message(backend, &msg);
        if (r < 0)
            sbx_backend_lose(backend, r == -EPIPE ? "end of the connection" : "protocol error");
    }
}

/* True when it was one, and was taken. */
static bool take_secret(struct sbx_backend *backend, uint32_t type, int fd)
{
    int (*take)(void *user, int fd) = NULL;

    if (type == SBX_LIFELINE_TLS)
        take = backend->options.on_tls;
    else if (type == SBX_LIFELINE_TOKENS)
        take = backend->options.on_tokens;
    if (!take || fd < 0)
        return false;
    if (take(backend->options.user, fd) == 0)
        (void)sbx_lifeline_send(backend->control.fd, SBX_LIFELINE_TAKEN, type, -1);
    return true;
}

void sbx_backend_read_control(struct sbx_backend *backend)
{
    for (;;) {
        struct sbx_lifeline_msg msg;
        int fd = -1;
        int r = sbx_lifeline_receive(backend->control.fd, &msg, &fd);

        if (r == -EAGAIN)
            return;
        if (r == 0 && msg.type == SBX_LIFELINE_WIRE && fd >= 0) {
            take_wire(backend, fd);
            continue;
        }
        if (r == 0 && take_secret(backend, msg.type, fd))
            continue;
        if (fd >= 0)
            (void)close(fd);
        cr_log_warn("the supervisor is gone, shutting down");
        cr_close_fd(&backend->control.fd);
        if (backend->options.on_orphaned)
            backend->options.on_orphaned(backend->options.user);
        return;
    }
}
