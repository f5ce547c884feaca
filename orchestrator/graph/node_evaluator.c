/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/evidence.h"
#include "orchestrator/graph/feedback.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define ATTEMPT(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name

/* Tests that a result keeps of each attempt, and of how many the whole failure, which may have
 * 8 KiB; SandboxResult had more. */
#define CASES_KEPT 100
#define DETAILS_KEPT 8

/* The program runs before this is drawn, so it cannot have written it. */
static void make_delimiter(struct agt_run *run, char text[static 24])
{
    char digits[17];

    agt_journal_draw(run, digits, sizeof(digits)); /* it stands in a prompt, which is repeated */
    (void)snprintf(text, 24, "OUTPUT-%s", digits);
}

static char *make_feedback(struct agt_run *run, const struct agt_evidence *evidence)
{
    static const struct agt_witness no_witness = {NULL, NULL, NULL};
    const struct agt_witness *witness = run->checks ? agt_checks_witness(run->checks) : &no_witness;
    const char *stdout_text = witness->stdout_text ? witness->stdout_text : run->stdout_text;
    const char *stderr_text = witness->stderr_text ? witness->stderr_text : run->stderr_text;
    char delimiter[24];
    CR_AUTO_BUF struct cr_buf text = {0};
    struct agt_feedback feedback = {
        .evidence = evidence,
        .result = witness->result ? witness->result : run->execution,
        .files = &run->files,
        .stdout_text = stdout_text ? stdout_text : "",
        .stderr_text = stderr_text ? stderr_text : "",
        .repeats = agt_stall_find_failure(run, run->marks.failure),
        .diff = run->diff ? run->diff : "",
        .delimiter = delimiter,
        .budget = AGT_FEEDBACK_BUDGET,
    };

    cr_buf_init(&text, AGT_FEEDBACK_BUDGET);
    if (evidence->has_passed)
        return strdup("");
    make_delimiter(run, delimiter);
    return agt_feedback_add(&feedback, &text) == 0 ? cr_buf_take_str(&text) : NULL;
}

static uint32_t tests_passed(const struct agt_attempt *attempt)
{
    const Crisol__Sandbox__V1__TestReport *report = attempt->execution->test_report;

    /* Tests that show nothing count for nothing. */
    if (attempt->cause == ATTEMPT(TAMPER) || attempt->cause == ATTEMPT(VACUOUS_TESTS))
        return 0;
    return report && report->is_present ? report->passed : 0;
}

/* The later of two equal ones: it has seen more feedback. Only the best keeps its output. */
static void choose_best(struct agt_run *run)
{
    struct agt_attempt *latest = &run->attempts[run->attempt_count - 1];
    struct agt_attempt *best = &run->attempts[run->best];
    struct agt_attempt *loser = NULL;

    if (run->attempt_count == 1) {
        run->best = 0;
        return;
    }
    if (latest->has_passed || tests_passed(latest) >= tests_passed(best)) {
        run->best = run->attempt_count - 1;
        loser = best;
    } else {
        loser = latest;
    }
    free(loser->stdout_text);
    free(loser->stderr_text);
    loser->stdout_text = NULL;
    loser->stderr_text = NULL;
}

static void book_attempt(struct agt_run *run, const struct agt_attempt *attempt)
{
    struct agt_verification_message message;

    agt_receipt_add_message(&run->receipt, AGT_RECEIPT_EXECUTION, attempt->iteration,
                            &attempt->execution->base);
    if (!attempt->verification)
        return;
    agt_verification_fill(attempt->verification, &message);
    agt_receipt_add_message(&run->receipt, AGT_RECEIPT_VERIFICATION, attempt->iteration,
                            &message.base.base);
}

/* Moves everything of the current attempt into the list. */
static struct agt_attempt *add_attempt(struct agt_run *run, const struct agt_evidence *evidence,
                                       struct agt_verification *verification)
{
    char *feedback = make_feedback(run, evidence);
    struct agt_attempt *attempt;

    assert(run->attempt_count < AGT_ITERATIONS_MAX);
    attempt = &run->attempts[run->attempt_count];
    *attempt = (struct agt_attempt){
        .iteration = (int32_t)run->attempt_count + 1,
        .has_passed = evidence->has_passed,
        .cause = evidence->cause,
        .summary = strdup(evidence->summary),
        .feedback = feedback,
        .files = run->files,
        .diff = cr_take_ptr(&run->diff),
        .execution = cr_take_ptr(&run->execution),
        .stdout_text = cr_take_ptr(&run->stdout_text),
        .stderr_text = cr_take_ptr(&run->stderr_text),
        .verification = verification,
        .marks = run->marks,
        .audit = run->audit,
    };
    run->files = (struct agt_files)AGT_FILES_INIT;
    run->audit = (struct agt_audit){.is_change = false};
    run->attempt_count++;
    agt_sandbox_trim(attempt->execution, CASES_KEPT, DETAILS_KEPT);
    book_attempt(run, attempt);
    choose_best(run);
    return attempt;
}

static void emit_evaluation(struct agt_run *run, const struct agt_attempt *attempt)
{
    Crisol__Agent__V1__Evaluation evaluation = CRISOL__AGENT__V1__EVALUATION__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    struct agt_verification_message message;

    evaluation.passed = attempt->has_passed;
    evaluation.cause = attempt->cause;
    evaluation.summary = attempt->summary;
    evaluation.feedback = attempt->feedback;
    if (attempt->verification) {
        agt_verification_fill(attempt->verification, &message);
        evaluation.verification = &message.base;
    }
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_EVALUATION;
    event.evaluation = &evaluation;
    agt_run_emit(run, &event);
}

/*
 * Tests that a later answer may not weaken: those of the first attempt that
 * they say something about, and after that what the audit accepted.
 */
static int freeze_tests(struct agt_run *run, const struct agt_attempt *attempt)
{
    if (attempt->cause == ATTEMPT(TAMPER) || attempt->cause == ATTEMPT(VACUOUS_TESTS) ||
        attempt->cause == ATTEMPT(NO_TESTS))
        return 0;
    free(run->frozen_tests);
    run->frozen_tests = strdup(attempt->files.tests);
    run->frozen_at = attempt->iteration;
    return run->frozen_tests ? 0 : -ENOMEM;
}

/* Why the run ended: by what was wrong with the last attempt. */
static Crisol__Agent__V1__FailureCause exhausted_cause(const struct agt_attempt *attempt)
{
    if (attempt->cause == ATTEMPT(TAMPER))
        return CAUSE(TAMPER);
    if (attempt->cause == ATTEMPT(VACUOUS_TESTS) || attempt->cause == ATTEMPT(WEAK_TESTS))
        return CAUSE(VACUOUS_TESTS);
    return CAUSE(MAX_ITERATIONS);
}

/* Another attempt, or what is done about one that failed as an earlier one did (`same`; 0: none).
 */
static void repair(struct agt_run *run, const struct agt_attempt *attempt, int32_t same)
{
    enum agt_stall_step step = AGT_STALL_NONE;

    if (same > 0)
        step = agt_stall_escalate(run, "Attempt %d failed as attempt %d did", attempt->iteration,
                                  same);
    if (step == AGT_STALL_STOP)
        agt_run_set_outcome(run, AGT_OUTCOME_STALLED);
    else if (step == AGT_STALL_REPLAN)
        agt_run_set_outcome(run, AGT_OUTCOME_REPLAN);
    else
        agt_run_set_outcome(run, AGT_OUTCOME_REPAIR);
}

/* Most runs need one attempt or two. False: out of memory. */
static bool make_room(struct agt_run *run)
{
    size_t room = run->attempt_room > 0 ? 2 * run->attempt_room : 1;
    struct agt_attempt *attempts;

    if (run->attempt_count < run->attempt_room)
        return true;
    attempts = reallocarray(run->attempts, room, sizeof(*attempts));
    if (!attempts)
        return false;
    run->attempts = attempts;
    run->attempt_room = room;
    return true;
}

static void conclude(struct agt_run *run, const struct agt_evidence *evidence,
                     struct agt_verification *take_verification)
{
    struct agt_attempt *attempt;
    int32_t same;

    if (!make_room(run)) {
        free(take_verification);
        agt_run_fail(run, CAUSE(INTERNAL), "There was no memory for the attempt.");
        return;
    }
    agt_stall_mark_failure(evidence, run->execution, &run->marks);
    same = agt_stall_find_stalled(run, run->marks.failure);
    attempt = add_attempt(run, evidence, take_verification);

    if (!attempt->summary || !attempt->feedback || freeze_tests(run, attempt) < 0) {
        agt_run_fail(run, CAUSE(INTERNAL), "There was no memory for the feedback.");
        return;
    }
    emit_evaluation(run, attempt);
    if (attempt->has_passed) {
        agt_run_set_outcome(run, AGT_OUTCOME_PASSED);
        return;
    }
    agt_list_add(&run->errors, "Attempt %d: %s: %s", attempt->iteration,
                 agt_cause_name(attempt->cause), attempt->summary);
    if (attempt->iteration < run->max_iterations) {
        repair(run, attempt, same);
        return;
    }
    run->cause = exhausted_cause(attempt);
    agt_run_set_outcome(run, AGT_OUTCOME_EXHAUSTED);
}

static void judge_tests(const struct agt_run *run, struct agt_evidence *ret_evidence)
{
    if (run->verify == LEVEL(OFF))
        agt_evidence_judge_exit(run->execution, ret_evidence);
    else
        agt_evidence_judge(run->execution, ret_evidence);
}

/* Starts what is left of the checks; concludes when nothing is. */
static void advance(struct agt_run *run)
{
    const struct agt_evidence *refutation;
    struct agt_verification *verification;
    struct agt_evidence evidence;

    agt_checks_advance(run, run->checks);
    if (run->outcome != AGT_OUTCOME_NONE || run->stop != AGT_STOP_NONE ||
        !agt_checks_are_over(run->checks))
        return;
    judge_tests(run, &evidence);
    refutation = agt_checks_refutation(run->checks);
    verification = agt_checks_take_verification(run->checks);
    if (!refutation)
        agt_verification_conclude(verification);
    conclude(run, refutation ? refutation : &evidence, verification);
    run->checks = agt_checks_free(run->checks);
}

/* Without checks: what was shown is what the evidence shows. */
static void conclude_early(struct agt_run *run, const struct agt_evidence *evidence)
{
    struct agt_verification *verification = NULL;

    if (evidence->has_passed) {
        verification = calloc(1, sizeof(*verification));
        if (!verification) {
            agt_run_fail(run, CAUSE(INTERNAL), "There was no memory for the verdict.");
            return;
        }
        verification->requested = run->verify;
        agt_verification_conclude(verification);
    }
    conclude(run, evidence, verification);
}

void agt_evaluator_enter(struct agt_run *run)
{
    bool has_own_checks = run->terms && run->terms->n_checks > 0;
    struct agt_evidence evidence; /* has not passed until it is shown */

    judge_tests(run, &evidence);
    if (!evidence.has_passed || (run->verify <= LEVEL(EVIDENCE) && !has_own_checks)) {
        conclude_early(run, &evidence);
        return;
    }
    if (agt_checks_new(run, &run->checks) < 0) {
        agt_run_fail(run, CAUSE(INTERNAL), "There was no memory for the checks.");
        return;
    }
    advance(run);
}

void agt_evaluator_on_end(struct agt_run *run, struct agt_call *call)
{
    agt_checks_on_end(run, run->checks, call);
    advance(run);
}

void agt_evaluator_on_time(struct agt_run *run, int64_t now_ns)
{
    (void)now_ns; /* what is due is seen by its own clock */
    advance(run);
}
