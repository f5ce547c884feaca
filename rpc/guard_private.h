/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "rpc/watch.h"
#include "tls/flow.h"

#include <stdbool.h>
#include <stdint.h>

struct tls_stream;

/* Internal to rpc/guard*.c: one guard, and what its files share. */

enum rpc_guard_phase {
    RPC_GUARD_TLS,       /* before anything else, where TLS is on */
    RPC_GUARD_HANDSHAKE, /* the server has not seen the connection */
    RPC_GUARD_TURN,      /* it has begun as it should, and waits for its turn to be shown */
    RPC_GUARD_RELAY,
    RPC_GUARD_LEAVING, /* the client is gone; the server hears of it in its turn */
    RPC_GUARD_LINGER,  /* the server has closed, the client has not */
    RPC_GUARD_DEAD,
};

/* One of the two sockets. */
struct rpc_guard_end {
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
    enum rpc_guard_phase phase;
    int64_t phase_since_ns;
    int64_t pause_ns; /* no more of the client's bytes are looked at before */
    int64_t deaf_ns;  /* since when the server takes nothing more; 0: it does */
    struct rpc_guard_end client;
    struct rpc_guard_end server;
    struct tls_flow to_server;
    struct tls_flow to_client;
    struct rpc_h2 h2;
};

/* ---- guard.c ---- */

void rpc_guard_set_phase(struct rpc_guard *guard, enum rpc_guard_phase phase, int64_t now_ns);

/* Closes both ends and tells the host. Safe to repeat. */
void rpc_guard_die(struct rpc_guard *guard, const char *reason);

int rpc_guard_set_interest(struct rpc_guard_end *end, uint32_t interest);

/* After anything has happened: watches for what can happen next. */
void rpc_guard_rearm(struct rpc_guard *guard);

/* The client is not waited for while it is us who do not read. */
bool rpc_guard_is_reading(const struct rpc_guard *guard);

/* ---- guard_relay.c ---- */

void rpc_guard_flush_to_server(struct rpc_guard *guard, int64_t now_ns);

/* Sends what fits of what waits for the client. False when that was the end. */
bool rpc_guard_write_client(struct rpc_guard *guard, int64_t now_ns);

/* Passes on what was looked at and looks at more, until nothing is left, the server takes no more,
 * or the connection has to pause. */
void rpc_guard_pass_on(struct rpc_guard *guard, int64_t now_ns);

void rpc_guard_read_client(struct rpc_guard *guard, int64_t now_ns);

/* False: there is nothing now. */
bool rpc_guard_read_server(struct rpc_guard *guard, int64_t now_ns);

/* The server has closed: the client is told so. */
void rpc_guard_linger(struct rpc_guard *guard, int64_t now_ns);

/* While it lingers. */
void rpc_guard_discard_client(struct rpc_guard *guard);

/* ---- guard_turn.c ---- */

/* The client is gone: ends the connection, or waits for its turn to. */
void rpc_guard_leave(struct rpc_guard *guard, int64_t now_ns);

/* Shows the connection to the server, or waits for its turn to. */
void rpc_guard_attach_in_turn(struct rpc_guard *guard, int64_t now_ns);

/* Lets costly frames be paid for by a pause of the connection that they came on. */
void rpc_guard_pay(struct rpc_guard *guard, int64_t now_ns);
