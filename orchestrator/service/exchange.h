/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_edits;
struct agt_run;
struct rpc_call;
struct rpc_status;

/*
 * Internal to orchestrator/service: a call that follows a run. The events go
 * out one at a time, each when the one before has left (or lies in one of
 * core's writes, of 64 KiB), so that a slow client costs no memory. Cancelling
 * a call that has started its run cancels the run; a call that watches one
 * leaves it alone. All on the completion queue thread.
 */

/* What the calls that start a run have in common. Everything is borrowed for the call. */
struct agt_ask {
    const char *task;
    int32_t max_iterations;
    const char *model;
    const Crisol__Sandbox__V1__Limits *limits; /* NULL: defaults */
    const Crisol__Agent__V1__TaskTerms *terms; /* NULL: none */
    const char *key;                           /* idempotency key; NULL: none */
    int verify;                                /* VerificationLevel */
    const Crisol__Agent__V1__Node *interrupts; /* pauses behind these */
    size_t interrupt_count;
    int on_disconnect; /* OnDisconnect */
    bool is_stream;
};

/* Starts a run of the caller. As agt_runs_start(). */
int agt_exchange_start_run(struct rpc_call *call, const struct agt_ask *ask,
                           struct agt_run **ret_run, struct rpc_status *ret_status);

/* Starts the run, or ends the call with what is wrong. */
void agt_exchange_start(struct rpc_call *call, const struct agt_ask *ask);

/* Answers SubmitRun once the run's first event is there: then it will not be lost. Takes the
 * reference. */
void agt_exchange_submit(struct rpc_call *call, struct agt_run *take_run);

/* Streams the events of a run from state event `from_seq` on. Takes the reference. */
void agt_exchange_watch(struct rpc_call *call, struct agt_run *take_run, uint32_t from_seq);

/* Lets an interrupted run go on, and streams its events from there. Takes the reference. */
void agt_exchange_resume(struct rpc_call *call, struct agt_run *take_run,
                         const struct agt_edits *edits);

/* The same for a run that ended STALLED: a new run goes on with the hint. Takes the reference. */
void agt_exchange_resume_hinted(struct rpc_call *call, struct agt_run *take_run, const char *hint);

/* Callbacks of the method table. */
void agt_exchange_pump(struct rpc_call *call);
void agt_exchange_cancel(struct rpc_call *call);
void agt_exchange_free(struct rpc_call *call);
