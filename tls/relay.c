/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/relay.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "tls/relay_parts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#define EVENTS_MAX 64
#define SWEEP_MS 250
#define LAST_WORDS_NS (1000 * CR_NS_PER_MS) /* at the end, for what servers have written last */
#define LOG_PAUSE_NS CR_NS_PER_S            /* a client can bring a line about */

/* One that was given and not looked at yet. */
struct tls_relay_arrival {
    struct tls_relay_arrival *next;
    int fd;
    char source[TLS_SOURCE_MAX];
};

void tls_relay_log_refusal(struct tls_relay *relay, const char *source, const char *reason)
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

/* ---- the thread ---- */

static bool has_room(const struct tls_relay *relay, const char *source)
{
    uint32_t count = 0;

    if (relay->count >= relay->options.max_connections ||
        relay->handshakes >= relay->options.max_handshakes)
        return false;
    for (const struct tls_relay_connection *at = relay->live; at; at = at->next) {
        if (at->phase == TLS_RELAY_HANDSHAKE && strcmp(at->source, source) == 0)
            count++;
    }
    return count < relay->options.max_source_handshakes;
}

static struct tls_relay_arrival *take_arrivals(struct tls_relay *relay)
{
    struct tls_relay_arrival *list;

    (void)pthread_mutex_lock(&relay->lock);
    list = relay->arrivals;
    relay->arrivals = NULL;
    relay->arrival_count = 0;
    (void)pthread_mutex_unlock(&relay->lock);
    return list;
}

static void begin_all(struct tls_relay *relay, int64_t now_ns)
{
    struct tls_relay_arrival *next;
    uint64_t count;

    (void)!read(relay->wake_fd, &count, sizeof(count));
    for (struct tls_relay_arrival *at = take_arrivals(relay); at; at = next) {
        next = at->next;
        if (!has_room(relay, at->source))
            tls_relay_log_refusal(relay, at->source, "too many TLS connections or handshakes");
        else if (tls_relay_connection_begin(relay, at->fd, at->source, now_ns))
            at->fd = -1;
        cr_close_fd(&at->fd);
        free(at);
    }
}

static void sweep(struct tls_relay *relay, int64_t now_ns)
{
    struct tls_relay_connection *next;

    for (struct tls_relay_connection *at = relay->live; at; at = next) {
        next = at->next;
        tls_relay_connection_look(at, now_ns);
    }
}

static void free_dead(struct tls_relay *relay)
{
    while (relay->dead) {
        struct tls_relay_connection *connection = relay->dead;

        relay->dead = connection->next;
        tls_relay_connection_free(connection);
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
                tls_relay_connection_on_ready(events[i].data.ptr, events[i].events, now_ns);
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
static bool queue(struct tls_relay *relay, struct tls_relay_arrival *take_arrival)
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
    struct tls_relay_arrival *arrival = calloc(1, sizeof(*arrival));

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
    struct tls_relay_arrival *arrival;

    if (!relay)
        return NULL;
    if (relay->has_thread) {
        atomic_store(&relay->end_ns, cr_clock_mono_ns() + LAST_WORDS_NS);
        wake(relay);
        (void)pthread_join(relay->thread, NULL);
    }
    while (relay->live)
        tls_relay_connection_die(relay->live, NULL);
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
