/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/http.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/model/http_loop.h"
#include "orchestrator/model/wiping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

static const uint32_t DEFAULT_MAX_LIVE = 20000;
static const uint32_t DEFAULT_MAX_IN_FLIGHT = 4096;
static const uint32_t DEFAULT_MAX_CONNECTING = 50;
static const rlim_t FD_RESERVE = 256;

static int watch_own(const struct agt_http_client *http, int fd, struct cr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return cr_err_sys(err, errno, "watch an fd of the HTTP loop");
    return 0;
}

static int open_loop(struct agt_http_client *http, struct cr_err *err)
{
    int r = cr_mailbox_new(http->max_live, &http->mailbox, err);

    if (r < 0)
        return r;
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (http->epoll_fd < 0)
        return cr_err_sys(err, errno, "create epoll of the HTTP loop");
    http->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (http->timer_fd < 0)
        return cr_err_sys(err, errno, "create timer of the HTTP loop");
    r = watch_own(http, http->timer_fd, err);
    return r < 0 ? r : watch_own(http, cr_mailbox_fd(http->mailbox), err);
}

/*
 * libcurl opens a pair of sockets for itself without CLOEXEC and does not name
 * them: what is open after that and was not before gets the flag.
 */
static void note_open_fds(bool *is_open, int count)
{
    for (int fd = 0; fd < count; fd++)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void close_new_on_exec(const bool *was_open, int count)
{
    for (int fd = 0; fd < count; fd++) {
        if (!was_open[fd] && fcntl(fd, F_GETFD) >= 0)
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static int open_multi(struct agt_http_client *http, uint32_t host_connections, struct cr_err *err)
{
    bool is_open[1024];

    note_open_fds(is_open, CR_ARRAY_SIZE(is_open));
    http->multi = curl_multi_init();
    if (!http->multi)
        return cr_err_set(err, ENOMEM, "out of memory for libcurl");
    close_new_on_exec(is_open, CR_ARRAY_SIZE(is_open));
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, agt_http_loop_watch);
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, agt_http_loop_note_timer);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)AGT_HTTP_IDLE_CONNECTIONS);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)http->max_in_flight);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)host_connections);
    return 0;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

/* Every request may need an fd, and the rest of the process needs some too. */
static uint32_t bound_by_fds(uint32_t in_flight)
{
    struct rlimit limit;
    rlim_t room;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return in_flight;
    room = limit.rlim_cur > 2 * FD_RESERVE ? limit.rlim_cur - FD_RESERVE : limit.rlim_cur / 2;
    return room < in_flight ? (uint32_t)room : in_flight;
}

static int dup_option(const char *value, char **ret_copy, struct cr_err *err)
{
    char *copy;

    if (!value || !*value)
        return 0;
    copy = strdup(value);
    if (!copy)
        return cr_err_set(err, ENOMEM, "out of memory for the HTTP options");
    *ret_copy = copy;
    return 0;
}

static int fill_in(struct agt_http_client *http, const struct agt_http_client_options *options,
                   struct cr_err *err)
{
    int r = dup_option(options->ca_file, &http->ca_file, err);

    if (r == 0)
        r = dup_option(options->proxy, &http->proxy, err);
    http->max_live = or_default(options->max_live, DEFAULT_MAX_LIVE);
    http->max_in_flight = bound_by_fds(or_default(options->max_in_flight, DEFAULT_MAX_IN_FLIGHT));
    http->max_connecting = or_default(options->max_connecting, DEFAULT_MAX_CONNECTING);
    http->curl_due_ns = INT64_MAX;
    http->check_due_ns = INT64_MAX;
    return r;
}

static int open_all(struct agt_http_client *http, const struct agt_http_client_options *options,
                    struct cr_err *err)
{
    int r = fill_in(http, options, err);

    if (r == 0)
        r = open_loop(http, err);
    if (r == 0)
        r = open_multi(http, options->max_host_connections, err);
    if (r < 0)
        return r;
    r = pthread_create(&http->thread, NULL, agt_http_loop_run, http);
    if (r != 0)
        return cr_err_sys(err, r, "start the thread of the HTTP loop");
    return 0;
}

/* The thread has ended or never ran. */
static void release(struct agt_http_client *http)
{
    if (http->multi)
        (void)curl_multi_cleanup(http->multi);
    cr_closep(&http->timer_fd);
    cr_closep(&http->epoll_fd);
    (void)cr_mailbox_free(http->mailbox);
    free(http->ca_file);
    free(http->proxy);
    (void)pthread_mutex_destroy(&http->lock);
    free(http);
    curl_global_cleanup();
}

int agt_http_client_new(const struct agt_http_client_options *options,
                        struct agt_http_client **ret_http, struct cr_err *err)
{
    struct agt_http_client *http = calloc(1, sizeof(*http));
    int r;

    if (!http)
        return cr_err_set(err, ENOMEM, "out of memory for the HTTP loop");
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, agt_wiping_malloc, agt_wiping_free,
                             agt_wiping_realloc, agt_wiping_strdup,
                             agt_wiping_calloc) != CURLE_OK) {
        free(http);
        return cr_err_set(err, ENOMEM, "start libcurl");
    }
    http->epoll_fd = -1;
    http->timer_fd = -1;
    (void)pthread_mutex_init(&http->lock, NULL); /* cannot fail with default attributes */
    r = open_all(http, options, err);
    if (r < 0) {
        release(http);
        return r;
    }
    *ret_http = http;
    return 0;
}

struct agt_http_client *agt_http_client_free(struct agt_http_client *http)
{
    if (!http)
        return NULL;
    (void)pthread_mutex_lock(&http->lock);
    http->is_stopping = true;
    http->stop_mail.kind = AGT_HTTP_MAIL_STOP;
    (void)cr_mailbox_post(http->mailbox, &http->stop_mail.mail, true);
    (void)pthread_mutex_unlock(&http->lock);
    (void)pthread_join(http->thread, NULL);
    release(http);
    return NULL;
}

uint64_t agt_http_client_turns(const struct agt_http_client *http)
{
    return atomic_load(&http->turns);
}

static struct agt_http_request *request_new(struct agt_http_client *http,
                                            const struct agt_http_spec *spec, unsigned refs)
{
    struct agt_http_request *request = calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    atomic_init(&request->refs, refs);
    (void)pthread_mutex_init(&request->lock, NULL);
    request->http = http;
    request->spec = *spec;
    request->phase_deadline_ns = INT64_MAX;
    request->start_mail.kind = AGT_HTTP_MAIL_START;
    request->start_mail.request = request;
    request->cancel_mail.kind = AGT_HTTP_MAIL_CANCEL;
    request->cancel_mail.request = request;
    return request;
}

/* The count of live requests bounds the mailbox. */
static int post_start(struct agt_http_client *http, struct agt_http_request *request,
                      struct cr_err *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&http->lock);
    if (http->is_stopping)
        r = cr_err_set(err, ESHUTDOWN, "the HTTP loop is closing");
    else if (http->live >= http->max_live)
        r = cr_err_set(err, EAGAIN, "%u requests are under way, which is the most", http->live);
    if (r == 0) {
        http->live++;
        (void)cr_mailbox_post(http->mailbox, &request->start_mail.mail, true);
    }
    (void)pthread_mutex_unlock(&http->lock);
    return r;
}

int agt_http_client_start(struct agt_http_client *http, const struct agt_http_spec *spec,
                          struct agt_http_request **ret_request, struct cr_err *err)
{
    struct agt_http_request *request = request_new(http, spec, ret_request ? 2 : 1);
    int r;

    if (!request)
        return cr_err_set(err, ENOMEM, "out of memory for an HTTP request");
    r = post_start(http, request, err);
    if (r < 0) {
        (void)pthread_mutex_destroy(&request->lock);
        free(request);
        return r;
    }
    if (ret_request)
        *ret_request = request;
    return 0;
}

void agt_http_cancel(struct agt_http_request *request)
{
    (void)pthread_mutex_lock(&request->lock);
    if (request->http && !request->is_cancelled) {
        request->is_cancelled = true;
        (void)atomic_fetch_add(&request->refs, 1); /* the mail's */
        (void)cr_mailbox_post(request->http->mailbox, &request->cancel_mail.mail, true);
    }
    (void)pthread_mutex_unlock(&request->lock);
}

struct agt_http_request *agt_http_unref(struct agt_http_request *request)
{
    if (!request || atomic_fetch_sub(&request->refs, 1) != 1)
        return NULL;
    (void)pthread_mutex_destroy(&request->lock);
    free(request);
    return NULL;
}
