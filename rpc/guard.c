/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/guard.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/interest.h"
#include "rpc/h2_frames.h"
#include "rpc/watch.h"
#include "tls/flow.h"
#include "tls/stream.h"

#include <errno.h>
#include <stdlib.h>

#include <sys/epoll.h>
#include <sys/socket.h>

/*
 * Costly frames are passed on so many at a time, one at a time while others
 * are being paid for, and each is paid for with a pause: four times what it
 * costs core (64 us, measured), so that all of them together take at most a
 * quarter of its thread and a call of somebody else waits for about 1 ms.
 */
#define COSTLY_AT_ONCE 16U
#define COSTLY_NS (256 * CR_NS_PER_S / 1000000)
/*
 * Connections are shown to core, and ended there, one by one, so that hundreds
 * at once leave time for those that stay: each takes it about 100 us. When we
 * are late and many have their turn, so many are served before others are.
 */
#define TURN_NS (250 * CR_NS_PER_S / 1000000)
#define TURNS_AT_ONCE 4U
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

enum phase {
    PHASE_TLS,       /* before anything else, where TLS is on */
    PHASE_HANDSHAKE, /* the server has not seen the connection */
    PHASE_TURN,      /* it has begun as it should, and waits for its turn to be shown */
    PHASE_RELAY,
    PHASE_LEAVING, /* the client is gone; the server hears of it in its turn */
    PHASE_LINGER,  /* the server has closed, the client has not */
    PHASE_DEAD,
};

/* One of the two sockets. */
struct end {
    struct rpc_watch watch;
    struct rpc_guard *guard;
    int fd;
    struct tls_stream *tls; /* owned; NULL: none, as always at the server's end */
    uint32_t interest;      /* what epoll watches; 0: not registered, because a hangup would spin */
};

struct rpc_guard {
    struct rpc_guard_link link;
    struct rpc_guard_host *host; /* borrowed */
    struct rpc_peer peer;
    enum phase phase;
    int64_t phase_since_ns;
    int64_t pause_ns; /* no more of the client's bytes are looked at before */
    int64_t deaf_ns;  /* since when the server takes nothing more; 0: it does */
    struct end client;
    struct end server;
    struct tls_flow to_server;
    struct tls_flow to_client;
    struct rpc_h2 h2;
};

static void set_phase(struct rpc_guard *guard, enum phase phase, int64_t now_ns)
{
    guard->phase = phase;
    guard->phase_since_ns = now_ns;
}

static void die(struct rpc_guard *guard, const char *reason)
{
    if (guard->phase == PHASE_DEAD)
        return;
    guard->phase = PHASE_DEAD;
    cr_close_fd(&guard->server.fd);
    cr_close_fd(&guard->client.fd);
    guard->host->on_dead(guard->host->user, guard, reason);
}

/* ---- epoll ---- */

static int set_interest(struct end *end, uint32_t interest)
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
static uint32_t wanted_by_tls(const struct end *end)
{
    return end->tls && tls_stream_wants_write(end->tls) ? (uint32_t)EPOLLOUT : 0;
}

/* The client is not waited for while it is us who do not read. */
static bool is_reading(const struct rpc_guard *guard)
{
    return guard->to_server.size == 0 && guard->to_server.unchecked == 0;
}

static bool is_timed(const struct rpc_guard *guard)
{
    if (guard->phase == PHASE_TLS || guard->phase == PHASE_HANDSHAKE ||
        guard->phase == PHASE_LINGER)
        return true;
    if (guard->phase != PHASE_RELAY)
        return false;
    return guard->deaf_ns != 0 || guard->to_client.stuck_ns != 0 ||
           (is_reading(guard) && rpc_h2_deadline_ns(&guard->h2) != INT64_MAX);
}

/* After anything has happened: watches for what can happen next. */
static void rearm(struct rpc_guard *guard)
{
    int r = 0;

    if (guard->phase == PHASE_DEAD || guard->phase == PHASE_LEAVING)
        return;
    if (guard->phase == PHASE_RELAY) {
        r = set_interest(&guard->client, wanted(&guard->to_server, &guard->to_client) |
                                             wanted_by_tls(&guard->client));
        if (r == 0)
            r = set_interest(&guard->server, wanted(&guard->to_client, &guard->to_server));
    } else {
        r = set_interest(&guard->client,
                         guard->phase == PHASE_TURN ? 0 : EPOLLIN | wanted_by_tls(&guard->client));
    }
    if (r < 0)
        die(guard, "cannot be watched");
    else if (is_timed(guard))
        guard->host->has_timed = true;
}

/* ---- relay ---- */

static bool flush(struct tls_flow *flow, const struct end *end, int64_t now_ns)
{
    return tls_flow_send(flow, end->fd, end->tls, now_ns);
}

/*
 * A server that has closed takes no more, but what it wrote before may still
 * be on its way: the last results. So what the client says then (an
 * acknowledgement is enough) is dropped, and does not end the connection.
 */
static void flush_to_server(struct rpc_guard *guard, int64_t now_ns)
{
    struct tls_flow *flow = &guard->to_server;

    if (flush(flow, &guard->server, now_ns))
        return;
    flow->at = flow->unchecked > 0 ? flow->at + flow->size : 0;
    flow->size = 0;
    if (guard->deaf_ns == 0)
        guard->deaf_ns = now_ns;
}

static enum tls_received receive(struct tls_flow *flow, const struct end *end)
{
    return tls_flow_receive(flow, end->fd, end->tls);
}

static void attach(struct rpc_guard *guard, int64_t now_ns)
{
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        die(guard, "no file descriptors left");
        return;
    }
    ours = pair[0];
    theirs = pair[1];
    if (guard->host->attach(guard->host->user, theirs, &guard->peer, NULL) < 0) {
        /* Draining, or out of something: the client hears that the service is unavailable. */
        die(guard, NULL);
        return;
    }
    (void)cr_take_fd(&theirs);
    guard->server.fd = cr_take_fd(&ours);
    set_phase(guard, PHASE_RELAY, now_ns);
}

static void pause_until(struct rpc_guard *guard, int64_t until_ns)
{
    guard->pause_ns = until_ns;
    if (guard->host->resume_ns > until_ns)
        guard->host->resume_ns = until_ns;
}

/* The client is gone: ends the connection, or waits for its turn to. */
static void leave(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (guard->phase != PHASE_RELAY || now_ns >= host->leave_ns) {
        host->leave_ns = now_ns + TURN_NS;
        die(guard, NULL);
        return;
    }
    cr_close_fd(&guard->client.fd); /* which epoll forgets, too */
    (void)set_interest(&guard->server, 0);
    set_phase(guard, PHASE_LEAVING, now_ns);
    pause_until(guard, host->leave_ns);
    host->leave_ns += TURN_NS;
}

/* Attaches, or waits for its turn to. */
static void attach_in_turn(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (now_ns >= host->attach_ns) {
        host->attach_ns = now_ns + TURN_NS;
        attach(guard, now_ns);
        return;
    }
    set_phase(guard, PHASE_TURN, now_ns);
    pause_until(guard, host->attach_ns);
    host->attach_ns += TURN_NS;
}

/* Lets costly frames be paid for by a pause of the connection that they came on. */
static void pay(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (host->costly_ns < now_ns)
        host->costly_ns = now_ns;
    host->costly_ns += guard->h2.costly * COSTLY_NS;
    pause_until(guard, host->costly_ns);
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
        die(guard, rpc_h2_fault_name(fault));
        return false;
    }
    flow->size += used;
    flow->unchecked -= used;
    if (guard->h2.costly == costly)
        pay(guard, now_ns);
    if (guard->phase == PHASE_HANDSHAKE && rpc_h2_is_ready(&guard->h2))
        attach_in_turn(guard, now_ns);
    return guard->phase != PHASE_DEAD;
}

static bool may_check(const struct rpc_guard *guard, int64_t now_ns)
{
    const struct tls_flow *flow = &guard->to_server;

    if (flow->unchecked == 0 || now_ns < guard->pause_ns)
        return false;
    return guard->phase == PHASE_HANDSHAKE || (guard->phase == PHASE_RELAY && flow->size == 0);
}

/* What is left of a record of TLS is in no socket, so that epoll does not tell of it. */
static bool has_rest(const struct rpc_guard *guard)
{
    return guard->phase == PHASE_RELAY && is_reading(guard) && guard->client.tls &&
           tls_stream_has_rest(guard->client.tls);
}

/* Passes on what was looked at and looks at more, until nothing is left, the server takes no more,
 * or the connection has to pause. */
static void pass_on(struct rpc_guard *guard, int64_t now_ns)
{
    do {
        do {
            if (guard->phase == PHASE_RELAY)
                flush_to_server(guard, now_ns);
        } while (may_check(guard, now_ns) && check(guard, now_ns));
    } while (has_rest(guard) && receive(&guard->to_server, &guard->client) == TLS_RECEIVED_SOME);
}

static void read_client(struct rpc_guard *guard, int64_t now_ns)
{
    switch (receive(&guard->to_server, &guard->client)) {
    case TLS_RECEIVED_NOTHING:
        return;
    case TLS_RECEIVED_END:
    case TLS_RECEIVED_CUT:
        leave(guard, now_ns);
        return;
    case TLS_RECEIVED_SOME:
        pass_on(guard, now_ns);
        return;
    }
}

static void linger(struct rpc_guard *guard, int64_t now_ns)
{
    cr_close_fd(&guard->server.fd);
    guard->server.interest = 0;
    if (guard->client.tls)
        tls_stream_end(guard->client.tls);
    (void)shutdown(guard->client.fd, SHUT_WR);
    set_phase(guard, PHASE_LINGER, now_ns);
}

/* False: there is nothing now. */
static bool read_server(struct rpc_guard *guard, int64_t now_ns)
{
    struct tls_flow *flow = &guard->to_client;

    switch (receive(flow, &guard->server)) {
    case TLS_RECEIVED_NOTHING:
        return false;
    case TLS_RECEIVED_END:
    case TLS_RECEIVED_CUT:
        linger(guard, now_ns);
        return true;
    case TLS_RECEIVED_SOME:
        break;
    }
    rpc_h2_feed_server(&guard->h2, flow->data, flow->unchecked);
    flow->size = flow->unchecked;
    flow->unchecked = 0;
    if (guard->deaf_ns != 0)
        guard->deaf_ns = now_ns; /* the client takes what is left */
    if (!flush(&guard->to_client, &guard->client, now_ns))
        die(guard, NULL);
    return true;
}

static void discard_client(struct rpc_guard *guard)
{
    struct tls_flow *flow = &guard->to_server;

    tls_flow_init(flow);
    if (receive(flow, &guard->client) >= TLS_RECEIVED_END)
        die(guard, NULL);
    flow->unchecked = 0;
}

/* ---- TLS ---- */

/* Without it, what the client sent and nobody read would reset the connection, and the client would
 * not hear why it was refused. */
static void refuse(struct rpc_guard *guard)
{
    uint8_t rest[4096];

    (void)shutdown(guard->client.fd, SHUT_WR);
    (void)recv(guard->client.fd, rest, sizeof(rest), MSG_DONTWAIT);
    die(guard, tls_stream_fault(guard->client.tls));
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
        die(guard, NULL);
        return;
    case TLS_STEP_FAILED:
        refuse(guard);
        return;
    case TLS_STEP_DONE:
        know_peer(guard);
        set_phase(guard, PHASE_HANDSHAKE, now_ns);
        if (guard->host->on_secured)
            guard->host->on_secured(guard->host->user, guard);
        break;
    }
    rearm(guard);
}

void rpc_guard_secure(struct rpc_guard *guard, struct tls_stream *stream)
{
    guard->client.tls = stream;
    guard->phase = PHASE_TLS;
}

static void on_client_ready(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_guard *guard = ((struct end *)watch)->guard;

    if (guard->phase == PHASE_TLS) {
        shake_hands(guard, now_ns);
        return;
    }
    if (guard->phase == PHASE_DEAD || guard->phase == PHASE_TURN || guard->phase == PHASE_LEAVING)
        return;
    /* Nobody is left to answer. */
    if (events & ((uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) {
        leave(guard, now_ns);
        return;
    }
    if (events & (uint32_t)EPOLLOUT) {
        if (!flush(&guard->to_client, &guard->client, now_ns)) {
            die(guard, NULL);
            return;
        }
        if (guard->deaf_ns != 0)
            guard->deaf_ns = now_ns; /* the client takes what is left */
    }
    if ((events & (uint32_t)EPOLLIN) || (wanted_by_tls(&guard->client) && is_reading(guard))) {
        if (guard->phase == PHASE_LINGER)
            discard_client(guard);
        else
            read_client(guard, now_ns);
    }
    rearm(guard);
}

static void on_server_ready(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_guard *guard = ((struct end *)watch)->guard;

    if (guard->phase != PHASE_RELAY)
        return;
    if (events & (uint32_t)EPOLLOUT) {
        flush_to_server(guard, now_ns);
        /* Meanwhile the client could not send. */
        if (is_reading(guard))
            rpc_h2_restart_clock(&guard->h2, now_ns);
        pass_on(guard, now_ns);
        if (guard->phase != PHASE_RELAY)
            return;
    }
    /* Also on a hangup: what core wrote before it is still to be read. */
    if ((events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) &&
        guard->to_client.size == 0)
        (void)read_server(guard, now_ns);
    rearm(guard);
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
    set_phase(guard, PHASE_HANDSHAKE, now_ns);
    guard->client = (struct end){.watch = {.on_ready = on_client_ready}, .guard = guard, .fd = fd};
    guard->server = (struct end){.watch = {.on_ready = on_server_ready}, .guard = guard, .fd = -1};
    tls_flow_init(&guard->to_server);
    tls_flow_init(&guard->to_client);
    guard->pause_ns = guard->deaf_ns = 0;
    rpc_h2_init(&guard->h2, host->edge, budget);
    r = set_interest(&guard->client, EPOLLIN);
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

/* The server is gone, and the client has had its time: while something waits for it, that of any
 * client. */
static bool has_lingered(const struct rpc_guard *guard, int64_t now_ns)
{
    if (guard->phase == PHASE_LINGER)
        return now_ns - guard->phase_since_ns >= LINGER_NS;
    return guard->phase == PHASE_RELAY && guard->deaf_ns != 0 && guard->to_client.size == 0 &&
           now_ns - guard->deaf_ns >= LINGER_NS;
}

void rpc_guard_check_time(struct rpc_guard *guard, int64_t now_ns)
{
    bool is_late = now_ns - guard->phase_since_ns >= guard->host->edge->handshake_ms * CR_NS_PER_MS;

    if (guard->phase == PHASE_TLS && is_late)
        die(guard, "TLS: the handshake takes too long");
    else if (guard->phase == PHASE_HANDSHAKE && is_late)
        die(guard, "slow to begin");
    else if (has_lingered(guard, now_ns))
        die(guard, NULL);
    else if (guard->phase == PHASE_RELAY && tls_flow_is_stuck(&guard->to_client, now_ns, STUCK_NS))
        die(guard, "takes nothing");
    else if (guard->phase == PHASE_RELAY && is_reading(guard) &&
             now_ns >= rpc_h2_deadline_ns(&guard->h2))
        die(guard, "slow frame");
    else if (is_timed(guard))
        guard->host->has_timed = true;
}

void rpc_guard_finish(struct rpc_guard *guard, int64_t now_ns)
{
    if (guard->phase != PHASE_RELAY) {
        if (guard->phase != PHASE_LINGER)
            die(guard, NULL);
        return;
    }
    /* What the client had no room for before is still in the server's socket. */
    while (guard->phase == PHASE_RELAY && guard->to_client.size == 0) {
        if (!read_server(guard, now_ns))
            linger(guard, now_ns);
    }
    if (guard->phase != PHASE_DEAD)
        rearm(guard);
}

/* A few in each pass of the loop; true when this one has to wait for the next. */
static bool must_wait(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (now_ns < guard->pause_ns) {
        pause_until(guard, guard->pause_ns);
        return true;
    }
    if (guard->phase == PHASE_RELAY)
        return false;
    if (host->pass_ns != now_ns) {
        host->pass_ns = now_ns;
        host->pass_count = 0;
    }
    if (host->pass_count == TURNS_AT_ONCE) {
        pause_until(guard, now_ns + 1);
        return true;
    }
    host->pass_count++;
    return false;
}

void rpc_guard_resume(struct rpc_guard *guard, int64_t now_ns)
{
    bool is_waiting = guard->phase == PHASE_TURN || guard->phase == PHASE_LEAVING ||
                      (guard->phase == PHASE_RELAY && guard->to_server.unchecked > 0);

    if (!is_waiting || must_wait(guard, now_ns))
        return;
    if (guard->phase == PHASE_LEAVING) {
        die(guard, NULL);
        return;
    }
    if (guard->phase == PHASE_TURN)
        attach(guard, now_ns);
    if (guard->phase == PHASE_RELAY)
        pass_on(guard, now_ns);
    if (guard->phase == PHASE_RELAY && is_reading(guard))
        rpc_h2_restart_clock(&guard->h2, now_ns);
    rearm(guard);
}

const struct rpc_peer *rpc_guard_peer(const struct rpc_guard *guard)
{
    return &guard->peer;
}

struct rpc_guard_link *rpc_guard_link(struct rpc_guard *guard)
{
    return &guard->link;
}
