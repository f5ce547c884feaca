/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/trace.h"
#include "rpc/meter.h"
#include "rpc/server.h"
#include "rpc/stall.h"

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

struct rpc_health;
struct rpc_peers;
struct rpc_reflection;

/*
 * Internal to rpc/: a server and its calls, shared by server.c (life of the
 * server), registry.c (what it counts), call.c (what core does with a call) and reply.c (what
 * handlers do).
 */

/* What completes on the queue. Each kind of operation of a call has its own, as at most one of a
 * kind is outstanding. */
struct rpc_tag {
    void (*run)(struct rpc_call *call, bool is_ok);
    struct rpc_call *call;
};

enum rpc_call_kind {
    RPC_CALL_UNCOUNTED, /* refused, or not in yet */
    RPC_CALL_SERVICE,   /* counts against max_calls */
    RPC_CALL_INTERNAL,  /* health and reflection: woken by health changes and the begin of the drain
                         */
};

struct rpc_route {
    const struct rpc_method *method;
    struct rpc_counts *counts; /* borrowed: the server's */
    bool is_internal;
};

/* The end of a call, kept until the message before it has left. */
struct rpc_ending {
    grpc_status_code code;
    grpc_slice text;
    grpc_slice details;     /* google.rpc.Status, empty: none */
    grpc_byte_buffer *last; /* NULL: none */
};

struct rpc_call {
    struct rpc_server *server; /* borrowed: outlives the call */
    grpc_call *core;           /* NULL until a request came in */
    const struct rpc_method *method;
    enum rpc_call_kind kind;
    atomic_int refs;      /* of others, plus one per outstanding batch */
    atomic_bool has_wake; /* wake_tag is on its way */
    atomic_bool is_cancelled;

    struct rpc_tag request_tag, close_tag, receive_tag, send_tag, end_tag, wake_tag, free_tag;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *received;
    int close_flag; /* written by core: the call was cancelled */

    bool has_started; /* on_start ran, so on_free will */
    bool has_sent_metadata;
    bool is_sending;
    bool is_receiving;
    bool is_half_closed;
    bool is_finished;
    struct rpc_ending ending;

    struct rpc_stall request_stall, write_stall;
    struct rpc_call *next, *previous; /* of those that were admitted; guarded by server->lock */
    struct rpc_counts *counts;        /* of its method; NULL until a request came in */
    int64_t started_ns;
    struct cr_trace trace; /* set with the counts */
    int64_t deadline_ns;
    struct rpc_peer peer;
    void *user;
};

struct rpc_server {
    struct rpc_server_options options;
    struct rpc_route *routes; /* sorted by path */
    size_t route_count;
    struct rpc_counts *counts; /* one of each route, and a last one of unknown methods */
    grpc_server *core;
    grpc_server_credentials *credentials;
    grpc_completion_queue *queue;
    pthread_t thread;
    bool is_started;
    struct rpc_peers *peers;
    struct rpc_health *health;
    struct rpc_reflection *reflection; /* NULL: none */
    struct rpc_stalls request_stalls, write_stalls;
    _Atomic uint64_t turns;      /* of the queue's thread */
    atomic_bool has_no_grace;    /* calls end when they are woken */
    uint32_t unarmed;            /* requests not asked of core for want of memory; queue's thread */
    struct rpc_tag shutdown_tag; /* its call is NULL */

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* is_shut or open_calls */
    struct rpc_call *calls; /* all that were admitted and are not freed */
    uint32_t service_calls;
    uint32_t internal_calls;
    uint32_t open_calls; /* all that core gave us and that are not freed */
    bool is_draining;
    bool is_shut; /* core has nothing left */
};

/* ---- call.c, completion queue thread only ---- */

/*
 * Asks core for `count` more requests and for those that it could not ask for
 * before (server->unarmed). Nothing while draining.
 */
void rpc_call_arm(struct rpc_server *server, uint32_t count);

/* Ends calls whose client keeps them waiting. */
void rpc_call_expire(struct rpc_server *server, int64_t now_ns);

/* ---- reply.c, completion queue thread only ---- */

/* Starts a batch and holds a reference until its tag has run. */
void rpc_call_batch(struct rpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag);

/* The message before the end has left (or there was none). */
void rpc_call_send_ending(struct rpc_call *call);

void rpc_call_receive(struct rpc_call *call);

void rpc_ending_done(struct rpc_ending *ending);

/* ---- registry.c, any thread ---- */

/* NULL for an unknown method. */
const struct rpc_route *rpc_server_find_route(const struct rpc_server *server, grpc_slice path);

/*
 * Counts a new call. Returns 0, -EBUSY when there are too many of its kind, or
 * -ESHUTDOWN while draining; then it stays RPC_CALL_UNCOUNTED.
 */
int rpc_server_admit(struct rpc_server *server, struct rpc_call *call, enum rpc_call_kind kind);

/* Each call that core gave us, once at the beginning and once at the end. */
void rpc_server_call_opened(struct rpc_server *server);
void rpc_server_call_freed(struct rpc_server *server, struct rpc_call *call);

bool rpc_server_is_draining(struct rpc_server *server);

/* Wakes every health and reflection stream. Any thread. */
void rpc_server_wake_internal(struct rpc_server *server);

/* Ends every call as draining: their handlers hear of a cancel. Any thread. */
void rpc_server_break_off(struct rpc_server *server);
