/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/backend.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/process.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/runtimes/table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sys/epoll.h>

/* ---- the front's messages; link.c has checked them ---- */

static struct sbx_job *find_job(const struct sbx_backend *backend, uint64_t id)
{
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (backend->jobs[i]->state != SBX_JOB_FREE && backend->jobs[i]->id == id)
            return backend->jobs[i];
    }
    return NULL;
}

static struct sbx_job *find_free(const struct sbx_backend *backend)
{
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (backend->jobs[i]->state == SBX_JOB_FREE)
            return backend->jobs[i];
    }
    return NULL;
}

static bool is_live(void *user, uint64_t id)
{
    return find_job(user, id) != NULL;
}

static int begin(void *user, const struct sbx_msg_run *msg, const int fds[SBX_RUN_FDS])
{
    struct sbx_backend *backend = user;
    struct sbx_job *job = find_free(backend);
    int error = job ? 0 : EBUSY;

    if (error == 0 &&
        ((msg->session != 0 && backend->sessions.most == 0) ||
         ((msg->flags & SBX_RUN_HAS_TERMINAL) && !(backend->features & SBX_FEATURE_TERMINAL))))
        error = ENOTSUP;
    if (error == 0)
        error = sbx_sessions_admit(backend, msg);
    if (error == 0 && backend->ops->admit)
        error = backend->ops->admit(backend, msg);
    if (error == 0)
        sbx_job_begin(backend, job, msg, fds);
    return error;
}

static void cancel(void *user, uint64_t id)
{
    sbx_job_on_cancel(user, find_job(user, id));
}

static int open_session(void *user, const struct sbx_msg_open *msg)
{
    return sbx_sessions_open(user, msg);
}

static void close_session(void *user, uint64_t id)
{
    sbx_sessions_close(user, id);
}

static void signal_program(void *user, const struct sbx_msg_signal *msg)
{
    sbx_job_on_signal(user, find_job(user, msg->header.run), msg->number);
}

static void resize(void *user, const struct sbx_msg_resize *msg)
{
    sbx_job_on_resize(user, find_job(user, msg->header.run), msg->columns, msg->rows);
}

static void output_limit(void *user, const struct sbx_msg_output_limit *msg)
{
    sbx_job_on_output_limit(user, find_job(user, msg->header.run), msg);
}

static int drained(void *user, const struct sbx_msg_drained *msg)
{
    return sbx_job_on_drained(user, find_job(user, msg->header.run), msg);
}

static const struct sbx_link_ops link_ops = {
    .is_live = is_live,
    .begin = begin,
    .cancel = cancel,
    .output_limit = output_limit,
    .drained = drained,
    .signal = signal_program,
    .resize = resize,
    .open_session = open_session,
    .close_session = close_session,
};

/* ---- the start ---- */

void sbx_backend_init(struct sbx_backend *backend, const struct sbx_backend_ops *ops)
{
    *backend = (struct sbx_backend){
        .ops = ops,
        .epoll_fd = -1,
        .link = {.fd = -1, .ops = &link_ops, .user = backend, .maximum = sbx_maximum_limits},
        .lifeline_fd = -1,
        .weakened = SBX_WEAKEN_NOTHING,
    };
    sbx_cgroup_host_init(&backend->cgroups, NULL);
}

int sbx_backend_take_fds(struct sbx_backend *backend, const char *program, bool with_runtimes,
                         struct cr_err *err)
{
    int r = with_runtimes ? sbx_runtimes_load(SBX_BACKEND_FD_RUNTIMES, err) : 0;

    if (r == 0)
        r = sbx_process_take_fds(program, &backend->link.fd, &backend->lifeline_fd, err);

    return r < 0 ? r : sbx_process_block_signals(err);
}

void sbx_backend_set_maxima(struct sbx_backend *backend, const uint64_t maximum[SBX_LIMIT_COUNT])
{
    backend->link.maximum = sbx_maximum_limits;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (maximum[i] > 0)
            backend->link.maximum.value[i] = maximum[i];
    }
}

static void lower_maximum(struct sbx_backend *backend, uint32_t limit, uint64_t available)
{
    uint64_t *most = &backend->link.maximum.value[limit];

    if (*most <= available)
        return;
    cr_log_info(
        "this host has less than the maximum of a run, lowering it limit=%s maximum=%" PRIu64
        " available=%" PRIu64,
        sbx_limit_name(limit), *most, available);
    *most = available;
}

void sbx_backend_share_memory(struct sbx_backend *backend, uint64_t bytes)
{
    if (bytes == 0)
        return; /* nobody could tell */
    lower_maximum(backend, SBX_LIMIT_MEMORY, bytes);
    backend->memory_bytes = bytes;
}

void sbx_backend_share_cpu(struct sbx_backend *backend, uint32_t millicores)
{
    lower_maximum(backend, SBX_LIMIT_CPU_MILLICORES, millicores);
}

struct sbx_limits sbx_backend_usual_limits(const struct sbx_backend *backend)
{
    struct sbx_limits limits = sbx_default_limits;

    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (limits.value[i] > backend->link.maximum.value[i])
            limits.value[i] = backend->link.maximum.value[i];
    }
    return limits;
}

void sbx_backend_add_slot(struct sbx_backend *backend, struct sbx_job *job)
{
    assert(backend->slot_count < SBX_SLOTS_MAX && job->slot == backend->slot_count);
    backend->jobs[backend->slot_count++] = job;
}

int sbx_backend_open_loop(struct sbx_backend *backend, struct cr_err *err)
{
    int r;

    backend->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (backend->epoll_fd < 0)
        return cr_err_sys(err, errno, "open epoll");
    r = sbx_backend_watch(backend, backend->link.fd, EPOLLIN, SBX_WATCH_FRONT, NULL);
    if (r == 0)
        r = sbx_backend_watch(backend, backend->lifeline_fd, EPOLLIN, SBX_WATCH_LIFELINE, NULL);
    return r < 0 ? cr_err_sys(err, -r, "watch the sockets") : 0;
}

void sbx_backend_say_hello(struct sbx_backend *backend, uint32_t number)
{
    size_t runtime_count;
    union sbx_msg msg;

    (void)sbx_runtimes(&runtime_count);
    sbx_msg_init(&msg, SBX_MSG_HELLO, 0);
    msg.hello.backend = number;
    msg.hello.sessions = (uint8_t)backend->sessions.most;
    msg.hello.session_life_ms = backend->sessions.most > 0 ? backend->sessions.life_ms : 0;
    msg.hello.features = backend->features;
    msg.hello.slots = backend->slot_count;
    msg.hello.runtime_count = (uint32_t)runtime_count;
    backend->link.cgroup_version = backend->cgroups.ops->version;
    msg.hello.cgroup_version = backend->link.cgroup_version;
    msg.hello.runtime_digest = sbx_runtimes_digest();
    msg.hello.maximum = backend->link.maximum;
    msg.hello.runtimes = backend->runtimes;
    msg.hello.is_image_root = backend->is_image_root;
    msg.hello.pool_slots = backend->pool_slots;
    msg.hello.memory_bytes = backend->memory_bytes;
    memcpy(msg.hello.controls, backend->controls, sizeof(msg.hello.controls));
    sbx_backend_send(backend, &msg);
}

void sbx_backend_close(struct sbx_backend *backend)
{
    sbx_cgroup_host_close(&backend->cgroups);
    cr_close_fd(&backend->epoll_fd);
    cr_close_fd(&backend->link.fd);
    cr_close_fd(&backend->lifeline_fd);
}
