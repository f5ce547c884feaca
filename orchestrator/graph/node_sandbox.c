/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beside the wall limit: waiting for a slot, building the box, killing, reading the report. */
#define OVERHEAD_MS 120000
#define WALL_DEFAULT_MS 10000
/* Tests whose whole failure an event carries: 8 KiB each. */
#define DETAILS_SENT 64

static int deadline_ms(const struct agt_run *run, uint32_t wall_ms)
{
    int64_t left_ms = (run->deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
    int64_t wanted_ms = (wall_ms ? wall_ms : WALL_DEFAULT_MS) + (int64_t)OVERHEAD_MS;

    if (left_ms < 1)
        return 1;
    return (int)(left_ms < wanted_ms ? left_ms : wanted_ms);
}

/* Waits and tries again, or fails the run when that was done often enough. Never counted. */
static void on_fault(struct agt_run *run, enum agt_fault fault, int32_t retry_after_ms,
                     const char *message)
{
    int64_t wait_ms = agt_fault_wait_ms(run, &run->tries, fault, retry_after_ms, message);

    if (wait_ms >= 0)
        run->retry_at_ns = cr_clock_mono_ns() + wait_ms * CR_NS_PER_MS;
}

/* The files of one run, borrowed. */
struct input {
    Crisol__Sandbox__V1__InputFile files[2 + AGT_MORE_FILES_MAX + AGT_TERMS_FILES_MAX];
    Crisol__Sandbox__V1__InputFile *list[2 + AGT_MORE_FILES_MAX + AGT_TERMS_FILES_MAX];
    size_t count;
};

static void add_file(struct input *input, const char *path, char *text, bool is_read_only)
{
    static const Crisol__Sandbox__V1__InputFile blank = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *file = &input->files[input->count];

    *file = blank;
    file->path = cr_unconst(path);
    file->text = text;
    file->read_only = is_read_only;
    input->list[input->count++] = file;
}

static void add_more(const struct agt_execution *execution, struct input *input)
{
    const struct agt_files *files = execution->files;

    for (size_t i = 0; files && i < files->more_count; i++) {
        char *changed = execution->more ? execution->more[i] : NULL;

        add_file(input, files->more[i].path, changed ? changed : files->more[i].text, false);
    }
}

static void list_files(const struct agt_run *run, const struct agt_execution *execution,
                       struct input *input)
{
    const Crisol__Agent__V1__TaskTerms *terms = run->terms;

    input->count = 0;
    if (execution->solution)
        add_file(input, AGT_SOLUTION_NAME, execution->solution, false);
    if (execution->tests)
        add_file(input, AGT_TESTS_NAME, execution->tests, false);
    add_more(execution, input);
    for (size_t i = 0; terms && execution->tests && i < terms->n_acceptance_tests; i++) {
        char *changed = execution->acceptance ? execution->acceptance[i] : NULL;

        add_file(input, terms->acceptance_tests[i]->path,
                 changed ? changed : terms->acceptance_tests[i]->text, true);
    }
    for (size_t i = 0; terms && i < terms->n_input_files; i++)
        add_file(input, terms->input_files[i]->path, terms->input_files[i]->text, true);
}

/* Other runtimes may understand this in another way. */
static void add_stop(const struct agt_execution *execution,
                     Crisol__Sandbox__V1__ExecuteRequest *request)
{
    static char stop[] = "-x"; /* the one argument that a pytest loaded ahead takes, too */
    static char *arguments[] = {stop};

    if (!execution->may_stop || strcmp(request->runtime, "pytest") != 0)
        return;
    request->args = arguments;
    request->n_args = CR_ARRAY_SIZE(arguments);
}

/* What is run, and in which runtime. */
static void fill_program(const struct agt_run *run, const struct agt_execution *execution,
                         Crisol__Sandbox__V1__ExecuteRequest *request)
{
    request->runtime = cr_unconst("pytest");
    if (execution->own) {
        request->runtime = cr_unconst("python");
        if (execution->own->runtime[0])
            request->runtime = execution->own->runtime;
        request->command = execution->own->command;
        request->n_command = execution->own->n_command;
    } else if (execution->code) {
        request->runtime = cr_unconst("python");
        request->code = cr_unconst(execution->code);
        request->stdin_text = execution->stdin_text;
    } else if (run->terms && run->terms->runtime[0]) {
        request->runtime = run->terms->runtime;
    }
    add_stop(execution, request);
}

int agt_sandbox_execute(struct agt_run *run, const struct agt_execution *execution,
                        struct agt_call **ret_call, struct cr_err *err)
{
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    enum agt_call_output output = execution->is_quiet ? AGT_CALL_DROPPED : AGT_CALL_TOLD;
    struct input input;
    char request_id[64];

    if (execution->own || execution->code)
        output = AGT_CALL_KEPT;
    (void)snprintf(request_id, sizeof(request_id), "%s.%u%s", run->id, run->steps,
                   execution->suffix);
    request.request_id = request_id;
    fill_program(run, execution, &request);
    list_files(run, execution, &input);
    request.files = input.list;
    request.n_files = input.count;
    if (run->limits)
        limits = *run->limits;
    if (execution->wall_time_ms > 0)
        limits.wall_time_ms = execution->wall_time_ms;
    request.limits = &limits;
    request.output_text = output == AGT_CALL_TOLD;
    return agt_call_start_sandbox(run, &request, deadline_ms(run, limits.wall_time_ms), output,
                                  ret_call, err);
}

/* What is about to be run. */
static void book_files(struct agt_run *run)
{
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_SOLUTION, run->iteration, run->files.solution);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_TESTS, run->iteration, run->files.tests);
    for (size_t i = 0; i < run->files.more_count; i++)
        agt_receipt_add_file(&run->receipt, run->iteration, run->files.more[i].path,
                             run->files.more[i].text);
}

void agt_sandbox_enter(struct agt_run *run)
{
    const struct agt_execution execution = {
        .solution = run->files.solution,
        .tests = run->files.tests,
        .files = &run->files,
        .suffix = "",
    };

    if (run->tries.busy == 0 && run->tries.failed == 0) /* else they are booked already */
        book_files(run);
    if (agt_sandbox_execute(run, &execution, &run->call, NULL) < 0)
        on_fault(run, AGT_FAULT_FAILED, 0, "the call could not be started");
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

char *agt_sandbox_text(const struct cr_buf *bytes)
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
    run->stdout_text = agt_sandbox_text(&call->out);
    run->stderr_text = agt_sandbox_text(&call->err);
    if (omitted > 0)
        agt_list_add(&run->warnings,
                     "Attempt %d: %" PRIu64 " bytes of output are left out; the result keeps the "
                     "first %u of each stream.",
                     run->iteration, omitted, AGT_OUTPUT_KEPT_MAX);
}

static void book_policy(struct agt_run *run, const Crisol__Sandbox__V1__ExecuteResult *result)
{
    if (!result->policy)
        return;
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_POLICY, run->iteration, result->policy->digest);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_RUNTIME, run->iteration,
                         result->policy->runtime_digest);
}

void agt_sandbox_on_end(struct agt_run *run, struct agt_call *call)
{
    const char *message;
    enum agt_fault fault;

    if (call->result) {
        book_policy(run, call->result);
        agt_sandbox_trim(call->result, SIZE_MAX, DETAILS_SENT);
        emit_result(run, call->result);
    }
    if (run->stop != AGT_STOP_NONE)
        return; /* the caller of the node ends it */
    fault = agt_fault_of_call(call, &message);
    if (fault != AGT_FAULT_NONE) {
        on_fault(run, fault, call->status.retry_after_ms, message);
        return;
    }
    keep(run, call);
    run->tries = (struct agt_tries){0, 0};
    agt_run_set_outcome(run, AGT_OUTCOME_DONE);
}
