/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cr_err;
struct cr_metrics;
struct rpc_peer;
struct rpc_status;

/*
 * A gRPC server on C core: one completion queue, one thread of ours. Every
 * callback of every call runs on that thread, never two at once, so handlers
 * need no lock. A handler must not block. It runs with the trace of its call
 * entered (common/trace.h): the one that the client sent as metadata
 * "traceparent", or a new one when it sent none that is valid.
 *
 * gRPC core must not be forked: fork and exec before rpc_init().
 */
struct rpc_server;

/*
 * One call, from the moment its request came in. Handlers get it borrowed;
 * whoever keeps it beyond the callback holds a reference. Other threads may
 * call only rpc_call_ref, rpc_call_unref and rpc_call_wake.
 */
struct rpc_call;

/*
 * A method. All callbacks may be NULL but on_message. `on_free` runs exactly
 * once for a call that reached on_start, after every other callback.
 */
struct rpc_method {
    const char *path; /* "/package.Service/Method", static storage */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    /* Before the first message: authentication, quota. May finish the call. */
    void (*on_start)(struct rpc_call *call);
    /* A message, valid until the callback returns. Its strings are UTF-8 without NUL: checked on
     * the wire bytes. */
    void (*on_message)(struct rpc_call *call, const ProtobufCMessage *message);
    /* BIDI: the client will send no more. */
    void (*on_half_close)(struct rpc_call *call);
    /* The message given to rpc_call_send has left; send the next or nothing. */
    void (*on_writable)(struct rpc_call *call);
    /* After rpc_call_wake() from any thread; several wakes may arrive as one. */
    void (*on_wake)(struct rpc_call *call);
    /* Client cancel, deadline, connection loss, drain, or (BIDI) a message that cannot be read. At
     * most once; not after rpc_call_finish. */
    void (*on_cancel)(struct rpc_call *call);
    /* The last reference is gone; release the user state here. */
    void (*on_free)(struct rpc_call *call);
};

/*
 * Sends one message. False when one is still on its way, or the call has
 * finished or was cancelled; then nothing is sent. `message` is packed before
 * the return and not kept.
 */
bool rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message);

/* As rpc_call_send, for bytes that are a packed message already. Copied. */
bool rpc_call_send_packed(struct rpc_call *call, const void *data, size_t size);

/*
 * The same for two pieces behind each other. `has_more`: the next message, or the
 * end, follows at once; core may keep this one back until then, at most 64 KiB
 * of them, and writes them together.
 */
bool rpc_call_send_pieces(struct rpc_call *call, const void *head, size_t head_size,
                          const void *data, size_t size, bool has_more);

/* True when rpc_call_send would send. */
bool rpc_call_can_send(const struct rpc_call *call);

/* BIDI: asks for the next message (on_start asks for the first). */
void rpc_call_read(struct rpc_call *call);

/*
 * Ends the call, with `last` (may be NULL) as its last or only message. NULL
 * status means OK. When a message is still on its way the end follows it.
 * Safe to repeat: only the first counts.
 */
void rpc_call_finish(struct rpc_call *call, const struct rpc_status *status,
                     const ProtobufCMessage *last);

/* Any thread. */
void rpc_call_wake(struct rpc_call *call);
struct rpc_call *rpc_call_ref(struct rpc_call *call);
struct rpc_call *rpc_call_unref(struct rpc_call *call); /* always returns NULL; NULL is allowed */

bool rpc_call_is_cancelled(const struct rpc_call *call);

/*
 * CLOCK_MONOTONIC ns; INT64_MAX when the client set none. To core 1.51 a malformed grpc-timeout is
 * none, so a handler that does work has a limit of its own (wall time of a run), and never relies
 * on the client's. It counts from when core read the header: what the client spent before is lost.
 */
int64_t rpc_call_deadline_ns(const struct rpc_call *call);

/* First value of a metadata key (lower case). False when absent. Borrowed until the call is freed.
 */
bool rpc_call_metadata(const struct rpc_call *call, const char *key, const char **ret_value,
                       size_t *ret_size);

/* Who called. Borrowed until the call is freed. */
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);

/* "/package.Service/Method"; static storage. */
const char *rpc_call_path(const struct rpc_call *call);

/* The handler's own state. */
void rpc_call_set_user(struct rpc_call *call, void *user);
void *rpc_call_user(const struct rpc_call *call);

/* What was given as rpc_server_options.context. */
void *rpc_call_context(const struct rpc_call *call);

/* Who is at the other end of a connection; made by rpc/listener at accept. */
struct rpc_peer {
    bool is_unix;      /* a unix socket: uid and pid are known (SO_PEERCRED) */
    bool is_encrypted; /* by TLS … */
    bool is_certified; /* … and has shown a certificate that is allowed */
    uint32_t uid;      /* of the peer process */
    int32_t pid;       /* of the peer process, at connect time */
    char caller[64];   /* key for quotas and ownership: "uid:1000", "ip:127.0.0.1", "token:ci",
                          "san:agent.example" */
    char address[64];  /* for logs */
};

/*
 * Decides about a call before its handler sees it, health and reflection
 * included. Returns true to let it in; else fills in `ret_status`. `caller` is
 * that of the connection, and becomes that of the call: whoever reads a token
 * there writes whose it is. Completion queue thread.
 */
typedef bool (*rpc_authorize)(void *context, const struct rpc_call *call, char caller[64],
                              struct rpc_status *ret_status);

struct rpc_server_options {
    void *context;             /* borrowed; outlives the server */
    rpc_authorize authorize;   /* NULL: everybody the listener let in */
    size_t max_request_bytes;  /* 0: 4 MiB. Larger: RESOURCE_EXHAUSTED */
    size_t max_metadata_bytes; /* 0: 16 KiB */
    uint32_t max_calls;   /* live calls of the whole server; 0: 4,096. More: RESOURCE_EXHAUSTED */
    uint32_t max_streams; /* per connection; 0: 256 */
    /* When a connection gets GOAWAY, with a tenth more or less, and how long its calls may still go
     * on; 0: never. */
    uint32_t connection_age_s;
    uint32_t connection_grace_s;
    size_t memory_quota_bytes;   /* message buffers of gRPC core; 0: 128 MiB */
    uint32_t request_timeout_ms; /* until the first message is there; 0: 20,000 */
    uint32_t write_timeout_ms; /* a client that reads nothing for so long is cut off; 0: 120,000 */
    const uint8_t *descriptor_set; /* serialized FileDescriptorSet for reflection; NULL: no
                                      reflection. Borrowed */
    size_t descriptor_set_size;
};

/*
 * Starts gRPC core (once per process, before anything else here) and routes
 * its log to ours. rpc_fini() waits until core's own threads are gone.
 */
void rpc_init(void);
void rpc_fini(void);

/*
 * A server with the given method tables (each ends with a row whose path is
 * NULL; borrowed, static), plus grpc.health.v1 and, with a descriptor set,
 * reflection v1 and v1alpha. Unknown methods are answered UNIMPLEMENTED.
 */
int rpc_server_new(const struct rpc_method *const *tables, size_t table_count,
                   const struct rpc_server_options *options, struct rpc_server **ret_server,
                   struct cr_err *err);

/* Starts the completion queue thread. Serves what rpc_listener adds. */
int rpc_server_start(struct rpc_server *server, struct cr_err *err);

/* Health of a service name; "" is the whole server. Any thread. Starts as NOT_SERVING. */
void rpc_server_set_serving(struct rpc_server *server, const char *service, bool is_serving);

/*
 * Drains: NOT_SERVING, no new calls, Watch and reflection streams ended, then
 * waits up to `grace_ms` for the others and ends what is left: its handlers hear
 * of a cancel, its clients of rpc_status_set_draining(). Blocks, up to ten
 * seconds more; not on the completion queue thread. Returns true when nothing
 * was cancelled.
 */
bool rpc_server_drain(struct rpc_server *server, int grace_ms);

/*
 * Counts up as long as the completion queue thread turns, at least once in two
 * seconds. One that stands still for long has a handler that does not return.
 * Any thread.
 */
uint64_t rpc_server_turns(const struct rpc_server *server);

/* Live calls, health and reflection streams not counted. Any thread. */
uint32_t rpc_server_live_calls(const struct rpc_server *server);

/* Writes grpc_server_… of every method, in Prometheus' text format. Any thread. */
void rpc_server_write_metrics(const struct rpc_server *server, struct cr_metrics *metrics);

/* After rpc_server_drain(). NULL is allowed; always returns NULL. */
struct rpc_server *rpc_server_free(struct rpc_server *server);
