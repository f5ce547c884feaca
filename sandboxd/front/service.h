/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"
#include "sandboxd/front/artifacts.h"
#include "sandboxd/front/auth.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/recall.h"
#include "sandboxd/runtimes/table.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_callers;
struct rpc_status;
struct sbx_audit;
struct sbx_backend;
struct sbx_msg_hello;
struct sbx_sandboxes;
struct sbx_tails;
struct sbx_execution;

#define SBX_VERSION_TEXT_MAX 64U

/* A live execution of a call, for Cancel. Embedded in the call's state. */
struct sbx_live {
    struct sbx_live *next;
    struct sbx_execution *execution; /* borrowed: the call outlives its place in the list */
};

/* An artifact that is being written. Embedded in the call's state. */
struct sbx_upload_entry {
    struct sbx_upload_entry *next;
};

/* What a WriteFiles call holds until its end. Embedded in the call's state. */
struct sbx_write_entry {
    struct sbx_write_entry *next;
    char caller[64];
    size_t bytes;
};

/* What every handler sees: rpc_server_options.context. */
struct sbx_service {
    struct sbx_backend *backend;      /* borrowed: outlives the service */
    struct sbx_auth auth;             /* constant once the server has started */
    struct sbx_audit *audit;          /* borrowed: outlives the service */
    struct rpc_callers *callers;      /* borrowed: outlives the service; NULL: no limits */
    struct sbx_recall recall;         /* the completion queue thread's */
    struct sbx_artifacts artifacts;   /* likewise */
    struct sbx_upload_entry *uploads; /* likewise: those that are being written */
    struct sbx_sandboxes *sandboxes;  /* borrowed: outlives the service */
    struct sbx_tails *tails;          /* likewise */
    struct sbx_write_entry *writes;   /* the completion queue thread's: those that are not at
                                         their end */
    pthread_mutex_t lock;             /* guards the list and the versions */
    struct sbx_live *live;
    char versions[SBX_RUNTIMES_MAX][SBX_VERSION_TEXT_MAX];
    struct sbx_policy_memo policy_memo; /* the completion queue thread's */
};

/* `auth` is copied. */
void sbx_service_init(struct sbx_service *service, struct sbx_backend *backend,
                      const struct sbx_auth *auth, struct sbx_audit *audit,
                      struct sbx_sandboxes *sandboxes, struct sbx_tails *tails);

/* Every call must have ended. */
void sbx_service_done(struct sbx_service *service);

/* Any thread: what ListRuntimes tells as the version of a runtime. */
void sbx_service_set_version(struct sbx_service *service, uint32_t runtime, const char *version);

/* rpc_authorize: health may be asked by everybody whom the listener let in. */
bool sbx_service_authorize(void *context, const struct rpc_call *call, char caller[64],
                           struct rpc_status *status);

/* The methods of crisol.sandbox.v1.SandboxService. */
extern const struct rpc_method sbx_service_methods[];

/* For the handlers in catalog.c. */
void sbx_service_list_runtimes(struct rpc_call *call);
void sbx_service_get_capabilities(struct rpc_call *call);

/* Any thread. sbx_service_remove is safe to repeat. */
void sbx_service_add(struct sbx_service *service, struct sbx_live *entry);
void sbx_service_remove(struct sbx_service *service, struct sbx_live *entry);

/* Kills the live executions of `caller` with this id or request id; either may be "". Returns
 * whether there was one. */
bool sbx_service_cancel(struct sbx_service *service, const char *caller, const char *execution_id,
                        const char *request_id);
