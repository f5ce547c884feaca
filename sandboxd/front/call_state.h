/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/recall.h"
#include "sandboxd/front/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;
struct sbx_outcome;

/* An Execute or Run call. */
struct sbx_call {
    struct sbx_live entry; /* in the service's list */
    struct sbx_service *service;
    struct sbx_execution *execution;
    struct sbx_policy policy;
    bool is_run;
    bool is_submitted;
    uint32_t seq;
    struct sbx_record *record;    /* NULL: the request has no id */
    struct sbx_waiter waiter;     /* in the record, while another call runs the same request */
    bool is_owner;                /* of the record: this call writes it */
    size_t replay_at;             /* of the record, while it is sent again */
    char digest[SBX_DIGEST_SIZE]; /* of the request, for the record */
    struct cr_buf chunk;          /* Execute: bytes of one event; Run: unused */
    struct cr_buf outputs[2];     /* Run: everything */
};

/* Internal to the handlers of Execute and Run; the completion queue thread has all of it. */

/* ---- call.c ---- */

/* Hands the execution to the backend. */
void sbx_call_submit(struct rpc_call *call, struct sbx_call *state);

/* ---- call_answer.c ---- */

/* Takes what the execution has and answers it. */
void sbx_call_pump_stream(struct rpc_call *call, struct sbx_call *state);
void sbx_call_pump_run(struct rpc_call *call, struct sbx_call *state);

void sbx_call_finish_refused(struct rpc_call *call, const struct sbx_outcome *outcome);
void sbx_call_finish_out_of_memory(struct rpc_call *call);

/* ---- call_retry.c ---- */

/* Looks the request up under its id: runs it, waits for the call that runs it, or answers. */
void sbx_call_claim(struct rpc_call *call, struct sbx_call *state);

/* A call that waits, or sends a kept answer, may go on. */
void sbx_call_pump_waiter(struct rpc_call *call, struct sbx_call *state);

/* For the call that runs the request; nothing for any other. keep: one more message of its answer.
 * end: that was all. drop: there is no answer that a retry could be given. */
void sbx_call_keep(struct sbx_call *state, const ProtobufCMessage *message);
void sbx_call_end_record(struct sbx_call *state);
void sbx_call_drop_record(struct sbx_call *state);
