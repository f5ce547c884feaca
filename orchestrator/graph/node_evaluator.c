/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/evidence.h"
#include "orchestrator/graph/feedback.h"
#include "orchestrator/graph/run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name

/* Tests that a result keeps of each attempt, and of how many the whole failure, which may have
 * 8 KiB; SandboxResult had more. */
#define CASES_KEPT 100
#define DETAILS_KEPT 8

/* The program runs before this is drawn, so it cannot have written it. */
static void make_delimiter(char text[static 24])
{
    uint64_t number = 0;

    (void)!getrandom(&number, sizeof(number), 0);
    (void)snprintf(text, 24, "OUTPUT-%016llx", (unsigned long long)number);
}

static bool is_repeated(const struct agt_run *run, const struct agt_evidence *evidence)
{
    const struct agt_attempt *before;

    if (run->attempt_count == 0)
        return false;
    before = &run->attempts[run->attempt_count - 1];
    return before->cause == evidence->cause && strcmp(before->summary, evidence->summary) == 0;
}

static char *make_feedback(const struct agt_run *run, const struct agt_evidence *evidence)
{
    char delimiter[24];
    CR_AUTO_BUF struct cr_buf text = {0};
    struct agt_feedback feedback = {
        .evidence = evidence,
        .result = run->execution,
        .files = &run->files,
        .stdout_text = run->stdout_text ? run->stdout_text : "",
        .stderr_text = run->stderr_text ? run->stderr_text : "",
        .is_repeated = is_repeated(run, evidence),
        .delimiter = delimiter,
        .budget = AGT_FEEDBACK_BUDGET,
    };

    make_delimiter(delimiter);
    cr_buf_init(&text, AGT_FEEDBACK_BUDGET);
    if (evidence->has_passed)
        return strdup("");
    return agt_feedback_add(&feedback, &text) == 0 ? cr_buf_take_str(&text) : NULL;
}

static uint32_t tests_passed(const struct agt_attempt *attempt)
{
    const Crisol__Sandbox__V1__TestReport *report = attempt->execution->test_report;

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

/* Moves everything of the current attempt into the list. */
static struct agt_attempt *add_attempt(struct agt_run *run, const struct agt_evidence *evidence)
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
    };
    run->files = (struct agt_files){NULL, NULL};
    run->attempt_count++;
    agt_sandbox_trim(attempt->execution, CASES_KEPT, DETAILS_KEPT);
    choose_best(run);
    return attempt;
}

static void emit_evaluation(struct agt_run *run, const struct agt_attempt *attempt)
{
    Crisol__Agent__V1__Verification verification = CRISOL__AGENT__V1__VERIFICATION__INIT;
    Crisol__Agent__V1__Evaluation evaluation = CRISOL__AGENT__V1__EVALUATION__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char shows[512];
    char does_not_stop[512];

    (void)snprintf(shows, sizeof(shows), "%s", agt_evidence_shows);
    (void)snprintf(does_not_stop, sizeof(does_not_stop), "%s", agt_evidence_does_not_stop);
    evaluation.passed = attempt->has_passed;
    evaluation.cause = attempt->cause;
    evaluation.summary = attempt->summary;
    evaluation.feedback = attempt->feedback;
    if (attempt->has_passed) {
        verification.level = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE;
        verification.shows = shows;
        verification.does_not_stop = does_not_stop;
        evaluation.verification = &verification;
    }
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_EVALUATION;
    event.evaluation = &evaluation;
    agt_run_emit(run, &event);
}

void agt_evaluator_enter(struct agt_run *run)
{
    struct agt_evidence evidence;
    struct agt_attempt *attempt;

    agt_evidence_judge(run->execution, &evidence);
    attempt = add_attempt(run, &evidence);
    if (!attempt->summary || !attempt->feedback) {
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
        agt_run_set_outcome(run, AGT_OUTCOME_REPAIR);
        return;
    }
    run->cause = CAUSE(MAX_ITERATIONS);
    agt_run_set_outcome(run, AGT_OUTCOME_EXHAUSTED);
}
