/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define RUNS 1000

static void fail_once(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                      struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    if (fixture->executions++ == 0) {
        ret_execution->exit_code = 1;
        ret_execution->passed = 2;
        ret_execution->failed = 1;
    }
}

/* Fails each time in another way; the second attempt is the best. */
static void fail_always(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                        struct double_execution *ret_execution)
{
    static const char *const failures[] = {
        "assert 0 == 1", "assert 2 == 1", "assert 3 == 1", "assert 4 == 1", "assert 5 == 1",
        "assert 6 == 1", "assert 7 == 1", "assert 8 == 1", "assert 9 == 1", "assert 10 == 1",
    };
    struct engine_fixture *fixture = user;

    (void)request;
    ret_execution->exit_code = 1;
    ret_execution->passed = fixture->executions == 1 ? 5 : 1;
    ret_execution->failed = 1;
    ret_execution->failure = failures[fixture->executions++ % 10];
}

/* Somebody reads before the first answer comes. */
struct gated {
    struct engine_fixture fixture; /* first: scripts get it */
    sem_t gate;
};

static void solve_when_read(void *user, const struct agt_model_request *request,
                            struct double_answer *ret_answer)
{
    struct gated *gated = user;

    if (strcmp(request->purpose, "plan") == 0)
        (void)sem_wait(&gated->gate);
    double_solve(user, request, ret_answer);
}

static void read_gated(struct gated *gated, struct run_reader *reader, double_model_script model)
{
    assert_int_equal(sem_init(&gated->gate, 0, 0), 0);
    engine_fixture_start(&gated->fixture, model, NULL, NULL);
    run_reader_read_all(reader, engine_fixture_run(&gated->fixture, 0), &gated->gate);
    engine_fixture_stop(&gated->fixture);
    (void)sem_destroy(&gated->gate);
}

static void run_that_passes_at_once_has_every_event_in_order(void **state)
{
    static const Crisol__Agent__V1__RunEvent__EventCase expected[] = {
        EVENT(RUN_STARTED),    EVENT(NODE_STARTED), EVENT(MODEL_CALL),      EVENT(PLAN_READY),
        EVENT(EDGE_TAKEN),     EVENT(NODE_STARTED), EVENT(MODEL_CALL),      EVENT(FILES_READY),
        EVENT(EDGE_TAKEN),     EVENT(NODE_STARTED), EVENT(SANDBOX_STARTED), EVENT(OUTPUT_DELTA),
        EVENT(SANDBOX_RESULT), EVENT(EDGE_TAKEN),   EVENT(NODE_STARTED),    EVENT(EVALUATION),
        EVENT(EDGE_TAKEN),     EVENT(NODE_STARTED), EVENT(RESULT),
    };
    struct run_reader reader;
    struct gated gated;

    (void)state;
    read_gated(&gated, &reader, solve_when_read);

    assert_int_equal(reader.count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < reader.count; i++)
        assert_int_equal(reader.events[i]->event_case, expected[i]);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

static void success_carries_files_output_and_level(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, NULL, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->iterations, 1);
    assert_string_equal(reader.result->plan, "1. Behaviours: add(a, b) returns the sum.");
    assert_int_equal(reader.result->n_files, 2);
    assert_string_equal(reader.result->files[0]->path, "solution.py");
    assert_non_null(strstr(reader.result->files[0]->text, "return a + b"));
    assert_string_equal(reader.result->execution_result->stdout_text, "3 passed in 0.01s\n");
    assert_true(reader.result->execution_result->success);
    assert_int_equal(reader.result->verification->level,
                     CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE);
    assert_int_equal(reader.result->n_error_history, 0);
    assert_int_equal(reader.result->n_warnings, 0);
    assert_int_equal(reader.result->usage->total_tokens, 60);
    assert_string_equal(reader.result->model_requested, "double-1");
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void failed_attempt_is_fed_back_and_repaired(void **state)
{
    const Crisol__Agent__V1__RunEvent *evaluation;
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, fail_once, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->iterations, 2);
    assert_int_equal(reader.result->n_error_history, 1);
    assert_string_equal(
        reader.result->error_history[0],
        "Attempt 1: ASSERTION: test_solution.py:14: assert f() == 1 \u2192 assert 2 == 1 "
        "(test_failed_0)");
    evaluation = run_reader_find(&reader, EVENT(EVALUATION), 0);
    assert_int_equal(evaluation->iteration, 1);
    assert_non_null(strstr(evaluation->evaluation->feedback, "E       assert 2 == 1"));
    assert_int_equal(run_reader_find(&reader, EVENT(EVALUATION), 1)->iteration, 2);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void check_repair_prompt(void *user, const struct agt_model_request *request,
                                struct double_answer *ret_answer)
{
    double_solve(user, request, ret_answer);
    if (strncmp(request->prompt, "TASK: add two numbers\n", 22) != 0)
        ret_answer->end = AGT_MODEL_BLOCKED;
    if (strcmp(request->purpose, "plan") == 0 &&
        strncmp(request->system, "You are the planner", 19) != 0)
        ret_answer->end = AGT_MODEL_BLOCKED;
    if (strcmp(request->purpose, "plan") != 0 &&
        strncmp(request->system, "You are the generator", 21) != 0)
        ret_answer->end = AGT_MODEL_BLOCKED;
    if (strcmp(request->purpose, "repair") == 0 &&
        (!strstr(request->prompt, "\nATTEMPT 1 FAILED\n") ||
         !strstr(request->prompt, "return a + b") ||
         !strstr(request->prompt, "E       assert 2 == 1")))
        ret_answer->end = AGT_MODEL_BLOCKED;
}

static void prompts_carry_the_marks_that_others_rely_on(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, check_repair_prompt, fail_once, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void run_that_never_passes_stops_at_max_iterations(void **state)
{
    static const int32_t limits[] = {1, 3, 10};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        engine_fixture_start(&fixture, NULL, fail_always, NULL);
        run_reader_read(&reader, engine_fixture_run(&fixture, limits[i]));

        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, CAUSE(MAX_ITERATIONS));
        assert_int_equal(reader.result->iterations, limits[i]);
        assert_int_equal(reader.result->n_error_history, (size_t)limits[i]);
        assert_int_equal(reader.result->verification->level,
                         CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_OFF);
        run_reader_done(&reader);
        engine_fixture_stop(&fixture);
        assert_int_equal(fixture.executions, (uint32_t)limits[i]);
    }
}

static void failed_run_returns_its_best_attempt(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, fail_always, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 3));

    assert_int_equal(reader.result->execution_result->detail->test_report->passed, 5);
    assert_false(reader.result->execution_result->success);
    assert_non_null(strstr(reader.result->final_response, "attempt 2, where 5 of 6 tests passed"));
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void fail_many(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                      struct double_execution *ret_execution)
{
    (void)user;
    (void)request;
    ret_execution->exit_code = 1;
    ret_execution->passed = 90;
    ret_execution->failed = 80;
}

static void event_carries_all_tests_and_the_result_the_first_ones(void **state)
{
    const Crisol__Sandbox__V1__TestReport *sent;
    const Crisol__Sandbox__V1__TestReport *kept;
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, NULL, fail_many, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 1));

    sent = run_reader_find(&reader, EVENT(SANDBOX_RESULT), 0)->sandbox_result->result->test_report;
    kept = reader.result->attempts[0]->execution->test_report;
    assert_int_equal(sent->n_cases, 170);
    assert_int_equal(kept->n_cases, 100);
    assert_true(sent->cases[63]->details[0] != '\0');
    assert_string_equal(sent->cases[64]->details, "");
    assert_true(kept->cases[7]->details[0] != '\0');
    assert_string_equal(kept->cases[8]->details, "");
    assert_string_equal(kept->cases[79]->message, "assert 2 == 1");
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

/* Both files with 120,000 bytes, and another line in each answer. */
static void answer_at_length(void *user, const struct agt_model_request *request,
                             struct double_answer *ret_answer)
{
    static char text[250000]; /* one thread, one answer at a time */
    struct engine_fixture *fixture = user;
    size_t size;

    double_solve(NULL, request, ret_answer);
    if (strcmp(request->purpose, "plan") == 0)
        return;
    size = (size_t)snprintf(text, sizeof(text), "```python path=test_solution.py\n# %u\n",
                            fixture->answers++);
    memset(text + size, '#', 120000);
    size += 120000;
    size += (size_t)snprintf(text + size, sizeof(text) - size,
                             "\n```\n```python path=solution.py\nT = %u\n", fixture->answers);
    memset(text + size, '#', 120000);
    size += 120000;
    (void)snprintf(text + size, sizeof(text) - size, "\n```\n");
    ret_answer->text = text;
}

static void result_that_would_be_too_large_keeps_the_best_files(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, answer_at_length, fail_always, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 10));

    assert_int_equal(reader.result->n_attempts, 10);
    assert_true(crisol__agent__v1__run_result__get_packed_size(reader.result) < 3500000);
    assert_int_equal(strlen(reader.result->files[0]->text), 120007);
    assert_int_equal(reader.result->attempts[1]->n_files, 2); /* the best */
    assert_int_equal(reader.result->attempts[9]->n_files, 0);
    assert_int_equal(reader.result->n_warnings, 1);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void answer_by_another_model(void *user, const struct agt_model_request *request,
                                    struct double_answer *ret_answer)
{
    double_solve(user, request, ret_answer);
    ret_answer->model_served = "other-2";
}

static void other_model_than_asked_for_is_a_warning(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, answer_by_another_model, NULL, NULL);
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));

    assert_int_equal(reader.result->n_models_served, 1);
    assert_string_equal(reader.result->models_served[0], "other-2");
    assert_int_equal(reader.result->n_warnings, 1);
    assert_string_equal(reader.result->warnings[0],
                        "Model 'double-1' was asked for, but 'other-2' answered.");
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void answer_in_pieces(void *user, const struct agt_model_request *request,
                             struct double_answer *ret_answer)
{
    solve_when_read(user, request, ret_answer);
    ret_answer->delta_size = 16;
    ret_answer->has_retry = true;
}

static void deltas_give_the_whole_answer(void **state)
{
    struct run_reader reader;
    struct gated gated;
    char text[4096] = "";
    size_t size = 0;

    (void)state;
    read_gated(&gated, &reader, answer_in_pieces);

    for (size_t i = 0; i < reader.count; i++) {
        const Crisol__Agent__V1__RunEvent *event = reader.events[i];

        if (event->event_case != EVENT(MODEL_DELTA) ||
            event->node != CRISOL__AGENT__V1__NODE__NODE_GENERATOR)
            continue;
        assert_int_equal(event->model_delta->offset, size);
        memcpy(text + size, event->model_delta->text, strlen(event->model_delta->text));
        size += strlen(event->model_delta->text);
    }
    assert_string_equal(text, double_good_files);
    assert_int_equal(run_reader_count(&reader, EVENT(MODEL_RETRY)), 2);
    run_reader_done(&reader);
}

static void thousand_runs_at_once_all_end(void **state)
{
    struct agt_run **runs = calloc(RUNS, sizeof(struct agt_run *));
    struct engine_fixture fixture;

    (void)state;
    assert_non_null(runs);
    engine_fixture_start(&fixture, NULL, NULL, NULL);
    for (size_t i = 0; i < RUNS; i++)
        runs[i] = engine_fixture_run(&fixture, 0);

    for (size_t i = 0; i < RUNS; i++) {
        struct run_reader reader;

        run_reader_read(&reader, runs[i]);
        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        run_reader_done(&reader);
    }
    assert_true(agt_engine_drain(fixture.engine, 5000));
    engine_fixture_stop(&fixture);
    free(runs);
}

static void run_outlives_its_engine(void **state)
{
    struct engine_fixture fixture;
    struct agt_run *run;

    (void)state;
    engine_fixture_start(&fixture, NULL, NULL, NULL);
    run = engine_fixture_run(&fixture, 0);
    assert_true(agt_engine_drain(fixture.engine, 5000));
    engine_fixture_stop(&fixture);

    agt_run_cancel(run);
    assert_int_equal(strlen(agt_run_id(run)), 32);
    assert_null(agt_run_unref(run));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_that_passes_at_once_has_every_event_in_order),
        cmocka_unit_test(success_carries_files_output_and_level),
        cmocka_unit_test(failed_attempt_is_fed_back_and_repaired),
        cmocka_unit_test(prompts_carry_the_marks_that_others_rely_on),
        cmocka_unit_test(run_that_never_passes_stops_at_max_iterations),
        cmocka_unit_test(failed_run_returns_its_best_attempt),
        cmocka_unit_test(event_carries_all_tests_and_the_result_the_first_ones),
        cmocka_unit_test(result_that_would_be_too_large_keeps_the_best_files),
        cmocka_unit_test(other_model_than_asked_for_is_a_warning),
        cmocka_unit_test(deltas_give_the_whole_answer),
        cmocka_unit_test(thousand_runs_at_once_all_end),
        cmocka_unit_test(run_outlives_its_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
