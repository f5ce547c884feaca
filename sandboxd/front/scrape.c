/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/scrape.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/metrics.h"
#include "sandboxd/front/scrape_request.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX 16
#define PAGE_MAX (1U << 20)
#define DEADLINE_NS (5 * CR_NS_PER_S) /* from accept to the last byte of the answer */
#define ACCEPT_PAUSE_NS                                                                            \
    (CR_NS_PER_S / 2) /* after accept(2) has failed, as for want of descriptors */

struct connection {
    int fd; /* -1: free */
    int64_t due_ns;
    char head[SBX_SCRAPE_HEAD_MAX];
    size_t head_size;
    struct cr_buf answer; /* empty: the head is not complete */
    size_t sent;
};

struct sbx_scrape {
    int listen_fd;
    int stop_fd; /* eventfd */
    pthread_t thread;
    void (*write)(void *user, struct cr_metrics *metrics);
    void *user;
    int64_t accept_ns; /* not before */
    struct connection connections[CONNECTIONS_MAX];
};

/* ---- one connection ---- */

static void hang_up(struct connection *connection)
{
    cr_close_fd(&connection->fd);
    cr_buf_done(&connection->answer);
    connection->head_size = 0;
    connection->sent = 0;
}

static int add_head(struct cr_buf *answer, const char *status, const char *type, size_t size)
{
    return cr_buf_printf(answer,
                         "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                         "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                         status, type, size);
}

static int add_page(struct sbx_scrape *scrape, struct cr_buf *answer, bool has_body)
{
    CR_AUTO_BUF struct cr_buf page;
    struct cr_metrics metrics;
    int r;

    cr_buf_init(&page, PAGE_MAX);
    cr_metrics_begin(&metrics, &page);
    scrape->write(scrape->user, &metrics);
    r = cr_metrics_end(&metrics);
    if (r < 0) {
        cr_log_error("the metrics do not fit into their page error=%s", strerrordesc_np(-r));
        return add_head(answer, "500 Internal Server Error", "text/plain", 0);
    }
    r = add_head(answer, "200 OK", "text/plain; version=0.0.4; charset=utf-8", page.size);
    return r == 0 && has_body ? cr_buf_add(answer, page.data, page.size) : r;
}

static int add_answer(struct sbx_scrape *scrape, struct cr_buf *answer,
                      enum sbx_scrape_request request)
{
    switch (request) {
    case SBX_SCRAPE_METRICS:
    case SBX_SCRAPE_METRICS_HEAD:
        return add_page(scrape, answer, request == SBX_SCRAPE_METRICS);
    case SBX_SCRAPE_NOT_FOUND:
        return add_head(answer, "404 Not Found", "text/plain", 0);
    case SBX_SCRAPE_NOT_ALLOWED:
        return add_head(answer, "405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", 0);
    case SBX_SCRAPE_TOO_LARGE:
        return add_head(answer, "431 Request Header Fields Too Large", "text/plain", 0);
    default:
        return add_head(answer, "400 Bad Request", "text/plain", 0);
    }
}

/* Sends what the socket takes; hangs up at the end. */
static void send_more(struct connection *connection)
{
    const struct cr_buf *answer = &connection->answer;

    while (connection->sent < answer->size) {
        ssize_t n = send(connection->fd, answer->data + connection->sent,
                         answer->size - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        connection->sent += (size_t)n;
    }
    hang_up(connection);
}

static void read_more(struct sbx_scrape *scrape, struct connection *connection)
{
    ssize_t n = recv(connection->fd, connection->head + connection->head_size,
                     sizeof(connection->head) - connection->head_size, MSG_DONTWAIT);
    enum sbx_scrape_request request;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(connection);
        return;
    }
    connection->head_size += (size_t)n;
    request = sbx_scrape_parse(connection->head, connection->head_size);
    if (request == SBX_SCRAPE_INCOMPLETE)
        return;
    if (add_answer(scrape, &connection->answer, request) < 0)
        hang_up(connection); /* no memory */
    else
        send_more(connection);
}

/* ---- the thread ---- */

/* A free place; when all are taken, the oldest one's: silent clients must not keep others out. */
static struct connection *find_place(struct sbx_scrape *scrape)
{
    struct connection *oldest = &scrape->connections[0];

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &scrape->connections[i];

        if (connection->fd < 0)
            return connection;
        if (connection->due_ns < oldest->due_ns)
            oldest = connection;
    }
    hang_up(oldest);
    return oldest;
}

static void accept_one(struct sbx_scrape *scrape)
{
    struct connection *connection = find_place(scrape);

    connection->fd = accept4(scrape->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection->fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        scrape->accept_ns = cr_clock_mono_ns() + ACCEPT_PAUSE_NS;
    connection->due_ns = cr_clock_mono_ns() + DEADLINE_NS;
    cr_buf_init(&connection->answer, PAGE_MAX + SBX_SCRAPE_HEAD_MAX);
}

/* Who is too slow goes. Returns the time of the next one; INT64_MAX: none. */
static int64_t expire(struct sbx_scrape *scrape, int64_t now_ns)
{
    int64_t next_ns = scrape->accept_ns > now_ns ? scrape->accept_ns : INT64_MAX;

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &scrape->connections[i];

        if (connection->fd >= 0 && connection->due_ns <= now_ns)
            hang_up(connection);
        if (connection->fd >= 0 && connection->due_ns < next_ns)
            next_ns = connection->due_ns;
    }
    return next_ns;
}

static void wait_for_events(struct sbx_scrape *scrape, struct pollfd *fds, size_t count)
{
    int64_t now_ns = cr_clock_mono_ns();
    int64_t next_ns = expire(scrape, now_ns);
    bool can_accept = scrape->accept_ns <= now_ns;
    int wait_ms = next_ns == INT64_MAX ? -1 : (int)((next_ns - now_ns) / CR_NS_PER_MS) + 1;

    fds[0] = (struct pollfd){.fd = scrape->stop_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = can_accept ? scrape->listen_fd : -1, .events = POLLIN};
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        const struct connection *connection = &scrape->connections[i];

        fds[2 + i] = (struct pollfd){.fd = connection->fd,
                                     .events = connection->answer.size > 0 ? POLLOUT : POLLIN};
    }
    if (poll(fds, count, wait_ms) < 0) {
        for (size_t i = 0; i < count; i++)
            fds[i].revents = 0;
    }
}

static void *serve(void *user)
{
    struct sbx_scrape *scrape = user;
    struct pollfd fds[2 + CONNECTIONS_MAX];

    for (;;) {
        wait_for_events(scrape, fds, CR_ARRAY_SIZE(fds));
        if (fds[0].revents)
            return NULL;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            struct connection *connection = &scrape->connections[i];

            if (!fds[2 + i].revents)
                continue;
            if (connection->answer.size > 0)
                send_more(connection);
            else
                read_more(scrape, connection);
        }
        if (fds[1].revents)
            accept_one(scrape);
    }
}

int sbx_scrape_new(int listen_fd, void (*write)(void *user, struct cr_metrics *metrics), void *user,
                   struct sbx_scrape **ret_scrape, struct cr_err *err)
{
    struct sbx_scrape *scrape = calloc(1, sizeof(*scrape));
    int error;

    if (!scrape)
        return cr_err_set(err, ENOMEM, "out of memory for the metrics");
    scrape->write = write;
    scrape->user = user;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        scrape->connections[i].fd = -1;
    scrape->listen_fd = listen_fd;
    scrape->stop_fd = eventfd(0, EFD_CLOEXEC);
    error = scrape->stop_fd < 0 ? errno : pthread_create(&scrape->thread, NULL, serve, scrape);
    if (error != 0) {
        cr_close_fd(&scrape->stop_fd);
        free(scrape);
        return cr_err_sys(err, error, "start the thread of the metrics");
    }
    *ret_scrape = scrape;
    return 0;
}

struct sbx_scrape *sbx_scrape_free(struct sbx_scrape *scrape)
{
    const uint64_t one = 1;

    if (!scrape)
        return NULL;
    (void)!write(scrape->stop_fd, &one, sizeof(one));
    (void)pthread_join(scrape->thread, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        hang_up(&scrape->connections[i]);
    cr_close_fd(&scrape->stop_fd);
    cr_close_fd(&scrape->listen_fd);
    free(scrape);
    return NULL;
}
