/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/interest.h"
#include "rpc/guard_private.h"
#include "tls/stream.h"

#include <stdlib.h>

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * A handshake takes up to a millisecond (a signature of RSA): so many in one
 * pass of the loop, then those are served that are through.
 */
#define STEPS_AT_ONCE 4U
/* How long a client may take nothing of what waits for it. The server's pings have given it up by
 * then, but its end is not watched meanwhile. */
#define STUCK_NS (60 * CR_NS_PER_S)
/* How long a client may go on sending after the server has closed: closing with unread data
 * resets a TCP connection, and the client could miss why. */
#define LINGER_NS (500 * CR_NS_PER_MS)

void rpc_guard_set_phase(struct rpc_guard *guard, enum rpc_guard_phase phase, int64_t now_ns)
{
    guard->phase = phase;
    guard->phase_since_ns = now_ns;
}

void rpc_guard_die(struct rpc_guard *guard, const char *reason)
{
    if (guard->phase == RPC_GUARD_DEAD)
        return;
    guard->phase = RPC_GUARD_DEAD;
    cr_close_fd(&guard->server.fd);
    cr_close_fd(&guard->client.fd);
    guard->host->on_dead(guard->host->user, guard, reason);
}

/* ---- epoll ---- */

int rpc_guard_set_interest(struct rpc_guard_end *end, uint32_t interest)
{
    return cr_interest_set(end->guard->host->epoll_fd, end->fd, &end->watch, &end->interest,
                           interest);
}

/* An end is read when what came from it before is gone, and written when something waits. */
static uint32_t wanted(const struct tls_flow *from, const struct tls_flow *to)
{
    return (from->size == 0 && from->unchecked == 0 ? (uint32_t)EPOLLIN : 0) |
           (to->size > 0 ? (uint32_t)EPOLLOUT : 0);
}

/* TLS may have to write to go on reading. */
static uint32_t wanted_by_tls(const struct rpc_guard_end *end)
{
    return end->tls && tls_stream_wants_write(end->tls) ? (uint32_t)EPOLLOUT : 0;
}

/* The client is not waited for while it is us who do not read. */
bool rpc_guard_is_reading(const struct rpc_guard *guard)
{
    return guard->to_server.size == 0 && guard->to_server.unchecked == 0;
}

static bool is_timed(const struct rpc_guard *guard)
{
    if (guard->phase == RPC_GUARD_TLS || guard->phase == RPC_GUARD_HANDSHAKE ||
        guard->phase == RPC_GUARD_LINGER)
        return true;
    if (guard->phase != RPC_GUARD_RELAY)
        return false;
    return guard->deaf_ns != 0 || guard->to_client.stuck_ns != 0 ||
           (rpc_guard_is_reading(guard) && rpc_h2_deadline_ns(&guard->h2) != INT64_MAX);
}

/* After anything has happened: watches for what can happen next. */
void rpc_guard_rearm(struct rpc_guard *guard)
{
    int r = 0;

    if (guard->phase == RPC_GUARD_DEAD || guard->phase == RPC_GUARD_LEAVING)
        return;
    if (guard->phase == RPC_GUARD_RELAY) {
        r = rpc_guard_set_interest(&guard->client, wanted(&guard->to_server, &guard->to_client) |
                                                       wanted_by_tls(&guard->client));
        if (r == 0)
            r = rpc_guard_set_interest(&guard->server,
                                       wanted(&guard->to_client, &guard->to_server));
    } else {
        r = rpc_guard_set_interest(&guard->client, guard->phase == RPC_GUARD_TURN
                                                       ? 0
                                                       : EPOLLIN | wanted_by_tls(&guard->client));
    }
    if (r < 0)
        rpc_guard_die(guard, "cannot be watched");
    else if (is_timed(guard))
        guard->host->has_timed = true;
}

/* ---- TLS ---- */

/* Without it, what the client sent and nobody read would reset the connection, and the client would
 * not hear why it was refused. */
static void refuse(struct rpc_guard *guard)
{
    uint8_t rest[4096];

    (void)shutdown(guard->client.fd, SHUT_WR);
    (void)recv(guard->client.fd, rest, sizeof(rest), MSG_DONTWAIT);
    rpc_guard_die(guard, tls_stream_fault(guard->client.tls));
}

static void know_peer(struct rpc_guard *guard)
{
    const char *name = tls_stream_name(guard->client.tls);

    guard->peer.is_encrypted = true;
    if (!name[0])
        return;
    guard->peer.is_certified = true;
    tls_stream_caller(name, guard->peer.caller, sizeof(guard->peer.caller));
}

/* A few in each pass of the loop; epoll tells of the others again. */
static bool may_step(struct rpc_guard_host *host, int64_t now_ns)
{
    if (host->step_ns != now_ns) {
        host->step_ns = now_ns;
        host->step_count = 0;
    }
    return host->step_count++ < STEPS_AT_ONCE;
}

static void shake_hands(struct rpc_guard *guard, int64_t now_ns)
{
    if (!may_step(guard->host, now_ns))
        return;
    switch (tls_stream_handshake(guard->client.tls)) {
    case TLS_STEP_WAIT:
        break;
    case TLS_STEP_LEFT:
        rpc_guard_die(guard, NULL);
        return;
    case TLS_STEP_FAILED:
        refuse(guard);
        return;
    case TLS_STEP_DONE:
        know_peer(guard);
        rpc_guard_set_phase(guard, RPC_GUARD_HANDSHAKE, now_ns);
        if (guard->host->on_secured)
            guard->host->on_secured(guard->host->user, guard);
        break;
    }
    rpc_guard_rearm(guard);
}

void rpc_guard_secure(struct rpc_guard *guard, struct tls_stream *stream)
{
    guard->client.tls = stream;
    guard->phase = RPC_GUARD_TLS;
}

static void on_client_ready(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_guard *guard = ((struct rpc_guard_end *)watch)->guard;

    if (guard->phase == RPC_GUARD_TLS) {
        shake_hands(guard, now_ns);
        return;
    }
    if (guard->phase == RPC_GUARD_DEAD || guard->phase == RPC_GUARD_TURN ||
        guard->phase == RPC_GUARD_LEAVING)
        return;
    /* Nobody is left to answer. */
    if (events & ((uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) {
        rpc_guard_leave(guard, now_ns);
        return;
    }
    if ((events & (uint32_t)EPOLLOUT) && !rpc_guard_write_client(guard, now_ns))
        return;
    if ((events & (uint32_t)EPOLLIN) ||
        (wanted_by_tls(&guard->client) && rpc_guard_is_reading(guard))) {
        if (guard->phase == RPC_GUARD_LINGER)
            rpc_guard_discard_client(guard);
        else
            rpc_guard_read_client(guard, now_ns);
    }
    rpc_guard_rearm(guard);
}

static void on_server_ready(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_guard *guard = ((struct rpc_guard_end *)watch)->guard;

    if (guard->phase != RPC_GUARD_RELAY)
        return;
    if (events & (uint32_t)EPOLLOUT) {
        rpc_guard_flush_to_server(guard, now_ns);
        /* Meanwhile the client could not send. */
        if (rpc_guard_is_reading(guard))
            rpc_h2_restart_clock(&guard->h2, now_ns);
        rpc_guard_pass_on(guard, now_ns);
        if (guard->phase != RPC_GUARD_RELAY)
            return;
    }
    /* Also on a hangup: what core wrote before it is still to be read. */
    if ((events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) &&
        guard->to_client.size == 0)
        (void)rpc_guard_read_server(guard, now_ns);
    rpc_guard_rearm(guard);
}

/* ---- life ---- */

int rpc_guard_new(struct rpc_guard_host *host, int fd, const struct rpc_peer *peer,
                  struct rpc_h2_budget *budget, int64_t now_ns, struct rpc_guard **ret_guard,
                  struct cr_err *err)
{
    struct rpc_guard *guard = malloc(sizeof(*guard));
    int r;

    if (!guard)
        return cr_err_set(err, ENOMEM, "guard a connection: out of memory");
    guard->link = (struct rpc_guard_link){0};
    guard->host = host;
    guard->peer = *peer;
    rpc_guard_set_phase(guard, RPC_GUARD_HANDSHAKE, now_ns);
    guard->client =
        (struct rpc_guard_end){.watch = {.on_ready = on_client_ready}, .guard = guard, .fd = fd};
    guard->server =
        (struct rpc_guard_end){.watch = {.on_ready = on_server_ready}, .guard = guard, .fd = -1};
    tls_flow_init(&guard->to_server);
    tls_flow_init(&guard->to_client);
    guard->pause_ns = guard->deaf_ns = 0;
    rpc_h2_init(&guard->h2, host->edge, budget);
    r = rpc_guard_set_interest(&guard->client, EPOLLIN);
    if (r < 0) {
        free(guard);
        return cr_err_sys(err, -r, "watch a connection");
    }
    host->has_timed = true;
    *ret_guard = guard;
    return 0;
}

struct rpc_guard *rpc_guard_free(struct rpc_guard *guard)
{
    if (!guard)
        return NULL;
    cr_close_fd(&guard->server.fd);
    cr_close_fd(&guard->client.fd);
    (void)tls_stream_free(guard->client.tls);
    free(guard);
    return NULL;
}

/* The kernel has what the client has not taken. To close then would lose it as soon as the client
 * says something more. */
static bool has_unsent(const struct rpc_guard *guard)
{
    int size = 0;

    return ioctl(guard->client.fd, SIOCOUTQ, &size) == 0 && size > 0;
}

/* The server is gone, and the client has had its time: while something waits for it, that of any
 * client. */
static bool has_lingered(const struct rpc_guard *guard, int64_t now_ns)
{
    int64_t age_ns = now_ns - guard->phase_since_ns;

    if (guard->phase == RPC_GUARD_LINGER)
        return age_ns >= STUCK_NS || (age_ns >= LINGER_NS && !has_unsent(guard));
    return guard->phase == RPC_GUARD_RELAY && guard->deaf_ns != 0 && guard->to_client.size == 0 &&
           now_ns - guard->deaf_ns >= LINGER_NS;
}

void rpc_guard_check_time(struct rpc_guard *guard, int64_t now_ns)
{
    bool is_late = now_ns - guard->phase_since_ns >= guard->host->edge->handshake_ms * CR_NS_PER_MS;

    if (guard->phase == RPC_GUARD_TLS && is_late)
        rpc_guard_die(guard, "TLS: the handshake takes too long");
    else if (guard->phase == RPC_GUARD_HANDSHAKE && is_late)
        rpc_guard_die(guard, "slow to begin");
    else if (has_lingered(guard, now_ns))
        rpc_guard_die(guard, NULL);
    else if (guard->phase == RPC_GUARD_RELAY &&
             tls_flow_is_stuck(&guard->to_client, now_ns, STUCK_NS))
        rpc_guard_die(guard, "takes nothing");
    else if (guard->phase == RPC_GUARD_RELAY && rpc_guard_is_reading(guard) &&
             now_ns >= rpc_h2_deadline_ns(&guard->h2))
        rpc_guard_die(guard, "slow frame");
    else if (is_timed(guard))
        guard->host->has_timed = true;
}

void rpc_guard_finish(struct rpc_guard *guard, int64_t now_ns)
{
    if (guard->phase != RPC_GUARD_RELAY) {
        if (guard->phase != RPC_GUARD_LINGER)
            rpc_guard_die(guard, NULL);
        return;
    }
    /* What the client had no room for before is still in the server's socket. */
    while (guard->phase == RPC_GUARD_RELAY && guard->to_client.size == 0) {
        if (!rpc_guard_read_server(guard, now_ns))
            rpc_guard_linger(guard, now_ns);
    }
    if (guard->phase != RPC_GUARD_DEAD)
        rpc_guard_rearm(guard);
}

const struct rpc_peer *rpc_guard_peer(const struct rpc_guard *guard)
{
    return &guard->peer;
}

struct rpc_guard_link *rpc_guard_link(struct rpc_guard *guard)
{
    return &guard->link;
}
