/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/acceptor.h"

#include "common/clock.h"
#include "common/log.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/private.h"
#include "tls/relay.h"

#include <errno.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

/* Per turn of the loop, so that a storm of clients does not starve those that are served. */
#define ACCEPTS_MAX 64
#define PAUSE_MS 100
/* A client can bring this about: one line in a while. */
#define LOG_PAUSE_S 10

static void set_watch(struct agt_http *http, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &http->listen};

    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, http->listen.fd, &event) < 0)
        cr_log_error("cannot change the watch on the http socket errno=%d", errno);
}

static void pause_accepting(struct agt_http *http, int error)
{
    int64_t now_ns = cr_clock_mono_ns();

    set_watch(http, 0);
    http->accept_again_ns = now_ns + PAUSE_MS * CR_NS_PER_MS;
    if (now_ns < http->accept_log_ns)
        return;
    http->accept_log_ns = now_ns + LOG_PAUSE_S * CR_NS_PER_S;
    cr_log_warn("cannot accept http connections errno=%d connections=%u, trying again", error,
                atomic_load(&http->connection_count));
}

/* Returns 0, also when it turned one away, or a negative errno of accept(2). */
static int accept_one(struct agt_http *http)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    char source[AGT_CALLER_SIZE];
    int fd =
        accept4(http->listen.fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return -errno;
    /* Up to here each still gets its 503, from agt_exchange_on_request(). */
    if (atomic_load(&http->connection_count) >= http->options.max_connections + AGT_SURPLUS) {
        (void)close(fd);
        return 0;
    }
    if (http->relay) {
        agt_connection_name(&address, source);
        tls_relay_add(http->relay, fd, source);
        return 0;
    }
    /* Closes it on failure. */
    (void)MHD_add_connection(http->daemon, fd, (const struct sockaddr *)&address, size);
    return 0;
}

void agt_acceptor_ready(struct agt_http *http)
{
    for (int i = 0; i < ACCEPTS_MAX && http->listen.fd >= 0; i++) {
        int r = accept_one(http);

        if (r == -EAGAIN)
            return;
        if (r < 0 && r != -ECONNABORTED && r != -EINTR && r != -EPROTO) {
            pause_accepting(http, -r);
            return;
        }
    }
}

void agt_acceptor_tick(struct agt_http *http, int64_t now_ns)
{
    if (http->accept_again_ns == 0 || now_ns < http->accept_again_ns)
        return;
    http->accept_again_ns = 0;
    if (http->listen.fd >= 0)
        set_watch(http, EPOLLIN);
}

void agt_acceptor_close(struct agt_http *http)
{
    if (http->listen.fd >= 0)
        (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, http->listen.fd, NULL);
    cr_listen_close(&http->listen);
}
