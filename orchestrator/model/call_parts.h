/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/model/call.h"
#include "orchestrator/model/reply.h"
#include "orchestrator/model/sse.h"
#include "orchestrator/model/verdict.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * What a call of the model is made of, for call.c (what its caller has of it)
 * and call_attempt.c (its requests, on the loop's thread). Nothing else
 * includes this.
 */

struct agt_model_call {
    atomic_uint refs;
    struct agt_provider *provider; /* borrowed: outlives its calls; not touched after the end */
    struct agt_model_handlers handlers;
    struct agt_key *key; /* a reference: the same for all its requests */
    char *model;
    char *url;
    char *body;
    char purpose[16];
    int64_t started_ns;
    int64_t deadline_ns;

    pthread_mutex_t lock; /* guards the next two */
    struct agt_http_request *request;
    bool is_cancelled;

    /* From here on the loop thread's, once the call has started. */
    uint32_t max_attempts;
    uint32_t attempts;            /* HTTP requests made */
    uint32_t model_faults;        /* repeats that were not the server's being busy */
    struct agt_model_usage spent; /* told by attempts before this one, which may be charged, too */
    struct agt_sse sse;
    struct agt_reply reply;
    struct cr_buf error_body;
    int stream_error;
    struct agt_verdict verdict; /* kept while the model's entry is asked for */
};

/* What one request of the call reads into; between two requests it is done, then init. */
void agt_attempt_init(struct agt_model_call *call);
void agt_attempt_done(struct agt_model_call *call);

/* Another seed: the answer would be the same else. */
void agt_attempt_vary(struct agt_model_call *call);

/* Hands the request to the loop, not before `start_ns`. -ECANCELED, or as agt_http_client_start().
 * On success the end comes on the loop's thread, which drops one reference then. */
int agt_attempt_send(struct agt_model_call *call, int64_t start_ns, struct cr_err *err);
