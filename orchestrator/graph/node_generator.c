/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/answer.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/diff.h"
#include "orchestrator/graph/node_model.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/tool.h"

#include <stdlib.h>
#include <string.h>

#define DIFF_MAX 32768U

void agt_generator_enter(struct agt_run *run)
{
    agt_tools_reset(run);
    agt_generator_ask(run);
}

/* The one that the next has to improve: behind a hint, the best that there is. */
static const struct agt_attempt *attempt_to_repair(const struct agt_run *run)
{
    if (run->hints_taken > 0 && run->hinted_at == run->attempt_count && run->attempt_count > 0)
        return &run->attempts[run->best];
    return agt_run_last_attempt(run);
}

void agt_generator_ask(struct agt_run *run)
{
    const struct agt_attempt *failed = attempt_to_repair(run);
    struct agt_prompt prompt = {
        .task = run->task,
        .terms = run->terms,
        .plan = run->plan,
        .complaint = run->complaint,
        .rules = agt_answer_rules(agt_model_form(run)),
    };

    if (!failed) {
        agt_model_ask(run, AGT_PROMPT_CODE, &prompt);
        return;
    }
    prompt.failed_attempt = failed->iteration;
    prompt.feedback = failed->feedback;
    prompt.files = &failed->files;
    prompt.repetition = run->stall_note;
    prompt.advice = agt_stall_advice(run);
    prompt.hint = agt_stall_hint(run);
    prompt.hides_solution = run->stall_note && run->stall_step >= AGT_STALL_VARY;
    agt_model_ask(run, AGT_PROMPT_REPAIR, &prompt);
}

/* Of the further files: changed, new, and left out. */
static void add_more_diffs(const struct agt_files *before, const struct agt_files *after,
                           struct cr_buf *diff)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < after->more_count; i++) {
        const char *old = agt_files_find(before, after->more[i].path);

        r = agt_diff_add(after->more[i].path, old ? old : "", after->more[i].text, diff);
    }
    for (size_t i = 0; r == 0 && i < before->more_count; i++) {
        if (!agt_files_find(after, before->more[i].path))
            r = agt_diff_add(before->more[i].path, before->more[i].text, "", diff);
    }
}

static char *make_diff(const struct agt_files *before, const struct agt_files *after)
{
    struct cr_buf diff;
    char *text;
    int r;

    cr_buf_init(&diff, DIFF_MAX);
    r = agt_diff_add(AGT_SOLUTION_NAME, before->solution, after->solution, &diff);
    if (r == 0)
        r = agt_diff_add(AGT_TESTS_NAME, before->tests, after->tests, &diff);
    if (r == 0)
        add_more_diffs(before, after, &diff);
    text = cr_buf_take_str(&diff);
    cr_buf_done(&diff);
    return text;
}

static void emit_files(struct agt_run *run)
{
    struct agt_files_message files;
    Crisol__Agent__V1__FilesReady ready = CRISOL__AGENT__V1__FILES_READY__INIT;
    Crisol__Agent__V1__TestChange change;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    agt_files_fill(&run->files, &files);
    ready.files = files.list;
    ready.n_files = files.count;
    if (run->diff)
        ready.diff = run->diff;
    if (run->audit.is_change) {
        agt_audit_fill(&run->audit, &change);
        ready.test_change = &change;
    }
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_FILES_READY;
    event.files_ready = &ready;
    agt_run_emit(run, &event);
}

/*
 * Puts the frozen tests in place of those of the answer, unless it changed
 * them in a way that is allowed. Returns 0 or -ENOMEM.
 */
static int keep_frozen_tests(struct agt_run *run)
{
    char *frozen;

    run->audit = (struct agt_audit){.is_change = false};
    if (!run->frozen_tests)
        return 0;
    if (agt_audit_tests(run->frozen_tests, run->files.tests, &run->audit) < 0)
        return -ENOMEM;
    if (run->audit.is_change && run->audit.accepted) {
        agt_list_add(&run->warnings,
                     "Attempt %d changed the tests: %u test functions, %u "
                     "assertions; before: %u and %u.",
                     run->iteration, run->audit.after.tests, run->audit.after.asserts,
                     run->audit.before.tests, run->audit.before.asserts);
        return 0;
    }
    frozen = strdup(run->frozen_tests);
    if (!frozen)
        return -ENOMEM;
    free(run->files.tests);
    run->files.tests = frozen;
    if (run->audit.is_change)
        agt_list_add(&run->warnings,
                     "Attempt %d: the answer's tests were not taken, those of attempt %d were "
                     "kept. %s",
                     run->iteration, run->frozen_at, run->audit.reason);
    return 0;
}

static int read_answer(struct agt_run *run, const struct agt_call *call,
                       struct agt_files *ret_files, char *complaint, size_t complaint_size)
{
    struct agt_answer answer = {.text = call->text,
                                .size = strlen(call->text),
                                .terms = run->terms,
                                .call_name = call->call_name,
                                .call_arguments = call->call_arguments};

    for (size_t i = 0; i < call->more_call_count; i++) {
        if (strcmp(call->more_calls[i].name, AGT_SUBMIT_NAME) != 0)
            continue;
        answer.call_name = call->more_calls[i].name;
        answer.call_arguments = call->more_calls[i].arguments;
    }
    if (agt_answer_has_thoughts(&answer))
        agt_list_add(&run->warnings, "The model wrote what it thought into an answer as if it were "
                                     "a part of it; that was left out.");
    return agt_answer_read(&answer, ret_files, complaint, complaint_size);
}

/* Code that was run before would give what it gave then: nothing is run. */
static bool is_repetition(struct agt_run *run)
{
    int32_t same;

    agt_stall_mark_code(&run->files, &run->marks);
    same = agt_stall_find_code(run, run->marks.code);
    if (same == 0) {
        agt_stall_settle(run);
        return false;
    }
    switch (agt_stall_escalate(run, "The answer for attempt %d was the code of attempt %d again",
                               run->iteration, same)) {
    case AGT_STALL_STOP:
        agt_run_set_outcome(run, AGT_OUTCOME_STALLED);
        break;
    case AGT_STALL_REPLAN:
        agt_run_set_outcome(run, AGT_OUTCOME_REPLAN);
        break;
    default:
        agt_run_set_outcome(run, AGT_OUTCOME_REPEATED);
        break;
    }
    return true;
}

static void note_diff(struct agt_run *run)
{
    const struct agt_attempt *before = agt_run_last_attempt(run);

    free(run->diff);
    run->diff = before ? make_diff(&before->files, &run->files) : NULL;
}

void agt_generator_note_edits(struct agt_run *run)
{
    agt_stall_mark_code(&run->files, &run->marks);
    note_diff(run);
    run->audit = (struct agt_audit){.is_change = false};
    if (!run->frozen_tests || agt_audit_tests(run->frozen_tests, run->files.tests, &run->audit) < 0)
        return;
    run->audit.accepted = true; /* whoever edits them answers for them */
    run->audit.reason[0] = '\0';
}

void agt_generator_on_end(struct agt_run *run, struct agt_call *call)
{
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    int r;

    if (!call->model) {
        agt_tool_on_end(run, call);
        return;
    }
    if (!agt_model_check(run, call))
        return;
    if (agt_tool_is_called(call)) {
        agt_tool_begin(run, call);
        return;
    }
    r = read_answer(run, call, &files, complaint, sizeof(complaint));
    if (r == -EINVAL) {
        agt_model_ask_again(run, complaint);
        return;
    }
    if (r < 0) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for the files.");
        return;
    }
    agt_model_accept(run);
    agt_files_done(&run->files);
    run->files = files;
    if (keep_frozen_tests(run) < 0) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for the tests.");
        return;
    }
    if (is_repetition(run))
        return;
    note_diff(run);
    emit_files(run);
    agt_run_set_outcome(run, AGT_OUTCOME_DONE);
}
