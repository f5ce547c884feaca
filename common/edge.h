/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * What a gRPC listener allows those who connect: the settings --grpc-… of both
 * services, and the numbers that rpc/ works with. Here, so that the supervisor
 * of sandboxd, which knows no gRPC, can check them before it starts a front.
 */

/* How often something may happen: `per_s` on average, `burst` at once. Both at least 1. */
struct cr_rate {
    uint32_t per_s;
    uint32_t burst;
};

/* Frames that are counted. Each kind has a rate per connection and a larger one per peer. */
enum cr_edge_kind {
    CR_EDGE_SETTINGS,
    CR_EDGE_PING,
    CR_EDGE_PRIORITY,
    CR_EDGE_RESET,      /* of a stream that we had not begun to answer */
    CR_EDGE_LATE_RESET, /* of any other stream: a cancel, which is everyday */
    CR_EDGE_WINDOW,     /* WINDOW_UPDATE beyond two per frame that we sent */
    CR_EDGE_EMPTY_DATA, /* without END_STREAM */
    CR_EDGE_SMALL_DATA, /* below 64 bytes, without END_STREAM */
    CR_EDGE_OTHER,
    CR_EDGE_KIND_COUNT,
};

struct cr_edge {
    uint32_t max_connections;         /* of everybody together */
    uint32_t max_user_connections;    /* of one user id, on unix sockets */
    uint32_t max_address_connections; /* of one IPv4 address or IPv6 /64 */
    struct cr_rate user_accepts;      /* new connections */
    struct cr_rate address_accepts;
    uint32_t max_streams;            /* open calls of one connection, announced to it */
    uint32_t max_header_bytes;       /* of one header block, compressed … */
    uint32_t max_header_frames;      /* … and its HEADERS and CONTINUATION frames */
    uint32_t max_handshakes;         /* TLS handshakes going on, of everybody … */
    uint32_t max_address_handshakes; /* … and of one address */
    uint32_t handshake_ms;  /* from connect to the first SETTINGS; TLS has as long before */
    uint32_t age_s;         /* until a connection is asked to end, and to begin anew … */
    uint32_t age_grace_s;   /* … and until it is closed while calls go on */
    uint32_t frame_ms;      /* from the first byte of a frame or header block to its last */
    uint32_t data_frame_ms; /* the same for DATA, plus a second per 300 bytes */

    struct {
        struct cr_rate connection;
        struct cr_rate peer;
    } frames[CR_EDGE_KIND_COUNT];
};

/* As they are written down. The strings are owned by the settings that this is part of. */
struct cr_edge_settings {
    uint64_t max_connections;
    uint64_t max_user_connections;
    uint64_t max_address_connections;
    char *user_accepts; /* "PER_S/BURST" */
    char *address_accepts;
    uint64_t max_streams;
    uint64_t max_header_bytes;
    uint64_t max_header_frames;
    uint64_t max_handshakes;
    uint64_t max_address_handshakes;
    uint64_t handshake_ms;
    uint64_t age_s;
    uint64_t age_grace_s;
    uint64_t frame_ms;
    uint64_t data_frame_ms;
    char *frames[CR_EDGE_KIND_COUNT]; /* "PER_S/BURST,PER_S/BURST": of a connection, of a peer */
};

#define CR_EDGE_FLAG_PREFIX "grpc-"
#define CR_EDGE_STREAMS_MAX 960 /* what rpc/h2_frames has room for, less its slack */

/*
 * Every setting. Calls NUMBER(flag, name in capitals, member, least, most, default, help) or
 * TEXT(flag, name in capitals, member, default, help).
 *
 * The rates were measured against what each kind costs gRPC core 1.51 (a reset
 * before the answer 64 us and 13 KB; the others about a microsecond). Per peer:
 * what costs at most some percent of a core, and lets hundreds of connections
 * of one user through.
 */
#define CR_EDGE_SETTINGS_TABLE(NUMBER, TEXT)                                                       \
    NUMBER("grpc-connections", "GRPC_CONNECTIONS", max_connections, 1, 1000000, "1024",            \
           "Open gRPC connections of all callers together.")                                       \
    NUMBER("grpc-user-connections", "GRPC_USER_CONNECTIONS", max_user_connections, 1, 1000000,     \
           "512", "Open connections of one user id on unix sockets.")                              \
    NUMBER("grpc-address-connections", "GRPC_ADDRESS_CONNECTIONS", max_address_connections, 1,     \
           1000000, "64", "Open connections of one IPv4 address or IPv6 /64.")                     \
    TEXT("grpc-user-accepts", "GRPC_USER_ACCEPTS", user_accepts, "400/400",                        \
         "New connections of one user id, PER_S/BURST.")                                           \
    TEXT("grpc-address-accepts", "GRPC_ADDRESS_ACCEPTS", address_accepts, "20/64",                 \
         "New connections of one address, PER_S/BURST.")                                           \
    NUMBER("grpc-streams", "GRPC_STREAMS", max_streams, 1, CR_EDGE_STREAMS_MAX, "256",             \
           "Open calls of one connection; 64 more are borne.")                                     \
    NUMBER("grpc-header-bytes", "GRPC_HEADER_BYTES", max_header_bytes, 1024, 1048576, "32768",     \
           "Size of one header block as it is sent.")                                              \
    NUMBER("grpc-header-frames", "GRPC_HEADER_FRAMES", max_header_frames, 1, 1000, "4",            \
           "Frames of one header block.")                                                          \
    NUMBER("grpc-handshake-ms", "GRPC_HANDSHAKE_MS", handshake_ms, 10, 600000, "3000",             \
           "From connect to the client's first SETTINGS; a TLS handshake has as long before it.")  \
    NUMBER("grpc-tls-handshakes", "GRPC_TLS_HANDSHAKES", max_handshakes, 1, 10000, "64",           \
           "TLS handshakes going on at one time.")                                                 \
    NUMBER("grpc-address-tls-handshakes", "GRPC_ADDRESS_TLS_HANDSHAKES", max_address_handshakes,   \
           1, 10000, "16", "TLS handshakes of one address going on at one time.")                  \
    NUMBER("grpc-connection-age-s", "GRPC_CONNECTION_AGE_S", age_s, 1, 1000000, "300",             \
           "Age at which a connection is asked to end, so that clients look for servers anew.")    \
    NUMBER("grpc-connection-grace-s", "GRPC_CONNECTION_GRACE_S", age_grace_s, 1, 1000000, "7200",  \
           "How long calls may go on after that; longer than any run.")                            \
    NUMBER("grpc-frame-ms", "GRPC_FRAME_MS", frame_ms, 10, 600000, "3000",                         \
           "From the first byte of a frame or header block to its last.")                          \
    NUMBER("grpc-data-frame-ms", "GRPC_DATA_FRAME_MS", data_frame_ms, 10, 3600000, "60000",        \
           "The same for DATA, beside a second for each 300 bytes.")                               \
    TEXT("grpc-rate-settings", "GRPC_RATE_SETTINGS", frames[CR_EDGE_SETTINGS], "2/20,500/2000",    \
         "SETTINGS frames, PER_S/BURST of a connection and, behind a comma, of a peer.")           \
    TEXT("grpc-rate-ping", "GRPC_RATE_PING", frames[CR_EDGE_PING], "20/100,5000/20000",            \
         "PING frames beyond one per frame that was answered.")                                    \
    TEXT("grpc-rate-priority", "GRPC_RATE_PRIORITY", frames[CR_EDGE_PRIORITY],                     \
         "10/200,2000/10000", "PRIORITY frames.")                                                  \
    TEXT("grpc-rate-reset", "GRPC_RATE_RESET", frames[CR_EDGE_RESET], "50/320,200/640",            \
         "Calls given up before the first byte of their answer.")                                  \
    TEXT("grpc-rate-late-reset", "GRPC_RATE_LATE_RESET", frames[CR_EDGE_LATE_RESET],               \
         "5000/20000,20000/80000", "Calls given up while they are answered.")                      \
    TEXT("grpc-rate-window", "GRPC_RATE_WINDOW", frames[CR_EDGE_WINDOW], "2000/4000,50000/100000", \
         "WINDOW_UPDATE frames beyond two per frame that was answered.")                           \
    TEXT("grpc-rate-empty-data", "GRPC_RATE_EMPTY_DATA", frames[CR_EDGE_EMPTY_DATA],               \
         "20/200,2000/10000", "DATA frames without a byte that do not end their stream.")          \
    TEXT("grpc-rate-small-data", "GRPC_RATE_SMALL_DATA", frames[CR_EDGE_SMALL_DATA],               \
         "5000/10000,50000/100000", "DATA frames of less than 64 bytes.")                          \
    TEXT("grpc-rate-other", "GRPC_RATE_OTHER", frames[CR_EDGE_OTHER], "5/20,500/2000",             \
         "GOAWAY, trailers, frames of unknown kinds.")

/* Numbers from what is written down. Names the flag that is wrong: -EINVAL. */
int cr_edge_parse(const struct cr_edge_settings *settings, struct cr_edge *ret_edge,
                  struct cr_err *err);

/* The defaults of the table above. */
void cr_edge_defaults(struct cr_edge *ret_edge);
