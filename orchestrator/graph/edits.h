/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/graph.h"

struct agt_files;
struct rpc_status;

/* What a person puts in place of what an interrupted run has. */

/*
 * Adds a violation for each edit that the run could not take as it is: another node's, a path or a
 * text that no answer may have, further files beyond what the task or the bounds allow. `files` is
 * what the last answer has; only its further files are looked at. `terms` may be NULL. Pure.
 */
void agt_edits_check(const struct agt_edits *edits, enum agt_node node,
                     const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                     struct rpc_status *status);
