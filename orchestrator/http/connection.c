/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/connection.h"

#include "common/clock.h"
#include "common/log.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Until a peer that has left is given up. What it sent is here already, so this is for us to read
 * it: libmicrohttpd does not always see that nothing follows. */
#define LEFT_MS 2000

static void link_connection(struct agt_http *http, struct agt_connection *connection)
{
    connection->next = http->head;
    if (http->head)
        http->head->prev = connection;
    http->head = connection;
}

static void unlink_connection(struct agt_http *http, struct agt_connection *connection)
{
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        http->head = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
}

/* A peer that lost its power sends no end; without this its run would go on to its own end. */
static void keep_alive(int fd)
{
    const int on = 1;
    const int idle_s = 30;
    const int interval_s = 10;
    const int probes = 3;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void agt_connection_name(const struct sockaddr_storage *address, char caller[AGT_CALLER_SIZE])
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    char text[INET6_ADDRSTRLEN] = "?";

    memcpy(&v4, address, sizeof(v4));
    memcpy(&v6, address, sizeof(v6));
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
    else if (address->ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    if (text[0] == '?')
        (void)inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    (void)snprintf(caller, AGT_CALLER_SIZE, "ip:%s", text);
}

static void find_caller(struct agt_connection *connection)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);

    if (agt_secure_claim(connection->http, connection->fd, connection->caller,
                         &connection->is_certified))
        return;
    (void)getpeername(connection->fd, (struct sockaddr *)&address, &size);
    agt_connection_name(&address, connection->caller);
}

static struct agt_connection *open_connection(struct agt_http *http, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct agt_connection *connection = calloc(1, sizeof(*connection));
    /* libmicrohttpd does not look at a suspended connection, so we watch for its end ourselves. */
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};

    if (!connection || !info) {
        free(connection);
        return NULL;
    }
    connection->http = http;
    connection->fd = info->connect_fd;
    find_caller(connection);
    keep_alive(connection->fd);
    connection->is_surplus =
        atomic_fetch_add(&http->connection_count, 1) >= http->options.max_connections;
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
        cr_log_warn("cannot watch an http connection, ignoring errno=%d", errno);
    agt_connection_await_request(connection, http->options.header_timeout_ms);
    link_connection(http, connection);
    return connection;
}

static void close_connection(struct agt_connection *connection)
{
    struct agt_http *http = connection->http;

    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    agt_exchange_end(connection);
    unlink_connection(http, connection);
    atomic_fetch_sub(&http->connection_count, 1);
    free(connection);
}

void agt_connection_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = open_connection(cls, mhd);
    } else if (*socket_context) {
        close_connection(*socket_context);
        *socket_context = NULL;
    }
}

struct agt_connection *agt_connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

void agt_connection_set_deadline(struct agt_connection *connection, int64_t timeout_ms)
{
    connection->deadline_ns = cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
}

void agt_connection_await_request(struct agt_connection *connection, int64_t timeout_ms)
{
    bool must_hurry = connection->has_left && timeout_ms > LEFT_MS;

    agt_connection_set_deadline(connection, must_hurry ? LEFT_MS : timeout_ms);
}

void agt_connection_clear_deadline(struct agt_connection *connection)
{
    connection->deadline_ns = AGT_NEVER_NS;
}

void agt_connection_hang_up(struct agt_connection *connection)
{
    int64_t left_ns = cr_clock_mono_ns() + LEFT_MS * CR_NS_PER_MS;

    connection->has_left = true;
    if (connection->exchange)
        agt_exchange_hang_up(connection->exchange);
    if ((!connection->exchange || agt_exchange_is_reading(connection->exchange)) &&
        connection->deadline_ns > left_ns)
        connection->deadline_ns = left_ns;
}

void agt_connection_shut(struct agt_connection *connection)
{
    agt_connection_clear_deadline(connection);
    (void)shutdown(connection->fd, SHUT_RDWR);
}

/*
 * libmicrohttpd takes an answer within its own callbacks only, and none comes
 * when the client is silent, or before it has refused a request itself. While
 * a request is read nothing of ours was sent, so this is the first answer on
 * the wire. Best effort.
 */
static void tell(const struct agt_connection *connection, const char *status, const char *body)
{
    char answer[512];
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 %s\r\nConnection: close\r\n"
                        "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        status, strlen(body), body);

    if (size > 0 && (size_t)size < sizeof(answer))
        (void)send(connection->fd, answer, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void expire(struct agt_connection *connection)
{
    if (connection->exchange && agt_exchange_is_reading(connection->exchange))
        tell(connection, "408 Request Timeout",
             "{\"detail\":\"the request took too long to come\",\"code\":\"CANCELLED\"}\n");
    agt_connection_shut(connection);
}

/*
 * Others whose header is not here as a whole may be among them: they would be
 * refused as well.
 */
void agt_connection_refuse_lengths(struct agt_http *http)
{
    for (struct agt_connection *connection = http->head; connection;
         connection = connection->next) {
        int status = connection->exchange ? agt_exchange_length_status(connection->exchange) : 0;

        if (status == 0)
            continue;
        if (status == MHD_HTTP_BAD_REQUEST)
            tell(connection, "400 Bad Request",
                 "{\"detail\":\"Content-Length is not a number\",\"code\":\"INVALID_ARGUMENT\"}\n");
        else
            tell(connection, "413 Content Too Large",
                 "{\"detail\":\"the body is larger than any path takes\","
                 "\"code\":\"RESOURCE_EXHAUSTED\"}\n");
        agt_connection_shut(connection);
    }
}

void agt_connection_tick_all(struct agt_http *http, int64_t now_ns)
{
    struct agt_connection *next;

    for (struct agt_connection *connection = http->head; connection; connection = next) {
        next = connection->next;
        if (connection->deadline_ns <= now_ns)
            expire(connection);
        else if (connection->exchange)
            agt_exchange_tick(connection->exchange, now_ns);
    }
}
