/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/server.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "common/turns.h"
#include "common/unconst.h"
#include "rpc/call.h"
#include "rpc/connection.h"
#include "rpc/core.h"
#include "rpc/health.h"
#include "rpc/peers.h"
#include "rpc/reflection.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_posix.h>

/* Requests asked of core ahead of need; each costs about 1 KiB. */
#define ARMED_REQUESTS 64

/* Until memory is asked for again that was refused. */
#define REARM_MS 50

/* Between two signs of life of the thread. */

/* For the last words to callers whose grace has passed; then, until handlers have let go of what
 * was cancelled. Both fit into what the supervisor waits behind the grace. */
#define FAREWELL_MS 1000
#define CANCEL_MS 9000

#define ARGS_MAX 16

/* More than all methods of a service of ours. */
#define METERED_MAX 64

static void set_defaults(struct rpc_server_options *options)
{
    if (options->max_request_bytes == 0)
        options->max_request_bytes = 4U << 20;
    if (options->max_metadata_bytes == 0)
        options->max_metadata_bytes = 16U << 10;
    if (options->max_calls == 0)
        options->max_calls = 4096;
    if (options->max_streams == 0)
        options->max_streams = 256;
    if (options->memory_quota_bytes == 0)
        options->memory_quota_bytes = 128U << 20;
    if (options->request_timeout_ms == 0)
        options->request_timeout_ms = 20000;
    if (options->write_timeout_ms == 0)
        options->write_timeout_ms = 120000;
}

static void add_arg(grpc_channel_args *args, const char *key, int value)
{
    grpc_arg *arg = &args->args[args->num_args++];

    arg->type = GRPC_ARG_INTEGER;
    arg->key = cr_unconst(key); /* core copies it */
    arg->value.integer = value;
}

static void add_quota(grpc_channel_args *args, grpc_resource_quota *quota)
{
    grpc_arg *arg = &args->args[args->num_args++];
    static char key[] = GRPC_ARG_RESOURCE_QUOTA;

    arg->type = GRPC_ARG_POINTER;
    arg->key = key;
    arg->value.pointer.p = quota;
    arg->value.pointer.vtable = grpc_resource_quota_arg_vtable();
}

static void create_core(struct rpc_server *server)
{
    const struct rpc_server_options *options = &server->options;
    grpc_resource_quota *quota = grpc_resource_quota_create("server");
    grpc_arg list[ARGS_MAX];
    grpc_channel_args args = {0, list};

    /* The only bound on the bytes of messages that are still coming in. */
    grpc_resource_quota_resize(quota, options->memory_quota_bytes);
    add_quota(&args, quota);
    add_arg(&args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)options->max_request_bytes);
    add_arg(&args, GRPC_ARG_MAX_METADATA_SIZE, (int)options->max_metadata_bytes);
    add_arg(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)options->max_streams);
    /* Identity only: core inflates a compressed message before it looks at the size limit. */
    add_arg(&args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
    add_arg(&args, GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300000);
    if (options->connection_age_s > 0) {
        add_arg(&args, GRPC_ARG_MAX_CONNECTION_AGE_MS, (int)(options->connection_age_s * 1000));
        add_arg(&args, GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                (int)(options->connection_grace_s * 1000));
    }
    add_arg(&args, GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
    add_arg(&args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    add_arg(&args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    add_arg(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
    add_arg(&args, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
    add_arg(&args, GRPC_ARG_ENABLE_CHANNELZ, 0);
    server->core = grpc_server_create(&args, NULL);
    grpc_resource_quota_unref(quota);
    server->credentials = grpc_insecure_server_credentials_create();
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->core, server->queue, NULL);
}

static size_t count_rows(const struct rpc_method *table)
{
    size_t count = 0;

    while (table[count].path)
        count++;
    return count;
}

static int compare_routes(const void *a, const void *b)
{
    const struct rpc_route *left = a;
    const struct rpc_route *right = b;

    return strcmp(left->method->path, right->method->path);
}

static void add_table(struct rpc_server *server, const struct rpc_method *table, bool is_internal)
{
    for (; table->path; table++)
        server->routes[server->route_count++] =
            (struct rpc_route){.method = table, .is_internal = is_internal};
}

static int check_routes(const struct rpc_server *server, struct cr_err *err)
{
    for (size_t i = 1; i < server->route_count; i++) {
        if (compare_routes(&server->routes[i - 1], &server->routes[i]) == 0)
            return cr_err_set(err, EEXIST, "method '%s' is in the tables twice",
                              server->routes[i].method->path);
    }
    return 0;
}

static int build_routes(struct rpc_server *server, const struct rpc_method *const *tables,
                        size_t table_count, struct cr_err *err)
{
    size_t total = count_rows(rpc_health_methods) + count_rows(rpc_reflection_methods);

    for (size_t i = 0; i < table_count; i++)
        total += count_rows(tables[i]);
    server->routes = calloc(total + 1, sizeof(*server->routes));
    server->counts = calloc(total + 1, sizeof(*server->counts));
    if (!server->routes || !server->counts)
        return cr_err_set(err, ENOMEM, "out of memory for the methods");
    for (size_t i = 0; i < table_count; i++)
        add_table(server, tables[i], false);
    add_table(server, rpc_health_methods, true);
    if (server->options.descriptor_set)
        add_table(server, rpc_reflection_methods, true);
    qsort(server->routes, server->route_count, sizeof(*server->routes), compare_routes);
    for (size_t i = 0; i < server->route_count; i++)
        server->routes[i].counts = &server->counts[i];
    return check_routes(server, err);
}

static int build(struct rpc_server *server, const struct rpc_method *const *tables,
                 size_t table_count, struct cr_err *err)
{
    int r = build_routes(server, tables, table_count, err);

    if (r < 0)
        return r;
    server->peers = rpc_peers_new();
    server->health = rpc_health_new(server);
    if (!server->peers || !server->health)
        return cr_err_set(err, ENOMEM, "out of memory for a server");
    if (server->options.descriptor_set) {
        r = rpc_reflection_new(server, &server->reflection, err);
        if (r < 0)
            return r;
    }
    create_core(server);
    return 0;
}

static void init_lock(struct rpc_server *server)
{
    pthread_condattr_t attributes;

    /* None of these can fail with such arguments on Linux. */
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&server->lock, NULL);
}

int rpc_server_new(const struct rpc_method *const *tables, size_t table_count,
                   const struct rpc_server_options *options, struct rpc_server **ret_server,
                   struct cr_err *err)
{
    struct rpc_server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return cr_err_set(err, ENOMEM, "out of memory for a server");
    server->options = *options;
    set_defaults(&server->options);
    server->request_stalls.patience_ns = server->options.request_timeout_ms * CR_NS_PER_MS;
    server->write_stalls.patience_ns = server->options.write_timeout_ms * CR_NS_PER_MS;
    init_lock(server);
    r = build(server, tables, table_count, err);
    if (r < 0) {
        (void)rpc_server_free(server);
        return r;
    }
    *ret_server = server;
    return 0;
}

static void on_shut(struct rpc_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->is_shut = true;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

static void handle(struct rpc_server *server, const grpc_event *event)
{
    struct rpc_tag *tag = event->tag;

    if (tag == &server->shutdown_tag) {
        on_shut(server);
        return;
    }
    (void)cr_trace_enter(&tag->call->trace);
    tag->run(tag->call, event->success != 0);
    (void)cr_trace_enter(NULL);
}

static int64_t next_due_ns(const struct rpc_server *server)
{
    int64_t request_ns = rpc_stalls_next_ns(&server->request_stalls);
    int64_t write_ns = rpc_stalls_next_ns(&server->write_stalls);
    int64_t due_ns = request_ns < write_ns ? request_ns : write_ns;
    int64_t retry_ns = INT64_MAX;

    if (server->unarmed > 0)
        retry_ns = cr_clock_mono_ns() + REARM_MS * CR_NS_PER_MS;
    return due_ns < retry_ns ? due_ns : retry_ns;
}

static void on_due(struct rpc_server *server)
{
    rpc_call_expire(server, cr_clock_mono_ns());
    if (server->unarmed > 0)
        rpc_call_arm(server, 0);
}

static void *serve(void *argument)
{
    struct rpc_server *server = argument;

    /* rpc_server_start holds it until it has stored our thread id. */
    (void)pthread_mutex_lock(&server->lock);
    (void)pthread_mutex_unlock(&server->lock);
    rpc_call_arm(server, ARMED_REQUESTS);
    for (;;) {
        int64_t due_ns = next_due_ns(server);
        int64_t turn_ns = cr_clock_mono_ns() + CR_TURN_MS * CR_NS_PER_MS;
        grpc_event event = grpc_completion_queue_next(
            server->queue, rpc_core_time(due_ns < turn_ns ? due_ns : turn_ns), NULL);

        (void)atomic_fetch_add(&server->turns, 1);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE)
            handle(server, &event);
        if (due_ns != INT64_MAX && cr_clock_mono_ns() >= due_ns)
            on_due(server);
    }
}

int rpc_server_start(struct rpc_server *server, struct cr_err *err)
{
    int error;

    grpc_server_start(server->core);
    (void)pthread_mutex_lock(&server->lock);
    error = pthread_create(&server->thread, NULL, serve, server);
    server->is_started = error == 0;
    (void)pthread_mutex_unlock(&server->lock);
    if (error != 0)
        return cr_err_sys(err, error, "start the thread of the server");
    return 0;
}

static int add_to_core(struct rpc_server *server, int fd, const struct rpc_peer *peer,
                       struct cr_err *err)
{
    int r;

    if (!server->is_started || server->is_draining)
        return cr_err_set(err, ESHUTDOWN, "the server takes no connections");
    r = rpc_peers_set(server->peers, fd, peer);
    if (r < 0)
        return cr_err_sys(err, -r, "remember the peer of connection %d", fd);
    grpc_server_add_channel_from_fd(server->core, fd, server->credentials);
    return 0;
}

int rpc_server_add_connection(struct rpc_server *server, int fd, const struct rpc_peer *peer,
                              struct cr_err *err)
{
    int flags = fcntl(fd, F_GETFL);
    int r;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return cr_err_sys(err, errno, "make connection %d non-blocking", fd);
    /* Under the lock, so that no connection slips in behind the begin of a drain. */
    (void)pthread_mutex_lock(&server->lock);
    r = add_to_core(server, fd, peer, err);
    (void)pthread_mutex_unlock(&server->lock);
    return r;
}

void rpc_server_set_serving(struct rpc_server *server, const char *service, bool is_serving)
{
    if (rpc_health_set(server->health, service, is_serving))
        rpc_server_wake_internal(server);
}

uint64_t rpc_server_turns(const struct rpc_server *server)
{
    return atomic_load(&server->turns);
}

uint32_t rpc_server_live_calls(const struct rpc_server *server)
{
    /* The lock is no part of what the caller sees as constant. */
    pthread_mutex_t *lock = cr_unconst(&server->lock);
    uint32_t count;

    (void)pthread_mutex_lock(lock);
    count = server->service_calls;
    (void)pthread_mutex_unlock(lock);
    return count;
}

void rpc_server_write_metrics(const struct rpc_server *server, struct cr_metrics *metrics)
{
    struct rpc_metered list[METERED_MAX];
    size_t count = 0;

    for (size_t i = 0; i < server->route_count && i < METERED_MAX - 1; i++)
        list[count++] =
            (struct rpc_metered){server->routes[i].method->path, server->routes[i].method->kind,
                                 server->routes[i].counts};
    list[count++] = (struct rpc_metered){NULL, RPC_UNARY, &server->counts[server->route_count]};
    rpc_meter_write(metrics, "server", list, count);
}

static bool wait_closed(struct rpc_server *server, int timeout_ms)
{
    int64_t due_ns = cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    struct timespec due = {.tv_sec = due_ns / CR_NS_PER_S, .tv_nsec = due_ns % CR_NS_PER_S};
    bool is_closed;
    int error = 0;

    (void)pthread_mutex_lock(&server->lock);
    while (error == 0 && !(server->is_shut && server->open_calls == 0))
        error = pthread_cond_timedwait(&server->changed, &server->lock, &due);
    is_closed = server->is_shut && server->open_calls == 0;
    (void)pthread_mutex_unlock(&server->lock);
    return is_closed;
}

/* Only now: a batch on a queue that is shut down aborts the process. */
static void stop_thread(struct rpc_server *server)
{
    grpc_completion_queue_shutdown(server->queue);
    (void)pthread_join(server->thread, NULL);
    (void)pthread_mutex_lock(&server->lock);
    server->is_started = false;
    (void)pthread_mutex_unlock(&server->lock);
}

bool rpc_server_drain(struct rpc_server *server, int grace_ms)
{
    bool is_clean;

    if (!server->is_started)
        return true;
    rpc_health_drain(server->health);
    (void)pthread_mutex_lock(&server->lock);
    server->is_draining = true;
    (void)pthread_mutex_unlock(&server->lock);
    rpc_server_wake_internal(server);
    grpc_server_shutdown_and_notify(server->core, server->queue, &server->shutdown_tag);
    is_clean = wait_closed(server, grace_ms);
    if (!is_clean) {
        /* Core's own end says UNAVAILABLE and nothing else: it is for those that do not read. */
        rpc_server_break_off(server);
        if (!wait_closed(server, cr_patience_ms(FAREWELL_MS)))
            grpc_server_cancel_all_calls(server->core);
        if (!wait_closed(server, cr_patience_ms(CANCEL_MS))) {
            cr_log_error("calls are still held %d ms after their cancel, leaving the server behind",
                         cr_patience_ms(CANCEL_MS));
            return false;
        }
    }
    stop_thread(server);
    return is_clean;
}

static void destroy_core(struct rpc_server *server)
{
    grpc_server_destroy(server->core);
    grpc_completion_queue_shutdown(server->queue);
    while (
        grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
        GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(server->queue);
    grpc_server_credentials_release(server->credentials);
}

struct rpc_server *rpc_server_free(struct rpc_server *server)
{
    /* Still started: the drain gave up, and a handler may come back any time. */
    if (!server || server->is_started)
        return NULL;
    if (server->core)
        destroy_core(server);
    (void)rpc_reflection_free(server->reflection);
    (void)rpc_health_free(server->health);
    (void)rpc_peers_free(server->peers);
    free(server->routes);
    free(server->counts);
    (void)pthread_cond_destroy(&server->changed);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
    return NULL;
}
