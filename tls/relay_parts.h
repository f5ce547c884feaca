/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tls/flow.h"
#include "tls/relay.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tls_stream;

/*
 * What relay.c, the thread and what comes in, and relay_connection.c, one
 * connection from its handshake to its end, share. Nothing else includes this.
 * All of it but the arrivals is the thread's own.
 */

enum tls_relay_phase {
    TLS_RELAY_HANDSHAKE,
    TLS_RELAY_OPEN,
    TLS_RELAY_LINGER, /* the server has ended, the client was told so */
    TLS_RELAY_DEAD,
};

/* One direction. */
struct tls_relay_flow {
    bool has_ended; /* its source says no more */
    bool is_told;   /* and its sink knows */
    bool is_deaf;   /* its sink takes nothing more: what comes is dropped */
    struct tls_flow bytes;
};

/* One of the two sockets. */
struct tls_relay_end {
    struct tls_relay_connection *connection;
    int fd;
    uint32_t interest; /* 0: not registered, because a hangup would spin */
};

struct tls_relay_connection {
    struct tls_relay_connection *next;
    struct tls_relay_connection *previous;
    struct tls_relay *relay; /* borrowed */
    enum tls_relay_phase phase;
    int64_t since_ns; /* of the phase */
    struct tls_stream *tls;
    struct tls_relay_end client;
    struct tls_relay_end server;
    char source[TLS_SOURCE_MAX];
    struct tls_relay_flow to_server;
    struct tls_relay_flow to_client;
};

/* One that was given and not looked at yet. */
struct tls_relay_arrival;

struct tls_relay {
    struct tls_relay_options options;
    int epoll_fd;
    int wake_fd;
    bool has_thread;
    pthread_t thread;
    _Atomic int64_t end_ns; /* when it ends at the latest; INT64_MAX: not asked to */
    pthread_mutex_t lock;   /* guards the arrivals */
    struct tls_relay_arrival *arrivals;
    uint32_t arrival_count;
    /* The thread's own. */
    struct tls_relay_connection *live;
    struct tls_relay_connection *dead; /* to be freed after the events at hand */
    uint32_t count;
    uint32_t handshakes;
    int64_t log_ns;
    uint32_t lines_left_out;
};

/* One line for a connection that is closed, at most one a second: a client can bring it about. */
void tls_relay_log_refusal(struct tls_relay *relay, const char *source, const char *reason);

/* ---- relay_connection.c ---- */

/* Begins to shake hands with `source` on `fd`, which is taken on success. False: out of memory, or
 * of what the kernel gives. */
bool tls_relay_connection_begin(struct tls_relay *relay, int fd, const char *source,
                                int64_t now_ns);

/* What can be done on one of its ends; `events` are those of epoll(7). It may be dead after that.
 */
void tls_relay_connection_on_ready(struct tls_relay_end *end, uint32_t events, int64_t now_ns);

/* Ends it when what it waits for takes too long. */
void tls_relay_connection_look(struct tls_relay_connection *connection, int64_t now_ns);

/* Closes it and moves it to the dead, of which it is freed behind the events at hand. `reason`, if
 * any, goes to the log. Safe to repeat. */
void tls_relay_connection_die(struct tls_relay_connection *connection, const char *reason);

void tls_relay_connection_free(struct tls_relay_connection *connection);
