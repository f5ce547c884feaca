/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SandboxService for benchmarks of the orchestrator alone: Execute answers as
 * the double of tests/harness does, so many ms later, and runs nothing.
 * Writes "ready" when it accepts; ends on SIGTERM.
 *
 * Usage: sandbox_double ADDRESS DELAY_MS
 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/edge.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/listener.h"
#include "rpc/server.h"
#include "tests/bench/samples.h"
#include "tests/harness/doubles.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/signalfd.h>

#define DELAY_MAX_MS 60000
#define EVENTS_MAX 4

/* One call. Filled in by the thread of the double; from the wake on it is the server's. */
struct job {
    struct service *service; /* borrowed */
    struct rpc_call *call;   /* a reference until it is woken */
    struct job *next;
    int64_t due_ns;
    size_t count;
    size_t sent;

    struct {
        uint8_t *bytes;
        size_t size;
    } events[EVENTS_MAX];
};

struct service {
    struct agt_sandbox *sandbox;
    int64_t delay_ns;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct job *first; /* in the order of their time: every wait is as long */
    struct job *last;
    bool is_stopping;
};

static void on_event(void *user, const ProtobufCMessage *event)
{
    struct job *job = user;
    size_t size = protobuf_c_message_get_packed_size(event);
    uint8_t *bytes = job->count < EVENTS_MAX ? malloc(size + 1) : NULL;

    if (!bytes)
        abort(); /* a benchmark that goes on without it would measure something else */
    job->events[job->count].size = protobuf_c_message_pack(event, bytes);
    job->events[job->count++].bytes = bytes;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct job *job = user;
    struct service *service = job->service;

    (void)status;
    (void)pthread_mutex_lock(&service->lock);
    job->due_ns = cr_clock_mono_ns() + service->delay_ns;
    if (service->last)
        service->last->next = job;
    else
        service->first = job;
    service->last = job;
    (void)pthread_cond_signal(&service->changed);
    (void)pthread_mutex_unlock(&service->lock);
}

/* NULL: the end. */
static struct job *take_job(struct service *service)
{
    struct job *job;

    (void)pthread_mutex_lock(&service->lock);
    while (!service->first && !service->is_stopping)
        (void)pthread_cond_wait(&service->changed, &service->lock);
    job = service->first;
    if (job)
        service->first = job->next;
    if (!service->first)
        service->last = NULL;
    (void)pthread_mutex_unlock(&service->lock);
    return job;
}

static void *delay_main(void *user)
{
    struct service *service = user;
    struct job *job;

    while ((job = take_job(service))) {
        struct rpc_call *call = job->call;

        bench_wait_until(job->due_ns);
        rpc_call_wake(call); /* the job may be gone after that */
        (void)rpc_call_unref(call);
    }
    return NULL;
}

/* ---- the server's thread ---- */

static void on_message(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct service *service = rpc_call_context(call);
    struct job *job = calloc(1, sizeof(*job));
    const struct agt_sandbox_handlers handlers = {on_event, on_end, job};
    struct agt_sandbox_call *running = NULL;

    if (!job)
        abort();
    job->service = service;
    job->call = rpc_call_ref(call);
    rpc_call_set_user(call, job);
    if (service->sandbox->ops->execute(service->sandbox, message, 0, &handlers, &running, NULL) < 0)
        abort();
    service->sandbox->ops->unref(running);
}

static void send_next(struct rpc_call *call)
{
    struct job *job = rpc_call_user(call);

    if (job->sent < job->count) {
        size_t at = job->sent++;

        (void)rpc_call_send_packed(call, job->events[at].bytes, job->events[at].size);
    }
    if (job->sent == job->count)
        rpc_call_finish(call, NULL, NULL);
}

static void on_free(struct rpc_call *call)
{
    struct job *job = rpc_call_user(call);

    if (!job)
        return;
    for (size_t i = 0; i < job->count; i++)
        free(job->events[i].bytes);
    free(job);
}

static const struct rpc_method methods[] = {
    {
        .path = "/crisol.sandbox.v1.SandboxService/Execute",
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__sandbox__v1__execute_request__descriptor,
        .response = &crisol__sandbox__v1__execute_response__descriptor,
        .on_message = on_message,
        .on_wake = send_next,
        .on_writable = send_next,
        .on_free = on_free,
    },
    {0},
};

static int start(struct service *service, const char *address, struct rpc_server **ret_server,
                 struct rpc_listener **ret_listener, struct cr_err *err)
{
    const struct rpc_method *const tables[] = {methods};
    struct cr_edge edge;
    struct rpc_server_options options = {.context = service};
    const struct rpc_listener_options listener_options = {.edge = &edge};
    int r;

    cr_edge_defaults(&edge);
    edge.max_streams = CR_EDGE_STREAMS_MAX;
    options.max_streams = edge.max_streams;
    r = rpc_server_new(tables, 1, &options, ret_server, err);
    if (r == 0)
        r = rpc_server_start(*ret_server, err);
    if (r == 0)
        r = rpc_listener_new(*ret_server, &listener_options, ret_listener, err);
    if (r == 0)
        r = rpc_listener_add(*ret_listener, address, err);
    if (r == 0)
        r = rpc_listener_start(*ret_listener, err);
    return r;
}

static int open_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void stop(struct service *service, pthread_t thread)
{
    (void)pthread_mutex_lock(&service->lock);
    service->is_stopping = true;
    (void)pthread_cond_signal(&service->changed);
    (void)pthread_mutex_unlock(&service->lock);
    (void)pthread_join(thread, NULL);
}

static int serve(struct service *service, const char *address, int signals)
{
    struct rpc_listener *listener = NULL;
    struct rpc_server *server = NULL;
    struct cr_err err = CR_ERR_INIT;
    struct signalfd_siginfo info;
    pthread_t thread;
    int r = start(service, address, &server, &listener, &err);

    if (r == 0)
        r = -pthread_create(&thread, NULL, delay_main, service);
    if (r == 0) {
        rpc_server_set_serving(server, "", true);
        (void)puts("ready");
        (void)fflush(stdout);
        (void)!read(signals, &info, sizeof(info));
    } else {
        (void)fprintf(stderr, "sandbox_double: %s\n", err.text);
    }
    if (listener)
        rpc_listener_stop(listener);
    if (server)
        (void)rpc_server_drain(server, 0);
    if (r == 0)
        stop(service, thread);
    (void)rpc_listener_free(listener);
    (void)rpc_server_free(server);
    return r;
}

int main(int argc, char **argv)
{
    CR_AUTO_CLOSE int signals = open_signals();
    char *end = NULL;
    unsigned long delay_ms = argc == 3 ? strtoul(argv[2], &end, 10) : 0;
    struct service service = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER,
                              .delay_ns = (int64_t)delay_ms * CR_NS_PER_MS};
    int r;

    if (argc != 3 || *end != '\0' || delay_ms > DELAY_MAX_MS || signals < 0) {
        (void)fprintf(stderr, "usage: sandbox_double ADDRESS DELAY_MS\n");
        return 2;
    }
    cr_log_setup("sandbox_double", CR_LOG_WARN, CR_LOG_TEXT);
    service.sandbox = double_sandbox_new(NULL, NULL);
    rpc_init();
    r = serve(&service, argv[1], signals);
    rpc_fini();
    service.sandbox->ops->free(service.sandbox);
    return r < 0 ? 1 : 0;
}
