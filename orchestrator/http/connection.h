/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

struct agt_exchange;
struct agt_http;
struct sockaddr_storage;

#define AGT_CALLER_SIZE 64

/*
 * One TCP connection: the deadline of the phase that it is in, and whether its
 * peer has left. libmicrohttpd's own timeout starts again with each byte, so a
 * client that sends one byte per second would live for ever. Loop thread only.
 */
struct agt_connection {
    struct agt_connection *prev;
    struct agt_connection *next;
    struct agt_http *http;         /* borrowed */
    int fd;                        /* borrowed: libmicrohttpd closes it */
    bool is_surplus;               /* beyond max_connections: refused with 503 */
    bool has_left;                 /* closed, or closed its sending side */
    int64_t deadline_ns;           /* AGT_NEVER_NS: none */
    bool is_certified;             /* it has shown a certificate that is allowed */
    char caller[AGT_CALLER_SIZE];  /* "ip:127.0.0.1" or "san:agent.example", as the gRPC server
                                      names its callers */
    struct agt_exchange *exchange; /* the request in progress; a reference, NULL between two */
};

/* MHD_NotifyConnectionCallback; `cls` is a struct agt_http *. */
void agt_connection_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                           enum MHD_ConnectionNotificationCode code);

/* The context that agt_connection_notify() made; NULL when memory was short. */
struct agt_connection *agt_connection_of(struct MHD_Connection *mhd);

void agt_connection_set_deadline(struct agt_connection *connection, int64_t timeout_ms);
/* As set_deadline, for bytes of a request: shorter when the peer has left already. */
void agt_connection_await_request(struct agt_connection *connection, int64_t timeout_ms);
void agt_connection_clear_deadline(struct agt_connection *connection);

/* Names an address as a caller. */
void agt_connection_name(const struct sockaddr_storage *address, char caller[AGT_CALLER_SIZE]);

/* EPOLLRDHUP: nobody will read an answer that costs something, and what is not here of a request
 * never comes. */
void agt_connection_hang_up(struct agt_connection *connection);

/* Makes libmicrohttpd close it on its next turn. */
void agt_connection_shut(struct agt_connection *connection);

/* libmicrohttpd is about to refuse one for its Content-Length: it is answered here, and shut. */
void agt_connection_refuse_lengths(struct agt_http *http);

/* Once per tick: closes what is past its deadline, sends heartbeats. */
void agt_connection_tick_all(struct agt_http *http, int64_t now_ns);
