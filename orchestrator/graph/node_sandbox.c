/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* Beside the wall limit: waiting for a slot, building the box, killing, reading the report. */
#define OVERHEAD_MS 120000
#define WALL_DEFAULT_MS 10000
#define WAIT_MAX_MS 10000
/* Tests whose whole failure an event carries: 8 KiB each. */
#define DETAILS_SENT 64

static int deadline_ms(const struct agt_run *run)
{
    int64_t left_ms = (run->deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
    uint32_t wall_ms = run->limits ? run->limits->wall_time_ms : 0;
    int64_t wanted_ms = (wall_ms ? wall_ms : WALL_DEFAULT_MS) + (int64_t)OVERHEAD_MS;

    if (left_ms < 1)
        return 1;
    return (int)(left_ms < wanted_ms ? left_ms : wanted_ms);
}

/* How a try failed that was not the program's fault. */
enum fault {
    FAULT_NONE,
    FAULT_FAILED,  /* worth another try */
    FAULT_BUSY,    /* worth waiting for */
    FAULT_REFUSED, /* the same request would be refused again */
};

static enum fault fault_of_code(enum rpc_code code)
{
    switch (code) {
    case RPC_RESOURCE_EXHAUSTED:
        return FAULT_BUSY;
    case RPC_INVALID_ARGUMENT:
    case RPC_NOT_FOUND:
    case RPC_PERMISSION_DENIED:
    case RPC_FAILED_PRECONDITION:
    case RPC_OUT_OF_RANGE:
    case RPC_UNIMPLEMENTED:
    case RPC_UNAUTHENTICATED:
        return FAULT_REFUSED;
    default:
        return FAULT_FAILED;
    }
}

/* So that runs that were turned away together do not come back together. */
static int64_t spread(int64_t most_ms)
{
    uint32_t number = 0;

    (void)!getrandom(&number, sizeof(number), 0);
    return most_ms > 0 ? number % most_ms : 0;
}

/* Waits and tries again, or fails the run when that was done often enough. Never counted. */
static void on_fault(struct agt_run *run, enum fault fault, int32_t retry_after_ms,
                     const char *message)
{
    uint32_t *tries = fault == FAULT_BUSY ? &run->sandbox_waits : &run->sandbox_tries;
    uint32_t most = fault == FAULT_BUSY ? AGT_SANDBOX_WAITS_MAX : AGT_SANDBOX_TRIES_MAX;
    int64_t wait_ms = agt_engine_retry_base_ms(run->engine);

    (*tries)++;
    if (fault == FAULT_REFUSED || *tries >= most) {
        agt_run_fail(run, CAUSE(SANDBOX_UNAVAILABLE), "%s: %s",
                     fault == FAULT_REFUSED ? "sandboxd refused the run"
                     : fault == FAULT_BUSY  ? "sandboxd stayed busy"
                                            : "The sandbox could not be used",
                     message);
        return;
    }
    for (uint32_t i = 1; i < *tries && wait_ms < WAIT_MAX_MS; i++)
        wait_ms *= 2;
    if (retry_after_ms > wait_ms)
        wait_ms = retry_after_ms;
    if (wait_ms > WAIT_MAX_MS)
        wait_ms = WAIT_MAX_MS;
    wait_ms += spread(wait_ms / 2);
    if (fault == FAULT_FAILED)
        agt_list_add(&run->warnings, "The sandbox failed and was tried again: %s", message);
    /* Being busy is no fault, and there may be many waits. */
    cr_log_write(fault == FAULT_BUSY ? CR_LOG_DEBUG : CR_LOG_WARN,
                 "sandbox try failed run=%s try=%u wait_ms=%lld reason=%s", run->id, *tries,
                 (long long)wait_ms, message);
    run->retry_at_ns = cr_clock_mono_ns() + wait_ms * CR_NS_PER_MS;
}

void agt_sandbox_enter(struct agt_run *run)
{
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    Crisol__Sandbox__V1__InputFile solution = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile tests = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&solution, &tests};
    struct cr_err err = CR_ERR_INIT;
    char runtime[] = "pytest";
    char solution_name[] = AGT_SOLUTION_NAME;
    char tests_name[] = AGT_TESTS_NAME;
    char request_id[64];

    (void)snprintf(request_id, sizeof(request_id), "%s.%u", run->id, run->steps);
    request.request_id = request_id;
    request.runtime = runtime;
    solution.path = solution_name;
    solution.text = run->files.solution;
    tests.path = tests_name;
    tests.text = run->files.tests;
    request.files = files;
    request.n_files = 2;
    request.limits = run->limits;
    request.output_text = true;
    if (agt_call_start_sandbox(run, &request, deadline_ms(run), &err) < 0)
        on_fault(run, FAULT_FAILED, 0, "the call could not be started");
}

static void emit_result(struct agt_run *run, Crisol__Sandbox__V1__ExecuteResult *result)
{
    Crisol__Agent__V1__SandboxResult ended = CRISOL__AGENT__V1__SANDBOX_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Sandbox__V1__EffectivePolicy *policy = result->policy;

    result->policy = NULL; /* SandboxStarted told it */
    ended.result = result;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_RESULT;
    event.sandbox_result = &ended;
    agt_run_emit(run, &event);
    result->policy = policy;
}

void agt_sandbox_trim(Crisol__Sandbox__V1__ExecuteResult *result, size_t cases, size_t details)
{
    Crisol__Sandbox__V1__TestReport *report = result->test_report;

    while (report && report->n_cases > cases)
        crisol__sandbox__v1__test_case__free_unpacked(report->cases[--report->n_cases], NULL);
    for (size_t i = details; report && i < report->n_cases; i++) {
        /* An empty string of protobuf-c is shared and must not be written to. */
        // cppcheck-suppress duplicateConditionalAssign
        if (report->cases[i]->details[0] != '\0')
            report->cases[i]->details[0] = '\0';
    }
}

static char *to_text(const struct cr_buf *bytes)
{
    struct cr_buf text;
    char *taken = NULL;

    cr_buf_init(&text, 4 * (bytes->size + 1));
    if (cr_utf8_add_lossy(&text, bytes->data, bytes->size) == 0)
        taken = cr_buf_take_str(&text);
    cr_buf_done(&text);
    return taken;
}

/* Gives what the program wrote, and its result, to the evaluator. */
static void keep(struct agt_run *run, struct agt_call *call)
{
    uint64_t omitted = call->out_omitted + call->err_omitted;

    if (run->execution)
        crisol__sandbox__v1__execute_result__free_unpacked(run->execution, NULL);
    run->execution = call->result;
    call->result = NULL;
    free(run->stdout_text);
    free(run->stderr_text);
    run->stdout_text = to_text(&call->out);
    run->stderr_text = to_text(&call->err);
    if (omitted > 0)
        agt_list_add(&run->warnings,
                     "Attempt %d: %" PRIu64 " bytes of output are left out; the result keeps the "
                     "first %u of each stream.",
                     run->iteration, omitted, AGT_OUTPUT_KEPT_MAX);
}

void agt_sandbox_on_end(struct agt_run *run, struct agt_call *call)
{
    Crisol__Sandbox__V1__VerdictCode code = VERDICT(SANDBOX_ERROR);
    const Crisol__Sandbox__V1__Verdict *verdict;

    if (call->result) {
        agt_sandbox_trim(call->result, SIZE_MAX, DETAILS_SENT);
        emit_result(run, call->result);
    }
    if (run->stop != AGT_STOP_NONE)
        return; /* the caller of the node ends it */
    if (call->status.code != RPC_OK) {
        on_fault(run, fault_of_code(call->status.code), call->status.retry_after_ms,
                 call->status.message[0] ? call->status.message : rpc_code_name(call->status.code));
        return;
    }
    verdict = call->result ? call->result->verdict : NULL;
    if (verdict)
        code = verdict->code;
    if (code == VERDICT(SANDBOX_ERROR) || code == VERDICT(SANDBOX_LOST)) {
        on_fault(run, FAULT_FAILED, 0,
                 verdict && verdict->message[0] ? verdict->message : "it gave no verdict");
        return;
    }
    if (code == VERDICT(CANCELLED)) {
        agt_run_fail(run, CAUSE(SANDBOX_UNAVAILABLE),
                     "The sandbox run was cancelled by somebody else.");
        return;
    }
    keep(run, call);
    run->sandbox_tries = 0;
    run->sandbox_waits = 0;
    agt_run_set_outcome(run, AGT_OUTCOME_DONE);
}
