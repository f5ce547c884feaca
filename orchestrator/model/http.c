/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/http.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/model/http_request.h"
#include "orchestrator/model/wiping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

static const uint32_t DEFAULT_MAX_LIVE = 20000;
static const uint32_t DEFAULT_MAX_INFLIGHT = 4096;
static const uint32_t DEFAULT_MAX_CONNECTING = 50;
/* A TLS handshake is about a millisecond of this thread; the streams that run come first. */
static const uint32_t STARTS_PER_TURN = 32;
/* A whole walk over the requests, so not more often than this. */
static const int64_t CHECK_SPACING_NS = 20 * CR_NS_PER_MS;
static const rlim_t FD_RESERVE = 256;
static const long IDLE_CONNECTIONS = 256;

struct list {
    struct agt_http_request *first;
    struct agt_http_request *last;
    uint32_t count;
};

struct agt_http {
    pthread_mutex_t lock; /* guards is_stopping and live */
    bool is_stopping;
    uint32_t live; /* started and not ended */
    uint32_t max_live;
    struct cr_mailbox *mailbox;
    struct agt_http_mail stop_mail;
    pthread_t thread;

    /* From here on the loop thread's. */
    char *ca_file;
    char *proxy;
    CURLM *multi;
    int epoll_fd;
    int timer_fd;
    uint32_t max_inflight;
    uint32_t max_connecting;
    uint32_t connecting;
    struct list waiting;
    struct list running;
    bool must_stop;
    int64_t curl_due_ns;  /* libcurl wants to be called; INT64_MAX: not */
    int64_t check_due_ns; /* some request's due moment; INT64_MAX: none */
    int64_t checked_ns;
};

static void list_add(struct list *list, struct agt_http_request *request)
{
    request->next = NULL;
    request->previous = list->last;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

static void list_remove(struct list *list, struct agt_http_request *request)
{
    if (request->previous)
        request->previous->next = request->next;
    else
        list->first = request->next;
    if (request->next)
        request->next->previous = request->previous;
    else
        list->last = request->previous;
    list->count--;
}

static uint32_t add_live(struct agt_http *http, int32_t change)
{
    uint32_t live;

    (void)pthread_mutex_lock(&http->lock);
    http->live = (uint32_t)((int64_t)http->live + change);
    live = http->live;
    (void)pthread_mutex_unlock(&http->lock);
    return live;
}

void agt_http_note_sent(struct agt_http *http)
{
    http->connecting--;
}

void agt_http_note_deadline(struct agt_http *http, int64_t deadline_ns)
{
    if (deadline_ns < http->check_due_ns)
        http->check_due_ns = deadline_ns;
}

/* Takes the request out of the loop and tells its owner. Never inside a libcurl callback. */
static void finish(struct agt_http *http, struct agt_http_request *request, enum agt_http_end end)
{
    struct agt_http_result result = {.end = end, .detail = request->detail};

    if (request->phase == AGT_HTTP_WAITING) {
        list_remove(&http->waiting, request);
    } else {
        long connects = 0;

        list_remove(&http->running, request);
        if (request->phase == AGT_HTTP_CONNECTING)
            http->connecting--;
        else if (curl_easy_getinfo(request->easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK)
            result.is_reused = connects == 0;
        (void)curl_multi_remove_handle(http->multi, request->easy);
        agt_http_request_release(request);
    }
    request->phase = AGT_HTTP_ENDED;
    result.head = request->head;
    result.received = request->received;
    (void)pthread_mutex_lock(&request->lock);
    request->http = NULL;
    (void)pthread_mutex_unlock(&request->lock);
    request->spec.on_end(request->spec.user, &result);
    (void)agt_http_unref(request);
    (void)add_live(http, -1);
}

static void take_mail(struct agt_http *http, const struct agt_http_mail *mail)
{
    struct agt_http_request *request = mail->request;

    switch (mail->kind) {
    case AGT_HTTP_MAIL_START:
        list_add(&http->waiting, request);
        agt_http_note_deadline(http, agt_http_request_due_ns(request));
        break;
    case AGT_HTTP_MAIL_CANCEL:
        if (request->phase != AGT_HTTP_ENDED)
            finish(http, request, AGT_HTTP_CANCELLED);
        (void)agt_http_unref(request); /* the reference of the mail */
        break;
    case AGT_HTTP_MAIL_STOP:
        http->must_stop = true;
        break;
    }
}

static void take_mails(struct agt_http *http)
{
    struct cr_mail *mail = cr_mailbox_take_all(http->mailbox);

    while (mail) {
        struct cr_mail *next = mail->next; /* a mail may be freed with its request */

        take_mail(http, (const struct agt_http_mail *)(const void *)mail);
        mail = next;
    }
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    const struct agt_http *http = user;
    struct epoll_event event = {.data.fd = fd};

    (void)easy;
    (void)socket_user;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        event.events |= EPOLLOUT;
    /* The number of a closed socket may have come back: so both ways. */
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 && errno == ENOENT &&
        epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -1;
    return 0;
}

/* libcurl forbids calling it back from here. */
static int note_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct agt_http *http = user;

    (void)multi;
    http->curl_due_ns = timeout_ms < 0 ? INT64_MAX : cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    return 0;
}

static void act(struct agt_http *http, curl_socket_t fd, int mask)
{
    int running;

    (void)curl_multi_socket_action(http->multi, fd, mask, &running);
}

static void take_socket(struct agt_http *http, const struct epoll_event *event)
{
    int mask = 0;

    if (event->events & EPOLLIN)
        mask |= CURL_CSELECT_IN;
    if (event->events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (event->events & (EPOLLERR | EPOLLHUP))
        mask |= CURL_CSELECT_ERR | CURL_CSELECT_IN;
    act(http, event->data.fd, mask);
}

static void reap(struct agt_http *http)
{
    const CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(http->multi, &left))) {
        CURLcode code = message->data.result;
        struct agt_http_request *request = NULL;

        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request) !=
                CURLE_OK)
            continue;
        finish(http, request, agt_http_request_classify(request, code));
    }
}

static enum agt_http_end late_end(const struct agt_http_request *request, int64_t now_ns)
{
    if (request->spec.deadline_ns <= now_ns)
        return AGT_HTTP_TIMEOUT_TOTAL;
    return request->phase == AGT_HTTP_BODY ? AGT_HTTP_TIMEOUT_IDLE : AGT_HTTP_TIMEOUT_FIRST_BYTE;
}

/* Ends what is late and finds the next moment to look. */
static void check_list(struct agt_http *http, const struct list *list, int64_t now_ns)
{
    struct agt_http_request *next;

    for (struct agt_http_request *request = list->first; request; request = next) {
        int64_t due_ns = agt_http_request_due_ns(request);

        next = request->next;
        if (due_ns <= now_ns)
            finish(http, request, late_end(request, now_ns));
        else
            agt_http_note_deadline(http, due_ns);
    }
}

static void check_deadlines(struct agt_http *http)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (http->check_due_ns > now_ns || now_ns - http->checked_ns < CHECK_SPACING_NS)
        return;
    http->checked_ns = now_ns;
    http->check_due_ns = INT64_MAX;
    check_list(http, &http->waiting, now_ns);
    check_list(http, &http->running, now_ns);
}

static void hand_over(struct agt_http *http, struct agt_http_request *request)
{
    int r = agt_http_request_prepare(request, http->ca_file, http->proxy);

    if (r < 0) {
        finish(http, request, AGT_HTTP_CONFIG);
        return;
    }
    list_remove(&http->waiting, request);
    list_add(&http->running, request);
    http->connecting++;
    if (curl_multi_add_handle(http->multi, request->easy) != CURLM_OK)
        finish(http, request, AGT_HTTP_CONFIG);
}

/* Returns true when more could start at once. */
static bool admit(struct agt_http *http)
{
    int64_t now_ns = cr_clock_mono_ns();
    uint32_t started = 0;
    struct agt_http_request *next;

    for (struct agt_http_request *request = http->waiting.first; request; request = next) {
        next = request->next;
        if (http->running.count >= http->max_inflight || http->connecting >= http->max_connecting)
            return false; /* an end, or a connection, brings us back */
        if (request->spec.start_ns > now_ns)
            continue;
        if (started++ == STARTS_PER_TURN)
            return true;
        hand_over(http, request);
    }
    return false;
}

static void stop_all(struct agt_http *http)
{
    while (http->waiting.first)
        finish(http, http->waiting.first, AGT_HTTP_CANCELLED);
    while (http->running.first)
        finish(http, http->running.first, AGT_HTTP_CANCELLED);
}

static void arm_timer(const struct agt_http *http, bool is_now)
{
    int64_t check_ns = http->check_due_ns;
    int64_t due_ns;
    struct itimerspec when = {0};

    if (check_ns < http->checked_ns + CHECK_SPACING_NS)
        check_ns = http->checked_ns + CHECK_SPACING_NS;
    due_ns = http->curl_due_ns < check_ns ? http->curl_due_ns : check_ns;
    if (is_now)
        due_ns = 1;
    if (due_ns != INT64_MAX) { /* else disarmed */
        when.it_value.tv_sec = due_ns / CR_NS_PER_S;
        when.it_value.tv_nsec = due_ns % CR_NS_PER_S + (due_ns == 0);
    }
    (void)timerfd_settime(http->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* One turn after the sockets: everything that time and mail have brought. */
static void turn(struct agt_http *http)
{
    bool has_more;

    if (http->curl_due_ns <= cr_clock_mono_ns()) {
        http->curl_due_ns = INT64_MAX;
        act(http, CURL_SOCKET_TIMEOUT, 0);
    }
    reap(http);
    take_mails(http);
    check_deadlines(http);
    if (http->must_stop)
        stop_all(http);
    has_more = admit(http);
    reap(http);
    arm_timer(http, has_more);
}

static void *run_loop(void *user)
{
    struct agt_http *http = user;
    struct epoll_event events[64];

    while (!http->must_stop || add_live(http, 0) > 0) {
        int count = epoll_wait(http->epoll_fd, events, CR_ARRAY_SIZE(events), -1);

        for (int i = 0; i < count; i++) {
            uint64_t expirations;

            if (events[i].data.fd == http->timer_fd)
                (void)!read(http->timer_fd, &expirations, sizeof(expirations));
            else if (events[i].data.fd != cr_mailbox_fd(http->mailbox))
                take_socket(http, &events[i]);
        }
        turn(http);
    }
    take_mails(http); /* cancels that came too late hold a reference */
    return NULL;
}

static int watch_own(const struct agt_http *http, int fd, struct cr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return cr_err_sys(err, errno, "watch an fd of the HTTP loop");
    return 0;
}

static int open_loop(struct agt_http *http, struct cr_err *err)
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

static int open_multi(struct agt_http *http, uint32_t host_connections, struct cr_err *err)
{
    bool is_open[1024];

    note_open_fds(is_open, CR_ARRAY_SIZE(is_open));
    http->multi = curl_multi_init();
    if (!http->multi)
        return cr_err_set(err, ENOMEM, "out of memory for libcurl");
    close_new_on_exec(is_open, CR_ARRAY_SIZE(is_open));
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, note_timer);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)http->max_inflight);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)host_connections);
    return 0;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

/* Every request may need an fd, and the rest of the process needs some too. */
static uint32_t bound_by_fds(uint32_t inflight)
{
    struct rlimit limit;
    rlim_t room;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return inflight;
    room = limit.rlim_cur > 2 * FD_RESERVE ? limit.rlim_cur - FD_RESERVE : limit.rlim_cur / 2;
    return room < inflight ? (uint32_t)room : inflight;
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

static int fill_in(struct agt_http *http, const struct agt_http_options *options,
                   struct cr_err *err)
{
    int r = dup_option(options->ca_file, &http->ca_file, err);

    if (r == 0)
        r = dup_option(options->proxy, &http->proxy, err);
    http->max_live = or_default(options->max_live, DEFAULT_MAX_LIVE);
    http->max_inflight = bound_by_fds(or_default(options->max_inflight, DEFAULT_MAX_INFLIGHT));
    http->max_connecting = or_default(options->max_connecting, DEFAULT_MAX_CONNECTING);
    http->curl_due_ns = INT64_MAX;
    http->check_due_ns = INT64_MAX;
    return r;
}

static int open_all(struct agt_http *http, const struct agt_http_options *options,
                    struct cr_err *err)
{
    int r = fill_in(http, options, err);

    if (r == 0)
        r = open_loop(http, err);
    if (r == 0)
        r = open_multi(http, options->max_host_connections, err);
    if (r < 0)
        return r;
    r = pthread_create(&http->thread, NULL, run_loop, http);
    if (r != 0)
        return cr_err_sys(err, r, "start the thread of the HTTP loop");
    return 0;
}

/* The thread has ended or never ran. */
static void release(struct agt_http *http)
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

int agt_http_new(const struct agt_http_options *options, struct agt_http **ret_http,
                 struct cr_err *err)
{
    struct agt_http *http = calloc(1, sizeof(*http));
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

struct agt_http *agt_http_free(struct agt_http *http)
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

static struct agt_http_request *request_new(struct agt_http *http, const struct agt_http_spec *spec,
                                            unsigned refs)
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
static int post_start(struct agt_http *http, struct agt_http_request *request, struct cr_err *err)
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

int agt_http_start(struct agt_http *http, const struct agt_http_spec *spec,
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
