/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/node_model.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/answer.h"
#include "orchestrator/graph/budget.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/tool.h"
#include "orchestrator/graph/usage.h"

#include <stdlib.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name

static const char *purpose(enum agt_prompt_kind kind)
{
    static const char *const names[] = {
        [AGT_PROMPT_PLAN] = "plan",
        [AGT_PROMPT_CODE] = "code",
        [AGT_PROMPT_REPAIR] = "repair",
    };

    return names[kind];
}

/* The instruction and the prompt are the two things that a provider gets. */
static void book_prompt(struct agt_run *run, const struct agt_model_request *request)
{
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_PROMPT, run->iteration, request->system);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_PROMPT, run->iteration, request->prompt);
}

static void book_answer(struct agt_run *run, const struct agt_call *call)
{
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_SERVED, run->iteration, call->model_served);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_ANSWER, run->iteration, call->text);
    if (call->call_name && call->call_name[0])
        agt_receipt_add_text(&run->receipt, AGT_RECEIPT_ANSWER, run->iteration,
                             call->call_arguments);
    for (size_t i = 0; i < call->more_call_count; i++)
        agt_receipt_add_text(&run->receipt, AGT_RECEIPT_ANSWER, run->iteration,
                             call->more_calls[i].arguments);
}

Crisol__Agent__V1__AnswerForm agt_model_form(const struct agt_run *run)
{
    return run->is_plain
               ? CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_FENCED
               : agt_answer_form(run->terms ? run->terms->answer_form : 0, run->format_retries);
}

/* What the generator may call, and what form its answer is held to. */
static void shape_request(const struct agt_run *run, struct agt_model_request *request)
{
    /* Both, or one of them: the first is the tool, the second hands in. */
    const struct agt_model_function submit = {
        .name = AGT_SUBMIT_NAME,
        .description =
            agt_files_has_more(run->terms)
                ? "Hands in the whole of test_solution.py, of solution.py and of the further files."
                : "Hands in the whole of test_solution.py and of solution.py.",
        .parameters = agt_answer_schema(run->terms),
    };
    Crisol__Agent__V1__AnswerForm form = agt_model_form(run);
    bool has_tool = false;
    uint32_t left = agt_tools_left(run, &has_tool);

    if (form == CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_JSON) {
        request->schema = agt_answer_schema(run->terms);
        return;
    }
    has_tool = has_tool && !run->is_plain;
    if (has_tool)
        request->functions[request->function_count++] = agt_tool_function;
    request->turns = agt_tools_turns(run, &request->turn_count);
    if (form == CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_CALL) {
        request->functions[request->function_count++] = submit;
        request->must_call = true;
        request->only = has_tool && left == 0 ? AGT_SUBMIT_NAME : NULL;
    } else if (has_tool && left == 0) {
        request->may_not_call = true;
    }
}

void agt_model_ask(struct agt_run *run, enum agt_prompt_kind kind, const struct agt_prompt *prompt)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    struct cr_err err = CR_ERR_INIT;
    struct agt_model_request request = {
        .model = run->model[0] ? run->model : NULL,
        .system = agt_prompt_system(kind, run->terms),
        .purpose = purpose(kind),
        .wants_variety = run->stall_note && run->stall_step >= AGT_STALL_VARY,
        .deadline_ns = run->deadline_ns,
    };
    int r;

    if (kind != AGT_PROMPT_PLAN)
        shape_request(run, &request);
    cr_buf_init(&text, AGT_PROMPT_MAX);
    r = agt_prompt_add(prompt, &text);
    if (r == 0) {
        request.prompt = cr_buf_str(&text);
        if (!agt_budget_reserve(run, &request))
            return;
        book_prompt(run, &request);
        r = agt_call_start_model(run, &request, &err);
    }
    if (r < 0)
        agt_run_fail(run, CAUSE(INTERNAL), "The model could not be asked (error %d).", -r);
}

static void emit_call(struct agt_run *run, const struct agt_call *call)
{
    Crisol__Agent__V1__ModelUsage usage = CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    Crisol__Agent__V1__ModelCall ended = CRISOL__AGENT__V1__MODEL_CALL__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    usage.calls = call->calls;
    usage.retries = call->calls > 0 ? call->calls - 1 : 0;
    usage.prompt_tokens = call->usage.prompt_tokens;
    usage.answer_tokens = call->usage.answer_tokens;
    usage.thought_tokens = call->usage.thought_tokens;
    usage.total_tokens = call->usage.total_tokens;
    agt_budget_settle(run, &usage);
    if (call->model_requested)
        ended.model_requested = call->model_requested;
    if (call->model_served)
        ended.model_served = call->model_served;
    if (call->finish_reason)
        ended.finish_reason = call->finish_reason;
    ended.usage = &usage;
    ended.elapsed_ms = call->elapsed_ms;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_CALL;
    event.model_call = &ended;
    agt_run_emit(run, &event);

    agt_usage_add(&run->usage, &usage);
    run->usage.cost_is_known = run->has_price;
}

/* Who answered, and a warning the first time that it is not who was asked. */
static void book_served(struct agt_run *run, const struct agt_call *call)
{
    const char *served = call->model_served;

    if (!served || !served[0])
        return;
    for (size_t i = 0; i < run->models_served.count; i++) {
        if (strcmp(run->models_served.items[i], served) == 0)
            return;
    }
    agt_list_add(&run->models_served, "%s", served);
    if (call->model_requested && strcmp(served, call->model_requested) != 0)
        agt_list_add(&run->warnings, "Model '%s' was asked for, but '%s' answered.",
                     call->model_requested, served);
}

/* The ends that no further question can mend. */
static const struct {
    Crisol__Agent__V1__FailureCause cause;
    const char *text;
} ends[] = {
    [AGT_MODEL_BLOCKED] = {CAUSE(MODEL_BLOCKED), "The provider refused for its policy"},
    [AGT_MODEL_QUOTA] = {CAUSE(MODEL_QUOTA), "The provider's quota is used up"},
    [AGT_MODEL_AUTH] = {CAUSE(MODEL_AUTH), "The provider refused the key"},
    [AGT_MODEL_GONE] = {CAUSE(MODEL_GONE), "The model does not exist (any more)"},
    [AGT_MODEL_BAD_REQUEST] = {CAUSE(INTERNAL), "The provider did not understand the request"},
    [AGT_MODEL_UNAVAILABLE] = {CAUSE(MODEL_UNAVAILABLE), "The provider could not be reached"},
    [AGT_MODEL_DEADLINE] = {CAUSE(DEADLINE), "The model did not answer in time"},
    [AGT_MODEL_CANCELLED] = {CAUSE(INTERNAL), "The model call was cancelled"},
};

_Static_assert(AGT_MODEL_CANCELLED + 1 == AGT_MODEL_END_COUNT, "one row per end");
_Static_assert(CR_ARRAY_SIZE(ends) == AGT_MODEL_END_COUNT, "one row per end");

static Crisol__Agent__V1__FailureCause cause_of(const struct agt_run *run, enum agt_model_end end)
{
    if (end == AGT_MODEL_DEADLINE && run->has_wall_budget)
        return CAUSE(BUDGET);
    return ends[end].cause;
}

/*
 * Not every server knows schemas and functions. One that refuses a request with
 * them is asked once more without, which is no fault of an answer.
 */
static bool go_plain(struct agt_run *run, const char *message)
{
    bool has_tool = false;

    (void)agt_tools_left(run, &has_tool);
    if (run->node != AGT_NODE_GENERATOR || run->is_plain ||
        (!has_tool && agt_model_form(run) == CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_FENCED))
        return false;
    agt_list_add(&run->warnings,
                 "The provider refused a schema or functions; it was asked for fenced blocks: %s",
                 message);
    run->is_plain = true;
    agt_run_set_outcome(run, AGT_OUTCOME_ASK_AGAIN);
    return true;
}

bool agt_model_check(struct agt_run *run, const struct agt_call *call)
{
    const char *message = call->message ? call->message : "";

    emit_call(run, call);
    book_served(run, call);
    book_answer(run, call);
    if (run->stop != AGT_STOP_NONE)
        return false; /* the caller of the node ends it */
    switch (call->model_end) {
    case AGT_MODEL_OK:
        return true;
    case AGT_MODEL_TRUNCATED:
        agt_model_ask_again(run, "It was cut off because it was too long. Answer shorter: fewer "
                                 "words around the files, and no needless comments in them.");
        return false;
    case AGT_MODEL_BAD_ANSWER:
        agt_model_ask_again(run, message[0] ? message : "It was empty.");
        return false;
    default:
        if (call->model_end == AGT_MODEL_BAD_REQUEST && go_plain(run, message))
            return false;
        agt_run_fail(run, cause_of(run, call->model_end), "%s%s%s", ends[call->model_end].text,
                     message[0] ? ": " : ".", message);
        return false;
    }
}

void agt_model_ask_again(struct agt_run *run, const char *complaint)
{
    const uint32_t most = agt_node_policy(run->node)->retries;

    if (run->format_retries >= most) {
        agt_run_fail(run, CAUSE(MODEL_OUTPUT),
                     "The model's answer could not be used, %u times in a row: %s", most + 1,
                     complaint);
        return;
    }
    run->format_retries++;
    agt_list_add(&run->warnings, "An answer of the model was refused and asked for again: %s",
                 complaint);
    free(run->complaint);
    run->complaint = strdup(complaint);
    agt_run_set_outcome(run, AGT_OUTCOME_ASK_AGAIN);
}

void agt_model_accept(struct agt_run *run)
{
    free(run->complaint);
    run->complaint = NULL;
    run->format_retries = 0;
}
