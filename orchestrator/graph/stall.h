/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/evidence.h"
#include "orchestrator/receipt/receipt.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct agt_files;
struct agt_run;

/*
 * Internal to orchestrator/graph: runs that go round in circles. Code is the
 * same when its tokens are, whatever its comments and layout say; a failure is
 * the same when cause, failing tests and message are, numbers that change from
 * run to run left aside. Outcomes are compared, not what the model says.
 */

#define AGT_STALL_SAME_MIN 2U
#define AGT_STALL_SAME_MAX 100U

/* As the attempts of a run may be the same so often before something is done about it. */
struct agt_stall_rules {
    uint32_t same_code;
    uint32_t same_failure;
};

/* What the task says, else `fallback`, else 2. `terms` may be NULL. Pure. */
void agt_stall_set_rules(const Crisol__Agent__V1__TaskTerms *terms,
                         const struct agt_stall_rules *fallback, struct agt_stall_rules *ret_rules);

/* What makes attempts comparable. "": none. */
struct agt_stall_marks {
    char code[AGT_RECEIPT_DIGEST_SIZE];
    char failure[AGT_RECEIPT_DIGEST_SIZE];
};

/* Fill in a digest; "" when memory is gone, so that nothing looks repeated. Pure. */
void agt_stall_mark_code(const struct agt_files *files, struct agt_stall_marks *marks);
void agt_stall_mark_failure(const struct agt_evidence *evidence,
                            const Crisol__Sandbox__V1__ExecuteResult *result,
                            struct agt_stall_marks *marks);

/* What is done about a repetition; each once in a run, in this order. */
enum agt_stall_step {
    AGT_STALL_NONE,
    AGT_STALL_TELL,   /* the model is told what repeats itself */
    AGT_STALL_VARY,   /* it is asked for another approach, and not shown the old one */
    AGT_STALL_REPLAN, /* it makes another plan */
    AGT_STALL_STOP,   /* the run ends, and saves what is left of its attempts */
};

/* The first attempt with the same code as the current files, or 0; by the rules of the run:
 * 0 as long as it may come again. */
int32_t agt_stall_find_code(const struct agt_run *run, const char *digest);

/* The first attempt that failed in the same way, or 0. */
int32_t agt_stall_find_failure(const struct agt_run *run, const char *digest);

/* The same by the rules of the run: 0 as long as it may come again. */
int32_t agt_stall_find_stalled(const struct agt_run *run, const char *digest);

/*
 * Takes the next step: notes for the next prompt and the result what repeats
 * itself ("Attempt 2 failed as attempt 1 did"), and at the last one the cause
 * STALLED. Returns the step that was taken; NONE: a hint of the run was taken
 * in place of the last.
 */
enum agt_stall_step agt_stall_escalate(struct agt_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What a person said of it that is in force; NULL: nothing. The run's. */
const char *agt_stall_hint(const struct agt_run *run);

/* What the next prompt has to say about it; NULL: nothing. Static or the run's. */
const char *agt_stall_advice(const struct agt_run *run);

/* An answer of another kind came. */
void agt_stall_settle(struct agt_run *run);
