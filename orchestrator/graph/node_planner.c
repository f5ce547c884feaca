/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/node_model.h"
#include "orchestrator/graph/prompt.h"
#include "orchestrator/graph/run.h"

#include <stdlib.h>
#include <string.h>

void agt_planner_enter(struct agt_run *run)
{
    const struct agt_attempt *failed = agt_run_last_attempt(run);
    struct agt_prompt prompt = {
        .task = run->task,
        .terms = run->terms,
        .complaint = run->complaint,
    };

    if (failed) { /* the attempts repeat themselves */
        prompt.plan = run->plan;
        prompt.failed_attempt = failed->iteration;
        prompt.feedback = failed->feedback;
        prompt.repetition = run->stall_note;
        prompt.hint = agt_stall_hint(run);
        prompt.advice = "The plan above has led there. Write another one, whole: another approach, "
                        "and for what failed the steps that avoid it.";
    }
    agt_model_ask(run, AGT_PROMPT_PLAN, &prompt);
}

static void emit_plan(struct agt_run *run)
{
    Crisol__Agent__V1__PlanReady ready = CRISOL__AGENT__V1__PLAN_READY__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    ready.plan = run->plan;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_PLAN_READY;
    event.plan_ready = &ready;
    agt_run_emit(run, &event);
}

void agt_planner_on_end(struct agt_run *run, struct agt_call *call)
{
    const char *text;
    size_t size;

    if (!agt_model_check(run, call))
        return;
    text = call->text + strspn(call->text, " \t\r\n");
    size = strlen(text);
    while (size > 0 && strchr(" \t\r\n", text[size - 1]))
        size--;
    if (size == 0) {
        agt_model_ask_again(run, "The plan was empty.");
        return;
    }
    if (size > AGT_PLAN_MAX) {
        agt_list_add(&run->warnings, "The plan was cut at %u bytes.", AGT_PLAN_MAX);
        size = cr_utf8_complete_prefix(text, AGT_PLAN_MAX);
    }
    free(run->plan);
    run->plan = strndup(text, size);
    if (!run->plan) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for the plan.");
        return;
    }
    agt_model_accept(run);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_PLAN, 0, run->plan);
    emit_plan(run);
    agt_run_set_outcome(run, AGT_OUTCOME_DONE);
}
