/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_model_request;
struct agt_run;
struct agt_run_spec;
struct rpc_status;

/*
 * Internal to orchestrator/graph: what a run may spend. Before each question
 * to the model as much is set aside as it can cost, and the question is held
 * to that; behind it what it did cost is booked.
 */

/* The parameters that the operator has set for the run's model, and no more than the budget leaves.
 * False: it leaves too little; then the run has failed. */
bool agt_budget_reserve(struct agt_run *run, struct agt_model_request *request);

/* Fills in what these tokens cost, where the price is known. */
void agt_budget_settle(const struct agt_run *run, Crisol__Agent__V1__ModelUsage *usage);

/* Wall clock of the run, in ms: the service's bound, or the budget's if that is lower. */
int64_t agt_budget_wall_ms(const struct agt_run *run, int64_t bound_ms);

/* The price of the run's model: that of the store, or of the catalog. It holds for the whole run.
 */
void agt_budget_set_price(struct agt_run *run, const struct agt_run_spec *spec);

/* False, with a violation: its cost is to be bounded, and its price is not known. */
bool agt_budget_is_payable(const struct agt_run *run, struct rpc_status *ret_status);
