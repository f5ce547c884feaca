/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;
struct tls_context;

/*
 * TLS in front of a server that reads plain text from a socket: shakes hands
 * and passes bytes on between the client's socket and one end of a socket
 * pair, whose other end the server gets. One thread of its own, so that a
 * storm of handshakes does not hold up those that are through. Back-pressure
 * both ways, half-closed connections stay so.
 */
struct tls_relay;

struct tls_relay_options {
    struct tls_context *context;    /* borrowed; outlives the relay */
    uint32_t max_connections;       /* more are closed */
    uint32_t max_handshakes;        /* going on at one time, of everybody … */
    uint32_t max_source_handshakes; /* … and of one `source` */
    uint32_t handshake_ms;
    uint32_t stuck_ms; /* a client that takes nothing of what waits for it for so long is closed */
    /*
     * A connection is through: `fd` is the plain end, non-blocking, and taken.
     * `source` is as it was given, `name` that of the client's certificate,
     * "" for none. On the relay's thread.
     */
    void (*on_open)(void *user, int fd, const char *source, const char *name);
    void *user;
};

#define TLS_SOURCE_MAX 64

int tls_relay_new(const struct tls_relay_options *options, struct tls_relay **ret_relay,
                  struct cr_err *err);

/* Takes `fd`, a connected, non-blocking socket; closes it when it cannot serve it. `source` is its
 * address as a text, for the caps and the log. Any thread. */
void tls_relay_add(struct tls_relay *relay, int fd, const char *source);

/* Waits a moment for connections whose server has ended them, closes the others, and ends the
 * thread. NULL is allowed; returns NULL. */
struct tls_relay *tls_relay_free(struct tls_relay *relay);
