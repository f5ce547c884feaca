/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/http_loop.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/turns.h"

#include <errno.h>
#include <signal.h>

#include <sys/epoll.h>
#include <sys/timerfd.h>

/* A TLS handshake is about a millisecond of this thread; the streams that run come first. */
static const uint32_t STARTS_PER_TURN = 32;
/* A whole walk over the requests, so not more often than this. */
static const int64_t CHECK_SPACING_NS = 20 * CR_NS_PER_MS;

static void list_add(struct agt_http_list *list, struct agt_http_request *request)
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

static void list_remove(struct agt_http_list *list, struct agt_http_request *request)
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

static uint32_t add_live(struct agt_http_client *http, int32_t change)
{
    uint32_t live;

    (void)pthread_mutex_lock(&http->lock);
    http->live = (uint32_t)((int64_t)http->live + change);
    live = http->live;
    (void)pthread_mutex_unlock(&http->lock);
    return live;
}

void agt_http_note_sent(struct agt_http_client *http)
{
    http->connecting--;
}

void agt_http_note_deadline(struct agt_http_client *http, int64_t deadline_ns)
{
    if (deadline_ns < http->check_due_ns)
        http->check_due_ns = deadline_ns;
}

/* Takes the request out of the loop and tells its owner. Never inside a libcurl callback. */
static void finish(struct agt_http_client *http, struct agt_http_request *request,
                   enum agt_http_end end)
{
    struct agt_http_result result = {.end = end, .detail = request->detail};

    if (request->phase == AGT_HTTP_WAITING) {
        list_remove(&http->waiting, request);
    } else {
        long connects = 0;

        result.is_started = true;
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

static void take_mail(struct agt_http_client *http, const struct agt_http_mail *mail)
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

static void take_mails(struct agt_http_client *http)
{
    struct cr_mail *mail = cr_mailbox_take_all(http->mailbox);

    while (mail) {
        struct cr_mail *next = mail->next; /* a mail may be freed with its request */

        take_mail(http, (const struct agt_http_mail *)(const void *)mail);
        mail = next;
    }
}

int agt_http_loop_watch(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    const struct agt_http_client *http = user;
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
int agt_http_loop_note_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct agt_http_client *http = user;

    (void)multi;
    http->curl_due_ns = timeout_ms < 0 ? INT64_MAX : cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    return 0;
}

static void act(struct agt_http_client *http, curl_socket_t fd, int mask)
{
    int running;

    (void)curl_multi_socket_action(http->multi, fd, mask, &running);
}

static void take_socket(struct agt_http_client *http, const struct epoll_event *event)
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

static void reap(struct agt_http_client *http)
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
static void check_list(struct agt_http_client *http, const struct agt_http_list *list,
                       int64_t now_ns)
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

static void check_deadlines(struct agt_http_client *http)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (http->check_due_ns > now_ns || now_ns - http->checked_ns < CHECK_SPACING_NS)
        return;
    http->checked_ns = now_ns;
    http->check_due_ns = INT64_MAX;
    check_list(http, &http->waiting, now_ns);
    check_list(http, &http->running, now_ns);
}

static void hand_over(struct agt_http_client *http, struct agt_http_request *request)
{
    int r = agt_http_request_prepare(request, http->ca_file, http->proxy,
                                     http->running.count >= AGT_HTTP_IDLE_CONNECTIONS);

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
static bool admit(struct agt_http_client *http)
{
    int64_t now_ns = cr_clock_mono_ns();
    uint32_t started = 0;
    struct agt_http_request *next;

    for (struct agt_http_request *request = http->waiting.first; request; request = next) {
        next = request->next;
        if (http->running.count >= http->max_in_flight || http->connecting >= http->max_connecting)
            return false; /* an end, or a connection, brings us back */
        if (request->spec.start_ns > now_ns)
            continue;
        if (started++ == STARTS_PER_TURN)
            return true;
        hand_over(http, request);
    }
    return false;
}

static void stop_all(struct agt_http_client *http)
{
    while (http->waiting.first)
        finish(http, http->waiting.first, AGT_HTTP_CANCELLED);
    while (http->running.first)
        finish(http, http->running.first, AGT_HTTP_CANCELLED);
}

static void arm_timer(const struct agt_http_client *http, bool is_now)
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
static void turn(struct agt_http_client *http)
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

void *agt_http_loop_run(void *user)
{
    struct agt_http_client *http = user;
    struct epoll_event events[64];
    sigset_t pipe_signal;

    /* OpenSSL writes without MSG_NOSIGNAL; to this thread a broken pipe is an errno and no more. */
    (void)sigemptyset(&pipe_signal);
    (void)sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);

    while (!http->must_stop || add_live(http, 0) > 0) {
        int count = epoll_wait(http->epoll_fd, events, CR_ARRAY_SIZE(events), CR_TURN_MS);

        (void)atomic_fetch_add(&http->turns, 1);
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
