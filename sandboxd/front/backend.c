/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/turns.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/backend_parts.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/front/tail.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <sys/epoll.h>

#define MAILBOX_CAP 65536U
#define EVENTS_MAX 64

/* ---- runs ---- */

static void log_end(const struct sbx_execution *execution)
{
    const struct sbx_outcome *outcome = &execution->outcome;

    if (outcome->refusal != RPC_OK)
        cr_log_info("run refused execution=%s caller=%s code=%s reason=%s", execution->id,
                    execution->caller, rpc_code_name(outcome->refusal),
                    outcome->refusal_reason ? outcome->refusal_reason : "");
    else
        cr_log_info("run ended execution=%s run=%llu caller=%s runtime=%s verdict=%s wall_us=%llu "
                    "queue_us=%llu stage=%s errno=%d",
                    execution->id, (unsigned long long)execution->run, execution->caller,
                    sbx_request_runtime(&execution->request)->name,
                    sbx_verdict_name(outcome->result.verdict),
                    (unsigned long long)outcome->result.wall_us,
                    (unsigned long long)outcome->queue_us, sbx_stage_name(outcome->result.stage),
                    outcome->result.stage_errno);
}

/* Its last reference goes after the epoll round, whose events may still name it. */
static void on_run_ended(void *user, struct sbx_execution *execution)
{
    struct sbx_backend *backend = user;

    struct cr_trace before = cr_trace_enter(&execution->trace);

    sbx_admission_ended(&backend->admission, execution);
    log_end(execution);
    sbx_meter_note(&backend->meter, execution);
    sbx_audit_ended(backend->options.audit, execution);
    execution->next = backend->dead;
    backend->dead = execution;
    (void)cr_trace_enter(&before);
}

/* ---- mail ---- */

/* Takes over the reference that came with the mail. */
static void on_kick(struct sbx_backend *backend, struct sbx_execution *execution)
{
    uint32_t kicks;

    (void)pthread_mutex_lock(&execution->lock);
    kicks = execution->kicks;
    execution->kicks = 0;
    execution->is_posted = false;
    (void)pthread_mutex_unlock(&execution->lock);
    (void)cr_trace_enter(&execution->trace);
    if (kicks & SBX_KICK_SUBMIT) {
        (void)sbx_execution_ref(execution); /* the thread's own, until it is dead */
        sbx_admission_submit(&backend->admission, execution);
    }
    if ((kicks & SBX_KICK_CANCEL) && execution->state == SBX_RUN_QUEUED)
        sbx_admission_cancel(&backend->admission, execution);
    else
        sbx_run_kicked(execution, kicks);
    (void)cr_trace_enter(NULL);
    sbx_execution_unref(execution);
}

static void on_command(struct sbx_backend *backend)
{
    atomic_store(&backend->is_command_posted, false);
    (void)sbx_backend_flush_sandboxes(backend); /* what is left goes when the wire has room */
    if (atomic_load(&backend->is_draining))
        sbx_admission_drain(&backend->admission);
    if (atomic_load(&backend->is_stopping)) {
        for (struct sbx_execution *run = backend->admission.runs, *next; run; run = next) {
            next = run->next; /* it may end */
            sbx_run_kicked(run, SBX_KICK_CANCEL | SBX_KICK_ABANDON);
        }
    }
}

static void read_mail(struct sbx_backend *backend)
{
    struct cr_mail *mail = cr_mailbox_take_all(backend->mailbox);

    while (mail) {
        struct sbx_mail *item = (struct sbx_mail *)mail;

        mail = mail->next; /* before the mail may be posted anew */
        if (item->execution)
            on_kick(backend, item->execution);
        else
            on_command(backend);
    }
}

void sbx_backend_post(struct sbx_backend *backend, struct sbx_execution *execution)
{
    /* At most one per live execution, so it may pass the cap. */
    (void)cr_mailbox_post(backend->mailbox, &execution->mail.mail, true);
}

static void post_command(struct sbx_backend *backend)
{
    if (!atomic_exchange(&backend->is_command_posted, true))
        (void)cr_mailbox_post(backend->mailbox, &backend->command.mail, true);
}

/* ---- the thread ---- */

static void bury(struct sbx_backend *backend)
{
    while (backend->dead) {
        struct sbx_execution *execution = backend->dead;

        backend->dead = execution->next;
        sbx_execution_unref(execution);
    }
}

static void dispatch(struct sbx_backend *backend, const struct epoll_event *event)
{
    struct sbx_source *source = event->data.ptr;

    if (source->execution) {
        (void)cr_trace_enter(&source->execution->trace);
        sbx_run_ready(source->execution, source->kind);
        (void)cr_trace_enter(NULL);
        return;
    }
    if (source->fd < 0)
        return;
    switch (source->kind) {
    case SBX_SOURCE_WIRE:
        if (event->events & EPOLLOUT)
            sbx_backend_flush(backend);
        sbx_backend_read_wire(backend);
        break;
    case SBX_SOURCE_CONTROL:
        sbx_backend_read_control(backend);
        break;
    default:
        read_mail(backend);
        break;
    }
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/*
 * What is due by the clock: runs that are to be told of, and tails that nobody
 * reads. Returns when the next is, as a timeout of epoll_wait(2).
 */
static int look_at_clock(struct sbx_backend *backend)
{
    const int64_t now_ns = cr_clock_mono_ns();
    int64_t next_ns = atomic_load(&backend->is_stopping) ? backend->stop_at_ns : INT64_MAX;
    int64_t wait_ms;

    for (struct sbx_execution *run = backend->admission.runs; run; run = run->next) {
        sbx_run_on_time(run, now_ns);
        next_ns = earlier(next_ns, sbx_run_next_ns(run));
    }
    if (backend->options.tails)
        next_ns = earlier(next_ns, sbx_tails_expire(backend->options.tails, now_ns));
    if (next_ns == INT64_MAX)
        return -1;
    wait_ms = next_ns <= now_ns ? 0 : (next_ns - now_ns) / CR_NS_PER_MS + 1;
    return wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms;
}

/* True when the thread may go: told to stop, and nothing in flight or out of patience. */
static bool is_done(struct sbx_backend *backend)
{
    if (!atomic_load(&backend->is_stopping))
        return false;
    if (backend->stop_at_ns <= cr_clock_mono_ns())
        sbx_backend_lose(backend, "no answer at shutdown");
    return !backend->admission.runs;
}

/* What other threads are told; the admission is this thread's alone. */
static void publish_load(struct sbx_backend *backend)
{
    const struct sbx_admission *admission = &backend->admission;

    (void)pthread_mutex_lock(&backend->lock);
    backend->load = (struct sbx_backend_load){
        .slots = admission->slots,
        .running = admission->run_count,
        .waiting = (uint32_t)admission->queue.count,
        .memory_bytes = admission->memory_bytes,
        .memory_taken = admission->memory_taken,
    };
    (void)pthread_mutex_unlock(&backend->lock);
}

static void *run_thread(void *user)
{
    struct sbx_backend *backend = user;
    struct epoll_event events[EVENTS_MAX];

    while (!is_done(backend)) {
        int count = epoll_wait(backend->host.epoll_fd, events, EVENTS_MAX,
                               cr_turn_ms(look_at_clock(backend)));

        (void)atomic_fetch_add(&backend->turns, 1);
        for (int i = 0; i < count; i++)
            dispatch(backend, &events[i]);
        if (backend->options.sandboxes)
            backend->admission.memory_kept = sbx_sandboxes_memory(backend->options.sandboxes);
        sbx_admission_fill(&backend->admission);
        bury(backend);
        publish_load(backend);
    }
    sbx_admission_drain(&backend->admission);
    bury(backend);
    read_mail(backend); /* late kicks give their references back */
    bury(backend);
    return NULL;
}

/* ---- life cycle ---- */

static void free_backend(struct sbx_backend *backend)
{
    cr_close_fd(&backend->host.epoll_fd);
    cr_close_fd(&backend->host.null_fd);
    (void)cr_mailbox_free(backend->mailbox);
    (void)pthread_mutex_destroy(&backend->lock);
    free(backend->host.scratch);
    free(backend);
}

static int open_backend(struct sbx_backend *backend, struct cr_err *err)
{
    int r;

    backend->host.scratch = malloc(SBX_CHUNK_MAX);
    if (!backend->host.scratch)
        return cr_err_set(err, ENOMEM, "out of memory for the backend");
    backend->host.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (backend->host.epoll_fd < 0)
        return cr_err_sys(err, errno, "create epoll of the backend");
    backend->host.null_fd = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
    if (backend->host.null_fd < 0)
        return cr_err_sys(err, errno, "open /dev/null");
    r = cr_mailbox_new(MAILBOX_CAP, &backend->mailbox, err);
    if (r < 0)
        return r;
    backend->mail.fd = cr_mailbox_fd(backend->mailbox);
    r = sbx_backend_watch_source(backend, &backend->mail, EPOLLIN, true);
    if (r == 0 && backend->wire.fd >= 0)
        r = sbx_backend_watch_source(backend, &backend->wire, EPOLLIN, true);
    if (r == 0 && backend->control.fd >= 0)
        r = sbx_backend_watch_source(backend, &backend->control, EPOLLIN, true);
    if (r < 0)
        return cr_err_sys(err, -r, "watch the sockets of the backend");
    r = pthread_create(&backend->thread, NULL, run_thread, backend);
    if (r != 0)
        return cr_err_sys(err, r, "start the stream thread");
    backend->has_thread = true;
    return 0;
}

int sbx_backend_new(const struct sbx_backend_options *options, struct sbx_backend **ret_backend,
                    struct cr_err *err)
{
    struct sbx_backend *backend = calloc(1, sizeof(*backend));
    int r;

    if (!backend)
        return cr_err_set(err, ENOMEM, "out of memory for the backend");
    backend->options = *options;
    backend->host = (struct sbx_run_host){
        .user = backend,
        .epoll_fd = -1,
        .null_fd = -1,
        .send = sbx_backend_send_wire,
        .ended = on_run_ended,
    };
    backend->wire = (struct sbx_source){.kind = SBX_SOURCE_WIRE, .fd = options->wire_fd};
    backend->control = (struct sbx_source){.kind = SBX_SOURCE_CONTROL, .fd = options->control_fd};
    backend->mail = (struct sbx_source){.kind = SBX_SOURCE_MAILBOX, .fd = -1};
    sbx_admission_init(&backend->admission, &backend->host, options->queue_length);
    (void)pthread_mutex_init(&backend->lock, NULL); /* cannot fail with default attributes */
    r = open_backend(backend, err);
    if (r < 0) {
        free_backend(backend);
        return r;
    }
    *ret_backend = backend;
    return 0;
}

struct sbx_backend *sbx_backend_free(struct sbx_backend *backend, int deadline_ms)
{
    if (!backend)
        return NULL;
    backend->stop_at_ns = cr_clock_mono_ns() + deadline_ms * CR_NS_PER_MS;
    atomic_store(&backend->is_draining, true);
    atomic_store(&backend->is_stopping, true);
    post_command(backend);
    (void)pthread_join(backend->thread, NULL);
    cr_close_fd(&backend->wire.fd);
    cr_close_fd(&backend->control.fd);
    free_backend(backend);
    return NULL;
}

void sbx_backend_nudge(struct sbx_backend *backend)
{
    post_command(backend);
}

void sbx_backend_drain(struct sbx_backend *backend)
{
    atomic_store(&backend->is_draining, true);
    post_command(backend);
}

bool sbx_backend_hello(struct sbx_backend *backend, struct sbx_msg_hello *ret_hello)
{
    bool is_up;

    (void)pthread_mutex_lock(&backend->lock);
    is_up = backend->is_up;
    if (is_up)
        *ret_hello = backend->hello;
    (void)pthread_mutex_unlock(&backend->lock);
    return is_up;
}

void sbx_backend_pool(struct sbx_backend *backend, struct sbx_pool_counts *ret_counts)
{
    (void)pthread_mutex_lock(&backend->lock);
    *ret_counts = backend->pool;
    (void)pthread_mutex_unlock(&backend->lock);
}

void sbx_backend_get_load(struct sbx_backend *backend, struct sbx_backend_load *ret_load)
{
    (void)pthread_mutex_lock(&backend->lock);
    *ret_load = backend->load;
    (void)pthread_mutex_unlock(&backend->lock);
}

void sbx_backend_write_metrics(struct sbx_backend *backend, struct cr_metrics *metrics)
{
    struct sbx_meter_now now = {.queue_capacity = backend->options.queue_length};

    (void)pthread_mutex_lock(&backend->lock);
    now.is_up = backend->is_up;
    now.hello = backend->hello;
    now.pool_ready = backend->pool.ready;
    now.load = backend->load;
    (void)pthread_mutex_unlock(&backend->lock);
    sbx_meter_write(&backend->meter, &now, metrics);
}

size_t sbx_backend_queue_length(const struct sbx_backend *backend)
{
    return backend->options.queue_length;
}

uint64_t sbx_backend_turns(const struct sbx_backend *backend)
{
    return atomic_load(&backend->turns);
}

void sbx_backend_report_turns(struct sbx_backend *backend)
{
    if (backend->options.control_fd >= 0)
        (void)sbx_lifeline_send(backend->options.control_fd, SBX_LIFELINE_TURNS, 0, -1);
}

void sbx_backend_report_ready(struct sbx_backend *backend)
{
    struct sbx_msg_hello hello;

    if (sbx_backend_hello(backend, &hello) && backend->options.control_fd >= 0)
        (void)sbx_lifeline_send(backend->options.control_fd, SBX_LIFELINE_READY, hello.slots, -1);
}
