/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name

/* Where the doubles hold a run for ever. */
enum {
    HOLD_PLAN,
    HOLD_CODE,
    HOLD_REPAIR,
    HOLD_SANDBOX,
    HOLD_RETRY, /* between two tries of the sandbox */
    HOLD_COUNT,
};

static void hold_model(void *user, const struct agt_model_request *request,
                       struct double_answer *ret_answer)
{
    static const char *const purposes[] = {"plan", "code", "repair"};
    const struct engine_fixture *fixture = user;

    double_solve(NULL, request, ret_answer);
    if (fixture->mode <= HOLD_REPAIR && strcmp(request->purpose, purposes[fixture->mode]) == 0)
        ret_answer->is_held = true;
}

static void hold_sandbox(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                         struct double_execution *ret_execution)
{
    const struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    ret_execution->is_held = fixture->mode == HOLD_SANDBOX;
    if (fixture->mode == HOLD_REPAIR) {
        ret_execution->exit_code = 1;
        ret_execution->failed = 1;
    }
    if (fixture->mode == HOLD_RETRY)
        ret_execution->code = RPC_UNAVAILABLE;
}

/* The event after which the run can only wait. */
static Crisol__Agent__V1__RunEvent__EventCase last_event(int mode)
{
    static const Crisol__Agent__V1__RunEvent__EventCase events[] = {
        [HOLD_PLAN] = EVENT(RUN_STARTED),  [HOLD_CODE] = EVENT(PLAN_READY),
        [HOLD_REPAIR] = EVENT(EVALUATION), [HOLD_SANDBOX] = EVENT(SANDBOX_STARTED),
        [HOLD_RETRY] = EVENT(FILES_READY),
    };

    return events[mode];
}

static void start_held(struct engine_fixture *fixture, int mode, uint32_t timeout_ms)
{
    struct agt_engine_options options = {
        .run_timeout_ms = timeout_ms,
        .retry_base_ms = 10000,
    };

    fixture->mode = mode;
    engine_fixture_start(fixture, hold_model, hold_sandbox, &options);
}

static void cancel_ends_the_run_at_every_node(void **state)
{
    (void)state;
    for (int mode = 0; mode < HOLD_COUNT; mode++) {
        struct engine_fixture fixture;
        struct run_reader reader;
        struct agt_run *run;

        start_held(&fixture, mode, 0);
        run = engine_fixture_run(&fixture, 0);
        run_reader_wait_for(run, last_event(mode));
        agt_run_cancel(run);
        agt_run_cancel(run);
        run_reader_read(&reader, run);

        assert_int_equal(reader.result->status, STATUS(CANCELLED));
        assert_int_equal(reader.result->cause, CAUSE(UNSPECIFIED));
        assert_int_equal(reader.result->iterations, mode == HOLD_REPAIR);
        assert_string_equal(run_reader_find(&reader, EVENT(EDGE_TAKEN),
                                            run_reader_count(&reader, EVENT(EDGE_TAKEN)) - 1)
                                ->edge_taken->outcome,
                            "cancelled");
        assert_int_equal(double_model_live_calls(fixture.model), 0);
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
    }
}

static void deadline_ends_the_run_at_every_node(void **state)
{
    (void)state;
    for (int mode = 0; mode < HOLD_COUNT; mode++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        start_held(&fixture, mode, 30);
        run_reader_read(&reader, engine_fixture_run(&fixture, 0));

        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, CAUSE(DEADLINE));
        assert_non_null(strstr(reader.result->final_response, "The time for the run is over."));
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
    }
}

static void freeing_the_engine_cancels_what_is_running(void **state)
{
    (void)state;
    for (int mode = 0; mode < HOLD_COUNT; mode++) {
        struct engine_fixture fixture;
        struct run_reader reader;
        struct agt_run *run;

        start_held(&fixture, mode, 0);
        run = engine_fixture_run(&fixture, 0);
        run_reader_wait_for(run, last_event(mode));
        assert_int_equal(agt_engine_live_runs(fixture.engine), 1);
        assert_false(agt_engine_drain(fixture.engine, 1));
        engine_fixture_stop(&fixture);

        run_reader_read(&reader, run);
        assert_int_equal(reader.result->status, STATUS(CANCELLED));
        run_reader_done(&reader);
    }
}

static void silent_run_sends_heartbeats(void **state)
{
    struct agt_engine_options options = {.heartbeat_ms = 1};
    struct engine_fixture fixture;
    struct run_reader reader;
    struct agt_run *run;

    (void)state;
    fixture.mode = HOLD_SANDBOX;
    engine_fixture_start(&fixture, hold_model, hold_sandbox, &options);
    run = engine_fixture_run(&fixture, 0);
    run_reader_wait_for(run, EVENT(SANDBOX_STARTED));

    run_reader_wait_for(run, EVENT(HEARTBEAT)); /* of an ended run nobody is told of them */
    agt_run_cancel(run);
    run_reader_read(&reader, run);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void cancel_at_any_moment_ends_in_one_result(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture.mode = HOLD_COUNT; /* holds nowhere */
    engine_fixture_start(&fixture, hold_model, hold_sandbox, NULL);
    for (int i = 0; i < 200; i++) {
        struct agt_run *run = engine_fixture_run(&fixture, 0);
        struct run_reader reader;

        for (int turns = 0; turns < i * 20; turns++)
            (void)agt_engine_live_runs(fixture.engine);
        agt_run_cancel(run);
        run_reader_read(&reader, run);
        assert_true(reader.result->status == STATUS(CANCELLED) ||
                    reader.result->status == STATUS(SUCCESS));
        assert_int_equal(run_reader_count(&reader, EVENT(RESULT)), 1);
        run_reader_done(&reader);
    }
    engine_fixture_stop(&fixture);
}

/* ---- who is let in ---- */

static int start(struct engine_fixture *fixture, const struct agt_run_spec *spec,
                 struct rpc_status *ret_status)
{
    static const struct rpc_status blank = RPC_STATUS_INIT;
    struct agt_run *run = NULL;
    int r;

    *ret_status = blank;
    r = agt_engine_start(fixture->engine, spec, &run, ret_status);
    if (r == 0) {
        agt_run_cancel(run);
        (void)agt_run_unref(run);
    }
    return r;
}

static void draining_engine_refuses_new_runs(void **state)
{
    struct agt_run_spec spec = {.task = "x"};
    struct engine_fixture fixture;
    struct rpc_status status;

    (void)state;
    start_held(&fixture, HOLD_PLAN, 0);
    assert_true(agt_engine_drain(fixture.engine, 0));

    assert_int_equal(start(&fixture, &spec, &status), -ESHUTDOWN);
    assert_int_equal(status.code, RPC_UNAVAILABLE);
    engine_fixture_stop(&fixture);
}

static void one_run_more_than_the_most_is_refused(void **state)
{
    struct agt_engine_options options = {.max_runs = 1};
    struct agt_run_spec spec = {.task = "x"};
    struct engine_fixture fixture;
    struct rpc_status status;
    struct agt_run *run;

    (void)state;
    fixture.mode = HOLD_PLAN;
    engine_fixture_start(&fixture, hold_model, hold_sandbox, &options);
    run = engine_fixture_run(&fixture, 0);

    assert_int_equal(start(&fixture, &spec, &status), -EAGAIN);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_true(status.retry_after_ms > 0);
    agt_run_cancel(run);
    assert_true(agt_engine_drain(fixture.engine, 5000));
    (void)agt_run_unref(run);
    engine_fixture_stop(&fixture);
}

static void run_without_a_model_key_is_refused_with_help(void **state)
{
    struct agt_run_spec spec = {.task = "x"};
    struct engine_fixture fixture;
    struct rpc_status status;

    (void)state;
    start_held(&fixture, HOLD_PLAN, 0);
    double_model_set_configured(fixture.model, false);

    assert_int_equal(start(&fixture, &spec, &status), -ENOKEY);
    assert_int_equal(status.code, RPC_FAILED_PRECONDITION);
    assert_string_equal(status.message, agt_gemini_no_key_help);
    assert_int_equal(agt_engine_live_runs(fixture.engine), 0);
    engine_fixture_stop(&fixture);
}

static const struct {
    struct agt_run_spec spec;
    const char *field; /* NULL: let in */
} specs[] = {
    {{.task = NULL}, "task"},
    {{.task = ""}, "task"},
    {{.task = " \t\r\n"}, "task"},
    {{.task = "\xff\xfe"}, "task"},
    {{.task = "x", .max_iterations = -1}, "max_iterations"},
    {{.task = "x", .max_iterations = 11}, "max_iterations"},
    {{.task = "x", .max_iterations = INT32_MIN}, "max_iterations"},
    {{.task = "x", .model = "../x"}, "model"},
    {{.task = "x", .model = "a?b"}, "model"},
    {{.task = "x", .model = "a b"}, "model"},
    {{.task = "x", .model = "a#b"}, "model"},
    {{.task = "x", .model = "/a"}, "model"},
    {{.task = "x", .model = "ñ"}, "model"},
    {{.task = "x", .sandbox_limits = "\x08", .sandbox_limits_size = 1}, "sandbox_limits"},
    {{.task = "x", .max_iterations = 10, .model = "gemini-2.5-flash"}, NULL},
    {{.task = "x", .max_iterations = 1, .model = "models/gemini-2.5-pro@001"}, NULL},
    {{.task = "x", .sandbox_limits = "\x08\x01", .sandbox_limits_size = 2}, NULL},
};

static void every_bad_field_is_named(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    start_held(&fixture, HOLD_PLAN, 0);
    for (size_t i = 0; i < CR_ARRAY_SIZE(specs); i++) {
        struct rpc_status status;
        int r = start(&fixture, &specs[i].spec, &status);

        assert_int_equal(r, specs[i].field ? -EINVAL : 0);
        if (!specs[i].field)
            continue;
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
        assert_int_equal(status.violation_count, 1);
        assert_string_equal(status.violations[0].field, specs[i].field);
    }
    engine_fixture_stop(&fixture);
}

/* At the bounds and one beyond them; and nothing is refused for what is not told. */
static void limits_that_sandboxd_would_refuse_are_named(void **state)
{
    struct agt_sandbox_bounds bounds = {.least = CRISOL__SANDBOX__V1__LIMITS__INIT,
                                        .most = CRISOL__SANDBOX__V1__LIMITS__INIT};
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    struct agt_run_spec spec = {.task = "x"};
    struct engine_fixture fixture;
    struct rpc_status status;
    uint8_t packed[128];

    (void)state;
    start_held(&fixture, HOLD_PLAN, 0);
    spec.sandbox_limits = packed;
    limits.wall_time_ms = 5001;
    limits.memory_bytes = UINT64_C(1) << 33 | 1;
    limits.open_files = 4096;
    limits.processes = 1;
    spec.sandbox_limits_size = crisol__sandbox__v1__limits__pack(&limits, packed);
    assert_int_equal(start(&fixture, &spec, &status), 0);

    bounds.most.wall_time_ms = 5000;
    bounds.most.memory_bytes = UINT64_C(1) << 33;
    bounds.least.processes = 2;
    bounds.least.stack_bytes = 131072; /* of which the request wants the default */
    double_sandbox_set_bounds(fixture.sandbox, &bounds);
    assert_int_equal(start(&fixture, &spec, &status), -EINVAL);
    assert_int_equal(status.violation_count, 3);
    assert_string_equal(status.violations[0].field, "sandbox_limits.wall_time_ms");
    assert_string_equal(status.violations[0].description,
                        "5001 is more than sandboxd's maximum of 5000");
    assert_string_equal(status.violations[1].field, "sandbox_limits.memory_bytes");
    assert_string_equal(status.violations[2].field, "sandbox_limits.processes");
    assert_string_equal(status.violations[2].description, "1 is less than sandboxd's minimum of 2");

    limits.wall_time_ms = 5000;
    limits.memory_bytes = UINT64_C(1) << 33;
    limits.processes = 2;
    spec.sandbox_limits_size = crisol__sandbox__v1__limits__pack(&limits, packed);
    assert_int_equal(start(&fixture, &spec, &status), 0);
    engine_fixture_stop(&fixture);
}

static void all_bad_fields_are_named_at_once(void **state)
{
    struct agt_run_spec spec = {.task = " ", .max_iterations = 99, .model = ".."};
    struct engine_fixture fixture;
    struct rpc_status status;

    (void)state;
    start_held(&fixture, HOLD_PLAN, 0);
    assert_int_equal(start(&fixture, &spec, &status), -EINVAL);
    assert_int_equal(status.violation_count, 3);
    engine_fixture_stop(&fixture);
}

static void task_may_have_64_kib_and_no_more(void **state)
{
    struct engine_fixture fixture;
    struct rpc_status status;
    char *task = malloc(65538);
    struct agt_run_spec spec = {.task = task};

    (void)state;
    assert_non_null(task);
    memset(task, 'x', 65537);
    task[65537] = '\0';
    start_held(&fixture, HOLD_PLAN, 0);

    assert_int_equal(start(&fixture, &spec, &status), -EINVAL);
    task[65536] = '\0';
    assert_int_equal(start(&fixture, &spec, &status), 0);
    engine_fixture_stop(&fixture);
    free(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_ends_the_run_at_every_node),
        cmocka_unit_test(deadline_ends_the_run_at_every_node),
        cmocka_unit_test(freeing_the_engine_cancels_what_is_running),
        cmocka_unit_test(silent_run_sends_heartbeats),
        cmocka_unit_test(cancel_at_any_moment_ends_in_one_result),
        cmocka_unit_test(draining_engine_refuses_new_runs),
        cmocka_unit_test(one_run_more_than_the_most_is_refused),
        cmocka_unit_test(run_without_a_model_key_is_refused_with_help),
        cmocka_unit_test(every_bad_field_is_named),
        cmocka_unit_test(limits_that_sandboxd_would_refuse_are_named),
        cmocka_unit_test(all_bad_fields_are_named_at_once),
        cmocka_unit_test(task_may_have_64_kib_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
