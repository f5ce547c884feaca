/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/runs/view.h"
#include "tests/harness/run_reader.h"
#include "tests/unit/orchestrator/runs/runs_fixture.h"

#include <stdlib.h>
#include <string.h>

/* Starts a run, waits for its end and gives its id. */
static void run_to_end(struct runs_fixture *fixture, const char *caller, char id[static 33])
{
    struct rpc_status status;
    struct agt_run *run = runs_begin(fixture, caller, NULL, "add two numbers", &status);
    struct run_reader reader;

    assert_non_null(run);
    (void)memccpy(id, agt_run_id(run), '\0', 33);
    run_reader_read(&reader, run);
    run_reader_done(&reader);
}

static bool is_known(struct runs_fixture *fixture, const char *caller, const char *id)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = agt_runs_find(fixture->runs, caller, id, &status);
    bool is_found = run != NULL;

    if (!is_found)
        assert_int_equal(status.code, RPC_NOT_FOUND);
    (void)agt_run_unref(run);
    return is_found;
}

static void a_run_is_its_callers_alone(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct runs_fixture fixture;
    char id[33];

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    run_to_end(&fixture, "uid:1", id);

    assert_true(is_known(&fixture, "uid:1", id));
    assert_false(is_known(&fixture, "uid:2", id));
    assert_null(agt_runs_find(fixture.runs, "uid:1", "../../etc", &status));
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    runs_tear_down(&fixture);
}

static void a_key_starts_one_run_of_its_caller(void **state)
{
    struct rpc_status status;
    struct runs_fixture fixture;
    struct agt_run *first;
    struct agt_run *again;
    struct agt_run *other;

    (void)state;
    runs_set_up(&fixture, runs_hold, NULL, NULL);
    first = runs_begin(&fixture, "uid:1", "k", "a task", &status);
    again = runs_begin(&fixture, "uid:1", "k", "a task", &status);
    other = runs_begin(&fixture, "uid:2", "k", "a task", &status);

    assert_non_null(first);
    assert_ptr_equal(first, again);
    assert_non_null(other);
    assert_ptr_not_equal(first, other);
    assert_null(runs_begin(&fixture, "uid:1", "k", "another task", &status));
    assert_int_equal(status.code, RPC_ALREADY_EXISTS);
    assert_int_equal(agt_engine_live_runs(fixture.engine.engine), 2);
    (void)agt_run_unref(first);
    (void)agt_run_unref(again);
    (void)agt_run_unref(other);
    runs_tear_down(&fixture);
}

static void a_long_key_is_refused_by_name(void **state)
{
    struct rpc_status status;
    struct runs_fixture fixture;
    char key[AGT_RUNS_KEY_MAX + 2];

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_null(runs_begin(&fixture, "uid:1", key, "a task", &status));
    assert_string_equal(status.violations[0].field, "idempotency_key");
    runs_tear_down(&fixture);
}

static void a_refused_start_leaves_no_run(void **state)
{
    struct rpc_status status;
    struct agt_runs_page page;
    struct runs_fixture fixture;

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    assert_null(runs_begin(&fixture, "uid:1", "k", "", &status));
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    status = (struct rpc_status)RPC_STATUS_INIT;
    assert_int_equal(agt_runs_list(fixture.runs, "uid:1", 0, "", &page, &status), 0);
    assert_int_equal(page.count, 0);
    runs_tear_down(&fixture);
}

static void the_oldest_ended_runs_are_forgotten_first(void **state)
{
    const struct agt_runs_options options = {.max_ended = 2};
    struct runs_fixture fixture;
    char ids[3][33];

    (void)state;
    runs_set_up(&fixture, NULL, &options, NULL);
    for (int i = 0; i < 3; i++)
        run_to_end(&fixture, "uid:1", ids[i]);
    agt_runs_sweep(fixture.runs);

    assert_false(is_known(&fixture, "uid:1", ids[0]));
    assert_true(is_known(&fixture, "uid:1", ids[1]));
    assert_true(is_known(&fixture, "uid:1", ids[2]));
    runs_tear_down(&fixture);
}

static void ended_runs_are_bounded_in_bytes(void **state)
{
    const struct agt_runs_options options = {.max_ended_bytes = 1};
    struct runs_fixture fixture;
    char id[33];

    (void)state;
    runs_set_up(&fixture, NULL, &options, NULL);
    run_to_end(&fixture, "uid:1", id);
    agt_runs_sweep(fixture.runs);

    assert_false(is_known(&fixture, "uid:1", id));
    runs_tear_down(&fixture);
}

static void a_run_that_goes_on_is_never_forgotten(void **state)
{
    const struct agt_runs_options options = {.max_ended = 1, .max_ended_bytes = 1};
    struct rpc_status status;
    struct runs_fixture fixture;
    struct agt_run *run;

    (void)state;
    runs_set_up(&fixture, runs_hold, &options, NULL);
    run = runs_begin(&fixture, "uid:1", NULL, "a task", &status);
    agt_runs_sweep(fixture.runs);

    assert_true(is_known(&fixture, "uid:1", agt_run_id(run)));
    (void)agt_run_unref(run);
    runs_tear_down(&fixture);
}

static void pages_list_each_run_once_newest_first(void **state)
{
    struct agt_runs_page page = {.next_token = ""};
    struct runs_fixture fixture;
    char ids[5][33];
    char other[33];
    int seen = 0;

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    for (int i = 0; i < 5; i++)
        run_to_end(&fixture, "uid:1", ids[i]);
    run_to_end(&fixture, "uid:2", other);
    do {
        struct rpc_status status = RPC_STATUS_INIT;
        char token[24];

        (void)memccpy(token, page.next_token, '\0', sizeof(token));
        assert_int_equal(agt_runs_list(fixture.runs, "uid:1", 2, token, &page, &status), 0);
        for (size_t i = 0; i < page.count; i++)
            assert_string_equal(agt_run_id(page.runs[i]), ids[4 - seen++]);
        agt_runs_page_done(&page);
    } while (page.next_token[0] != '\0');

    assert_int_equal(seen, 5);
    runs_tear_down(&fixture);
}

static void bad_pages_are_refused_by_name(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_runs_page page;
    struct runs_fixture fixture;

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    assert_true(agt_runs_list(fixture.runs, "uid:1", 101, "x", &page, &status) < 0);
    assert_int_equal(status.violation_count, 2);
    runs_tear_down(&fixture);
}

static void a_run_that_goes_on_shows_what_is_known(void **state)
{
    Crisol__Agent__V1__RunResult *result;
    struct rpc_status status;
    struct runs_fixture fixture;
    struct agt_run *run;

    (void)state;
    runs_set_up(&fixture, runs_hold, NULL, NULL);
    run = runs_begin(&fixture, "uid:1", NULL, "a task", &status);
    run_reader_wait_for(run, CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED);
    result = agt_view_result(run);

    assert_int_equal(result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING);
    assert_string_equal(result->task, "a task");
    assert_string_equal(result->run_id, agt_run_id(run));
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    (void)agt_run_unref(run);
    runs_tear_down(&fixture);
}

static void keep_graph(void *user, const Crisol__Agent__V1__DescribeGraphResponse *response)
{
    char **mermaid = user;

    *mermaid = strdup(response->mermaid);
}

static void the_path_of_a_run_is_marked(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct runs_fixture fixture;
    struct agt_run *run;
    char *plain = NULL;
    char *marked = NULL;
    char id[33];

    (void)state;
    runs_set_up(&fixture, NULL, NULL, NULL);
    run_to_end(&fixture, "uid:1", id);
    run = agt_runs_find(fixture.runs, "uid:1", id, &status);
    assert_int_equal(agt_view_graph(NULL, keep_graph, &plain), 0);
    assert_int_equal(agt_view_graph(run, keep_graph, &marked), 0);

    assert_null(strstr(plain, ":::visited\n"));
    assert_non_null(strstr(marked, "planner ×1\"]:::visited\n"));
    assert_non_null(strstr(marked, "planner ==>|done"));
    assert_non_null(strstr(marked, "evaluator -->|repair"));
    free(plain);
    free(marked);
    (void)agt_run_unref(run);
    runs_tear_down(&fixture);
}

static void a_caller_has_so_many_runs_at_one_time(void **state)
{
    const struct agt_runs_options options = {.max_caller_live = 2};
    struct rpc_status status;
    struct agt_run *runs[4];
    struct runs_fixture fixture;

    (void)state;
    runs_set_up(&fixture, runs_hold, &options, NULL);
    runs[0] = runs_begin(&fixture, "uid:1", "k", "one", &status);
    runs[1] = runs_begin(&fixture, "uid:1", NULL, "two", &status);
    assert_non_null(runs[1]);
    assert_null(runs_begin(&fixture, "uid:1", NULL, "three", &status));
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(status.reason, "CALLER_LIVE_LIMIT");
    assert_true(status.retry_after_ms > 0);
    /* To ask for the same again starts nothing. */
    runs[2] = runs_begin(&fixture, "uid:1", "k", "one", &status);
    assert_ptr_equal(runs[2], runs[0]);
    runs[3] = runs_begin(&fixture, "uid:2", NULL, "another's", &status);
    assert_non_null(runs[3]);
    for (size_t i = 0; i < 4; i++)
        (void)agt_run_unref(runs[i]);
    runs_tear_down(&fixture);
}

static void a_caller_begins_so_many_runs_in_a_minute(void **state)
{
    const struct agt_runs_options options = {.caller_per_minute = 2};
    struct rpc_status status;
    struct runs_fixture fixture;

    (void)state;
    runs_set_up(&fixture, double_solve, &options, NULL);
    for (int i = 0; i < 2; i++) {
        struct agt_run *run = runs_begin(&fixture, "token:ci", NULL, "a task", &status);

        assert_non_null(run);
        (void)agt_run_unref(run);
    }
    assert_null(runs_begin(&fixture, "token:ci", NULL, "a task", &status));
    assert_string_equal(status.reason, "CALLER_RATE_LIMIT");
    assert_in_range(status.retry_after_ms, 1, 30001);
    runs_tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_its_callers_alone),
        cmocka_unit_test(a_key_starts_one_run_of_its_caller),
        cmocka_unit_test(a_long_key_is_refused_by_name),
        cmocka_unit_test(a_refused_start_leaves_no_run),
        cmocka_unit_test(the_oldest_ended_runs_are_forgotten_first),
        cmocka_unit_test(ended_runs_are_bounded_in_bytes),
        cmocka_unit_test(a_run_that_goes_on_is_never_forgotten),
        cmocka_unit_test(pages_list_each_run_once_newest_first),
        cmocka_unit_test(bad_pages_are_refused_by_name),
        cmocka_unit_test(a_run_that_goes_on_shows_what_is_known),
        cmocka_unit_test(the_path_of_a_run_is_marked),
        cmocka_unit_test(a_caller_has_so_many_runs_at_one_time),
        cmocka_unit_test(a_caller_begins_so_many_runs_in_a_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
