/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/relay.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/interest.h"
#include "common/log.h"
#include "tls/flow.h"
#include "tls/stream.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define EVENTS_MAX 64
#define SWEEP_MS 250
#define LINGER_NS (500 * CR_NS_PER_MS)      /* for a client to take what it was sent last */
#define LAST_WORDS_NS (1000 * CR_NS_PER_MS) /* at the end, for what servers have written last */
#define LOG_PAUSE_NS CR_NS_PER_S            /* a client can bring a line about */

enum phase {
    PHASE_HANDSHAKE,
    PHASE_OPEN,
    PHASE_LINGER, /* the server has ended, the client was told so */
    PHASE_DEAD,
};

/* One direction. */
struct flow {
    bool has_ended; /* its source says no more */
    bool is_told;   /* and its sink knows */
    bool is_deaf;   /* its sink takes nothing more: what comes is dropped */
    struct tls_flow bytes;
};

/* One of the two sockets. */
struct end {
    struct connection *connection;
    int fd;
    uint32_t interest; /* 0: not registered, because a hangup would spin */
};

struct connection {
    struct connection *next;
    struct connection *previous;
    struct tls_relay *relay; /* borrowed */
    enum phase phase;
    int64_t since_ns; /* of the phase */
    struct tls_stream *tls;
    struct end client;
    struct end server;
    char source[TLS_SOURCE_MAX];
    struct flow to_server;
    struct flow to_client;
};

/* One that was given and not looked at yet. */
struct arrival {
    struct arrival *next;
    int fd;
    char source[TLS_SOURCE_MAX];
};

struct tls_relay {
    struct tls_relay_options options;
    int epoll_fd;
    int wake_fd;
    bool has_thread;
    pthread_t thread;
    _Atomic int64_t end_ns; /* when it ends at the latest; INT64_MAX: not asked to */
    pthread_mutex_t lock;   /* guards the arrivals */
    struct arrival *arrivals;
    uint32_t arrival_count;
    /* The thread's own. */
    struct connection *live;
    struct connection *dead; /* to be freed after the events at hand */
    uint32_t count;
    uint32_t handshakes;
    int64_t log_ns;
    uint32_t lines_left_out;
};

static void log_refusal(struct tls_relay *relay, const char *source, const char *reason)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns < relay->log_ns) {
        relay->lines_left_out++;
        return;
    }
    relay->log_ns = now_ns + LOG_PAUSE_NS;
    cr_log_warn("connection refused reason=\"%s\" source=%s lines_left_out=%u", reason, source,
                relay->lines_left_out);
    relay->lines_left_out = 0;
}

/* ---- one connection ---- */

static void leave_handshake(struct connection *connection)
{
    if (connection->phase == PHASE_HANDSHAKE)
        connection->relay->handshakes--;
}

static void die(struct connection *connection, const char *reason)
{
    struct tls_relay *relay = connection->relay;

    if (connection->phase == PHASE_DEAD)
        return;
    leave_handshake(connection);
    connection->phase = PHASE_DEAD;
    if (reason)
        log_refusal(relay, connection->source, reason);
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

static int set_interest(struct end *end, uint32_t interest)
{
    return cr_interest_set(end->connection->relay->epoll_fd, end->fd, end, &end->interest,
                           interest);
}

/* An end is read when what came from it before is gone, and written when something waits. */
static uint32_t wanted(const struct flow *from, const struct flow *to)
{
    return (from->bytes.size == 0 && !from->has_ended ? (uint32_t)EPOLLIN : 0) |
           (to->bytes.size > 0 ? (uint32_t)EPOLLOUT : 0);
}

static void rearm(struct connection *connection)
{
    uint32_t tls = tls_stream_wants_write(connection->tls) ? (uint32_t)EPOLLOUT : 0;
    int r;

    if (connection->phase == PHASE_DEAD)
        return;
    if (connection->phase != PHASE_OPEN) {
        r = set_interest(&connection->client, EPOLLIN | tls);
    } else {
        r = set_interest(&connection->client,
                         wanted(&connection->to_server, &connection->to_client) | tls);
        if (r == 0)
            r = set_interest(&connection->server,
                             wanted(&connection->to_client, &connection->to_server));
    }
    if (r < 0)
        die(connection, "cannot be watched");
}

static bool flush_to_client(struct connection *connection, int64_t now_ns)
{
    return tls_flow_send(&connection->to_client.bytes, -1, connection->tls, now_ns);
}

/* A server that has closed reads no more, but what it has written before still goes out: why it did
 * not want to read the rest. */
static void flush_to_server(struct connection *connection, int64_t now_ns)
{
    struct flow *in = &connection->to_server;

    if (!in->is_deaf && tls_flow_send(&in->bytes, connection->server.fd, NULL, now_ns))
        return;
    in->is_deaf = true;
    tls_flow_init(&in->bytes);
}

/* Reads once; the flow is empty. False when the sender's end is cut. */
static bool receive(struct flow *flow, int fd, struct tls_stream *tls)
{
    enum tls_received what = tls_flow_receive(&flow->bytes, fd, tls);

    flow->has_ended = what == TLS_RECEIVED_END;
    flow->bytes.size = flow->bytes.unchecked; /* nobody looks at it */
    flow->bytes.unchecked = 0;
    return what != TLS_RECEIVED_CUT;
}

/* Passes an end on, once everything before it has left. */
static void pass_ends(struct connection *connection, int64_t now_ns)
{
    struct flow *in = &connection->to_server;
    struct flow *out = &connection->to_client;

    if (in->has_ended && in->bytes.size == 0 && !in->is_told) {
        in->is_told = true;
        (void)shutdown(connection->server.fd, SHUT_WR);
    }
    if (out->has_ended && out->bytes.size == 0 && connection->phase == PHASE_OPEN) {
        tls_stream_end(connection->tls);
        (void)shutdown(connection->client.fd, SHUT_WR);
        cr_close_fd(&connection->server.fd);
        connection->phase = PHASE_LINGER;
        connection->since_ns = now_ns;
        if (in->has_ended)
            die(connection, NULL);
    }
}

static void relay_client(struct connection *connection, uint32_t events, int64_t now_ns)
{
    struct flow *in = &connection->to_server;
    bool must_read = (events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR)) ||
                     tls_stream_wants_write(connection->tls);

    if (!flush_to_client(connection, now_ns)) {
        die(connection, NULL);
        return;
    }
    if (must_read && in->bytes.size == 0 && !in->has_ended) {
        if (!receive(in, -1, connection->tls)) {
            die(connection, NULL);
            return;
        }
        flush_to_server(connection, now_ns);
    }
    pass_ends(connection, now_ns);
}

static void relay_server(struct connection *connection, uint32_t events, int64_t now_ns)
{
    struct flow *out = &connection->to_client;
    bool must_read = events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR);

    flush_to_server(connection, now_ns);
    if (must_read && out->bytes.size == 0 && !out->has_ended) {
        /* A server that did not read all that it was sent is cut off, behind its last words. */
        if (!receive(out, connection->server.fd, NULL))
            out->has_ended = true;
        if (!flush_to_client(connection, now_ns)) {
            die(connection, NULL);
            return;
        }
    }
    pass_ends(connection, now_ns);
}

static void open_plain(struct connection *connection, int64_t now_ns)
{
    struct tls_relay *relay = connection->relay;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        die(connection, "no file descriptors left");
        return;
    }
    leave_handshake(connection);
    connection->phase = PHASE_OPEN;
    connection->since_ns = now_ns;
    connection->server.fd = pair[0];
    relay->options.on_open(relay->options.user, pair[1], connection->source,
                           tls_stream_name(connection->tls));
}

static void shake_hands(struct connection *connection, int64_t now_ns)
{
    uint8_t rest[4096];

    switch (tls_stream_handshake(connection->tls)) {
    case TLS_STEP_WAIT:
        return;
    case TLS_STEP_LEFT:
        die(connection, NULL);
        return;
    case TLS_STEP_FAILED:
        /* Bytes that nobody read would reset the connection, and the alert would be lost. */
        (void)shutdown(connection->client.fd, SHUT_WR);
        (void)recv(connection->client.fd, rest, sizeof(rest), MSG_DONTWAIT);
        die(connection, tls_stream_fault(connection->tls));
        return;
    case TLS_STEP_DONE:
        open_plain(connection, now_ns);
        return;
    }
}

static void drop_rest(struct connection *connection)
{
    uint8_t rest[4096];
    ssize_t size = recv(connection->client.fd, rest, sizeof(rest), MSG_DONTWAIT);

    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        die(connection, NULL);
}

static void on_ready(struct end *end, uint32_t events, int64_t now_ns)
{
    struct connection *connection = end->connection;

    switch (connection->phase) {
    case PHASE_HANDSHAKE:
        shake_hands(connection, now_ns);
        break;
    case PHASE_OPEN:
        if (end == &connection->client)
            relay_client(connection, events, now_ns);
        else
            relay_server(connection, events, now_ns);
        break;
    case PHASE_LINGER:
        drop_rest(connection);
        break;
    case PHASE_DEAD:
        return;
    }
    rearm(connection);
}

/* ---- the thread ---- */

static bool has_room(const struct tls_relay *relay, const char *source)
{
    uint32_t count = 0;

    if (relay->count >= relay->options.max_connections ||
        relay->handshakes >= relay->options.max_handshakes)
        return false;
    for (const struct connection *at = relay->live; at; at = at->next) {
        if (at->phase == PHASE_HANDSHAKE && strcmp(at->source, source) == 0)
            count++;
    }
    return count < relay->options.max_source_handshakes;
}

/* Takes the fd on success. */
static bool begin(struct tls_relay *relay, int fd, const char *source, int64_t now_ns)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return false;
    connection->relay = relay;
    connection->since_ns = now_ns;
    connection->client = (struct end){.connection = connection, .fd = fd};
    connection->server = (struct end){.connection = connection, .fd = -1};
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

static struct arrival *take_arrivals(struct tls_relay *relay)
{
    struct arrival *list;

    (void)pthread_mutex_lock(&relay->lock);
    list = relay->arrivals;
    relay->arrivals = NULL;
    relay->arrival_count = 0;
    (void)pthread_mutex_unlock(&relay->lock);
    return list;
}

static void begin_all(struct tls_relay *relay, int64_t now_ns)
{
    struct arrival *next;
    uint64_t count;

    (void)!read(relay->wake_fd, &count, sizeof(count));
    for (struct arrival *at = take_arrivals(relay); at; at = next) {
        next = at->next;
        if (!has_room(relay, at->source))
            log_refusal(relay, at->source, "too many TLS connections or handshakes");
        else if (begin(relay, at->fd, at->source, now_ns))
            at->fd = -1;
        cr_close_fd(&at->fd);
        free(at);
    }
}

static void sweep(struct tls_relay *relay, int64_t now_ns)
{
    struct connection *next;

    for (struct connection *at = relay->live; at; at = next) {
        int64_t age_ns = now_ns - at->since_ns;

        next = at->next;
        if (at->phase == PHASE_HANDSHAKE && age_ns >= relay->options.handshake_ms * CR_NS_PER_MS)
            die(at, "TLS: the handshake takes too long");
        else if (at->phase == PHASE_LINGER && age_ns >= LINGER_NS)
            die(at, NULL);
        else if (at->phase == PHASE_OPEN &&
                 tls_flow_is_stuck(&at->to_client.bytes, now_ns,
                                   relay->options.stuck_ms * CR_NS_PER_MS))
            /* Meanwhile the server's end is not watched: that it has closed would not be seen. */
            die(at, "the client takes nothing");
    }
}

static void free_dead(struct tls_relay *relay)
{
    while (relay->dead) {
        struct connection *connection = relay->dead;

        relay->dead = connection->next;
        (void)tls_stream_free(connection->tls);
        free(connection);
    }
}

static void *run(void *user)
{
    struct tls_relay *relay = user;
    struct epoll_event events[EVENTS_MAX];
    int64_t swept_ns = 0;

    while (relay->live || atomic_load(&relay->end_ns) == INT64_MAX) {
        int count = epoll_wait(relay->epoll_fd, events, EVENTS_MAX, relay->live ? SWEEP_MS : -1);
        int64_t now_ns = cr_clock_mono_ns();

        if (now_ns >= atomic_load(&relay->end_ns))
            break;

        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                on_ready(events[i].data.ptr, events[i].events, now_ns);
            else
                begin_all(relay, now_ns);
        }
        if (now_ns - swept_ns >= SWEEP_MS * CR_NS_PER_MS) {
            swept_ns = now_ns;
            sweep(relay, now_ns);
        }
        free_dead(relay);
    }
    return NULL;
}

/* ---- life ---- */

static int start(struct tls_relay *relay, struct cr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    sigset_t all;
    sigset_t before;
    int error;

    relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    relay->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (relay->epoll_fd < 0 || relay->wake_fd < 0 ||
        epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, relay->wake_fd, &event) < 0)
        return cr_err_sys(err, errno, "make the relay of TLS");
    /* Signals are for the threads that wait for them. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&relay->thread, NULL, run, relay);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return cr_err_sys(err, error, "start the relay of TLS");
    relay->has_thread = true;
    return 0;
}

int tls_relay_new(const struct tls_relay_options *options, struct tls_relay **ret_relay,
                  struct cr_err *err)
{
    struct tls_relay *relay = calloc(1, sizeof(*relay));
    int r;

    if (!relay)
        return cr_err_set(err, ENOMEM, "out of memory for the relay of TLS");
    relay->options = *options;
    relay->epoll_fd = relay->wake_fd = -1;
    atomic_init(&relay->end_ns, INT64_MAX);
    (void)pthread_mutex_init(&relay->lock, NULL); /* cannot fail with default attributes */
    r = start(relay, err);
    if (r < 0)
        (void)tls_relay_free(relay);
    else
        *ret_relay = relay;
    return r;
}

static void wake(struct tls_relay *relay)
{
    const uint64_t one = 1;

    (void)!write(relay->wake_fd, &one, sizeof(one));
}

/* False when there is no room. */
static bool queue(struct tls_relay *relay, struct arrival *take_arrival)
{
    bool has_place;

    (void)pthread_mutex_lock(&relay->lock);
    has_place = relay->arrival_count < relay->options.max_connections;
    if (has_place) {
        take_arrival->next = relay->arrivals;
        relay->arrivals = take_arrival;
        relay->arrival_count++;
    }
    (void)pthread_mutex_unlock(&relay->lock);
    return has_place;
}

void tls_relay_add(struct tls_relay *relay, int fd, const char *source)
{
    struct arrival *arrival = calloc(1, sizeof(*arrival));

    if (arrival) {
        arrival->fd = fd;
        (void)snprintf(arrival->source, sizeof(arrival->source), "%s", source);
    }
    if (arrival && queue(relay, arrival)) {
        wake(relay);
        return; // cppcheck-suppress memleak ; the relay has it
    }
    free(arrival);
    (void)close(fd);
}

struct tls_relay *tls_relay_free(struct tls_relay *relay)
{
    struct arrival *arrival;

    if (!relay)
        return NULL;
    if (relay->has_thread) {
        atomic_store(&relay->end_ns, cr_clock_mono_ns() + LAST_WORDS_NS);
        wake(relay);
        (void)pthread_join(relay->thread, NULL);
    }
    while (relay->live)
        die(relay->live, NULL);
    free_dead(relay);
    while ((arrival = relay->arrivals)) {
        relay->arrivals = arrival->next;
        (void)close(arrival->fd);
        free(arrival);
    }
    cr_close_fd(&relay->wake_fd);
    cr_close_fd(&relay->epoll_fd);
    (void)pthread_mutex_destroy(&relay->lock);
    free(relay);
    return NULL;
}
