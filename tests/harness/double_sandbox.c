/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "tests/harness/double_worker.h"
#include "tests/harness/doubles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_MAX 512
#define DETAILS                                                                                    \
    "    def test_failed():\n>       assert f() == 1\nE       assert 2 == 1\n\n"                   \
    "test_solution.py:14: AssertionError"

struct double_sandbox {
    struct agt_sandbox base;
    struct double_worker worker;
    double_sandbox_script script;
    bool has_checks;                         /* the script answers them */
    const struct agt_sandbox_bounds *bounds; /* borrowed; NULL: not known */
    void *user;
};

struct sandbox_call {
    struct double_call base;
    struct double_sandbox *sandbox;
    struct agt_sandbox_handlers handlers;
    struct double_execution execution;
    Crisol__Sandbox__V1__ExecuteRequest *request;
    uint32_t seq;
};

/* The generated types have char * where we have texts of the script; nobody writes to them. */
static char *text(const char *script_text, const char *fallback)
{
    const char *chosen = script_text ? script_text : fallback;
    char *same;

    memcpy(&same, &chosen, sizeof(same));
    return same;
}

void double_pass(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                 struct double_execution *ret_execution)
{
    (void)user;
    (void)request;
    ret_execution->passed = 3;
    ret_execution->stdout_text = "3 passed in 0.01s\n";
}

/* The name of the test that is there to fail, with all that is behind it: it stands last. NULL:
 * there is none. */
static const char *find_canary(const char *tests)
{
    static const char begin[] = "\n\ndef ";
    static const char body[] = "():\n    assert False, \"";
    const char *last = NULL;

    for (const char *at = strstr(tests, begin); at; at = strstr(at + 1, begin))
        last = at + strlen(begin);
    return last && strncmp(last + strcspn(last, "("), body, strlen(body)) == 0 ? last : NULL;
}

enum double_check double_check_of(const Crisol__Sandbox__V1__ExecuteRequest *request)
{
    const char *solution;

    if (request->n_command > 0)
        return DOUBLE_CHECK_OWN;
    if (request->stdin_text[0] != '\0')
        return DOUBLE_CHECK_ORACLE;
    if (request->n_files < 2)
        return DOUBLE_CHECK_NONE; /* not from the agent */
    solution = request->files[0]->text;
    if (find_canary(request->files[1]->text))
        return DOUBLE_CHECK_CANARY;
    if (!strstr(solution, "\" in globals() or __name__ == ")) /* the id of a check has a part more:
                                                                 run.step.try */
        return strchr(request->request_id, '.') == strrchr(request->request_id, '.')
                   ? DOUBLE_CHECK_NONE
                   : DOUBLE_CHECK_MUTANT;
    return strstr(solution, ": raise NotImplementedError") ? DOUBLE_CHECK_RAISE
                                                           : DOUBLE_CHECK_RETURN;
}

void double_answer_check(const Crisol__Sandbox__V1__ExecuteRequest *request,
                         struct double_execution *ret_execution)
{
    if (double_check_of(request) == DOUBLE_CHECK_OWN) {
        ret_execution->has_no_report = true;
        return;
    }
    ret_execution->exit_code = 1;
    ret_execution->failed = 3;
    if (double_check_of(request) != DOUBLE_CHECK_CANARY)
        return;
    ret_execution->passed = 3;
    ret_execution->failed = 0;
    for (size_t i = 1; i < request->n_files; i++)
        ret_execution->failed += find_canary(request->files[i]->text) != NULL;
    /* All that is behind "def ", the message too: the double cuts out what it needs. */
    ret_execution->failed_id = find_canary(request->files[1]->text);
    ret_execution->failure = ret_execution->failed_id;
}

void double_answer_cases(const Crisol__Sandbox__V1__ExecuteRequest *request,
                         const char *const *values, size_t count,
                         struct double_execution *ret_execution)
{
    static char lines[4096];
    const char *mark = strstr(request->stdin_text, "\"mark\":\"") + strlen("\"mark\":\"");
    int mark_size = (int)strcspn(mark, "\"");
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += (size_t)snprintf(lines + size, sizeof(lines) - size, "%.*s %zu %s\n", mark_size,
                                 mark, i, values[i]);
    (void)snprintf(lines + size, sizeof(lines) - size, "%.*s end\n", mark_size, mark);
    *ret_execution = (struct double_execution){.has_no_report = true, .stdout_text = lines};
}

void double_sandbox_set_checks(struct agt_sandbox *sandbox, bool value)
{
    ((struct double_sandbox *)sandbox)->has_checks = value;
}

static void send_event(struct sandbox_call *call, Crisol__Sandbox__V1__ExecuteResponse *event)
{
    event->execution_id = text("00112233445566778899aabbccddeeff", NULL);
    event->seq = call->seq++;
    call->handlers.on_event(call->handlers.user, &event->base);
}

static bool begin(struct double_call *base)
{
    struct sandbox_call *call = (struct sandbox_call *)base;
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Started started = CRISOL__SANDBOX__V1__STARTED__INIT;

    if (!call->sandbox->has_checks && double_check_of(call->request) != DOUBLE_CHECK_NONE)
        double_answer_check(call->request, &call->execution);
    else
        call->sandbox->script(call->sandbox->user, call->request, &call->execution);
    if (call->execution.code == RPC_OK) {
        event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED;
        event.started = &started;
        send_event(call, &event);
    }
    return call->execution.is_held;
}

static void send_output(struct sandbox_call *call)
{
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;

    output.stream = CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT;
    output.data.data = (uint8_t *)text(call->execution.stdout_text, NULL);
    output.data.len = strlen(call->execution.stdout_text);
    if (call->request->output_text)
        output.text = text(call->execution.stdout_text, NULL);
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    event.output = &output;
    send_event(call, &event);
}

struct report {
    Crisol__Sandbox__V1__TestReport base;
    Crisol__Sandbox__V1__TestCase cases[CASES_MAX];
    Crisol__Sandbox__V1__TestCase *list[CASES_MAX];
    char ids[CASES_MAX][64];
};

static void add_cases(struct report *report, const struct double_execution *execution,
                      uint32_t count, const char *name, Crisol__Sandbox__V1__TestOutcome outcome)
{
    static const Crisol__Sandbox__V1__TestCase blank = CRISOL__SANDBOX__V1__TEST_CASE__INIT;
    bool has_failed = outcome == CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED ||
                      outcome == CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_ERROR;

    for (uint32_t i = 0; i < count && report->base.n_cases < CASES_MAX; i++) {
        size_t at = report->base.n_cases++;
        Crisol__Sandbox__V1__TestCase *test = &report->cases[at];

        (void)snprintf(report->ids[at], sizeof(report->ids[at]), "test_solution.py::test_%s_%u",
                       name, i);
        if (outcome == CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED &&
            execution->failed_id)
            (void)snprintf(report->ids[at], sizeof(report->ids[at]), "test_solution.py::%.*s",
                           (int)strcspn(execution->failed_id, "("), execution->failed_id);
        *test = blank;
        test->id = report->ids[at];
        test->outcome = outcome;
        if (has_failed) {
            test->message = text(execution->failure, "assert 2 == 1");
            test->details = text(execution->details, DETAILS);
        }
        report->list[at] = test;
    }
}

static struct report *new_report(const struct double_execution *execution)
{
    static const Crisol__Sandbox__V1__TestReport blank = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;
    struct report *report = calloc(1, sizeof(*report));

    report->base = blank;
    if (execution->has_no_report)
        return report;
    report->base.is_present = true;
    report->base.passed = execution->passed;
    report->base.failed = execution->failed;
    report->base.errors = execution->errors;
    report->base.skipped = execution->skipped;
    report->base.tests =
        execution->passed + execution->failed + execution->errors + execution->skipped;
    report->base.cases = report->list;
    add_cases(report, execution, execution->failed, "failed",
              CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED);
    add_cases(report, execution, execution->errors, "error",
              CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_ERROR);
    add_cases(report, execution, execution->skipped, "skipped",
              CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_SKIPPED);
    add_cases(report, execution, execution->passed, "passed",
              CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_PASSED);
    return report;
}

static void send_result(struct sandbox_call *call)
{
    const struct double_execution *execution = &call->execution;
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    Crisol__Sandbox__V1__Usage usage = CRISOL__SANDBOX__V1__USAGE__INIT;
    Crisol__Sandbox__V1__EffectivePolicy policy = CRISOL__SANDBOX__V1__EFFECTIVE_POLICY__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    struct report *report = new_report(execution);

    verdict.code = execution->verdict;
    if (verdict.code == CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_UNSPECIFIED)
        verdict.code = execution->exit_code == 0
                           ? CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK
                           : CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_NONZERO_EXIT;
    verdict.message = text(execution->message, "");
    usage.wall_us = 12000;
    result.request_id = call->request->request_id;
    result.verdict = &verdict;
    result.exit_code = execution->exit_code;
    result.usage = &usage;
    result.test_report = &report->base;
    limits.wall_time_ms = execution->wall_limit_ms;
    policy.limits = &limits;
    if (execution->wall_limit_ms > 0)
        result.policy = &policy;
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT;
    event.result = &result;
    send_event(call, &event);
    free(report);
}

static void finish(struct double_call *base, bool is_cancelled)
{
    struct sandbox_call *call = (struct sandbox_call *)base;
    struct rpc_status status = RPC_STATUS_INIT;

    if (is_cancelled) {
        rpc_status_set(&status, RPC_CANCELLED, "cancelled");
    } else if (call->execution.code != RPC_OK) {
        rpc_status_set(&status, call->execution.code, "%s",
                       call->execution.message ? call->execution.message : "by the script");
        status.retry_after_ms = call->execution.retry_after_ms;
    } else {
        if (call->execution.stdout_text)
            send_output(call);
        send_result(call);
    }
    call->handlers.on_end(call->handlers.user, &status);
}

static void release(struct double_call *base)
{
    struct sandbox_call *call = (struct sandbox_call *)base;

    crisol__sandbox__v1__execute_request__free_unpacked(call->request, NULL);
    free(call);
}

static Crisol__Sandbox__V1__ExecuteRequest *dup_request(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size + 1);
    Crisol__Sandbox__V1__ExecuteRequest *request;

    if (!packed)
        return NULL;
    (void)protobuf_c_message_pack(message, packed);
    request = crisol__sandbox__v1__execute_request__unpack(NULL, size, packed);
    free(packed);
    return request;
}

static int execute(struct agt_sandbox *base, const ProtobufCMessage *request, int deadline_ms,
                   const struct agt_sandbox_handlers *handlers, struct agt_sandbox_call **ret_call,
                   struct cr_err *err)
{
    struct double_sandbox *sandbox = (struct double_sandbox *)base;
    struct sandbox_call *call = calloc(1, sizeof(*call));

    (void)deadline_ms;
    if (!call)
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    call->sandbox = sandbox;
    call->handlers = *handlers;
    call->request = dup_request(request);
    if (!call->request) {
        free(call);
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    }
    *ret_call = (struct agt_sandbox_call *)(void *)call;
    double_worker_add(&sandbox->worker, &call->base);
    return 0;
}

static void cancel(struct agt_sandbox_call *call)
{
    double_call_cancel((struct double_call *)(void *)call);
}

static void unref(struct agt_sandbox_call *call)
{
    double_call_unref((struct double_call *)(void *)call);
}

static bool get_bounds(struct agt_sandbox *base, struct agt_sandbox_bounds *ret_bounds)
{
    const struct double_sandbox *sandbox = (const struct double_sandbox *)base;

    if (sandbox->bounds)
        *ret_bounds = *sandbox->bounds;
    return sandbox->bounds != NULL;
}

void double_sandbox_set_bounds(struct agt_sandbox *sandbox, const struct agt_sandbox_bounds *bounds)
{
    ((struct double_sandbox *)sandbox)->bounds = bounds;
}

static void free_sandbox(struct agt_sandbox *base)
{
    struct double_sandbox *sandbox = (struct double_sandbox *)base;

    double_worker_stop(&sandbox->worker);
    free(sandbox);
}

struct agt_sandbox *double_sandbox_new(double_sandbox_script script, void *user)
{
    static const struct agt_sandbox_ops ops = {
        .execute = execute,
        .cancel = cancel,
        .unref = unref,
        .get_bounds = get_bounds,
        .free = free_sandbox,
    };
    struct double_sandbox *sandbox = calloc(1, sizeof(*sandbox));

    sandbox->base.ops = &ops;
    sandbox->script = script ? script : double_pass;
    sandbox->user = user;
    sandbox->worker.begin = begin;
    sandbox->worker.finish = finish;
    sandbox->worker.release = release;
    double_worker_start(&sandbox->worker);
    return &sandbox->base;
}

uint32_t double_sandbox_live_calls(struct agt_sandbox *sandbox)
{
    return double_worker_live(&((struct double_sandbox *)sandbox)->worker);
}
