/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/check_judge.h"
#include "orchestrator/graph/checks_parts.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/verify/score.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* A busy machine may let a check run into the time limit: run again. On stubs, an endless loop does
 * so as well, and once more, with the whole limit, is enough to tell. */
#define RERUNS_MAX 2
#define STUB_RERUNS_MAX 1
/* Of all mutants of an attempt together; those that are left then are not run. */
#define MUTANTS_WALL_MAX_MS 60000U

static void emit(struct agt_run *run, struct agt_check_result *result)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__VerificationCheck check;

    agt_check_fill(result, &check);
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_VERIFICATION_CHECK;
    event.verification_check = &check;
    agt_run_emit(run, &event);
}

static void book(struct agt_run *run, struct agt_check_result *result)
{
    Crisol__Agent__V1__VerificationCheck check;

    agt_check_fill(result, &check);
    agt_receipt_add_message(&run->receipt, AGT_RECEIPT_CHECK, run->iteration, &check.base);
}

/* The run that the feedback shows in place of that of the tests, which passed. */
static void keep_witness(struct agt_checks *checks, enum agt_check_kind kind, struct agt_call *call)
{
    bool is_flaky = kind == AGT_CHECK_CANARY && checks->refutation.cause == CAUSE(FLAKY);

    if (!is_flaky && kind != AGT_CHECK_OWN)
        return;
    checks->witness.result = cr_take_ptr(&call->result);
    if (kind == AGT_CHECK_CANARY)
        return;
    checks->witness.stdout_text = agt_sandbox_text(&call->out);
    checks->witness.stderr_text = agt_sandbox_text(&call->err);
}

static void cancel_from(struct agt_checks *checks, size_t index)
{
    for (; checks && index < AGT_CHECKS_MAX; index++) {
        if (checks->items[index].call)
            agt_call_cancel(checks->items[index].call);
        checks->items[index].retry_at_ns = 0;
    }
}

/*
 * Checks of a lower level go on: when the runner is patched, it is not the
 * tests that are to blame, whichever comes out first.
 */
static void refute(struct agt_checks *checks, size_t index, const struct agt_evidence *refutation)
{
    agt_checks_verification(checks)->checks[index].outcome = OUTCOME(REFUTED);
    checks->refuted_by = index;
    checks->refutation = *refutation;
    cancel_from(checks, index);
}

int agt_checks_new(struct agt_run *run, struct agt_checks **ret_checks)
{
    struct agt_checks *checks = calloc(1, sizeof(*checks));
    struct agt_evidence refutation;
    int r;

    if (!checks)
        return -ENOMEM;
    checks->refuted_by = AGT_CHECKS_MAX;
    agt_journal_draw(run, checks->plan.seed, sizeof(checks->plan.seed));
    checks->plan.has_older_names = run->format < 2;
    checks->plan.has_one_canary = run->format < 3;
    r = agt_check_plan_make(&run->files, run->verify, run->terms, &checks->plan);
    if (r < 0) {
        (void)agt_checks_free(checks);
        return r;
    }
    checks->plan.may_stop = run->has_numbered_checks;
    for (size_t i = 0; i < agt_checks_verification(checks)->check_count; i++) {
        struct agt_check_result *result = &agt_checks_verification(checks)->checks[i];

        if (result->outcome == OUTCOME(REFUTED)) {
            agt_check_refute(&checks->plan, i, CAUSE(VACUOUS_TESTS), AGT_PROVE_NOTHING,
                             &refutation);
            refute(checks, i, &refutation);
        }
        if (result->outcome != OUTCOME(UNSPECIFIED))
            emit(run, result);
    }
    agt_checks_number(checks);
    *ret_checks = checks;
    return 0;
}

struct agt_checks *agt_checks_free(struct agt_checks *checks)
{
    if (!checks)
        return NULL;
    agt_check_plan_done(&checks->plan);
    if (checks->witness.result)
        crisol__sandbox__v1__execute_result__free_unpacked(checks->witness.result, NULL);
    free(checks->witness.stdout_text);
    free(checks->witness.stderr_text);
    free(checks);
    return NULL;
}

/* Too little time says nothing yet. True when the check will be run again. */
static bool is_run_again(const struct agt_run *run, struct agt_check_item *item, uint32_t most,
                         const Crisol__Sandbox__V1__ExecuteResult *result)
{
    if (result->verdict->code != VERDICT(WALL_TIME_LIMIT) &&
        result->verdict->code != VERDICT(CPU_TIME_LIMIT))
        return false;
    if (item->reruns >= most)
        return false;
    item->reruns++;
    agt_check_wait(item, agt_engine_options(run->engine)->retry_base_ms);
    return true;
}

static void come_out(struct agt_run *run, struct agt_check_result *result)
{
    book(run, result);
    emit(run, result);
}

/* Those that would cost more time than mutants may. */
static void leave_out_mutants(struct agt_run *run, struct agt_checks *checks)
{
    for (size_t i = 0; i < agt_checks_verification(checks)->check_count; i++) {
        struct agt_check_result *result = &agt_checks_verification(checks)->checks[i];

        if (agt_checks_kind(checks, i) != AGT_CHECK_MUTANT || !agt_checks_needs_run(checks, i))
            continue;
        checks->items[i].retry_at_ns = 0;
        result->outcome = OUTCOME(NOT_APPLICABLE);
        (void)snprintf(result->summary, sizeof(result->summary),
                       "left out: the others took the %u s that mutants may take",
                       MUTANTS_WALL_MAX_MS / 1000);
        come_out(run, result);
    }
}

/* The check that counts the mutants comes out with the last of them. */
static void settle_mutants(struct agt_run *run, struct agt_checks *checks)
{
    struct agt_verification *verification = agt_checks_verification(checks);
    struct agt_mutant_score score;
    struct agt_check_result *result;
    struct agt_evidence refutation;
    size_t index = 0;

    while (index < verification->check_count && agt_checks_kind(checks, index) != AGT_CHECK_MUTANTS)
        index++;
    if (index == verification->check_count || index >= checks->refuted_by ||
        !agt_checks_is_open(checks, index))
        return;
    agt_mutant_score(verification, &score);
    if (score.wall_ms > MUTANTS_WALL_MAX_MS) {
        leave_out_mutants(run, checks);
        agt_mutant_score(verification, &score);
    }
    if (score.open > 0)
        return;
    result = &verification->checks[index];
    agt_mutant_score_judge(&score, checks->plan.tests_only_data, result);
    if (result->outcome == OUTCOME(REFUTED)) {
        agt_check_refute(&checks->plan, index, CAUSE(WEAK_TESTS),
                         "the tests notice too little: ", &refutation);
        refute(checks, index, &refutation);
    }
    come_out(run, result);
}

static size_t find_item(const struct agt_checks *checks, const struct agt_call *call)
{
    size_t index = 0;

    while (index < AGT_CHECKS_MAX - 1 && checks->items[index].call != call)
        index++;
    return index;
}

/* How often a check that ran out of time is run again. */
static uint32_t most_reruns(enum agt_check_kind kind)
{
    switch (kind) {
    case AGT_CHECK_CANARY:
        return RERUNS_MAX;
    case AGT_CHECK_MUTANT:
        return 0;
    default:
        return STUB_RERUNS_MAX;
    }
}

static void judge(struct agt_run *run, struct agt_checks *checks, size_t index,
                  struct agt_call *call)
{
    const struct agt_check_result *result = &agt_checks_verification(checks)->checks[index];
    enum agt_check_kind kind = agt_checks_kind(checks, index);
    struct agt_evidence refutation;

    if (is_run_again(run, &checks->items[index], most_reruns(kind), call->result))
        return;
    if (agt_check_judge(&checks->plan, index, run->execution->test_report, call, &refutation) < 0) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for a check.");
        agt_checks_cancel(checks);
    } else if (result->outcome == OUTCOME(REFUTED)) {
        refute(checks, index, &refutation);
        keep_witness(checks, kind, call);
    }
}

void agt_checks_on_end(struct agt_run *run, struct agt_checks *checks, struct agt_call *call)
{
    size_t index = find_item(checks, call);
    struct agt_check_item *item = &checks->items[index];
    struct agt_check_result *result = &agt_checks_verification(checks)->checks[index];
    const char *message;
    enum agt_fault fault;

    item->call = NULL;
    if (index > checks->refuted_by || run->stop != AGT_STOP_NONE ||
        run->outcome != AGT_OUTCOME_NONE)
        return; /* it was cancelled, and is not asked any more */
    fault = agt_fault_of_call(call, &message);
    if (fault != AGT_FAULT_NONE) {
        agt_check_wait(item, agt_fault_wait_ms(run, &item->tries, fault,
                                               call->status.retry_after_ms, message));
        if (run->outcome != AGT_OUTCOME_NONE)
            agt_checks_cancel(checks);
        return;
    }
    result->wall_ms = agt_check_wall_ms(call->result);
    judge(run, checks, index, call);
    if (agt_checks_is_open(checks, index))
        return;
    come_out(run, result);
    settle_mutants(run, checks);
}

bool agt_checks_are_over(const struct agt_checks *checks)
{
    if (agt_checks_are_in_flight(checks))
        return false;
    for (size_t i = 0; i < agt_checks_verification(checks)->check_count && i < checks->refuted_by;
         i++) {
        if (agt_checks_is_open(checks, i))
            return false;
    }
    return true;
}

const struct agt_evidence *agt_checks_refutation(const struct agt_checks *checks)
{
    return checks->refuted_by < AGT_CHECKS_MAX ? &checks->refutation : NULL;
}

const struct agt_witness *agt_checks_witness(const struct agt_checks *checks)
{
    return &checks->witness;
}

struct agt_verification *agt_checks_take_verification(struct agt_checks *checks)
{
    return cr_take_ptr(&checks->plan.verification);
}

void agt_checks_cancel(struct agt_checks *checks)
{
    cancel_from(checks, 0);
}
