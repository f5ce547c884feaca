/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/bucket.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Watches the HTTP/2 frames of one connection (RFC 9113) and says when the
 * client does what brings gRPC core 1.51 down: rapid reset (CVE-2023-44487),
 * endless header blocks, streams beyond the limit that it never acknowledged,
 * floods of control frames. Looks at frame headers only, so the verdict does
 * not depend on how the bytes are cut. Pure: no I/O, no clock, no allocation.
 * Internal to rpc/.
 */
#define RPC_H2_STREAMS_MAX 1024U
/* A client may have opened these before it saw that the server has closed others. */
#define RPC_H2_STREAM_SLACK 64U

_Static_assert(CR_EDGE_STREAMS_MAX + RPC_H2_STREAM_SLACK <= RPC_H2_STREAMS_MAX,
               "room for every stream that may be open");

enum rpc_h2_fault {
    RPC_H2_OK,
    RPC_H2_NOT_HTTP2,
    RPC_H2_SETTINGS_FIRST,
    RPC_H2_BAD_LENGTH,
    RPC_H2_BAD_STREAM,
    RPC_H2_BAD_CONTINUATION,
    RPC_H2_HEADERS_TOO_LARGE,
    RPC_H2_TOO_MANY_STREAMS,
    RPC_H2_FLOOD, /* one fault per bucket: RPC_H2_FLOOD + enum cr_edge_kind */
};

/* The buckets of one connection, or of all connections of one peer together. Zeroed: full. */
struct rpc_h2_budget {
    struct rpc_bucket buckets[CR_EDGE_KIND_COUNT];
};

/* One direction. */
struct rpc_h2_reader {
    uint8_t header[9];
    uint8_t header_size;
    uint32_t payload_left;
};

struct rpc_h2_stream {
    uint32_t id;
    bool is_answered; /* we have sent HEADERS or DATA on it */
};

struct rpc_h2 {
    struct rpc_h2_reader client;
    struct rpc_h2_reader server;
    const struct cr_edge *edge; /* borrowed: outlives the connection */
    struct rpc_h2_budget budget;
    struct rpc_h2_budget *peer; /* borrowed: outlives the connection */
    uint32_t preface_size;      /* bytes of it seen */
    bool has_settings;
    uint32_t block_stream; /* stream of the open header block; 0: none is open */
    uint32_t block_size;
    uint32_t block_frames;
    int64_t frame_since_ns; /* begin of the frame or header block that is still coming in */
    uint32_t costly;        /* frames of the last feed that hold the server up */
    uint32_t last_stream;   /* highest id that the client has opened */
    uint32_t stream_count;
    uint32_t ping_ack_credit; /* our own PING and SETTINGS, not yet acknowledged */
    uint32_t settings_ack_credit;
    uint32_t window_credit;
    uint32_t ping_credit; /* grpc-go probes the bandwidth with one PING per answer frame */
    /* Open ones, by id. Last, and not cleared at init: pages that nobody touches cost nothing. */
    struct rpc_h2_stream streams[RPC_H2_STREAMS_MAX];
};

/* `edge` (what is allowed) and `peer` are borrowed. */
void rpc_h2_init(struct rpc_h2 *h2, const struct cr_edge *edge, struct rpc_h2_budget *peer);

/*
 * Bytes from the client. The first fault is final: do not pass them on, close.
 * Stops, with *ret_used less than `size` or not, once `costly` frames were seen
 * that hold the server up (resets before our answer: core makes and drops a
 * whole call for each): pass on what was used, and give others time.
 */
enum rpc_h2_fault rpc_h2_feed_client(struct rpc_h2 *h2, const void *data, size_t size,
                                     uint32_t costly, int64_t now_ns, size_t *ret_used);

/* Bytes from the server; it is trusted, this only keeps count. */
void rpc_h2_feed_server(struct rpc_h2 *h2, const void *data, size_t size);

/* True once the preface and the head of the first SETTINGS are here: not before should the server
 * see the connection. */
bool rpc_h2_is_ready(const struct rpc_h2 *h2);

/*
 * When the client must have finished what it began: a frame, a header block.
 * INT64_MAX when it owes nothing. Counts from the first byte, so one byte a
 * second does not help.
 */
int64_t rpc_h2_deadline_ns(const struct rpc_h2 *h2);

/* Starts that time anew: for the moments in which it was us who did not read. */
void rpc_h2_restart_clock(struct rpc_h2 *h2, int64_t now_ns);

/* For logs: "rapid reset", "settings flood". */
const char *rpc_h2_fault_name(enum rpc_h2_fault fault);

/* True when no bucket misses anything: the peer can be forgotten. */
bool rpc_h2_budget_is_full(const struct rpc_h2_budget *budget, int64_t now_ns);
