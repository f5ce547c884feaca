/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/diff.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/feedback.h"
#include "orchestrator/graph/fenced.h"
#include "tests/harness/alloc.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>
#include <sys/prctl.h>

/*
 * Every allocation of the graph fails once: whichever it is, nothing crashes,
 * nothing leaks (with ASan), and every run comes to an end.
 */
#define ALLOCATIONS_MAX 2000
#define WAIT_MS 60000

static void fenced_reader_survives(void **state)
{
    int goes_on = 1;

    (void)state;
    for (int n = 0; goes_on; n++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[512] = "";
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        test_fail_alloc(n);
        r = agt_fenced_read(double_good_files, strlen(double_good_files), NULL, &files, complaint,
                            sizeof(complaint));
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
        agt_files_done(&files);
    }
}

static void diff_survives(void **state)
{
    int goes_on = 1;

    (void)state;
    for (int n = 0; goes_on; n++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        cr_buf_init(&buf, 65536);
        test_fail_alloc(n);
        r = agt_diff_add("x", "a\nb\nc\nd\n", "a\nx\nc\ny\n", &buf);
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
    }
}

static void feedback_survives(void **state)
{
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    struct agt_evidence evidence = {.summary = "x"};
    char text[] = "x\n";
    struct agt_files files = {.solution = text, .tests = text};
    struct agt_feedback feedback = {
        .evidence = &evidence,
        .result = &result,
        .files = &files,
        .stdout_text = "out",
        .stderr_text = "err",
        .diff = "+x\n",
        .delimiter = "OUTPUT-0",
        .budget = 2048,
    };
    int goes_on = 1;

    (void)state;
    for (int n = 0; goes_on; n++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        cr_buf_init(&buf, 2048);
        test_fail_alloc(n);
        r = agt_feedback_add(&feedback, &buf);
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
    }
}

static void on_notify(void *user)
{
    uint64_t one = 1;

    (void)!write(*(const int *)user, &one, sizeof(one));
}

static void event_log_survives(void **state)
{
    Crisol__Agent__V1__RunEvent message = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    int goes_on = 1;

    (void)state;
    for (int n = 0; goes_on; n++) {
        struct agt_event_log *log;
        struct agt_watch *watch = NULL;
        struct agt_event *event;
        int fd = -1;

        assert_true(n < ALLOCATIONS_MAX);
        test_fail_alloc(n);
        log = agt_event_log_new("run");
        if (log) {
            message.seq = 1;
            event = agt_event_new(&message, true, false);
            if (event && agt_event_log_add(log, event) == 0)
                message.seq = 2;
            event = agt_event_new(&message, false, false);
            if (event)
                (void)agt_event_log_add(log, event);
            (void)agt_event_log_watch(log, 0, on_notify, &fd, &watch);
        }
        goes_on = test_stop_alloc();
        (void)agt_watch_free(watch);
        (void)agt_event_log_unref(log);
    }
}

/* Reads to the end, whether that is a result or not. True when there was one. */
static bool read_to_the_end(struct agt_run *run)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct pollfd waiter = {.fd = fd, .events = POLLIN};
    struct agt_watch *watch = NULL;
    bool has_result = false;
    int r;

    assert_true(fd >= 0);
    assert_int_equal(agt_watch_new(run, 0, on_notify, &fd, &watch), 0);
    do {
        struct agt_event *event = NULL;
        uint64_t count;

        r = agt_watch_next(watch, &event);
        if (r == 0) {
            assert_int_equal(poll(&waiter, 1, WAIT_MS), 1);
            (void)!read(fd, &count, sizeof(count));
        }
        has_result |= event && event->is_last;
        (void)agt_event_unref(event);
    } while (r >= 0);
    assert_int_equal(r, -EPIPE);
    (void)agt_watch_free(watch);
    (void)close(fd);
    return has_result;
}

static void fail_once(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                      struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    if (fixture->executions++ == 0) {
        ret_execution->exit_code = 1;
        ret_execution->failed = 1;
    }
}

/* All that the engine's thread allocates for a run with a repair, one by one. */
static void run_comes_to_an_end(void **state)
{
    int goes_on = 1;
    int results = 0;
    int n;

    (void)state;
    for (n = 0; goes_on; n++) {
        struct engine_fixture fixture = {.mode = 0};
        struct agt_run *run;

        assert_true(n < ALLOCATIONS_MAX);
        engine_fixture_start(&fixture, NULL, fail_once, NULL);
        test_fail_alloc_of("engine", n);
        run = engine_fixture_run(&fixture, 2);
        results += read_to_the_end(run);
        (void)agt_run_unref(run);
        engine_fixture_stop(&fixture);
        goes_on = test_stop_alloc();
    }
    assert_true(n > 50);           /* the engine's thread was found */
    assert_true(results >= n - 5); /* only the result's own memory can cost the result */
}

static int keep_loaded(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct agt_run **run = user;

    (void)spec;
    *run = take_run;
    return 0;
}

/* So that what has to be tried again is. */
#define HEARTBEAT_MS 20

static bool is_about_the_journal(struct agt_run *run)
{
    struct agt_event *last = agt_run_last_event(run);
    bool is_it = last && memmem(last->packed, last->size, "its journal does not fit", 24);

    (void)agt_event_unref(last);
    return is_it;
}

/* What another process makes of what is stored: it goes on, and there is a result. */
static bool ends_in_another_process(struct agt_store *store)
{
    const struct agt_engine_options options = {
        .retry_base_ms = 1, .heartbeat_ms = HEARTBEAT_MS, .store = store};
    struct engine_fixture fixture = {.mode = 0};
    struct agt_run *run = NULL;
    bool has_result;

    engine_fixture_start(&fixture, NULL, fail_once, &options);
    assert_int_equal(agt_engine_load(fixture.engine, keep_loaded, &run, NULL), 0);
    /* Of one that was not even begun there is nothing. */
    has_result = !run || (read_to_the_end(run) && !is_about_the_journal(run));
    (void)agt_run_unref(run);
    engine_fixture_stop(&fixture);
    return has_result;
}

static atomic_bool is_second_held;

static void hold_second(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                        struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    ret_execution->is_held = fixture->executions > 0;
    atomic_store(&is_second_held, ret_execution->is_held);
    fail_once(user, request, ret_execution);
}

/* Until nothing more happens: the run has ended, is left, or waits for its second attempt. */
static void wait_for_second(const struct agt_run *run)
{
    int64_t until_ns = cr_clock_mono_ns() + WAIT_MS * CR_NS_PER_MS;

    while (!agt_run_has_ended(run) && !atomic_load(&is_second_held)) {
        assert_true(cr_clock_mono_ns() < until_ns);
        (void)poll(NULL, 0, 1);
    }
}

/* The same with a journal: whatever fails, and then the process, another one goes on. */
static void durable_run_is_never_lost(void **state)
{
    int goes_on = 1;
    int n;

    (void)state;
    for (n = 0; goes_on; n++) {
        struct agt_store *store = double_store_new();
        const struct agt_engine_options options = {
            .retry_base_ms = 1, .heartbeat_ms = HEARTBEAT_MS, .store = store};
        struct engine_fixture fixture = {.mode = 0};
        struct agt_run *run;

        assert_true(n < ALLOCATIONS_MAX);
        atomic_store(&is_second_held, false);
        engine_fixture_start(&fixture, NULL, hold_second, &options);
        test_fail_alloc_of("engine", n);
        run = engine_fixture_run(&fixture, 2);
        wait_for_second(run);
        goes_on = test_stop_alloc();
        (void)agt_run_unref(run);
        engine_fixture_stop(&fixture);
        if (!ends_in_another_process(store))
            fail_msg("allocation %d: no result", n);
        store->ops->free(store);
    }
    assert_true(n > 100);
}

static void start_of_a_run_survives(void **state)
{
    struct engine_fixture fixture = {.mode = 0};
    int goes_on = 1;

    (void)state;
    engine_fixture_start(&fixture, NULL, NULL, NULL);
    /* Now: threads have the name of the one that made them. */
    assert_int_equal(prctl(PR_SET_NAME, "starter", 0, 0, 0), 0);
    for (int n = 0; goes_on; n++) {
        struct agt_run_spec spec = {.task = "x", .sandbox_limits = "\x08\x01"};
        struct rpc_status status = RPC_STATUS_INIT;
        struct agt_run *run = NULL;
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        spec.sandbox_limits_size = 2;
        test_fail_alloc_of("starter", n);
        r = agt_engine_start(fixture.engine, &spec, &run, &status);
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
        assert_int_equal(status.code, goes_on ? RPC_RESOURCE_EXHAUSTED : RPC_OK);
        (void)agt_run_unref(run);
    }
    assert_true(agt_engine_drain(fixture.engine, WAIT_MS));
    engine_fixture_stop(&fixture);
}

static int keep_run(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct agt_run **run = user;

    (void)spec;
    assert_null(*run);
    *run = take_run;
    return 0;
}

/* A store with a run that another process has left. */
static struct agt_store *leave_run(char id[static AGT_STORE_ID_SIZE])
{
    struct agt_store *store = double_store_new();
    const struct agt_engine_options options = {.retry_base_ms = 1, .store = store};
    struct engine_fixture fixture = {.mode = 0};
    struct agt_run *run;

    engine_fixture_start(&fixture, NULL, NULL, &options);
    run = engine_fixture_run(&fixture, 0);
    (void)memccpy(id, agt_run_id(run), '\0', AGT_STORE_ID_SIZE);
    assert_true(read_to_the_end(run));
    (void)agt_run_unref(run);
    engine_fixture_stop(&fixture);
    double_store_cut(store, 10);
    return store;
}

/* Whoever is told of a run that goes on here has somebody who works on it; else it is asked for
 * again. */
static void taking_up_a_run_survives(void **state)
{
    char id[AGT_STORE_ID_SIZE];
    struct agt_store *store = leave_run(id);
    const struct agt_engine_options options = {.retry_base_ms = 1, .store = store};
    struct agt_store_run row = {.run_id = id, .fence = AGT_STORE_FIRST_FENCE};
    struct engine_fixture fixture = {.mode = 0};
    struct agt_run *run = NULL;
    int goes_on = 1;

    (void)state;
    row.spec = double_store_part(store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    engine_fixture_start(&fixture, NULL, NULL, &options);
    assert_int_equal(prctl(PR_SET_NAME, "taker", 0, 0, 0), 0);
    for (int n = 0; goes_on; n++) {
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        test_fail_alloc_of("taker", n);
        r = agt_engine_take_up(fixture.engine, &row, keep_run, &run, NULL);
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
        assert_true((run == NULL) == (r < 0));
    }
    assert_true(read_to_the_end(run));
    (void)agt_run_unref(run);
    engine_fixture_stop(&fixture);
    store->ops->free(store);
}

/* An event that there was no memory for is added when it is read again. */
static void reading_along_survives(void **state)
{
    char id[AGT_STORE_ID_SIZE];
    struct agt_store *store = leave_run(id);
    struct agt_store_run row = {.run_id = id, .is_elsewhere = true, .fence = AGT_STORE_FIRST_FENCE};
    struct agt_store_event next = {.seq = 2};
    struct engine_fixture fixture = {.mode = 0};
    struct agt_run *guest = NULL;
    int goes_on = 1;

    (void)state;
    row.spec = double_store_part(store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    next.payload = double_store_part(store, DOUBLE_PART_PAYLOAD, 1, &next.size);
    double_store_cut(store, 1); /* which keeps the bytes */
    engine_fixture_start(&fixture, NULL, NULL, &(struct agt_engine_options){.store = store});
    assert_int_equal(agt_engine_take_up(fixture.engine, &row, keep_run, &guest, NULL), 0);
    for (int n = 0; goes_on; n++) {
        int r;

        assert_true(n < ALLOCATIONS_MAX);
        test_fail_alloc(n);
        r = agt_guest_add(guest, &next);
        goes_on = test_stop_alloc();
        assert_int_equal(r, goes_on ? -ENOMEM : 0);
        assert_int_equal(agt_guest_seq(guest), goes_on ? 1 : 2);
    }
    (void)agt_run_unref(guest);
    engine_fixture_stop(&fixture);
    store->ops->free(store);
}

/* Whatever fails while a run is repeated: it has a result, or is left for who has the memory. */
static void repeating_a_run_survives(void **state)
{
    char id[AGT_STORE_ID_SIZE];
    struct agt_store *store = leave_run(id);
    const struct agt_engine_options options = {
        .retry_base_ms = 1, .heartbeat_ms = HEARTBEAT_MS, .store = store};
    int goes_on = 1;
    int n;

    (void)state;
    for (n = 0; goes_on; n++) {
        struct engine_fixture fixture = {.mode = 0};
        struct agt_run *run = NULL;

        assert_true(n < ALLOCATIONS_MAX);
        double_store_cut(store, 10);
        engine_fixture_start(&fixture, NULL, NULL, &options);
        test_fail_alloc_of("engine", n);
        assert_int_equal(agt_engine_load(fixture.engine, keep_run, &run, NULL), 0);
        (void)read_to_the_end(run); /* a result, or it is left */
        goes_on = test_stop_alloc();
        if (is_about_the_journal(run))
            fail_msg("allocation %d: the run was ended", n);
        (void)agt_run_unref(run);
        engine_fixture_stop(&fixture);
    }
    assert_true(n > 50);
    store->ops->free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fenced_reader_survives),   cmocka_unit_test(diff_survives),
        cmocka_unit_test(feedback_survives),        cmocka_unit_test(event_log_survives),
        cmocka_unit_test(run_comes_to_an_end),      cmocka_unit_test(start_of_a_run_survives),
        cmocka_unit_test(taking_up_a_run_survives), cmocka_unit_test(durable_run_is_never_lost),
        cmocka_unit_test(reading_along_survives),   cmocka_unit_test(repeating_a_run_survives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
