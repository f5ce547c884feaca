/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

struct agt_run;

/*
 * Internal to orchestrator/runs: calls `use` for every state event of a run
 * that has happened. `use` may take things out of the event. Returns 0 or
 * -ENOMEM.
 */
int agt_states_each(struct agt_run *run,
                    void (*use)(void *user, Crisol__Agent__V1__RunEvent *event), void *user);
