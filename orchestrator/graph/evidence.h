/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>

/* What the evaluator concludes from a sandbox run. */
struct agt_evidence {
    bool has_passed;
    Crisol__Agent__V1__AttemptCause cause;
    char summary[512]; /* one line of UTF-8; untrusted text in it */
};

/*
 * Judges at level EVIDENCE: passed means that the verdict is OK, a report is
 * there, it holds at least one test, all of them passed, none was skipped, its
 * numbers agree with each other, and the exit status measured outside the
 * sandbox is 0. Anything else did not pass. Pure.
 */
void agt_evidence_judge(const Crisol__Sandbox__V1__ExecuteResult *result,
                        struct agt_evidence *ret_evidence);

/* Judges at level OFF: exit status 0 is enough. Pure. */
void agt_evidence_judge_exit(const Crisol__Sandbox__V1__ExecuteResult *result,
                             struct agt_evidence *ret_evidence);

/* "ASSERTION" for a cause. */
const char *agt_cause_name(Crisol__Agent__V1__AttemptCause cause);
