/* SPDX-License-Identifier: Apache-2.0 */

/* What is asked of a durable run. */
#include "common/clock.h"
#include "orchestrator/runs/view.h"
#include "tests/harness/alloc.h"
#include "tests/harness/double_store.h"
#include "tests/harness/run_reader.h"
#include "tests/unit/orchestrator/runs/runs_fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include <sys/prctl.h>

#define ALLOCATIONS_MAX 2000

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
static struct agt_run *set_up_limited(struct runs_fixture *fixture, uint32_t max_caller_live)
{
    struct agt_store *store = double_store_new();
    const struct agt_engine_options engine = {.store = store};
    const struct agt_runs_options options = {.store = store, .max_caller_live = max_caller_live};
    struct rpc_status status;
    struct agt_run *run;

    runs_set_up(fixture, runs_hold, &options, &engine);
    fixture->store = store;
    run = runs_begin(fixture, "uid:1", NULL, "a task", &status);
    run_reader_wait_for(run, CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED);
    return run;
}

static struct agt_run *set_up_durable(struct runs_fixture *fixture)
{
    return set_up_limited(fixture, 0);
}

static void tear_down_durable(struct runs_fixture *fixture, struct agt_run *run)
{
    struct agt_store *store = fixture->store;

    (void)agt_run_unref(run);
    runs_tear_down(fixture);
    store->ops->free(store);
}

static void a_cancel_is_told_of_when_it_is_durable(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct runs_fixture fixture;
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

static int export_run(struct runs_fixture *fixture, const struct agt_run *run, struct told *told,
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
    struct runs_fixture fixture;
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

static int fork_run(struct runs_fixture *fixture, const struct agt_run *run, struct told *told,
                    struct rpc_status *status)
{
    const struct agt_runs_fork from = {.run_id = agt_run_id(run), .seq = 1};

    *status = (struct rpc_status)RPC_STATUS_INIT;
    return agt_runs_fork(fixture->runs, "uid:1", &from, on_forked, told, status);
}

static void expect_code(struct runs_fixture *fixture, const struct agt_run *run, enum rpc_code code)
{
    struct rpc_status status;
    struct told told = {0};

    assert_int_equal(export_run(fixture, run, &told, &status), 0);
    assert_int_equal(told.count, 1);
    agt_runs_export_done(fixture->runs, "uid:1");
    agt_runs_export_status(told.error, &status);
    assert_int_equal(status.code, code);
    assert_int_equal(fork_run(fixture, run, &told, &status), 0);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.error, code);
}

/* Between the look at the registry and that at the journal. */
static void a_run_without_events_is_no_export(void **state)
{
    struct runs_fixture fixture;
    struct run_reader reader;
    struct agt_run *run = set_up_durable(&fixture);

    (void)state;
    agt_run_cancel(run);
    run_reader_read(&reader, agt_run_ref(run));
    run_reader_done(&reader);
    double_store_cut(fixture.store, 0); /* as when it was deleted */
    expect_code(&fixture, run, RPC_NOT_FOUND);
    tear_down_durable(&fixture, run);

    run = set_up_durable(&fixture);
    double_store_cut(fixture.store, 0); /* as when its first turn is on its way */
    expect_code(&fixture, run, RPC_UNAVAILABLE);
    tear_down_durable(&fixture, run);
}

static void a_fork_is_a_run_of_its_caller(void **state)
{
    struct rpc_status status;
    struct told told = {0};
    struct runs_fixture fixture;
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
    struct runs_fixture fixture;
    struct agt_run *run = set_up_limited(&fixture, 2);

    (void)state;
    double_store_hold(fixture.store, true);
    assert_int_equal(fork_run(&fixture, run, &told, &status), 0);
    assert_int_equal(fork_run(&fixture, run, &told, &status), -EAGAIN);
    assert_null(runs_begin(&fixture, "uid:1", NULL, "a task", &status));
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    double_store_hold(fixture.store, false);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, 0);
    tear_down_durable(&fixture, run);
}

/* Nobody here could go on with the fork, which this process would hold. */
static void a_run_of_a_newer_program_is_not_forked(void **state)
{
    static const uint8_t field_99[] = {0x98, 0x06, 0x01};
    struct rpc_status status;
    struct told told = {0};
    struct runs_fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    size_t batches = double_store_batches(fixture.store);

    (void)state;
    double_store_spoil(fixture.store, DOUBLE_PART_INPUT, 0, field_99, sizeof(field_99));
    assert_int_equal(fork_run(&fixture, run, &told, &status), 0);

    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, RPC_FAILED_PRECONDITION);
    assert_int_equal(double_store_batches(fixture.store), batches); /* nothing is stored */
    tear_down_durable(&fixture, run);
}

/*
 * Whichever allocation fails: a run that nobody works on is not stored. The
 * engine's own thread, which works on those that were taken up, has all it asks.
 */
static void a_fork_that_is_refused_leaves_nothing_behind(void **state)
{
    static const char thread[] = "forks";
    struct runs_fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    size_t taken_up = 0;
    size_t refused = 0;
    int goes_on = 1;

    (void)state;
    (void)prctl(PR_SET_NAME, thread);
    for (int n = 0; goes_on; n++) {
        struct rpc_status status;
        struct told told = {0};
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        test_fail_alloc_of(thread, n);
        r = fork_run(&fixture, run, &told, &status);
        goes_on = test_stop_alloc();
        assert_int_equal(told.count, r == 0);
        if (r == 0 && told.error == 0)
            taken_up++;
        else
            refused += told.error == RPC_UNAVAILABLE;
        assert_int_equal(double_store_kept(fixture.store), 1 + taken_up);
    }
    assert_true(taken_up > 0);
    assert_true(refused > 0);
    tear_down_durable(&fixture, run);
}

static void a_cancel_that_is_not_stored_says_so(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct runs_fixture fixture;
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
    struct runs_fixture fixture;
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

/* The same run again, in the runs of another process, as the store that they share tells of it. */
static struct agt_run *meet_as_guest(const struct runs_fixture *fixture, const struct agt_run *run,
                                     struct agt_runs **ret_other)
{
    const struct agt_runs_options options = {.engine = fixture->engine.engine,
                                             .store = fixture->store};
    struct agt_store_run row = {.run_id = agt_run_id(run), .is_elsewhere = true, .fence = 1};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *guest;

    assert_int_equal(agt_runs_new(&options, ret_other, NULL), 0);
    row.spec = double_store_part(fixture->store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    agt_runs_on_stored(*ret_other, &row);
    guest = agt_runs_find(*ret_other, "uid:1", row.run_id, &status);
    assert_non_null(guest);
    return guest;
}

static void leave_guest(struct agt_run *take_guest, struct agt_runs *take_other)
{
    (void)agt_run_unref(take_guest);
    (void)agt_runs_free(take_other);
}

static void what_is_asked_of_another_process_waits_until_it_finds_it(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct told told = {0};
    struct runs_fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    struct agt_runs *other = NULL;
    struct agt_run *guest = meet_as_guest(&fixture, run, &other);

    (void)state;
    double_store_hold(fixture.store, true);
    assert_int_equal(agt_runs_cancel(other, guest, on_stored, &told, &status), 1);
    assert_int_equal(told.count, 0);
    double_store_hold(fixture.store, false);
    assert_int_equal(told.count, 1);

    double_store_set_accepting(fixture.store, false);
    assert_true(agt_runs_cancel(other, guest, on_stored, &told, &status) < 0);
    assert_int_equal(status.code, RPC_UNAVAILABLE);
    assert_int_equal(told.count, 1);
    leave_guest(guest, other);
    tear_down_durable(&fixture, run);
}

/* It was found while it was read along here; meanwhile this process went on with it. */
static void a_run_that_is_left_while_it_is_looked_at_has_not_failed(void **state)
{
    struct runs_fixture fixture;
    struct agt_run *run = set_up_durable(&fixture);
    struct agt_runs *other = NULL;
    struct agt_run *guest = meet_as_guest(&fixture, run, &other);
    Crisol__Agent__V1__RunResult *result;

    (void)state;
    agt_guest_leave(guest);
    result = agt_view_result(guest);
    assert_int_equal(result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING);
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    leave_guest(guest, other);
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
    struct runs_fixture fixture;
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
        cmocka_unit_test(a_run_without_events_is_no_export),
        cmocka_unit_test(a_fork_is_a_run_of_its_caller),
        cmocka_unit_test(forks_on_their_way_count),
        cmocka_unit_test(a_run_of_a_newer_program_is_not_forked),
        cmocka_unit_test(a_fork_that_is_refused_leaves_nothing_behind),
        cmocka_unit_test(a_cancel_that_is_not_stored_says_so),
        cmocka_unit_test(a_cancel_here_does_not_wait_for_a_store_that_takes_nothing),
        cmocka_unit_test(what_is_asked_of_another_process_waits_until_it_finds_it),
        cmocka_unit_test(a_run_that_is_left_while_it_is_looked_at_has_not_failed),
        cmocka_unit_test(a_run_that_is_held_anew_is_left_and_taken_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
