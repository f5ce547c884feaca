/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agt_exchange;
struct agt_run;
struct rpc_status;

/* What the routes of runs share. Loop thread. */

/*
 * Starts the run that the body asks for; `key` is its idempotency key (NULL:
 * none). Returns a reference, or NULL when the exchange was answered instead.
 * *ret_cancels: a client that leaves ends it.
 */
struct agt_run *agt_run_start_from_body(struct agt_exchange *exchange, const char *key,
                                        bool *ret_cancels);

/* The run that the path names, a reference; NULL when the exchange was answered instead. */
struct agt_run *agt_run_find_by_path(struct agt_exchange *exchange);

/* Answers with a status: 409 where the state of the run, or of the service, stands against a
 * request that is sound as such. */
void agt_run_refuse(struct agt_exchange *exchange, const struct rpc_status *status);

/* Answers with the id of the run once its first event is there. Takes the reference. */
void agt_run_submit(struct agt_exchange *exchange, struct agt_run *take_run);

/* Streams the events of a run that goes on without its reader. Takes the reference. */
void agt_run_stream(struct agt_exchange *exchange, struct agt_run *take_run, uint32_t from_seq);
