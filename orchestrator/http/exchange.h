/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "common/mailbox.h"
#include "common/trace.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/routes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

struct agt_exchange;
struct agt_http;
struct agt_problem;

/* What a handler does after it could not answer at once. `exchange->user` is its own state. */
struct agt_operation {
    /* Loop thread, after agt_exchange_wake(), until there is an answer. Answers or does nothing. */
    void (*on_wake)(struct agt_exchange *exchange);
    /* Loop thread, streams: adds frames to exchange->out when there are any, sets is_ended behind
     * the last. NULL when it never streams. */
    void (*fill)(struct agt_exchange *exchange);
    /* Loop thread, exactly once: nobody waits any more; cancel what is in flight. */
    void (*stop)(struct agt_exchange *exchange);
    /* The last reference is gone. Any thread. */
    void (*free)(void *user);
};

enum agt_exchange_phase {
    AGT_EXCHANGE_NEW,       /* the request line was seen */
    AGT_EXCHANGE_READING,   /* checked; the body comes in */
    AGT_EXCHANGE_HANDLING,  /* the handler works */
    AGT_EXCHANGE_ANSWERING, /* libmicrohttpd has the answer, or a stream goes on */
};

/*
 * One request and its answer. Reference-counted, because a call of gRPC may
 * end after its client has left: the connection holds a reference while it
 * serves, a posted mail holds one, and whoever may call agt_exchange_wake()
 * holds one. All members belong to the loop thread but those with a note.
 */
struct agt_exchange {
    struct cr_mail mail;   /* first: the mail is the exchange */
    atomic_uint refs;      /* any thread */
    atomic_bool is_posted; /* any thread: the mail is on its way */
    struct agt_http *http; /* borrowed; waits for every exchange before it ends */

    struct agt_connection *connection; /* borrowed; NULL once over */
    struct MHD_Connection *mhd;        /* borrowed; valid while connection is */
    const struct agt_route *route;     /* NULL until checked */
    char *raw_url;                     /* owned; the request target */
    char caller[AGT_CALLER_SIZE]; /* who owns what it starts: the token's or the connection's */
    struct cr_trace trace; /* that the client sent, or a new one; handlers run with it entered */
    enum agt_exchange_phase phase;
    bool is_options;
    bool wants_events; /* Accept: text/event-stream */
    char *key;         /* Idempotency-Key. Owned; NULL: none */
    char *last_id;     /* Last-Event-ID. Owned; NULL: none */
    char *origin;      /* Access-Control-Allow-Origin. Owned; NULL: none */
    bool is_suspended;
    bool has_stopped;

    struct cr_buf body; /* of the request; counted in http->body_memory */
    size_t body_seen;   /* bytes that came, kept or not */
    int body_problem;   /* 0, 413 or 503: answered once all of it came */

    const struct agt_operation *operation; /* NULL: none was needed */
    void *user;

    int http_status;    /* of the answer; 0: none yet */
    int64_t give_up_ns; /* the answer waits for the store until then; 0: not for the store */
    bool is_stream;
    bool is_ended;        /* streams: `out` holds the last bytes */
    struct cr_buf out;    /* the answer, or the part of a stream that was not sent */
    size_t out_sent;      /* of `out`, streams only */
    int retry_after_s;    /* 0: no header */
    const char *allow;    /* NULL: no header */
    const char *type;     /* content type; NULL: JSON. Static storage */
    const char *policy;   /* Content-Security-Policy; NULL: that of data. Static storage */
    const char *file;     /* name to be saved under; NULL: none. Static storage */
    int64_t last_sent_ns; /* streams, for heartbeats */
};

/* ---- for libmicrohttpd; `cls` is a struct agt_http * ---- */

void *agt_exchange_on_url(void *cls, const char *url, struct MHD_Connection *mhd);
enum MHD_Result agt_exchange_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                        const char *method, const char *version,
                                        const char *upload_data, size_t *upload_data_size,
                                        void **request_context);
void agt_exchange_on_completed(void *cls, struct MHD_Connection *mhd, void **request_context,
                               enum MHD_RequestTerminationCode code);

/* ---- for the connection and the loop ---- */

/* The connection's request is over, answered or not. */
void agt_exchange_end(struct agt_connection *connection);

/* The client has left. */
void agt_exchange_hang_up(struct agt_exchange *exchange);

/* The request line was seen, the end of the request was not. */
bool agt_exchange_is_reading(const struct agt_exchange *exchange);

/* As agt_request_length_status(), of its header as far as it is here; 0 once that was good. */
int agt_exchange_length_status(const struct agt_exchange *exchange);

void agt_exchange_tick(struct agt_exchange *exchange, int64_t now_ns);

/* A mail came out of the mailbox; drops its reference. */
void agt_exchange_on_mail(struct agt_exchange *exchange);

/* The server stops: a stream says so and ends, everything else is answered 503. */
void agt_exchange_shut_down(struct agt_exchange *exchange);

/* ---- for handlers ---- */

struct agt_exchange *agt_exchange_ref(struct agt_exchange *exchange);
struct agt_exchange *agt_exchange_unref(struct agt_exchange *exchange); /* returns NULL */

/* Any thread that holds a reference. Several wakes may arrive as one. */
void agt_exchange_wake(struct agt_exchange *exchange);

/* The answer is in exchange->out, as JSON. */
void agt_exchange_answer(struct agt_exchange *exchange, int http_status);

void agt_exchange_fail(struct agt_exchange *exchange, const struct agt_problem *problem);

/*
 * The answer waits until the store has done something, which it may not while its disk is full or
 * its database is away: not for ever. What was asked for may still come about.
 */
void agt_exchange_await_store(struct agt_exchange *exchange);

/* What could not be written: answers 500 and logs `what` with the errno. */
void agt_exchange_fail_internal(struct agt_exchange *exchange, const char *what, int error);

/* The answer is a stream of events, which `fill` delivers. */
void agt_exchange_begin_stream(struct agt_exchange *exchange);
