/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/renewals.h"
#include "common/turns.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/auth.h"
#include "sandboxd/front/readiness.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/front/service.h"
#include "sandboxd/front/settings.h"
#include "sandboxd/front/tail.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct rpc_health_port;
struct rpc_listener;
struct rpc_server;
struct sbx_backend;
struct sbx_scrape;
struct tls_context;

/*
 * The process sandboxd-front: main.c starts and stops it, front_secrets.c has
 * its tokens and certificates, front_serve.c what its first thread does in
 * between. Nothing else includes this.
 */

/* Everything that lives from start to stop. */
struct sbx_front {
    struct sbx_front_settings settings;
    struct sbx_auth auth;
    struct sbx_audit audit;
    struct sbx_backend *backend;
    struct sbx_sandboxes sandboxes;
    struct sbx_tails tails;
    struct sbx_service service;
    struct rpc_server *server;
    struct rpc_listener *listener;
    struct rpc_health_port *health; /* NULL: none */
    struct tls_context *tls;        /* NULL: TCP callers speak plain text */
    struct cr_renewals renewals;    /* read by the thread of the metrics */
    struct sbx_scrape *scrape;      /* NULL: none */
    int64_t started_ms;             /* since 1970 */
    atomic_bool is_serving;         /* read by the thread of the metrics */
    int signal_fd;                  /* SIGTERM and SIGINT */
    int event_fd;                   /* rung when one of the three below changes */
    atomic_bool is_up;              /* the backend said HELLO */
    atomic_bool is_orphaned;        /* the supervisor is gone */
    atomic_uint generation;         /* of the backend; counts every coming and going */
    struct sbx_readiness readiness;
    uint32_t asked;     /* bit set of runtimes: for their version */
    int64_t look_at_ns; /* at the threads, not before */
    struct cr_turns_watch calls;
    struct cr_turns_watch streams;
};

/* ---- front_secrets.c ---- */

/* Who may call: the user ids of --allow-uids and, where there is a token file, the tokens on
 * SBX_FRONT_FD_TOKEN, which is consumed. Returns 0 or -errno. */
int sbx_front_take_auth(struct sbx_front *front, struct cr_err *err);

/* The certificates on SBX_FRONT_FD_TLS, which is consumed. Returns 0, also where there are none, or
 * -errno. */
int sbx_front_take_tls(struct sbx_front *front, struct cr_err *err);

/* New ones, on `fd`, which is consumed; `user` is the front. On the stream thread. Return 0 when
 * they are in use, or -errno when the old ones stay. */
int sbx_front_on_tokens(void *user, int fd);
int sbx_front_on_tls(void *user, int fd);

/* ---- front_serve.c ---- */

/* Tells it to everybody that asks for the health of this service. */
void sbx_front_set_serving(struct sbx_front *front, bool is_serving);

/* Serves as long as the backend is there and has shown that it works, until a signal comes or the
 * supervisor is gone. */
void sbx_front_serve(struct sbx_front *front);
