/* SPDX-License-Identifier: Apache-2.0 */

/* What a run writes while it goes on: nothing is seen before it is durable. */
#include "common/clock.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/graph/journal_house.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define WAIT_NS (60 * CR_NS_PER_S)
/* More than may wait for the state event before them (AGT_LOG_DELTA_BYTES_MAX). */
#define DELTA 5000U
#define DELTAS 70U

static char long_plan[DELTAS * DELTA + 1];

static void an_ended_run_is_there_after_a_restart(void **state)
{
    struct journal_house *house = *state;
    struct run_reader before;
    struct run_reader after;

    run_reader_read(&before, engine_fixture_run(&house->fixture, 0));
    assert_int_equal(journal_house_restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 1);
    run_reader_read(&after, house->loaded);

    assert_string_equal(after.result->run_id, before.result->run_id);
    assert_string_equal(after.result->final_response, before.result->final_response);
    assert_int_equal(house->fixture.answers, 0);
    run_reader_done(&before);
    run_reader_done(&after);
}

static void wait_for_waiting(struct journal_house *house)
{
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;

    while (double_store_waiting(house->store) == 0 && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(double_store_waiting(house->store), 1);
}

static void on_notify(void *user)
{
    (void)user;
}

static void nothing_is_seen_or_bought_before_it_is_durable(void **state)
{
    struct journal_house *house = *state;
    struct agt_watch *watch = NULL;
    struct agt_event *event = NULL;
    struct run_reader reader;
    struct agt_run *run;

    double_store_hold(house->store, true);
    run = engine_fixture_run(&house->fixture, 0);
    wait_for_waiting(house);
    assert_int_equal(agt_watch_new(run, 0, on_notify, NULL, &watch), 0);

    assert_int_equal(agt_watch_next(watch, &event), 0);
    assert_int_equal(double_model_live_calls(house->fixture.model), 0);
    assert_int_equal(house->fixture.answers, 0);
    assert_null(agt_watch_free(watch));
    double_store_hold(house->store, false);
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(house->fixture.answers, 2);
    run_reader_done(&reader);
}

/* A retry waits for the store while more text comes than may wait behind it. */
static void answer_much(void *user, const struct agt_model_request *request,
                        struct double_answer *ret_answer)
{
    struct journal_house *house = user;

    journal_house_answer(user, request, ret_answer);
    if (strcmp(request->purpose, "plan") != 0)
        return;
    double_store_hold(house->store, true);
    ret_answer->text = long_plan;
    ret_answer->delta_size = DELTA;
    ret_answer->has_retry = true;
}

static void lost_deltas_are_a_gap_where_they_were(void **state)
{
    struct journal_house *house = *state;
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;
    const Crisol__Agent__V1__RunEvent *last;
    struct agt_watch *watch = NULL;
    struct run_reader reader;
    struct agt_run *run;
    size_t gap = 0;

    memset(long_plan, 'x', sizeof(long_plan) - 1);
    engine_fixture_stop(&house->fixture);
    engine_fixture_start(&house->fixture, answer_much, NULL,
                         &(struct agt_engine_options){.store = house->store});
    run = engine_fixture_run(&house->fixture, 0);
    assert_int_equal(agt_watch_new(run, 0, on_notify, NULL, &watch), 0); /* so that deltas stay */
    while (double_store_waiting(house->store) < 2 && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1); /* for the retry, and the end of the call */
    double_store_hold(house->store, false);
    run_reader_read(&reader, run);
    assert_null(agt_watch_free(watch));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    while (gap + 2 < reader.count && reader.events[gap]->event_case != EVENT(GAP))
        gap++;
    assert_int_equal(reader.events[gap]->event_case, EVENT(GAP));
    last = reader.events[gap - 1];
    assert_int_equal(last->event_case, EVENT(MODEL_DELTA));
    assert_int_equal(reader.events[gap + 1]->event_case, EVENT(MODEL_CALL));
    assert_int_equal(last->model_delta->offset +
                         DELTA * (1 + reader.events[gap]->gap->dropped_deltas),
                     DELTAS * DELTA);
    run_reader_done(&reader);
}

static void a_turn_is_one_batch(void **state)
{
    struct journal_house *house = *state;

    journal_house_run(house);

    /* Start; plan; code; sandbox started; its result, the verdict and the end. */
    assert_int_equal(double_store_batches(house->store), 5);
    assert_int_equal(double_store_count(house->store), 18);
}

static void wait_for_end(const struct agt_run *run)
{
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;

    while (!agt_run_has_ended(run) && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);
    assert_true(agt_run_has_ended(run));
}

static void a_run_that_cannot_be_written_is_left_and_others_go_on(void **state)
{
    struct journal_house *house = *state;
    struct agt_run *run;

    double_store_fail(house->store, -ESTALE);
    run = engine_fixture_run(&house->fixture, 0);
    wait_for_end(run);

    assert_null(agt_run_last_event(run));
    assert_int_equal(house->fixture.answers, 0);
    (void)agt_run_unref(run);
    double_store_fail(house->store, 0);
    journal_house_run(house);
}

/* Another process took it over just before: it has no end here, and what is asked of it waits. */
static void a_run_whose_end_cannot_be_written_is_left_and_not_failed(void **state)
{
    struct journal_house *house = *state;
    struct agt_run *run;

    double_store_fail_ends(house->store, -ESTALE);
    run = engine_fixture_run(&house->fixture, 0);
    wait_for_end(run);

    assert_null(agt_run_last_event(run));
    assert_true(agt_run_is_left(run));
    (void)agt_run_unref(run);
}

static void a_store_without_room_refuses_new_runs(void **state)
{
    struct journal_house *house = *state;
    struct agt_run_spec spec = {.task = "x"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;

    double_store_set_accepting(house->store, false);
    assert_int_equal(agt_engine_start(house->fixture.engine, &spec, &run, &status), -ENOSPC);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(status.message, "its disk is nearly full"));
    assert_true(status.retry_after_ms > 0);
    double_store_set_accepting(house->store, true);
    journal_house_run(house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, journal_house_set_up, journal_house_tear_down)
        CASE(an_ended_run_is_there_after_a_restart),
        CASE(nothing_is_seen_or_bought_before_it_is_durable),
        CASE(lost_deltas_are_a_gap_where_they_were),
        CASE(a_turn_is_one_batch),
        CASE(a_run_that_cannot_be_written_is_left_and_others_go_on),
        CASE(a_run_whose_end_cannot_be_written_is_left_and_not_failed),
        CASE(a_store_without_room_refuses_new_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
