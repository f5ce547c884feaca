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

/* The attempt to repair: the last one. NULL before the first. */
static struct agt_attempt *last_attempt(struct agt_run *run)
{
    return run->attempt_count > 0 ? &run->attempts[run->attempt_count - 1] : NULL;
}

void agt_generator_enter(struct agt_run *run)
{
    agt_tools_reset(run);
    agt_generator_ask(run);
}

void agt_generator_ask(struct agt_run *run)
{
    const struct agt_attempt *failed = last_attempt(run);
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
    agt_model_ask(run, AGT_PROMPT_REPAIR, &prompt);
}

static char *make_diff(const struct agt_files *before, const struct agt_files *after)
{
    struct cr_buf diff;
    char *text;

    cr_buf_init(&diff, DIFF_MAX);
    if (agt_diff_add(AGT_SOLUTION_NAME, before->solution, after->solution, &diff) == 0)
        (void)agt_diff_add(AGT_TESTS_NAME, before->tests, after->tests, &diff);
    text = cr_buf_take_str(&diff);
    cr_buf_done(&diff);
    return text;
}

static void emit_files(struct agt_run *run)
{
    Crisol__Agent__V1__File solution = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File tests = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File *files[] = {&solution, &tests};
    Crisol__Agent__V1__FilesReady ready = CRISOL__AGENT__V1__FILES_READY__INIT;
    Crisol__Agent__V1__TestChange change;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char solution_name[] = AGT_SOLUTION_NAME;
    char tests_name[] = AGT_TESTS_NAME;

    solution.path = solution_name;
    solution.text = run->files.solution;
    tests.path = tests_name;
    tests.text = run->files.tests;
    ready.files = files;
    ready.n_files = 2;
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

static int read_answer(const struct agt_call *call, struct agt_files *ret_files, char *complaint,
                       size_t complaint_size)
{
    const struct agt_answer answer = {.text = call->text,
                                      .size = strlen(call->text),
                                      .call_name = call->call_name,
                                      .call_arguments = call->call_arguments};

    return agt_answer_read(&answer, ret_files, complaint, complaint_size);
}

void agt_generator_on_end(struct agt_run *run, struct agt_call *call)
{
    const struct agt_attempt *before = last_attempt(run);
    struct agt_files files = {NULL, NULL};
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
    r = read_answer(call, &files, complaint, sizeof(complaint));
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
    free(run->diff);
    run->diff = before ? make_diff(&before->files, &run->files) : NULL;
    emit_files(run);
    agt_run_set_outcome(run, AGT_OUTCOME_DONE);
}
