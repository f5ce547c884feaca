/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_stream;

#define TLS_FLOW_SIZE 16384U /* one record of TLS */

/*
 * Bytes on their way in one direction, between two sockets of a relay. Never
 * waits. Embedded; tls_flow_init() leaves the buffer as it is: pages that
 * nobody touches cost nothing.
 */
struct tls_flow {
    size_t at;
    size_t size;      /* bytes that may go out, from `at` on */
    size_t unchecked; /* behind them: bytes that nobody has looked at yet */
    int64_t stuck_ns; /* since when the receiver takes nothing of them; 0: it does */
    uint8_t data[TLS_FLOW_SIZE];
};

void tls_flow_init(struct tls_flow *flow);

/* Sends what fits by `fd`, through `tls` unless it is NULL. False when the receiver is gone. */
bool tls_flow_send(struct tls_flow *flow, int fd, struct tls_stream *tls, int64_t now_ns);

/* True when the receiver has taken nothing of what is here for `patience_ns`. */
bool tls_flow_is_stuck(const struct tls_flow *flow, int64_t now_ns, int64_t patience_ns);

enum tls_received {
    TLS_RECEIVED_NOTHING,
    TLS_RECEIVED_SOME,
    TLS_RECEIVED_END, /* the sender says no more */
    TLS_RECEIVED_CUT, /* the connection is broken */
};

/* Reads once, behind what the flow holds; it has room. What comes is not checked yet. */
enum tls_received tls_flow_receive(struct tls_flow *flow, int fd, struct tls_stream *tls);
