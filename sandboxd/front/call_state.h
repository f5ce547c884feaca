/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/recall.h"
#include "sandboxd/front/service.h"
#include "sandboxd/front/tail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct rpc_call;
struct rpc_status;
struct sbx_compile;
struct sbx_outcome;

enum sbx_call_kind {
    SBX_CALL_EXECUTE,
    SBX_CALL_RUN,
    SBX_CALL_BATCH,       /* one item of RunBatch; answered as Run */
    SBX_CALL_INTERACTIVE, /* ExecuteInteractive, likewise */
    SBX_CALL_SANDBOX, /* ExecuteInSandbox; answered as Execute, each event in a message around it */
};

/* Where an answer goes that does not end its call. */
struct sbx_answer {
    void (*take)(void *user, const struct rpc_status *status, const ProtobufCMessage *message);
    void *user;
};

/* An Execute or Run call, or an item of a batch. */
struct sbx_call {
    struct sbx_live entry; /* in the service's list */
    struct sbx_service *service;
    struct sbx_execution *execution;
    struct sbx_compile *compile; /* the stage before; NULL: there is none */
    struct sbx_policy policy;
    struct sbx_answer answer; /* take is NULL: it ends the call */
    struct sbx_tail *tail;    /* of an execution that outlives its stream; NULL: it ends with it */
    struct sbx_tail_cursor cursor; /* in it */
    struct rpc_call *reader;       /* borrowed: this call, as the reader of the tail */
    bool is_run;
    bool is_wrapped; /* events are sent as messages with the event as their field 1 */
    bool is_submitted;
    bool is_counted; /* among what its caller has going on */
    bool must_read;  /* interactive: the next message was not asked for yet */
    uint32_t seq;
    struct sbx_record *record;    /* NULL: the request has no id */
    struct sbx_waiter waiter;     /* in the record, while another call runs the same request */
    bool is_owner;                /* of the record: this call writes it */
    size_t replay_at;             /* of the record, while it is sent again */
    char digest[SBX_DIGEST_SIZE]; /* of the request, for the record */
    struct cr_buf chunk;          /* Execute: bytes of one event; Run: unused */
    struct cr_buf outputs[2];     /* Run: everything */
};

/* Internal to the handlers of Execute, Run and RunBatch; the completion queue thread has all of it.
 */

/* ---- call.c ---- */

/* What is to be done with a request. */
struct sbx_call_order {
    enum sbx_call_kind kind;
    const Crisol__Sandbox__V1__ExecuteRequest *message;
    struct sbx_sandbox *sandbox; /* SANDBOX: taken in every case */
    uint16_t columns;            /* INTERACTIVE: of its terminal; 0: none */
    uint16_t rows;
};

/*
 * Checks a request and makes what it needs to run, but does not begin. NULL
 * when it is refused: ret_status says why, and the audit log has it.
 */
struct sbx_call *sbx_call_new(struct rpc_call *call, const struct sbx_call_order *order,
                              struct rpc_status *ret_status);

/* Why nothing can run now. */
void sbx_call_no_backend(struct rpc_status *ret_status);

/* Runs it, or finds its answer under its id. */
void sbx_call_begin(struct rpc_call *call, struct sbx_call *state);

/* Takes and answers what there is. Nothing after the answer. */
void sbx_call_advance(struct rpc_call *call, struct sbx_call *state);

/* Nobody waits for the answer any more: kills what runs. */
void sbx_call_abandon(struct sbx_call *state);

/* NULL is allowed; always returns NULL. */
struct sbx_call *sbx_call_release(struct sbx_call *state);

/* Hands the execution, or its compile stage, to the backend. */
void sbx_call_submit(struct rpc_call *call, struct sbx_call *state);

/* The compile stage has ended well: the program's turn. Returns as sbx_execution_complete(). */
int sbx_call_go_on(struct rpc_call *call, struct sbx_call *state, struct cr_err *err);

/* Whose end is the end of the call: the program's, or the compile stage's that failed. */
const struct sbx_execution *sbx_call_last(const struct sbx_call *state);

/* ---- call_answer.c ---- */

/* Takes what the compile stage has. False: it is not over, or the call is answered. */
bool sbx_call_pump_compile(struct rpc_call *call, struct sbx_call *state);

/* Takes what the execution has and answers it. */
void sbx_call_pump_stream(struct rpc_call *call, struct sbx_call *state);
void sbx_call_pump_run(struct rpc_call *call, struct sbx_call *state);
void sbx_call_pump_tail(struct rpc_call *call, struct sbx_call *state);

/* The end: NULL status is OK, with `last` as the (last) message. */
void sbx_call_finish(struct rpc_call *call, const struct sbx_call *state,
                     const struct rpc_status *status, const ProtobufCMessage *last);
void sbx_call_finish_refused(struct rpc_call *call, const struct sbx_call *state,
                             const struct sbx_outcome *outcome);
void sbx_call_finish_out_of_memory(struct rpc_call *call, const struct sbx_call *state);

/* What a refusal says as a status. */
void sbx_call_refusal(const struct sbx_outcome *outcome, struct rpc_status *ret_status);
void sbx_call_no_memory(struct rpc_status *ret_status);

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
