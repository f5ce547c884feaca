/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/evidence.h"

#include <stddef.h>

struct agt_call;
struct agt_check_plan;

/* Before what shows that tests are vacuous. */
#define AGT_PROVE_NOTHING "the tests prove nothing: "

/*
 * Judges what the run of a check gave: fills in outcome and summary of its
 * result. `before` is the report of the tests, which passed. When the check
 * refutes the attempt, *ret_refutation says why. Returns 0 or -ENOMEM. Pure.
 */
int agt_check_judge(struct agt_check_plan *plan, size_t index,
                    const Crisol__Sandbox__V1__TestReport *before, const struct agt_call *call,
                    struct agt_evidence *ret_refutation);

/* Fills in a refutation: "PREFIXsummary of the result". */
void agt_check_refute(const struct agt_check_plan *plan, size_t index,
                      Crisol__Agent__V1__AttemptCause cause, const char *prefix,
                      struct agt_evidence *ret_refutation);
