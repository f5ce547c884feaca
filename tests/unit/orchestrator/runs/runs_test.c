/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/runs/view.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct engine_fixture engine;
    struct agt_runs *runs;
    struct agt_store *store; /* NULL: none */
};

static void hold(void *user, const struct agt_model_request *request, struct double_answer *answer)
{
    double_solve(user, request, answer);
    answer->is_held = true;
}

static void set_up(struct fixture *fixture, double_model_script script,
                   const struct agt_runs_options *options)
{
    struct agt_runs_options own = {0};

    *fixture = (struct fixture){.runs = NULL};
    engine_fixture_start(&fixture->engine, script, NULL, NULL);
    if (options)
        own = *options;
    own.engine = fixture->engine.engine;
    assert_int_equal(agt_runs_new(&own, &fixture->runs, NULL), 0);
}

static void tear_down(struct fixture *fixture)
{
    assert_null(agt_runs_free(fixture->runs));
    engine_fixture_stop(&fixture->engine);
}

static struct agt_run *begin(struct fixture *fixture, const char *caller, const char *key,
                             const char *task, struct rpc_status *status)
{
    const struct agt_run_spec spec = {.task = task};
    struct agt_run *run = NULL;

    *status = (struct rpc_status)RPC_STATUS_INIT;
    (void)agt_runs_start(fixture->runs, caller, key, &spec, &run, status);
    return run;
}

/* Starts a run, waits for its end and gives its id. */
static void run_to_end(struct fixture *fixture, const char *caller, char id[static 33])
{
    struct rpc_status status;
    struct agt_run *run = begin(fixture, caller, NULL, "add two numbers", &status);
    struct run_reader reader;

    assert_non_null(run);
    (void)memccpy(id, agt_run_id(run), '\0', 33);
    run_reader_read(&reader, run);
    run_reader_done(&reader);
}

static bool is_known(struct fixture *fixture, const char *caller, const char *id)
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
    struct fixture fixture;
    char id[33];

    (void)state;
    set_up(&fixture, NULL, NULL);
    run_to_end(&fixture, "uid:1", id);

    assert_true(is_known(&fixture, "uid:1", id));
    assert_false(is_known(&fixture, "uid:2", id));
    assert_null(agt_runs_find(fixture.runs, "uid:1", "../../etc", &status));
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    tear_down(&fixture);
}

static void a_key_starts_one_run_of_its_caller(void **state)
{
    struct rpc_status status;
    struct fixture fixture;
    struct agt_run *first;
    struct agt_run *again;
    struct agt_run *other;

    (void)state;
    set_up(&fixture, hold, NULL);
    first = begin(&fixture, "uid:1", "k", "a task", &status);
    again = begin(&fixture, "uid:1", "k", "a task", &status);
    other = begin(&fixture, "uid:2", "k", "a task", &status);

    assert_non_null(first);
    assert_ptr_equal(first, again);
    assert_non_null(other);
    assert_ptr_not_equal(first, other);
    assert_null(begin(&fixture, "uid:1", "k", "another task", &status));
    assert_int_equal(status.code, RPC_ALREADY_EXISTS);
    assert_int_equal(agt_engine_live_runs(fixture.engine.engine), 2);
    (void)agt_run_unref(first);
    (void)agt_run_unref(again);
    (void)agt_run_unref(other);
    tear_down(&fixture);
}

static void a_long_key_is_refused_by_name(void **state)
{
    struct rpc_status status;
    struct fixture fixture;
    char key[AGT_RUNS_KEY_MAX + 2];

    (void)state;
    set_up(&fixture, NULL, NULL);
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_null(begin(&fixture, "uid:1", key, "a task", &status));
    assert_string_equal(status.violations[0].field, "idempotency_key");
    tear_down(&fixture);
}

static void a_refused_start_leaves_no_run(void **state)
{
    struct rpc_status status;
    struct agt_runs_page page;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, NULL, NULL);
    assert_null(begin(&fixture, "uid:1", "k", "", &status));
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    status = (struct rpc_status)RPC_STATUS_INIT;
    assert_int_equal(agt_runs_list(fixture.runs, "uid:1", 0, "", &page, &status), 0);
    assert_int_equal(page.count, 0);
    tear_down(&fixture);
}

static void the_oldest_ended_runs_are_forgotten_first(void **state)
{
    const struct agt_runs_options options = {.max_ended = 2};
    struct fixture fixture;
    char ids[3][33];

    (void)state;
    set_up(&fixture, NULL, &options);
    for (int i = 0; i < 3; i++)
        run_to_end(&fixture, "uid:1", ids[i]);
    agt_runs_sweep(fixture.runs);

    assert_false(is_known(&fixture, "uid:1", ids[0]));
    assert_true(is_known(&fixture, "uid:1", ids[1]));
    assert_true(is_known(&fixture, "uid:1", ids[2]));
    tear_down(&fixture);
}

static void ended_runs_are_bounded_in_bytes(void **state)
{
    const struct agt_runs_options options = {.max_ended_bytes = 1};
    struct fixture fixture;
    char id[33];

    (void)state;
    set_up(&fixture, NULL, &options);
    run_to_end(&fixture, "uid:1", id);
    agt_runs_sweep(fixture.runs);

    assert_false(is_known(&fixture, "uid:1", id));
    tear_down(&fixture);
}

static void a_run_that_goes_on_is_never_forgotten(void **state)
{
    const struct agt_runs_options options = {.max_ended = 1, .max_ended_bytes = 1};
    struct rpc_status status;
    struct fixture fixture;
    struct agt_run *run;

    (void)state;
    set_up(&fixture, hold, &options);
    run = begin(&fixture, "uid:1", NULL, "a task", &status);
    agt_runs_sweep(fixture.runs);

    assert_true(is_known(&fixture, "uid:1", agt_run_id(run)));
    (void)agt_run_unref(run);
    tear_down(&fixture);
}

static void pages_list_each_run_once_newest_first(void **state)
{
    struct agt_runs_page page = {.next_token = ""};
    struct fixture fixture;
    char ids[5][33];
    char other[33];
    int seen = 0;

    (void)state;
    set_up(&fixture, NULL, NULL);
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
    tear_down(&fixture);
}

static void bad_pages_are_refused_by_name(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_runs_page page;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, NULL, NULL);
    assert_true(agt_runs_list(fixture.runs, "uid:1", 101, "x", &page, &status) < 0);
    assert_int_equal(status.violation_count, 2);
    tear_down(&fixture);
}

static void a_run_that_goes_on_shows_what_is_known(void **state)
{
    Crisol__Agent__V1__RunResult *result;
    struct rpc_status status;
    struct fixture fixture;
    struct agt_run *run;

    (void)state;
    set_up(&fixture, hold, NULL);
    run = begin(&fixture, "uid:1", NULL, "a task", &status);
    run_reader_wait_for(run, CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED);
    result = agt_view_result(run);

    assert_int_equal(result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING);
    assert_string_equal(result->task, "a task");
    assert_string_equal(result->run_id, agt_run_id(run));
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    (void)agt_run_unref(run);
    tear_down(&fixture);
}

static void keep_graph(void *user, const Crisol__Agent__V1__DescribeGraphResponse *response)
{
    char **mermaid = user;

    *mermaid = strdup(response->mermaid);
}

static void the_path_of_a_run_is_marked(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;
    struct agt_run *run;
    char *plain = NULL;
    char *marked = NULL;
    char id[33];

    (void)state;
    set_up(&fixture, NULL, NULL);
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
    tear_down(&fixture);
}

static void a_caller_has_so_many_runs_at_one_time(void **state)
{
    const struct agt_runs_options options = {.max_caller_live = 2};
    struct rpc_status status;
    struct agt_run *runs[4];
    struct fixture fixture;

    (void)state;
    set_up(&fixture, hold, &options);
    runs[0] = begin(&fixture, "uid:1", "k", "one", &status);
    runs[1] = begin(&fixture, "uid:1", NULL, "two", &status);
    assert_non_null(runs[1]);
    assert_null(begin(&fixture, "uid:1", NULL, "three", &status));
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(status.reason, "CALLER_LIVE_LIMIT");
    assert_true(status.retry_after_ms > 0);
    /* To ask for the same again starts nothing. */
    runs[2] = begin(&fixture, "uid:1", "k", "one", &status);
    assert_ptr_equal(runs[2], runs[0]);
    runs[3] = begin(&fixture, "uid:2", NULL, "another's", &status);
    assert_non_null(runs[3]);
    for (size_t i = 0; i < 4; i++)
        (void)agt_run_unref(runs[i]);
    tear_down(&fixture);
}

static void a_caller_begins_so_many_runs_in_a_minute(void **state)
{
    const struct agt_runs_options options = {.caller_per_minute = 2};
    struct rpc_status status;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, double_solve, &options);
    for (int i = 0; i < 2; i++) {
        struct agt_run *run = begin(&fixture, "token:ci", NULL, "a task", &status);

        assert_non_null(run);
        (void)agt_run_unref(run);
    }
    assert_null(begin(&fixture, "token:ci", NULL, "a task", &status));
    assert_string_equal(status.reason, "CALLER_RATE_LIMIT");
    assert_in_range(status.retry_after_ms, 1, 30001);
    tear_down(&fixture);
}

/* ---- what is asked of a durable run ---- */

struct told {
    int count;
    int error;
};

static void on_stored(void *user, int error)
{
    struct told *told = user;

    told->count++;
    told->error = error;
}

/* With a store, and a durable run that waits for its model. */
static struct agt_run *set_up_limited(struct fixture *fixture, uint32_t max_caller_live)
{
    struct agt_store *store = double_store_new();
    const struct agt_engine_options engine = {.store = store};
    struct agt_runs_options options = {.store = store, .max_caller_live = max_caller_live};
    struct rpc_status status;
    struct agt_run *run;

    *fixture = (struct fixture){.store = store};
    engine_fixture_start(&fixture->engine, hold, NULL, &engine);
    options.engine = fixture->engine.engine;
    assert_int_equal(agt_runs_new(&options, &fixture->runs, NULL), 0);
    run = begin(fixture, "uid:1", NULL, "a task", &status);
    run_reader_wait_for(run, CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED);
    return run;
}

static struct agt_run *set_up_durable(struct fixture *fixture)
{
    return set_up_limited(fixture, 0);
}

static void tear_down_durable(struct fixture *fixture, struct agt_run *run)
{
    struct agt_store *store = fixture->store;

    (void)agt_run_unref(run);
    tear_down(fixture);
    store->ops->free(store);
}

static void a_cancel_is_told_of_when_it_is_durable(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);

    (void)state;
    double_store_hold(fixture.store, true);
    assert_int_equal(agt_runs_cancel(fixture.runs, run, on_stored, &told, &status), 1);
    assert_int_equal(told.count, 0);
    double_store_hold(fixture.store, false);

    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, 0);
    tear_down_durable(&fixture, run);
}

static void on_exported(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct told *told = user;

    (void)size;
    free(take_packed);
    told->count++;
    told->error = error;
}

static int export_run(struct fixture *fixture, const struct agt_run *run, struct told *told,
                      struct rpc_status *status)
{
    *status = (struct rpc_status)RPC_STATUS_INIT;
    return agt_runs_export(fixture->runs, "uid:1", agt_run_id(run), on_exported, told, status);
}

/* Each is as large as its run, for as long as its reader takes. */
static void a_caller_has_few_exports_in_memory(void **state)
{
    struct rpc_status status;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);

    (void)state;
    for (int i = 0; i < AGT_RUNS_EXPORTS_MAX; i++)
        assert_int_equal(export_run(&fixture, run, &told, &status), 0);
    assert_int_equal(export_run(&fixture, run, &told, &status), -EAGAIN);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    agt_runs_export_done(fixture.runs, "uid:1");
    assert_int_equal(export_run(&fixture, run, &told, &status), 0);
    assert_int_equal(told.count, AGT_RUNS_EXPORTS_MAX + 1);
    assert_int_equal(told.error, 0);
    for (int i = 0; i < AGT_RUNS_EXPORTS_MAX; i++)
        agt_runs_export_done(fixture.runs, "uid:1");
    tear_down_durable(&fixture, run);
}

static void on_forked(void *user, const char *run_id, const struct rpc_status *status)
{
    struct told *told = user;

    (void)run_id;
    told->count++;
    told->error = status ? (int)status->code : 0;
}

static int fork_run(struct fixture *fixture, const struct agt_run *run, struct told *told,
                    struct rpc_status *status)
{
    *status = (struct rpc_status)RPC_STATUS_INIT;
    return agt_runs_fork(fixture->runs, "uid:1", agt_run_id(run), 1, on_forked, told, status);
}

static void a_fork_is_a_run_of_its_caller(void **state)
{
    struct rpc_status status;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_limited(&fixture, 1);

    (void)state;
    assert_int_equal(fork_run(&fixture, run, &told, &status), -EAGAIN);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(status.reason, "CALLER_LIVE_LIMIT");
    assert_int_equal(told.count, 0);
    tear_down_durable(&fixture, run);
}

static void forks_on_their_way_count(void **state)
{
    struct rpc_status status;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_limited(&fixture, 2);

    (void)state;
    double_store_hold(fixture.store, true);
    assert_int_equal(fork_run(&fixture, run, &told, &status), 0);
    assert_int_equal(fork_run(&fixture, run, &told, &status), -EAGAIN);
    assert_null(begin(&fixture, "uid:1", NULL, "a task", &status));
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    double_store_hold(fixture.store, false);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, 0);
    tear_down_durable(&fixture, run);
}

static void a_cancel_that_is_not_stored_says_so(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);

    (void)state;
    double_store_fail(fixture.store, -ECANCELED);
    assert_int_equal(agt_runs_cancel(fixture.runs, run, on_stored, &told, &status), 1);

    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, -ECANCELED);
    tear_down_durable(&fixture, run);
}

static void a_cancel_here_does_not_wait_for_a_store_that_takes_nothing(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct run_reader reader;
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);

    (void)state;
    double_store_set_accepting(fixture.store, false);
    assert_int_equal(agt_runs_cancel(fixture.runs, run, on_stored, &told, &status), 0);
    run_reader_read(&reader, agt_run_ref(run));

    assert_int_equal(told.count, 0);
    assert_int_equal(reader.result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_CANCELLED);
    run_reader_done(&reader);
    tear_down_durable(&fixture, run);
}

/* The same run again, as a store tells of it that is shared with the process which holds it. */
static struct agt_run *meet_as_guest(struct agt_runs *other, const struct fixture *fixture,
                                     const struct agt_run *run)
{
    struct agt_store_run row = {.run_id = agt_run_id(run), .is_elsewhere = true, .fence = 1};
    struct rpc_status status = RPC_STATUS_INIT;

    row.spec = double_store_part(fixture->store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    agt_runs_on_stored(other, &row);
    return agt_runs_find(other, "uid:1", row.run_id, &status);
}

static void what_is_asked_of_another_process_waits_until_it_finds_it(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    const struct agt_runs_options options = {.engine = fixture.engine.engine,
                                             .store = fixture.store};
    struct agt_runs *other = NULL;
    struct agt_run *guest;

    (void)state;
    assert_int_equal(agt_runs_new(&options, &other, NULL), 0);
    guest = meet_as_guest(other, &fixture, run);
    assert_non_null(guest);
    double_store_hold(fixture.store, true);
    assert_int_equal(agt_runs_cancel(other, guest, on_stored, &told, &status), 1);
    assert_int_equal(told.count, 0);
    double_store_hold(fixture.store, false);
    assert_int_equal(told.count, 1);

    double_store_set_accepting(fixture.store, false);
    assert_true(agt_runs_cancel(other, guest, on_stored, &told, &status) < 0);
    assert_int_equal(status.code, RPC_UNAVAILABLE);
    assert_int_equal(told.count, 1);
    (void)agt_run_unref(guest);
    (void)agt_runs_free(other);
    tear_down_durable(&fixture, run);
}

/* It was found while it was read along here; meanwhile this process went on with it. */
static void a_run_that_is_left_while_it_is_looked_at_has_not_failed(void **state)
{
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    const struct agt_runs_options options = {.engine = fixture.engine.engine,
                                             .store = fixture.store};
    struct agt_runs *other = NULL;
    struct agt_run *guest;
    Crisol__Agent__V1__RunResult *result;

    (void)state;
    assert_int_equal(agt_runs_new(&options, &other, NULL), 0);
    guest = meet_as_guest(other, &fixture, run);
    agt_guest_leave(guest);
    result = agt_view_result(guest);
    assert_int_equal(result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING);
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    (void)agt_run_unref(guest);
    (void)agt_runs_free(other);
    tear_down_durable(&fixture, run);
}

static void wait_until_left(const struct agt_run *run)
{
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;

    while (!agt_run_is_left(run) && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);
    assert_true(agt_run_is_left(run));
}

/* Another process had it in between: what went on here must not be taken for what is held now. */
static void a_run_that_is_held_anew_is_left_and_taken_up(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    struct agt_store_run row = {.run_id = agt_run_id(run), .fence = AGT_STORE_FIRST_FENCE};
    struct agt_run *again;

    (void)state;
    row.spec = double_store_part(fixture.store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    assert_int_equal(agt_runs_on_stored(fixture.runs, &row), 0); /* the hold that it has */
    assert_false(agt_run_is_left(run));
    row.fence += 2;
    assert_int_equal(agt_runs_on_stored(fixture.runs, &row), -EBUSY);
    wait_until_left(run);
    assert_int_equal(agt_runs_on_stored(fixture.runs, &row), 0);
    again = agt_runs_find(fixture.runs, "uid:1", row.run_id, &status);
    assert_non_null(again);
    assert_ptr_not_equal(again, run);
    assert_int_equal(agt_run_fence(again), row.fence);
    (void)agt_run_unref(again);
    tear_down_durable(&fixture, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_is_told_of_when_it_is_durable),
        cmocka_unit_test(a_caller_has_few_exports_in_memory),
        cmocka_unit_test(a_fork_is_a_run_of_its_caller),
        cmocka_unit_test(forks_on_their_way_count),
        cmocka_unit_test(a_cancel_that_is_not_stored_says_so),
        cmocka_unit_test(a_cancel_here_does_not_wait_for_a_store_that_takes_nothing),
        cmocka_unit_test(what_is_asked_of_another_process_waits_until_it_finds_it),
        cmocka_unit_test(a_run_that_is_left_while_it_is_looked_at_has_not_failed),
        cmocka_unit_test(a_run_that_is_held_anew_is_left_and_taken_up),
        cmocka_unit_test(a_caller_has_so_many_runs_at_one_time),
        cmocka_unit_test(a_caller_begins_so_many_runs_in_a_minute),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
