/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "rpc/guard_private.h"
#include "tls/stream.h"

#include <sys/socket.h>

/* Costly frames are passed on so many at a time, one at a time while others are being paid for. */
#define COSTLY_AT_ONCE 16U

static bool flush(struct tls_flow *flow, const struct rpc_guard_end *end, int64_t now_ns)
{
    return tls_flow_send(flow, end->fd, end->tls, now_ns);
}

static enum tls_received receive(struct tls_flow *flow, const struct rpc_guard_end *end)
{
    return tls_flow_receive(flow, end->fd, end->tls);
}

/*
 * A server that has closed takes no more, but what it wrote before may still
 * be on its way: the last results. So what the client says then (an
 * acknowledgement is enough) is dropped, and does not end the connection.
 */
void rpc_guard_flush_to_server(struct rpc_guard *guard, int64_t now_ns)
{
    struct tls_flow *flow = &guard->to_server;

    if (flush(flow, &guard->server, now_ns))
        return;
    flow->at = flow->unchecked > 0 ? flow->at + flow->size : 0;
    flow->size = 0;
    if (guard->deaf_ns == 0)
        guard->deaf_ns = now_ns;
}

bool rpc_guard_write_client(struct rpc_guard *guard, int64_t now_ns)
{
    if (!flush(&guard->to_client, &guard->client, now_ns)) {
        rpc_guard_die(guard, NULL);
        return false;
    }
    if (guard->deaf_ns != 0)
        guard->deaf_ns = now_ns; /* the client takes what is left */
    return true;
}

/* Looks at what came, up to the first fault or the first pause. False when that was the end. */
static bool check(struct rpc_guard *guard, int64_t now_ns)
{
    struct tls_flow *flow = &guard->to_server;
    uint32_t costly = now_ns < guard->host->costly_ns ? 1 : COSTLY_AT_ONCE;
    size_t used = 0;
    enum rpc_h2_fault fault = rpc_h2_feed_client(&guard->h2, flow->data + flow->at + flow->size,
                                                 flow->unchecked, costly, now_ns, &used);

    if (fault != RPC_H2_OK) {
        rpc_guard_die(guard, rpc_h2_fault_name(fault));
        return false;
    }
    flow->size += used;
    flow->unchecked -= used;
    if (guard->h2.costly == costly)
        rpc_guard_pay(guard, now_ns);
    if (guard->phase == RPC_GUARD_HANDSHAKE && rpc_h2_is_ready(&guard->h2))
        rpc_guard_attach_in_turn(guard, now_ns);
    return guard->phase != RPC_GUARD_DEAD;
}

static bool may_check(const struct rpc_guard *guard, int64_t now_ns)
{
    const struct tls_flow *flow = &guard->to_server;

    if (flow->unchecked == 0 || now_ns < guard->pause_ns)
        return false;
    return guard->phase == RPC_GUARD_HANDSHAKE ||
           (guard->phase == RPC_GUARD_RELAY && flow->size == 0);
}

/* What is left of a record of TLS is in no socket, so that epoll does not tell of it. */
static bool has_rest(const struct rpc_guard *guard)
{
    return guard->phase == RPC_GUARD_RELAY && rpc_guard_is_reading(guard) && guard->client.tls &&
           tls_stream_has_rest(guard->client.tls);
}

void rpc_guard_pass_on(struct rpc_guard *guard, int64_t now_ns)
{
    do {
        do {
            if (guard->phase == RPC_GUARD_RELAY)
                rpc_guard_flush_to_server(guard, now_ns);
        } while (may_check(guard, now_ns) && check(guard, now_ns));
    } while (has_rest(guard) && receive(&guard->to_server, &guard->client) == TLS_RECEIVED_SOME);
}

void rpc_guard_read_client(struct rpc_guard *guard, int64_t now_ns)
{
    switch (receive(&guard->to_server, &guard->client)) {
    case TLS_RECEIVED_NOTHING:
        return;
    case TLS_RECEIVED_END:
    case TLS_RECEIVED_CUT:
        rpc_guard_leave(guard, now_ns);
        return;
    case TLS_RECEIVED_SOME:
        rpc_guard_pass_on(guard, now_ns);
        return;
    }
}

void rpc_guard_linger(struct rpc_guard *guard, int64_t now_ns)
{
    cr_close_fd(&guard->server.fd);
    guard->server.interest = 0;
    if (guard->client.tls)
        tls_stream_end(guard->client.tls);
    (void)shutdown(guard->client.fd, SHUT_WR);
    rpc_guard_set_phase(guard, RPC_GUARD_LINGER, now_ns);
}

bool rpc_guard_read_server(struct rpc_guard *guard, int64_t now_ns)
{
    struct tls_flow *flow = &guard->to_client;

    switch (receive(flow, &guard->server)) {
    case TLS_RECEIVED_NOTHING:
        return false;
    case TLS_RECEIVED_END:
    case TLS_RECEIVED_CUT:
        rpc_guard_linger(guard, now_ns);
        return true;
    case TLS_RECEIVED_SOME:
        break;
    }
    rpc_h2_feed_server(&guard->h2, flow->data, flow->unchecked);
    flow->size = flow->unchecked;
    flow->unchecked = 0;
    (void)rpc_guard_write_client(guard, now_ns);
    return true;
}

void rpc_guard_discard_client(struct rpc_guard *guard)
{
    struct tls_flow *flow = &guard->to_server;

    tls_flow_init(flow);
    if (receive(flow, &guard->client) >= TLS_RECEIVED_END)
        rpc_guard_die(guard, NULL);
    flow->unchecked = 0;
}
