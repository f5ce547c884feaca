/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/interest.h"
#include "tls/flow.h"
#include "tls/relay_parts.h"
#include "tls/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define LINGER_NS (500 * CR_NS_PER_MS) /* for a client to take what it was sent last */

static void leave_handshake(struct tls_relay_connection *connection)
{
    if (connection->phase == TLS_RELAY_HANDSHAKE)
        connection->relay->handshakes--;
}

void tls_relay_connection_die(struct tls_relay_connection *connection, const char *reason)
{
    struct tls_relay *relay = connection->relay;

    if (connection->phase == TLS_RELAY_DEAD)
        return;
    leave_handshake(connection);
    connection->phase = TLS_RELAY_DEAD;
    if (reason)
        tls_relay_log_refusal(relay, connection->source, reason);
    cr_close_fd(&connection->client.fd);
    cr_close_fd(&connection->server.fd);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        relay->live = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    connection->next = relay->dead;
    relay->dead = connection;
    relay->count--;
}

static int set_interest(struct tls_relay_end *end, uint32_t interest)
{
    return cr_interest_set(end->connection->relay->epoll_fd, end->fd, end, &end->interest,
                           interest);
}

/* An end is read when what came from it before is gone, and written when something waits. */
static uint32_t wanted(const struct tls_relay_flow *from, const struct tls_relay_flow *to)
{
    return (from->bytes.size == 0 && !from->has_ended ? (uint32_t)EPOLLIN : 0) |
           (to->bytes.size > 0 ? (uint32_t)EPOLLOUT : 0);
}

static void rearm(struct tls_relay_connection *connection)
{
    uint32_t tls = tls_stream_wants_write(connection->tls) ? (uint32_t)EPOLLOUT : 0;
    int r;

    if (connection->phase == TLS_RELAY_DEAD)
        return;
    if (connection->phase != TLS_RELAY_OPEN) {
        r = set_interest(&connection->client, EPOLLIN | tls);
    } else {
        r = set_interest(&connection->client,
                         wanted(&connection->to_server, &connection->to_client) | tls);
        if (r == 0)
            r = set_interest(&connection->server,
                             wanted(&connection->to_client, &connection->to_server));
    }
    if (r < 0)
        tls_relay_connection_die(connection, "cannot be watched");
}

static bool flush_to_client(struct tls_relay_connection *connection, int64_t now_ns)
{
    return tls_flow_send(&connection->to_client.bytes, -1, connection->tls, now_ns);
}

/* A server that has closed reads no more, but what it has written before still goes out: why it did
 * not want to read the rest. */
static void flush_to_server(struct tls_relay_connection *connection, int64_t now_ns)
{
    struct tls_relay_flow *in = &connection->to_server;

    if (!in->is_deaf && tls_flow_send(&in->bytes, connection->server.fd, NULL, now_ns))
        return;
    in->is_deaf = true;
    tls_flow_init(&in->bytes);
}

/* Reads once; the flow is empty. False when the sender's end is cut. */
static bool receive(struct tls_relay_flow *flow, int fd, struct tls_stream *tls)
{
    enum tls_received what = tls_flow_receive(&flow->bytes, fd, tls);

    flow->has_ended = what == TLS_RECEIVED_END;
    flow->bytes.size = flow->bytes.unchecked; /* nobody looks at it */
    flow->bytes.unchecked = 0;
    return what != TLS_RECEIVED_CUT;
}

/* Passes an end on, once everything before it has left. */
static void pass_ends(struct tls_relay_connection *connection, int64_t now_ns)
{
    struct tls_relay_flow *in = &connection->to_server;
    struct tls_relay_flow *out = &connection->to_client;

    if (in->has_ended && in->bytes.size == 0 && !in->is_told) {
        in->is_told = true;
        (void)shutdown(connection->server.fd, SHUT_WR);
    }
    if (out->has_ended && out->bytes.size == 0 && connection->phase == TLS_RELAY_OPEN) {
        tls_stream_end(connection->tls);
        (void)shutdown(connection->client.fd, SHUT_WR);
        cr_close_fd(&connection->server.fd);
        connection->phase = TLS_RELAY_LINGER;
        connection->since_ns = now_ns;
        if (in->has_ended)
            tls_relay_connection_die(connection, NULL);
    }
}

static void relay_client(struct tls_relay_connection *connection, uint32_t events, int64_t now_ns)
{
    struct tls_relay_flow *in = &connection->to_server;
    bool must_read = (events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) ||
                     tls_stream_wants_write(connection->tls);

    if (!flush_to_client(connection, now_ns)) {
        tls_relay_connection_die(connection, NULL);
        return;
    }
    if (must_read && in->bytes.size == 0 && !in->has_ended) {
        if (!receive(in, -1, connection->tls)) {
            tls_relay_connection_die(connection, NULL);
            return;
        }
        flush_to_server(connection, now_ns);
    }
    pass_ends(connection, now_ns);
}

static void relay_server(struct tls_relay_connection *connection, uint32_t events, int64_t now_ns)
{
    struct tls_relay_flow *out = &connection->to_client;
    bool must_read = events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR);

    flush_to_server(connection, now_ns);
    if (must_read && out->bytes.size == 0 && !out->has_ended) {
        /* A server that did not read all that it was sent is cut off, behind its last words. */
        if (!receive(out, connection->server.fd, NULL))
            out->has_ended = true;
        if (!flush_to_client(connection, now_ns)) {
            tls_relay_connection_die(connection, NULL);
            return;
        }
    }
    pass_ends(connection, now_ns);
}

static void open_plain(struct tls_relay_connection *connection, int64_t now_ns)
{
    struct tls_relay *relay = connection->relay;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        tls_relay_connection_die(connection, "no file descriptors left");
        return;
    }
    leave_handshake(connection);
    connection->phase = TLS_RELAY_OPEN;
    connection->since_ns = now_ns;
    connection->server.fd = pair[0];
    relay->options.on_open(relay->options.user, pair[1], connection->source,
                           tls_stream_name(connection->tls));
}

static void shake_hands(struct tls_relay_connection *connection, int64_t now_ns)
{
    uint8_t rest[4096];

    switch (tls_stream_handshake(connection->tls)) {
    case TLS_STEP_WAIT:
        return;
    case TLS_STEP_LEFT:
        tls_relay_connection_die(connection, NULL);
        return;
    case TLS_STEP_FAILED:
        /* Bytes that nobody read would reset the connection, and the alert would be lost. */
        (void)shutdown(connection->client.fd, SHUT_WR);
        (void)recv(connection->client.fd, rest, sizeof(rest), MSG_DONTWAIT);
        tls_relay_connection_die(connection, tls_stream_fault(connection->tls));
        return;
    case TLS_STEP_DONE:
        open_plain(connection, now_ns);
        return;
    }
}

static void drop_rest(struct tls_relay_connection *connection)
{
    uint8_t rest[4096];
    ssize_t size = recv(connection->client.fd, rest, sizeof(rest), MSG_DONTWAIT);

    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        tls_relay_connection_die(connection, NULL);
}

void tls_relay_connection_on_ready(struct tls_relay_end *end, uint32_t events, int64_t now_ns)
{
    struct tls_relay_connection *connection = end->connection;

    switch (connection->phase) {
    case TLS_RELAY_HANDSHAKE:
        shake_hands(connection, now_ns);
        break;
    case TLS_RELAY_OPEN:
        if (end == &connection->client)
            relay_client(connection, events, now_ns);
        else
            relay_server(connection, events, now_ns);
        break;
    case TLS_RELAY_LINGER:
        drop_rest(connection);
        break;
    case TLS_RELAY_DEAD:
        return;
    }
    rearm(connection);
}

bool tls_relay_connection_begin(struct tls_relay *relay, int fd, const char *source, int64_t now_ns)
{
    struct tls_relay_connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return false;
    connection->relay = relay;
    connection->since_ns = now_ns;
    connection->client = (struct tls_relay_end){.connection = connection, .fd = fd};
    connection->server = (struct tls_relay_end){.connection = connection, .fd = -1};
    (void)snprintf(connection->source, sizeof(connection->source), "%s", source);
    connection->tls = tls_stream_new(relay->options.context, fd);
    if (!connection->tls || set_interest(&connection->client, EPOLLIN) < 0) {
        (void)tls_stream_free(connection->tls);
        free(connection);
        return false;
    }
    connection->next = relay->live;
    if (relay->live)
        relay->live->previous = connection;
    relay->live = connection;
    relay->count++;
    relay->handshakes++;
    return true;
}

void tls_relay_connection_look(struct tls_relay_connection *connection, int64_t now_ns)
{
    const struct tls_relay_options *options = &connection->relay->options;
    int64_t age_ns = now_ns - connection->since_ns;

    if (connection->phase == TLS_RELAY_HANDSHAKE && age_ns >= options->handshake_ms * CR_NS_PER_MS)
        tls_relay_connection_die(connection, "TLS: the handshake takes too long");
    else if (connection->phase == TLS_RELAY_LINGER && age_ns >= LINGER_NS)
        tls_relay_connection_die(connection, NULL);
    else if (connection->phase == TLS_RELAY_OPEN &&
             tls_flow_is_stuck(&connection->to_client.bytes, now_ns,
                               options->stuck_ms * CR_NS_PER_MS))
        /* Meanwhile the server's end is not watched: that it has closed would not be seen. */
        tls_relay_connection_die(connection, "the client takes nothing");
}

void tls_relay_connection_free(struct tls_relay_connection *connection)
{
    (void)tls_stream_free(connection->tls);
    free(connection);
}
