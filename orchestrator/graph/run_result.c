/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/response.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/receipt/sign.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

#define RESULT_MAX 2621440U /* bytes, 2.5 MiB */

/* The messages of a result, all borrowing from the run while it is packed. */
struct pieces {
    Crisol__Agent__V1__Attempt attempts[AGT_ITERATIONS_MAX];
    Crisol__Agent__V1__Attempt *attempt_list[AGT_ITERATIONS_MAX];
    struct agt_files_message files[AGT_ITERATIONS_MAX + 1];
    Crisol__Agent__V1__ExecutionResult execution;
    struct agt_verification_message verifications[AGT_ITERATIONS_MAX];
    Crisol__Agent__V1__TestChange changes[AGT_ITERATIONS_MAX];
    Crisol__Agent__V1__Verification nothing; /* shown */
    struct cr_buf final_response;
    char empty[1];
};

static char *text_or_empty(struct pieces *pieces, char *text)
{
    return text ? text : pieces->empty;
}

/* What became of the change of the tests, if there was one. */
static void add_audit(const struct agt_run *run, struct pieces *pieces, size_t index)
{
    const struct agt_attempt *attempt = &run->attempts[index];

    if (!attempt->audit.is_change)
        return;
    agt_audit_fill(&attempt->audit, &pieces->changes[index]);
    pieces->attempts[index].test_change = &pieces->changes[index];
}

static void add_attempts(const struct agt_run *run, struct pieces *pieces,
                         Crisol__Agent__V1__RunResult *result)
{
    static const Crisol__Agent__V1__Attempt blank = CRISOL__AGENT__V1__ATTEMPT__INIT;

    for (size_t i = 0; i < run->attempt_count; i++) {
        const struct agt_attempt *from = &run->attempts[i];
        Crisol__Agent__V1__Attempt *to = &pieces->attempts[i];

        *to = blank;
        to->iteration = from->iteration;
        to->passed = from->has_passed;
        to->cause = from->cause;
        to->summary = text_or_empty(pieces, from->summary);
        to->feedback = text_or_empty(pieces, from->feedback);
        agt_files_fill(&from->files, &pieces->files[i]);
        to->files = pieces->files[i].list;
        to->n_files = pieces->files[i].count;
        to->diff = text_or_empty(pieces, from->diff);
        to->execution = from->execution;
        add_audit(run, pieces, i);
        if (from->verification) {
            agt_verification_fill(from->verification, &pieces->verifications[i]);
            to->verification = &pieces->verifications[i].base;
        }
        pieces->attempt_list[i] = to;
    }
    result->attempts = pieces->attempt_list;
    result->n_attempts = run->attempt_count;
    result->iterations = (int32_t)run->attempt_count;
}

static void add_best(const struct agt_run *run, struct pieces *pieces,
                     Crisol__Agent__V1__RunResult *result)
{
    static const Crisol__Agent__V1__ExecutionResult blank =
        CRISOL__AGENT__V1__EXECUTION_RESULT__INIT;
    Crisol__Agent__V1__ExecutionResult *execution = &pieces->execution;
    const struct agt_attempt *best;

    if (run->attempt_count == 0) { /* files that did not reach a verdict are better than none */
        if (run->files.solution) {
            agt_files_fill(&run->files, &pieces->files[AGT_ITERATIONS_MAX]);
            result->files = pieces->files[AGT_ITERATIONS_MAX].list;
            result->n_files = pieces->files[AGT_ITERATIONS_MAX].count;
        }
        return;
    }
    best = &run->attempts[run->best];
    *execution = blank;
    execution->exit_code = best->execution->exit_code;
    execution->stdout_text = text_or_empty(pieces, best->stdout_text);
    execution->stderr_text = text_or_empty(pieces, best->stderr_text);
    if (best->execution->usage)
        execution->duration_seconds = (double)best->execution->usage->wall_us / 1e6;
    if (best->execution->verdict)
        execution->timed_out = best->execution->verdict->code == VERDICT(WALL_TIME_LIMIT);
    execution->success = best->has_passed;
    execution->detail = best->execution;
    result->execution_result = execution;
    result->files = pieces->files[run->best].list;
    result->n_files = pieces->files[run->best].count;
}

static void add_verification(const struct agt_run *run, struct pieces *pieces,
                             Crisol__Agent__V1__RunResult *result)
{
    static const Crisol__Agent__V1__Verification blank = CRISOL__AGENT__V1__VERIFICATION__INIT;

    pieces->nothing = blank;
    pieces->nothing.level = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_OFF;
    pieces->nothing.level_requested = run->verify;
    result->verification = &pieces->nothing;
    if (run->node == AGT_NODE_SUCCESS)
        result->verification = &pieces->verifications[run->best].base;
}

static Crisol__Agent__V1__RunStatus status(const struct agt_run *run)
{
    if (run->node == AGT_NODE_SUCCESS)
        return CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;
    if (run->stop == AGT_STOP_CANCEL)
        return CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_CANCELLED;
    return CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_FAILED;
}

static void fill(struct agt_run *run, struct pieces *pieces, Crisol__Agent__V1__RunResult *result)
{
    bool has_failed = status(run) == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_FAILED;

    cr_buf_init(&pieces->final_response, (size_t)16 * 1024);
    if (has_failed && run->failure)
        agt_list_add(&run->errors, "%s", run->failure);
    result->run_id = run->id;
    result->task = run->task;
    result->status = status(run);
    if (has_failed)
        result->cause = run->cause;
    result->plan = text_or_empty(pieces, run->plan);
    add_attempts(run, pieces, result);
    add_best(run, pieces, result);
    add_verification(run, pieces, result);
    agt_response_add(run, &pieces->final_response);
    if (pieces->final_response.size > 0)
        result->final_response = (char *)pieces->final_response.data;
    result->error_history = run->errors.items;
    result->n_error_history = run->errors.count;
    result->model_requested = text_or_empty(pieces, run->model_requested);
    result->models_served = run->models_served.items;
    result->n_models_served = run->models_served.count;
    result->warnings = run->warnings.items;
    result->n_warnings = run->warnings.count;
    result->usage = &run->usage;
    result->elapsed_ms = (uint32_t)((cr_clock_mono_ns() - run->started_ns) / CR_NS_PER_MS);
}

/* Clients take 4 MiB unless told otherwise, and a result that is too large would tell nothing. */
static void limit(struct agt_run *run, struct pieces *pieces, Crisol__Agent__V1__RunResult *result)
{
    if (crisol__agent__v1__run_result__get_packed_size(result) <= RESULT_MAX)
        return;
    for (size_t i = 0; i < run->attempt_count; i++) {
        if (i == run->best)
            continue;
        pieces->attempts[i].n_files = 0;
        pieces->attempts[i].diff = pieces->empty;
    }
    agt_list_add(&run->warnings, "The result would be too large: files and differences of the "
                                 "other attempts are left out. The events of the run had them.");
    result->warnings = run->warnings.items;
    result->n_warnings = run->warnings.count;
}

/* Without a signature the receipt still shows that its parts belong together. */
static void sign(const struct agt_run *run, Crisol__Agent__V1__Receipt *receipt)
{
    const struct agt_signer *signer = run->engine ? agt_engine_options(run->engine)->signer : NULL;

    if (receipt && signer && agt_receipt_sign(signer, receipt) < 0)
        cr_log_error("run: the receipt could not be signed, leaving it so run=%s", run->id);
}

void agt_run_emit_result(struct agt_run *run)
{
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    struct pieces pieces = {.empty = ""};
    Crisol__Agent__V1__Receipt *receipt = NULL;

    fill(run, &pieces, &result);
    limit(run, &pieces, &result);
    if (agt_receipt_conclude(&run->receipt, &result, &receipt) < 0)
        cr_log_error("run: no memory for the receipt, leaving it out run=%s", run->id);
    sign(run, receipt);
    result.receipt = receipt;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    event.result = &result;
    agt_run_emit(run, &event);
    agt_receipt_free_message(receipt);
    cr_buf_done(&pieces.final_response);
}
