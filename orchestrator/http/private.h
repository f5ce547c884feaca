/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/listen.h"
#include "orchestrator/http/frames.h"
#include "orchestrator/http/request.h"
#include "orchestrator/http/routes.h"
#include "orchestrator/http/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

struct agt_arrival;
struct agt_connection;
struct agt_sight;
struct cr_mail;
struct cr_mailbox;
struct tls_relay;

#define AGT_NEVER_NS INT64_MAX
/* Connections beyond our own cap that are still told so; further ones are closed at once. */
#define AGT_SURPLUS 64

/*
 * The server, as its own files see it. Members without a note belong to the
 * loop thread once it runs, and do not change after agt_http_new() otherwise.
 */
struct agt_http {
    struct agt_http_options options; /* defaults filled in; its strings are not kept */
    struct agt_request_rules rules;
    char *allowed_hosts;   /* owned; rules points to it */
    char *allowed_origins; /* owned; NULL: none; rules points to it */
    struct cr_listen listen;
    uint16_t port;
    struct MHD_Daemon *daemon;
    int epoll_fd;
    int wake_fd;                /* eventfd: look at the flags below */
    struct cr_mailbox *mailbox; /* of exchanges; any thread posts */
    struct cr_mail *mails;      /* taken out of it, and still to be handled; loop thread */
    pthread_t thread;
    bool is_started; /* owner's thread: start and stop */
    bool is_clean;   /* loop thread writes, owner reads after the join */

    struct tls_relay *relay;       /* NULL: plain text */
    pthread_mutex_t arrivals_lock; /* guards the next */
    struct agt_arrival *arrivals;  /* through TLS, and not taken yet */
    struct agt_arrival *handed;    /* given to libmicrohttpd, and not opened yet */

    atomic_bool is_withdrawn; /* not ready, and serving */
    atomic_bool must_quiesce;
    atomic_bool must_stop;
    _Atomic int64_t stop_at_ns; /* set before must_stop */
    atomic_uint connection_count;
    atomic_uint_fast64_t turns;
    atomic_uint exchange_count; /* objects alive; may be freed on foreign threads */

    struct agt_frames frames; /* of the streams of events */
    struct agt_sight *sight;  /* of sandboxd */
    char *openapi;            /* owned; made when it is first asked for */
    size_t openapi_size;
    int64_t started_ms;                                   /* since 1970 */
    atomic_uint_fast64_t answers[AGT_ROUTE_COUNT + 1][6]; /* by route (the last: none), and by
                                                             hundreds of the status */
    bool is_quiesced;
    bool has_cancelled;          /* the grace has passed */
    struct agt_connection *head; /* every open connection */
    size_t body_memory;          /* bytes of request bodies held now */
    int64_t next_tick_ns;
    int64_t accept_again_ns; /* 0: accepting */
    int64_t accept_log_ns;   /* no warning before */
};

/* The body of the loop thread; `user` is a struct agt_http *. */
void *agt_http_loop(void *user);

/* Any thread: makes the loop look at its flags. */
void agt_http_wake(struct agt_http *http);
