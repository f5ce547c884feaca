/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/server.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/secure.h"
#include "orchestrator/sandbox/sight.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

/* Header and request line; more is 431 or 414. Also the buffer of one connection. */
#define CONNECTION_MEMORY ((size_t)16 * 1024)
#define LOOP_STACK_SIZE ((size_t)512 * 1024)
#define HOSTS_CAP 4096

static void set_default(uint32_t *value, uint32_t fallback)
{
    if (*value == 0)
        *value = fallback;
}

static void fill_in_defaults(struct agt_http_options *options)
{
    set_default(&options->max_connections, 1024);
    set_default(&options->max_body_memory, 64U << 20);
    set_default(&options->header_timeout_ms, 15000);
    set_default(&options->body_timeout_ms, 30000);
    set_default(&options->write_timeout_ms, 30000);
    set_default(&options->heartbeat_ms, 15000);
    set_default(&options->store_timeout_ms, 30000);
    if (!options->version)
        options->version = CR_VERSION;
}

/* Names by which a browser on this machine may mean us; a rebound DNS name is none of them. */
static int add_hosts(const struct agt_http_options *options, struct cr_buf *hosts)
{
    const char *port = strrchr(options->address, ':');
    const char *more = options->allowed_hosts ? options->allowed_hosts : "";

    if (strcmp(more, "*") == 0)
        return cr_buf_add_str(hosts, "*");
    return cr_buf_printf(hosts, "localhost,127.0.0.1,[::1],%.*s%s%s",
                         port ? (int)(port - options->address) : 0, options->address,
                         options->allowed_hosts ? "," : "", more);
}

/* An option that is empty is none. */
static int keep_option(const char *value, char **ret_kept)
{
    if (!value || !value[0])
        return 0;
    *ret_kept = strdup(value);
    return *ret_kept ? 0 : -ENOMEM;
}

static int set_rules(struct agt_http *http, const struct agt_http_options *options)
{
    CR_AUTO_BUF struct cr_buf hosts;
    int r;

    cr_buf_init(&hosts, HOSTS_CAP);
    r = add_hosts(options, &hosts);
    if (r < 0)
        return r;
    http->allowed_hosts = cr_buf_take_str(&hosts);
    r = http->allowed_hosts ? keep_option(options->allowed_origins, &http->allowed_origins)
                            : -ENOMEM;
    http->rules = (struct agt_request_rules){
        .allowed_hosts = http->allowed_hosts,
        .tokens = options->tokens,
        .allowed_origins = http->allowed_origins,
    };
    return r;
}

/*
 * libmicrohttpd prints a line per client that leaves: for debugging only. But
 * this is also the one word of it before it refuses a request that it could
 * not frame; where it says nothing, or something else, the refusal is its own.
 * That has its head twice: 0.9.75 writes it, and then goes on to the state of
 * a request whose header was good, in which the answer, being there, has its
 * head written (connection.c, MHD_CONNECTION_HEADERS_RECEIVED).
 */
static void log_mhd(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request";
    char line[256];

    if (strncmp(format, refusal, sizeof(refusal) - 1) == 0)
        agt_connection_refuse_lengths(cls);
    if (!cr_log_is_on(CR_LOG_DEBUG))
        return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)vsnprintf(line, sizeof(line), format, args);
#pragma GCC diagnostic pop
    line[strcspn(line, "\r\n")] = '\0';
    cr_log_debug("libmicrohttpd text=%s", line);
}

static int start_daemon(struct agt_http *http, struct cr_err *err)
{
    /* The logger is first, so that it sees what the other options have to say. */
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, agt_exchange_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, http,
        MHD_OPTION_NOTIFY_CONNECTION, agt_connection_notify, http, MHD_OPTION_URI_LOG_CALLBACK,
        agt_exchange_on_url, http, MHD_OPTION_NOTIFY_COMPLETED, agt_exchange_on_completed, http,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(http->options.max_connections + AGT_SURPLUS),
        /* Its clock starts again with each byte; ours do not. What its strict mode refuses on top
         * (no Host, a space in the path) we refuse, too, and it writes its own refusal of the first
         * twice. */
        MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_END);
    if (!http->daemon)
        return cr_err_set(err, EIO, "libmicrohttpd did not start; --log-level=debug says why");
    return 0;
}

static int watch(struct agt_http *http, int fd, void *tag, struct cr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return cr_err_sys(err, errno, "watch an fd");
    return 0;
}

static int open_loop(struct agt_http *http, struct cr_err *err)
{
    const union MHD_DaemonInfo *info;
    int r;

    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (http->epoll_fd < 0)
        return cr_err_sys(err, errno, "create an epoll fd");
    http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (http->wake_fd < 0)
        return cr_err_sys(err, errno, "create an eventfd");
    r = cr_mailbox_new(1, &http->mailbox, err);
    if (r < 0)
        return r;
    r = start_daemon(http, err);
    if (r < 0)
        return r;
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return cr_err_set(err, ENOTSUP, "libmicrohttpd was built without epoll");
    r = watch(http, info->epoll_fd, &http->daemon, err);
    if (r >= 0)
        r = watch(http, http->listen.fd, &http->listen, err);
    if (r >= 0)
        r = watch(http, http->wake_fd, &http->wake_fd, err);
    if (r >= 0)
        r = watch(http, cr_mailbox_fd(http->mailbox), &http->mailbox, err);
    return r;
}

static int open_all(struct agt_http *http, const struct agt_http_options *options,
                    struct cr_err *err)
{
    int r = set_rules(http, options);

    if (r < 0)
        return cr_err_set(err, -r, "the list of allowed hosts is longer than %d bytes", HOSTS_CAP);
    r = cr_listen_open(options->address, (uid_t)-1, &http->listen, err);
    if (r < 0)
        return r;
    http->port = http->listen.port;
    return open_loop(http, err);
}

int agt_http_new(const struct agt_http_options *options, struct agt_http **ret_http,
                 struct cr_err *err)
{
    struct agt_http *http = calloc(1, sizeof(*http));
    int r;

    if (!http)
        return cr_err_set(err, ENOMEM, "serve http: out of memory");
    (void)pthread_mutex_init(&http->arrivals_lock, NULL); /* cannot fail with default attributes */
    http->options = *options;
    http->options.allowed_hosts = NULL;
    http->options.allowed_origins = NULL;
    http->started_ms = cr_clock_real_ms();
    fill_in_defaults(&http->options);
    agt_frames_init(&http->frames);
    http->sight = agt_sight_new();
    http->listen = (struct cr_listen)CR_LISTEN_INIT;
    http->epoll_fd = -1;
    http->wake_fd = -1;
    r = http->sight ? open_all(http, options, err) : cr_err_set(err, ENOMEM, "out of memory");
    http->options.address = NULL;
    if (r < 0) {
        agt_http_free(http);
        if (err)
            cr_err_wrap(err, "serve http on %s", options->address);
        return r;
    }
    *ret_http = http;
    return 0;
}

int agt_http_start(struct agt_http *http, struct cr_err *err)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    int r = agt_secure_start(http, err);

    if (r < 0)
        return r;
    /* Signals are for the threads that wait for them. */
    sigfillset(&all);
    r = pthread_attr_init(&attributes);
    if (r != 0)
        return cr_err_sys(err, r, "start the http thread");
    (void)pthread_attr_setstacksize(&attributes, LOOP_STACK_SIZE);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&http->thread, &attributes, agt_http_loop, http);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (r != 0)
        return cr_err_sys(err, r, "start the http thread");
    http->is_started = true;
    if (http->options.loop && http->options.channel)
        agt_sight_look(http->sight, http->options.loop, http->options.channel);
    return 0;
}

uint16_t agt_http_port(const struct agt_http *http)
{
    return http->port;
}

uint64_t agt_http_turns(const struct agt_http *http)
{
    return atomic_load(&http->turns);
}

uint32_t agt_http_connections(const struct agt_http *http)
{
    return atomic_load(&http->connection_count);
}

void agt_http_withdraw(struct agt_http *http)
{
    atomic_store(&http->is_withdrawn, true);
}

void agt_http_quiesce(struct agt_http *http)
{
    atomic_store(&http->must_quiesce, true);
    agt_http_wake(http);
}

bool agt_http_stop(struct agt_http *http, int grace_ms)
{
    if (!http->is_started)
        return true;
    http->is_started = false;
    atomic_store(&http->stop_at_ns, cr_clock_mono_ns() + (int64_t)grace_ms * CR_NS_PER_MS);
    atomic_store(&http->must_stop, true);
    agt_http_quiesce(http);
    (void)pthread_join(http->thread, NULL);
    return http->is_clean;
}

struct agt_http *agt_http_free(struct agt_http *http)
{
    if (!http)
        return NULL;
    (void)agt_http_stop(http, 0);
    agt_secure_stop(http);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    if (atomic_load(&http->exchange_count) > 0) {
        /* A call never ended; what it will write to must stay. */
        cr_log_error("http requests left open count=%u, leaking them",
                     atomic_load(&http->exchange_count));
        return NULL;
    }
    cr_listen_close(&http->listen);
    http->mailbox = cr_mailbox_free(http->mailbox);
    cr_close_fd(&http->wake_fd);
    cr_close_fd(&http->epoll_fd);
    free(http->allowed_hosts);
    free(http->allowed_origins);
    agt_frames_done(&http->frames);
    http->sight = agt_sight_free(http->sight);
    free(http->openapi);
    (void)pthread_mutex_destroy(&http->arrivals_lock);
    free(http);
    return NULL;
}
