/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/receipt/receipt.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* ---- answers that cannot be used ---- */

/* `mode` answers of the generator are bad, then they are good. */
static void answer_badly_first(void *user, const struct agt_model_request *request,
                               struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    double_solve(NULL, request, ret_answer);
    if (strcmp(request->purpose, "plan") == 0)
        return;
    if (fixture->answers++ >= (uint32_t)fixture->mode)
        return;
    ret_answer->text = "Here is the code: print(1)";
    /* From the second on the complaint must be in the prompt. */
    if (fixture->answers > 1 && !strstr(request->prompt, "There is no fenced block"))
        ret_answer->end = AGT_MODEL_BLOCKED;
}

static void bad_answer_is_asked_again_and_costs_no_iteration(void **state)
{
    struct engine_fixture fixture = {.mode = 2};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, answer_badly_first, NULL, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 1));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->iterations, 1);
    assert_int_equal(run_reader_count(&reader, EVENT(SANDBOX_STARTED)), 1);
    assert_int_equal(reader.result->n_warnings, 1); /* the same twice is said once */
    assert_int_equal(reader.result->n_error_history, 0);
    assert_int_equal(run_reader_find(&reader, EVENT(FILES_READY), 0)->iteration, 1);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
    assert_int_equal(fixture.answers, 3);
}

static void third_bad_answer_in_a_row_ends_the_run(void **state)
{
    struct engine_fixture fixture = {.mode = 100};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, answer_badly_first, NULL, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 3));

    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause, CAUSE(MODEL_OUTPUT));
    assert_int_equal(reader.result->iterations, 0);
    assert_null(reader.result->execution_result);
    assert_int_equal(reader.result->n_error_history, 1);
    assert_non_null(strstr(reader.result->final_response, "There is no fenced block"));
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
    assert_int_equal(fixture.answers, 3);
}

/* ---- ends of model calls ---- */

static const struct {
    enum agt_model_end end;
    Crisol__Agent__V1__FailureCause cause;
    uint32_t answers; /* how often it is asked */
} ends[] = {
    {AGT_MODEL_TRUNCATED, CAUSE(MODEL_OUTPUT), 3},
    {AGT_MODEL_BLOCKED, CAUSE(MODEL_BLOCKED), 1},
    {AGT_MODEL_QUOTA, CAUSE(MODEL_QUOTA), 1},
    {AGT_MODEL_AUTH, CAUSE(MODEL_AUTH), 1},
    {AGT_MODEL_GONE, CAUSE(MODEL_GONE), 1},
    {AGT_MODEL_BAD_REQUEST, CAUSE(INTERNAL), 1},
    {AGT_MODEL_BAD_ANSWER, CAUSE(MODEL_OUTPUT), 3},
    {AGT_MODEL_UNAVAILABLE, CAUSE(MODEL_UNAVAILABLE), 1},
    {AGT_MODEL_DEADLINE, CAUSE(DEADLINE), 1},
    {AGT_MODEL_CANCELLED, CAUSE(INTERNAL), 1},
};

static void end_as_the_mode_says(void *user, const struct agt_model_request *request,
                                 struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    double_solve(NULL, request, ret_answer);
    fixture->answers++;
    ret_answer->end = ends[fixture->mode].end;
    ret_answer->message = "the provider's words";
}

static void every_end_of_a_model_call_has_its_cause(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(ends); i++) {
        struct engine_fixture fixture = {.mode = (int)i};
        struct run_reader reader;

        engine_fixture_start(&fixture, end_as_the_mode_says, NULL, NULL);
        run_reader_read(&reader, engine_fixture_run(&fixture, 0));

        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, ends[i].cause);
        assert_true(strlen(reader.result->final_response) > 20);
        assert_int_equal(reader.result->n_error_history, 1);
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
        assert_int_equal(fixture.answers, ends[i].answers);
    }
}

static void words_of_the_provider_reach_the_person(void **state)
{
    struct engine_fixture fixture = {.mode = 2};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, end_as_the_mode_says, NULL, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_string_equal(reader.result->error_history[0],
                        "The provider's quota is used up: the provider's words");
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

/* ---- faults of the sandbox ---- */

static const struct double_execution faults[] = {
    {.code = RPC_UNAVAILABLE, .message = "connection refused"},
    {.code = RPC_RESOURCE_EXHAUSTED, .message = "queue full", .retry_after_ms = 2},
    {.code = RPC_UNAVAILABLE, .message = "sandboxd is shutting down", .retry_after_ms = 2},
    {.code = RPC_INTERNAL},
    {.code = RPC_DEADLINE_EXCEEDED},
    {.verdict = VERDICT(SANDBOX_ERROR), .message = "set-up failed"},
    {.verdict = VERDICT(SANDBOX_LOST), .message = "backend gone"},
};

static void fail_twice_then_pass(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                                 struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    if (fixture->executions++ < 2)
        *ret_execution = faults[fixture->mode];
    else
        double_pass(NULL, request, ret_execution);
}

static size_t count_links(const Crisol__Agent__V1__RunResult *result, const char *kind)
{
    size_t count = 0;

    for (size_t i = 0; result->receipt && i < result->receipt->n_links; i++)
        count += strcmp(result->receipt->links[i]->kind, kind) == 0;
    return count;
}

static void fault_of_the_sandbox_is_tried_again_and_never_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(faults); i++) {
        struct engine_fixture fixture = {.mode = (int)i};
        struct run_reader reader;

        engine_fixture_start(&fixture, NULL, fail_twice_then_pass, NULL);
        run_reader_read(&reader, engine_fixture_run(&fixture, 1));

        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        assert_int_equal(reader.result->iterations, 1);
        assert_int_equal(reader.result->n_error_history, 0);
        assert_int_equal(reader.result->usage->calls, 2); /* one plan, one answer */
        assert_int_equal(count_links(reader.result, AGT_RECEIPT_SOLUTION), 1);
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
        assert_int_equal(fixture.executions, 3);
    }
}

static void fail_for_ever(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                          struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    (void)request;
    fixture->executions++;
    *ret_execution = faults[fixture->mode];
}

static void sandbox_that_never_works_ends_the_run_after_five_tries(void **state)
{
    (void)state;
    for (int i = 0; i < (int)CR_ARRAY_SIZE(faults); i++) {
        struct engine_fixture fixture = {.mode = i};
        struct run_reader reader;

        if (faults[i].retry_after_ms > 0)
            continue; /* one that says when to come again is waited for much longer */
        engine_fixture_start(&fixture, NULL, fail_for_ever, NULL);
        run_reader_read(&reader, engine_fixture_run(&fixture, 0));

        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, CAUSE(SANDBOX_UNAVAILABLE));
        assert_int_equal(reader.result->iterations, 0);
        assert_int_equal(reader.result->n_attempts, 0);
        assert_int_equal(reader.result->n_files, 2); /* what was written is not thrown away */
        assert_int_equal(reader.result->usage->calls, 2);
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
        assert_int_equal(fixture.executions, 5);
    }
}

static void drain_then_pass(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                            struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    if (fixture->executions++ < 8)
        *ret_execution = (struct double_execution){
            .code = RPC_UNAVAILABLE, .message = "sandboxd is shutting down", .retry_after_ms = 1};
    else
        double_pass(NULL, request, ret_execution);
}

/* It lets the runs of others finish first, which takes longer than five tries. */
static void sandboxd_that_starts_anew_is_waited_for(void **state)
{
    struct engine_fixture fixture = {.mode = 0};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, drain_then_pass, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 1));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
    assert_int_equal(fixture.executions, 9);
}

static void refuse(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                   struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    (void)request;
    fixture->executions++;
    ret_execution->code = RPC_INVALID_ARGUMENT;
    ret_execution->message = "limits.wall_time_ms: more than 60000";
}

static void request_that_sandboxd_refuses_is_not_sent_again(void **state)
{
    struct engine_fixture fixture = {.mode = 0};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, refuse, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->cause, CAUSE(SANDBOX_UNAVAILABLE));
    assert_string_equal(reader.result->error_history[0],
                        "sandboxd refused the run: limits.wall_time_ms: more than 60000");
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
    assert_int_equal(fixture.executions, 1);
}

static void cancel_from_outside(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                                struct double_execution *ret_execution)
{
    (void)user;
    (void)request;
    ret_execution->verdict = VERDICT(CANCELLED);
}

static void run_stops_when_somebody_cancels_its_sandbox(void **state)
{
    struct engine_fixture fixture = {.mode = 0};
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, cancel_from_outside, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause, CAUSE(SANDBOX_UNAVAILABLE));
    assert_int_equal(run_reader_count(&reader, EVENT(SANDBOX_STARTED)), 1);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void check_request(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                          struct double_execution *ret_execution)
{
    (void)user;
    double_pass(NULL, request, ret_execution);
    if (strcmp(request->runtime, "pytest") != 0 || request->n_files != 2 || request->n_args != 0 ||
        request->n_command != 0 || request->code[0] != '\0' ||
        strcmp(request->files[0]->path, "solution.py") != 0 ||
        strcmp(request->files[1]->path, "test_solution.py") != 0 ||
        !strstr(request->files[1]->text, "assert add(1, 1) == 2") || !request->limits ||
        request->limits->wall_time_ms != 1234)
        ret_execution->code = RPC_INVALID_ARGUMENT;
}

static void sandbox_gets_two_files_and_the_limits_of_the_request(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    struct agt_run_spec spec = {.task = "add two numbers"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct engine_fixture fixture = {.mode = 0};
    struct agt_run *run = NULL;
    struct run_reader reader;
    uint8_t packed[64];

    (void)state;
    limits.wall_time_ms = 1234;
    spec.sandbox_limits = packed;
    spec.sandbox_limits_size = crisol__sandbox__v1__limits__pack(&limits, packed);
    engine_fixture_start(&fixture, NULL, check_request, NULL);
    assert_int_equal(agt_engine_start(fixture.engine, &spec, &run, &status), 0);
    run_reader_read(&reader, run);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_answer_is_asked_again_and_costs_no_iteration),
        cmocka_unit_test(third_bad_answer_in_a_row_ends_the_run),
        cmocka_unit_test(every_end_of_a_model_call_has_its_cause),
        cmocka_unit_test(words_of_the_provider_reach_the_person),
        cmocka_unit_test(fault_of_the_sandbox_is_tried_again_and_never_counted),
        cmocka_unit_test(sandbox_that_never_works_ends_the_run_after_five_tries),
        cmocka_unit_test(sandboxd_that_starts_anew_is_waited_for),
        cmocka_unit_test(request_that_sandboxd_refuses_is_not_sent_again),
        cmocka_unit_test(run_stops_when_somebody_cancels_its_sandbox),
        cmocka_unit_test(sandbox_gets_two_files_and_the_limits_of_the_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
