/* SPDX-License-Identifier: Apache-2.0 */

/* Generate and GenerateStream: a run that lasts as long as its call. */
#include "common/clock.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "tests/harness/doubles.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/service_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define BIG_PLAN (2U * 1024 * 1024)

static const struct rpc_client_method generate = SERVICE_METHOD("Generate", generate);
static const struct rpc_client_method generate_stream =
    SERVICE_METHOD("GenerateStream", generate_stream);

static char task_text[] = "add two numbers";

static void generate_answers_with_the_result(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    const Crisol__Agent__V1__GenerateResponse *response;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    limits.wall_time_ms = 5000;
    request.task = task_text;
    request.sandbox_limits = &limits;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 20000, &message, &status),
        RPC_OK);

    response = (const void *)message;
    assert_int_equal(response->result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS);
    assert_string_equal(response->result->task, task_text);
    assert_int_equal(response->result->n_files, 2);
    rpc_message_free(message);
    service_fixture_stop(&fixture);
}

static void stream_has_every_state_event_and_ends_with_the_result(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct service_seen seen = {.seq = 0};
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, service_seen_event, &seen, &status),
                     RPC_OK);

    assert_int_equal(seen.results, 1);
    assert_int_equal(seen.states, 22);
    service_fixture_stop(&fixture);
}

/* A client that takes nothing until the run is over. */
struct slow {
    struct service_seen seen;
    int is_open;   /* atomic */
    int has_ended; /* atomic */
    enum rpc_code code;
};

static bool on_slow_event(void *user, const ProtobufCMessage *message)
{
    struct slow *slow = user;

    (void)service_seen_event(&slow->seen, message);
    return __atomic_load_n(&slow->is_open, __ATOMIC_ACQUIRE);
}

static void on_slow_end(void *user, const struct rpc_status *status)
{
    struct slow *slow = user;

    slow->code = status->code;
    __atomic_store_n(&slow->has_ended, 1, __ATOMIC_RELEASE);
}

static void slow_client_gets_a_gap_and_still_every_state_event(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct slow slow = {.is_open = 0};
    struct rpc_client_handlers handlers = {
        .on_message = on_slow_event, .on_end = on_slow_end, .user = &slow};
    struct rpc_client_call *call = NULL;
    struct rpc_loop *loop = NULL;
    int64_t due_ns = cr_clock_mono_ns() + SERVICE_PATIENCE_NS;
    struct service_fixture fixture;
    char *plan = malloc(BIG_PLAN + 1);

    (void)state;
    assert_non_null(plan);
    memset(plan, 'x', BIG_PLAN);
    plan[BIG_PLAN] = '\0';
    service_fixture_start(&fixture, SERVICE_BIG);
    __atomic_store_n(&fixture.big_plan, plan, __ATOMIC_RELEASE); /* the model has started */
    request.task = task_text;
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    assert_int_equal(rpc_client_start(loop, fixture.channel, &generate_stream, &request.base, 60000,
                                      &handlers, &call, NULL),
                     0);
    while (agt_engine_live_runs(fixture.engine.engine) == 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    service_fixture_wait_idle(&fixture);
    __atomic_store_n(&slow.is_open, 1, __ATOMIC_RELEASE);
    rpc_client_resume(call);
    while (!__atomic_load_n(&slow.has_ended, __ATOMIC_ACQUIRE) && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);

    assert_int_equal(slow.has_ended, 1);
    assert_int_equal(slow.code, RPC_OK);
    assert_int_equal(slow.seen.results, 1);
    assert_int_equal(slow.seen.states, 22);
    assert_true(slow.seen.gaps >= 1);
    /* One output delta; the plan and the files in pieces of 4 KiB. */
    assert_int_equal(slow.seen.deltas + slow.seen.dropped, BIG_PLAN / 4096 + 1 + 1);
    (void)rpc_client_unref(call);
    (void)rpc_loop_free(loop);
    service_fixture_stop(&fixture);
    free(plan);
}

static void cancelling_the_call_cancels_the_run(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct service_seen seen = {.stop_after = 1};
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_HOLD);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, service_seen_event, &seen, &status),
                     RPC_CANCELLED);

    service_fixture_wait_idle(&fixture);
    service_fixture_stop(&fixture);
}

static void deadline_of_the_client_cancels_the_run(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_HOLD);
    request.task = task_text;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 100, &message, &status),
        RPC_DEADLINE_EXCEEDED);

    service_fixture_wait_idle(&fixture);
    service_fixture_stop(&fixture);
}

static void bad_fields_are_named_over_the_wire(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    request.max_iterations = 11;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 20000, &message, &status),
        RPC_INVALID_ARGUMENT);

    assert_int_equal(status.violation_count, 2);
    assert_string_equal(status.violations[0].field, "task");
    assert_string_equal(status.violations[1].field, "max_iterations");
    service_fixture_stop(&fixture);
}

static void missing_key_is_a_failed_precondition(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct service_seen seen = {.seq = 0};
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    double_model_set_configured(fixture.engine.model, false);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, service_seen_event, &seen, &status),
                     RPC_FAILED_PRECONDITION);

    assert_string_equal(status.message, agt_gemini_no_key_help);
    assert_string_equal(status.reason, "MODEL_KEY_MISSING");
    service_fixture_stop(&fixture);
}

/* Calls that end by drain while their runs are held leave nothing behind. */
static void drain_cancels_the_runs_of_live_calls(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct slow slow = {.is_open = 1};
    struct rpc_client_handlers handlers = {
        .on_message = on_slow_event, .on_end = on_slow_end, .user = &slow};
    struct rpc_client_call *call = NULL;
    struct rpc_loop *loop = NULL;
    int64_t due_ns = cr_clock_mono_ns() + SERVICE_PATIENCE_NS;
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_HOLD);
    request.task = task_text;
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    assert_int_equal(rpc_client_start(loop, fixture.channel, &generate_stream, &request.base, 60000,
                                      &handlers, &call, NULL),
                     0);
    while (agt_engine_live_runs(fixture.engine.engine) == 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_false(rpc_server_drain(fixture.server, 1));

    service_fixture_wait_idle(&fixture);
    (void)rpc_client_unref(call);
    (void)rpc_loop_free(loop);
    service_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_answers_with_the_result),
        cmocka_unit_test(stream_has_every_state_event_and_ends_with_the_result),
        cmocka_unit_test(slow_client_gets_a_gap_and_still_every_state_event),
        cmocka_unit_test(cancelling_the_call_cancels_the_run),
        cmocka_unit_test(deadline_of_the_client_cancels_the_run),
        cmocka_unit_test(bad_fields_are_named_over_the_wire),
        cmocka_unit_test(missing_key_is_a_failed_precondition),
        cmocka_unit_test(drain_cancels_the_runs_of_live_calls),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
