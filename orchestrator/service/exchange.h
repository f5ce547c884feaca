/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_call;

/*
 * Internal to orchestrator/service: a call that has a run of its own. The
 * events go out one at a time, each when the one before has left, so that a
 * slow client costs no memory; cancelling the call cancels the run. All on the
 * completion queue thread.
 */

/* What Generate and GenerateStream have in common. Everything is borrowed for the call. */
struct agt_ask {
    const char *task;
    int32_t max_iterations;
    const char *model;
    const Crisol__Sandbox__V1__Limits *limits; /* NULL: defaults */
    bool is_stream;
};

/* Starts the run, or ends the call with what is wrong. */
void agt_exchange_start(struct rpc_call *call, const struct agt_ask *ask);

/* Callbacks of the method table. */
void agt_exchange_pump(struct rpc_call *call);
void agt_exchange_cancel(struct rpc_call *call);
void agt_exchange_free(struct rpc_call *call);
