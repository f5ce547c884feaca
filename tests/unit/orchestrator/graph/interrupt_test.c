/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/metrics.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/graph/fork.h"
#include "orchestrator/graph/graph.h"
#include "orchestrator/meter/meter.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/store/store.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define BEHIND_PLANNER (1U << AGT_NODE_PLANNER)
#define BEHIND_GENERATOR (1U << AGT_NODE_GENERATOR)

struct house {
    struct engine_fixture fixture;
    struct agt_store *store;
    struct agt_meter *meter;
    struct agt_run *loaded;
    char prompt[4096];   /* the last one of a generator */
    char solution[4096]; /* the last one that was run */
    bool is_stubborn;    /* the model's code is the same each time, and the first attempt fails */
};

static struct house *house_of(struct engine_fixture *fixture)
{
    return (struct house *)(void *)fixture; /* its first member */
}

static void answer(void *user, const struct agt_model_request *request,
                   struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    fixture->answers++;
    if (strcmp(request->purpose, "plan") != 0)
        (void)snprintf(house_of(fixture)->prompt, sizeof(house_of(fixture)->prompt), "%s",
                       request->prompt);
    double_solve(NULL, request, ret_answer);
    if (house_of(fixture)->is_stubborn && strcmp(request->purpose, "plan") != 0)
        ret_answer->text = double_good_files;
}

static void execute(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                    struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    (void)snprintf(house_of(fixture)->solution, sizeof(house_of(fixture)->solution), "%s",
                   request->files[0]->text);
    double_pass(NULL, request, ret_execution);
    if (!house_of(fixture)->is_stubborn || fixture->executions++ > 0)
        return;
    ret_execution->exit_code = 1;
    ret_execution->failed = 1;
}

static void open_house(struct house *house, uint32_t run_timeout_ms)
{
    const struct agt_engine_options options = {
        .retry_base_ms = 1,
        .store = house->store,
        .meter = house->meter,
        .run_timeout_ms = run_timeout_ms,
    };

    engine_fixture_start(&house->fixture, answer, execute, &options);
}

static int set_up(void **state)
{
    struct house *house = calloc(1, sizeof(*house));

    assert_non_null(house);
    house->store = double_store_new();
    house->meter = agt_meter_new();
    assert_non_null(house->meter);
    open_house(house, 0);
    *state = house;
    return 0;
}

static int tear_down(void **state)
{
    struct house *house = *state;

    engine_fixture_stop(&house->fixture);
    house->store->ops->free(house->store);
    (void)agt_meter_free(house->meter);
    free(house);
    return 0;
}

static struct agt_run *start(struct house *house, uint32_t interrupts)
{
    struct agt_run_spec spec = {
        .task = "add two numbers",
        .verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE,
        .interrupts = interrupts,
    };
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;

    assert_int_equal(agt_engine_start(house->fixture.engine, &spec, &run, &status), 0);
    return run;
}

static int resume(struct agt_run *run, const struct agt_edits *edits, struct rpc_status *status)
{
    uint32_t seq = 0;

    *status = (struct rpc_status)RPC_STATUS_INIT;
    return agt_run_resume(run, edits, &seq, status);
}

/* Resumes as soon as the run waits. */
static void resume_when_it_waits(struct agt_run *run, const struct agt_edits *edits)
{
    int64_t until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    struct rpc_status status;

    while (resume(run, edits, &status) == -EBUSY && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(status.code, RPC_OK);
}

static const struct agt_edits no_edits = {.plan = NULL};

static void a_run_waits_behind_each_node_that_was_named(void **state)
{
    struct house *house = *state;
    struct agt_run *run = start(house, BEHIND_PLANNER | BEHIND_GENERATOR);
    struct run_reader reader;

    resume_when_it_waits(run, &no_edits);
    resume_when_it_waits(run, &no_edits);
    run_reader_read(&reader, run);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(run_reader_count(&reader, EVENT(INTERRUPTED)), 2);
    assert_int_equal(run_reader_count(&reader, EVENT(RESUMED)), 2);
    assert_int_equal(run_reader_find(&reader, EVENT(INTERRUPTED), 0)->interrupted->after,
                     CRISOL__AGENT__V1__NODE__NODE_PLANNER);
    assert_int_equal(run_reader_find(&reader, EVENT(INTERRUPTED), 1)->interrupted->after,
                     CRISOL__AGENT__V1__NODE__NODE_GENERATOR);
    run_reader_done(&reader);
}

static void an_edited_plan_is_what_the_generator_gets(void **state)
{
    struct house *house = *state;
    const struct agt_edits edits = {.plan = "1. Behaviours: adds like nobody before."};
    struct agt_run *run = start(house, BEHIND_PLANNER);
    struct run_reader reader;

    resume_when_it_waits(run, &edits);
    run_reader_read(&reader, run);

    assert_non_null(strstr(house->prompt, "like nobody before"));
    assert_string_equal(reader.result->plan, edits.plan);
    assert_int_equal(agt_receipt_verify((void *)(uintptr_t)reader.result, NULL, NULL), 0);
    run_reader_done(&reader);
}

static void edited_files_are_what_is_run(void **state)
{
    struct house *house = *state;
    const struct agt_edits edits = {
        .files = {{"solution.py", "def add(a, b):\n    return sum((a, b))\n"}}, .file_count = 1};
    struct agt_run *run = start(house, BEHIND_GENERATOR);
    struct run_reader reader;

    resume_when_it_waits(run, &edits);
    run_reader_read(&reader, run);

    assert_string_equal(house->solution, edits.files[0].text);
    assert_string_equal(reader.result->files[0]->text, edits.files[0].text);
    assert_int_equal(run_reader_find(&reader, EVENT(RESUMED), 0)->resumed->n_files, 2);
    run_reader_done(&reader);
}

/* What was run is the person's: the model's own code of the same attempt never was. */
static void an_answer_that_an_edit_replaced_is_no_repetition(void **state)
{
    struct house *house = *state;
    const struct agt_edits first = {
        .files = {{"solution.py", "def add(a, b):\n    return sum((a, b))\n"}}, .file_count = 1};
    const struct agt_edits second = {
        .files = {{"test_solution.py", "def test_b():\n    assert True\n"}}, .file_count = 1};
    const Crisol__Agent__V1__Attempt *attempt;
    struct run_reader reader;
    struct agt_run *run;

    house->is_stubborn = true;
    run = start(house, BEHIND_GENERATOR);
    resume_when_it_waits(run, &first);
    resume_when_it_waits(run, &second);
    run_reader_read(&reader, run);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->n_attempts, 2);
    for (size_t i = 0; i < reader.result->n_warnings; i++)
        assert_null(strstr(reader.result->warnings[i], "again"));
    attempt = reader.result->attempts[1];
    assert_non_null(strstr(attempt->diff, "-    return sum((a, b))\n+    return a + b\n"));
    assert_non_null(strstr(attempt->diff, "+def test_b():\n"));
    assert_null(reader.result->attempts[0]->test_change);
    assert_non_null(attempt->test_change);
    assert_true(attempt->test_change->accepted);
    run_reader_done(&reader);
}

static void a_run_that_does_not_wait_cannot_be_taken_up(void **state)
{
    struct house *house = *state;
    struct agt_run *run = start(house, 0);
    struct run_reader reader;
    struct rpc_status status;

    run_reader_read(&reader, agt_run_ref(run));
    assert_int_equal(resume(run, &no_edits, &status), -EBUSY);
    assert_int_equal(status.code, RPC_FAILED_PRECONDITION);
    assert_non_null(strstr(status.message, "has ended; ForkRun"));
    (void)agt_run_unref(run);
    run_reader_done(&reader);
}

static const struct {
    struct agt_edits edits;
    const char *field;
} bad_edits[] = {
    {{.files = {{"solution.py", "x = 1\n"}}, .file_count = 1}, "files"}, /* behind the planner */
    {{.plan = "\xff\xfe"}, "plan"},
    {{.files = {{"../x", "x"}}, .file_count = 1}, "files"},
};

static void bad_edits_are_named_and_the_run_still_waits(void **state)
{
    struct house *house = *state;
    struct agt_run *run = start(house, BEHIND_PLANNER);
    struct run_reader reader;

    run_reader_wait_for(run, EVENT(INTERRUPTED));
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad_edits); i++) {
        struct rpc_status status;

        assert_int_equal(resume(run, &bad_edits[i].edits, &status), -EINVAL);
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
        assert_string_equal(status.violations[0].field, bad_edits[i].field);
    }
    resume_when_it_waits(run, &no_edits);
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

static void a_run_that_waits_can_be_cancelled(void **state)
{
    struct house *house = *state;
    struct agt_run *run = start(house, BEHIND_PLANNER);
    struct run_reader reader;

    run_reader_wait_for(run, EVENT(INTERRUPTED));
    agt_run_cancel(run);
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->status, STATUS(CANCELLED));
    assert_int_equal(house->fixture.answers, 1);
    run_reader_done(&reader);
}

static void waiting_costs_no_time_of_the_run(void **state)
{
    struct house *house = *state;
    struct agt_run *run;
    struct run_reader reader;

    engine_fixture_stop(&house->fixture);
    open_house(house, 3000 * test_slowness());
    run = start(house, BEHIND_PLANNER);
    run_reader_wait_for(run, EVENT(INTERRUPTED));
    (void)poll(NULL, 0, (int)(3200 * test_slowness())); /* longer than the run may take */
    resume_when_it_waits(run, &no_edits);
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

static int on_run(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct house *house = user;

    (void)spec;
    house->loaded = take_run;
    return 0;
}

static void restart(struct house *house)
{
    engine_fixture_stop(&house->fixture);
    open_house(house, 0);
    assert_int_equal(agt_engine_load(house->fixture.engine, on_run, house, NULL), 0);
}

static void a_run_still_waits_after_a_restart_and_edits_outlive_the_next(void **state)
{
    struct house *house = *state;
    const struct agt_edits edits = {.plan = "1. Behaviours: adds like nobody before."};
    struct agt_run *run = start(house, BEHIND_PLANNER | BEHIND_GENERATOR);
    struct run_reader reader;

    run_reader_wait_for(run, EVENT(INTERRUPTED));
    (void)agt_run_unref(run);
    restart(house);
    resume_when_it_waits(house->loaded, &edits);
    run_reader_wait_for(house->loaded, EVENT(FILES_READY)); /* it waits behind the generator */
    (void)agt_run_unref(house->loaded);
    restart(house);
    resume_when_it_waits(house->loaded, &no_edits);
    run_reader_read(&reader, house->loaded);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_string_equal(reader.result->plan, edits.plan);
    assert_int_equal(house->fixture.answers, 0); /* nothing was bought again */
    run_reader_done(&reader);
}

static void interrupts_that_cannot_be_are_named(void **state)
{
    struct house *house = *state;
    struct agt_run_spec spec = {.task = "x", .interrupts = 1U << AGT_NODE_SANDBOX};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;

    assert_int_equal(agt_engine_start(house->fixture.engine, &spec, &run, &status), -EINVAL);
    assert_string_equal(status.violations[0].field, "interrupt_after");
    spec.interrupts = BEHIND_PLANNER;
    spec.is_waited_for = true;
    status = (struct rpc_status)RPC_STATUS_INIT;
    assert_int_equal(agt_engine_start(house->fixture.engine, &spec, &run, &status), -EINVAL);
    assert_string_equal(status.violations[0].field, "interrupt_after");
    assert_int_equal(agt_node_bit(-1), 1);
    assert_int_equal(agt_node_bit(99), 1);
}

/* ---- forks ---- */

struct copy {
    uint8_t *packed;
    size_t size;
};

/* The store in memory calls back at once. */
static void on_export(void *user, uint8_t *take_packed, size_t size, int error)
{
    assert_int_equal(error, 0);
    *(struct copy *)user = (struct copy){take_packed, size};
}

static void on_written(struct agt_store_batch *batch, int error)
{
    assert_int_equal(error, 0);
    *(bool *)batch->user = true;
}

static void check_fork(struct house *house, const struct copy *copy, uint32_t seq)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_store_batch *batch = NULL;
    struct run_reader reader;
    bool is_written = false;
    uint32_t answers = house->fixture.answers;

    assert_int_equal(agt_fork_make(copy->packed, copy->size, seq, NULL, &batch, &status), 0);
    batch->on_done = on_written;
    batch->user = &is_written;
    house->store->ops->append(house->store, batch);
    assert_true(is_written);
    house->loaded = NULL;
    assert_int_equal(agt_engine_take_up(house->fixture.engine,
                                        &(struct agt_store_run){.run_id = batch->run_id,
                                                                .spec = batch->spec,
                                                                .spec_size = batch->spec_size},
                                        on_run, house, NULL),
                     0);
    agt_fork_free(batch);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(house->fixture.answers - answers, 2 - (seq > 2) - (seq > 6));
    run_reader_done(&reader);
}

/* Also what comes in the turn in which the copied events end. */
static void assert_counted(const struct house *house, const char *line)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    cr_buf_init(&buf, 1 << 20);
    cr_metrics_begin(&metrics, &buf);
    agt_meter_write(house->meter, &metrics);
    assert_int_equal(cr_metrics_end(&metrics), 0);
    if (!strstr(cr_buf_str(&buf), line))
        fail_msg("'%s' is not in:\n%s", line, cr_buf_str(&buf));
}

static void a_fork_from_each_event_does_anew_what_comes_after(void **state)
{
    struct house *house = *state;
    struct agt_run *run = start(house, 0);
    struct copy copy = {NULL, 0};
    struct run_reader reader;

    run_reader_read(&reader, agt_run_ref(run));
    assert_int_equal(agt_run_export(house->store, run, on_export, &copy), 0);
    for (uint32_t seq = 1; seq < 18; seq++)
        check_fork(house, &copy, seq);
    assert_counted(house, "crisol_runs_ended_total{status=\"success\"} 18\n");
    (void)agt_run_unref(run);
    run_reader_done(&reader);
    free(copy.packed);
}

static void a_fork_from_no_event_or_from_the_result_is_refused(void **state)
{
    static const uint32_t bad[] = {0, 18, 19, UINT32_MAX};
    struct house *house = *state;
    struct agt_run *run = start(house, 0);
    struct copy copy = {NULL, 0};
    struct run_reader reader;

    run_reader_read(&reader, agt_run_ref(run));
    assert_int_equal(agt_run_export(house->store, run, on_export, &copy), 0);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        struct agt_store_batch *batch = NULL;

        assert_int_equal(agt_fork_make(copy.packed, copy.size, bad[i], NULL, &batch, &status),
                         -EINVAL);
        assert_string_equal(status.violations[0].field, "seq");
        assert_non_null(strstr(status.violations[0].description, "1 to 17"));
    }
    (void)agt_run_unref(run);
    run_reader_done(&reader);
    free(copy.packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(a_run_waits_behind_each_node_that_was_named),
        CASE(an_edited_plan_is_what_the_generator_gets),
        CASE(edited_files_are_what_is_run),
        CASE(an_answer_that_an_edit_replaced_is_no_repetition),
        CASE(a_run_that_does_not_wait_cannot_be_taken_up),
        CASE(bad_edits_are_named_and_the_run_still_waits),
        CASE(a_run_that_waits_can_be_cancelled),
        CASE(waiting_costs_no_time_of_the_run),
        CASE(a_run_still_waits_after_a_restart_and_edits_outlive_the_next),
        CASE(interrupts_that_cannot_be_are_named),
        CASE(a_fork_from_each_event_does_anew_what_comes_after),
        CASE(a_fork_from_no_event_or_from_the_result_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
