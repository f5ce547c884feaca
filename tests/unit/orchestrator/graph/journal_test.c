/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/journal.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define WAIT_NS (60 * CR_NS_PER_S)
/* More than may wait for the state event before them (AGT_LOG_DELTA_BYTES_MAX). */
#define DELTA 5000U
#define DELTAS 70U

struct house {
    struct engine_fixture fixture; /* first: scripts get it */
    struct agt_store *store;
    struct agt_run *loaded; /* a reference; the last run that was loaded */
    size_t loaded_count;
    double_sandbox_script checks; /* NULL: they come out as they should */
    uint32_t tries[DOUBLE_CHECK_ORACLE + 1];
    uint32_t prefixes; /* checks whose names begin as those of each run did in older programs */
    char text[DELTAS * DELTA + 1]; /* of a long plan */
};

static void count_answers(void *user, const struct agt_model_request *request,
                          struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    fixture->answers++;
    double_solve(NULL, request, ret_answer);
}

static void open_house(struct house *house)
{
    const struct agt_engine_options options = {.retry_base_ms = house->checks ? 20 : 1,
                                               .store = house->store};

    engine_fixture_start(&house->fixture, count_answers, house->checks, &options);
    if (!house->checks)
        return;
    double_sandbox_set_checks(house->fixture.sandbox, true);
    house->fixture.verify = 0; /* the default, which has checks */
}

static int set_up(void **state)
{
    struct house *house = calloc(1, sizeof(*house));

    assert_non_null(house);
    house->store = double_store_new();
    open_house(house);
    *state = house;
    return 0;
}

static int tear_down(void **state)
{
    struct house *house = *state;

    engine_fixture_stop(&house->fixture);
    house->store->ops->free(house->store);
    free(house);
    return 0;
}

static int on_run(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct house *house = user;

    (void)spec;
    (void)agt_run_unref(house->loaded);
    house->loaded = take_run;
    house->loaded_count++;
    return 0;
}

/* Another process takes up what is stored. */
static int restart(struct house *house, struct cr_err *err)
{
    engine_fixture_stop(&house->fixture);
    open_house(house);
    house->loaded = NULL;
    house->loaded_count = 0;
    return agt_engine_load(house->fixture.engine, on_run, house, err);
}

static void run_to_its_end(struct house *house)
{
    struct run_reader reader;

    run_reader_read(&reader, engine_fixture_run(&house->fixture, 0));
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

static void an_ended_run_is_there_after_a_restart(void **state)
{
    struct house *house = *state;
    struct run_reader before;
    struct run_reader after;

    run_reader_read(&before, engine_fixture_run(&house->fixture, 0));
    assert_int_equal(restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 1);
    run_reader_read(&after, house->loaded);

    assert_string_equal(after.result->run_id, before.result->run_id);
    assert_string_equal(after.result->final_response, before.result->final_response);
    assert_int_equal(house->fixture.answers, 0);
    run_reader_done(&before);
    run_reader_done(&after);
}

static void wait_for_waiting(struct house *house)
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
    struct house *house = *state;
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
    struct house *house = user;

    count_answers(user, request, ret_answer);
    if (strcmp(request->purpose, "plan") != 0)
        return;
    double_store_hold(house->store, true);
    ret_answer->text = house->text;
    ret_answer->delta_size = DELTA;
    ret_answer->has_retry = true;
}

static void lost_deltas_are_a_gap_where_they_were(void **state)
{
    struct house *house = *state;
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;
    const Crisol__Agent__V1__RunEvent *last;
    struct agt_watch *watch = NULL;
    struct run_reader reader;
    struct agt_run *run;
    size_t gap = 0;

    memset(house->text, 'x', sizeof(house->text) - 1);
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
    struct house *house = *state;

    run_to_its_end(house);

    /* Start; plan; code; sandbox started; its result, the verdict and the end. */
    assert_int_equal(double_store_batches(house->store), 5);
    assert_int_equal(double_store_count(house->store), 18);
}

static void a_run_that_cannot_be_written_is_left_and_others_go_on(void **state)
{
    struct house *house = *state;
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;
    struct agt_run *run;

    double_store_fail(house->store, -ESTALE);
    run = engine_fixture_run(&house->fixture, 0);
    while (!agt_run_has_ended(run) && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);

    assert_true(agt_run_has_ended(run));
    assert_null(agt_run_last_event(run));
    assert_int_equal(house->fixture.answers, 0);
    (void)agt_run_unref(run);
    double_store_fail(house->store, 0);
    run_to_its_end(house);
}

/* Another process took it over just before: it has no end here, and what is asked of it waits. */
static void a_run_whose_end_cannot_be_written_is_left_and_not_failed(void **state)
{
    struct house *house = *state;
    int64_t until_ns = cr_clock_mono_ns() + WAIT_NS;
    struct agt_run *run;

    double_store_fail_ends(house->store, -ESTALE);
    run = engine_fixture_run(&house->fixture, 0);
    while (!agt_run_has_ended(run) && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 1);

    assert_true(agt_run_has_ended(run));
    assert_null(agt_run_last_event(run));
    assert_true(agt_run_is_left(run));
    (void)agt_run_unref(run);
}

static void a_store_without_room_refuses_new_runs(void **state)
{
    struct house *house = *state;
    struct agt_run_spec spec = {.task = "x"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;

    double_store_set_accepting(house->store, false);
    assert_int_equal(agt_engine_start(house->fixture.engine, &spec, &run, &status), -ENOSPC);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(status.message, "its disk is nearly full"));
    assert_true(status.retry_after_ms > 0);
    double_store_set_accepting(house->store, true);
    run_to_its_end(house);
}

/* ---- what can be wrong with a journal ---- */

static void read_stored(struct house *house, size_t index, uint8_t *bytes, size_t *ret_size)
{
    const void *data = double_store_part(house->store, DOUBLE_PART_PAYLOAD, index, ret_size);

    assert_in_range(*ret_size, 1, 8192);
    memcpy(bytes, data, *ret_size);
}

static void spoil_by_cut(struct agt_store *store, enum double_part part, size_t index)
{
    size_t size = 0;
    const void *data = double_store_part(store, part, index, &size);
    uint8_t kept[65536];

    assert_in_range(size, 2, sizeof(kept));
    memcpy(kept, data, size);
    double_store_spoil(store, part, index, kept, size - 1);
}

static const struct {
    enum double_part part;
    size_t index;
    bool has_ended;
} torn[] = {
    {DOUBLE_PART_SPEC, 0, true},     {DOUBLE_PART_SPEC, 0, false},
    {DOUBLE_PART_PAYLOAD, 0, true},  {DOUBLE_PART_PAYLOAD, 0, false},
    {DOUBLE_PART_PAYLOAD, 9, false}, {DOUBLE_PART_PAYLOAD, 17, true},
    {DOUBLE_PART_INPUT, 2, false},
};

static void a_torn_run_is_left_out_and_the_service_goes_on(void **state)
{
    struct house *house = *state;

    for (size_t i = 0; i < CR_ARRAY_SIZE(torn); i++) {
        engine_fixture_stop(&house->fixture);
        house->store->ops->free(house->store);
        house->store = double_store_new();
        open_house(house);
        run_to_its_end(house);
        if (!torn[i].has_ended)
            double_store_cut(house->store, 10);
        spoil_by_cut(house->store, torn[i].part, torn[i].index);

        assert_int_equal(restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 0);
        run_to_its_end(house);
    }
}

static void an_ended_run_whose_end_was_cut_off_is_left_out(void **state)
{
    struct house *house = *state;
    size_t size = 0;
    uint8_t event[8192];

    run_to_its_end(house);
    read_stored(house, 16, event, &size);
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 17, event, size);

    assert_int_equal(restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 0);
    run_to_its_end(house);
}

/* Behind what is stored: of a field that is there twice, the last counts. */
static void append(struct house *house, enum double_part part, size_t index, const void *bytes,
                   size_t count)
{
    uint8_t all[65536];
    size_t size = 0;
    const void *stored = double_store_part(house->store, part, index, &size);

    assert_in_range(size, 1, sizeof(all) - count);
    memcpy(all, stored, size);
    memcpy(all + size, bytes, count);
    double_store_spoil(house->store, part, index, all, size + count);
}

static void start_anew(struct house *house)
{
    engine_fixture_stop(&house->fixture);
    house->store->ops->free(house->store);
    house->store = double_store_new();
    open_house(house);
}

/* A run that was left behind its tenth event, or one that has ended. */
static void leave_run(struct house *house, bool has_ended, char id[static AGT_STORE_ID_SIZE])
{
    struct agt_run *run;
    struct run_reader reader;

    start_anew(house);
    run = engine_fixture_run(&house->fixture, 0);
    (void)memccpy(id, agt_run_id(run), '\0', AGT_STORE_ID_SIZE);
    run_reader_read(&reader, run);
    run_reader_done(&reader);
    if (!has_ended)
        double_store_cut(house->store, 10);
}

/* As when the store tells of one run that this process holds now. */
static int take_up(struct house *house, const char *id)
{
    struct agt_store_run row = {.run_id = id, .fence = AGT_STORE_FIRST_FENCE};

    engine_fixture_stop(&house->fixture);
    open_house(house);
    house->loaded = NULL;
    house->loaded_count = 0;
    row.spec = double_store_part(house->store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    return agt_engine_take_up(house->fixture.engine, &row, on_run, house, NULL);
}

/* Field 100, which nothing here has; alone, and as that of a record. */
#define UNKNOWN 0xa0, 0x06, 1

static const struct {
    enum double_part part;
    size_t index;
    uint8_t bytes[8];
    size_t size;
} newer[] = {
    {DOUBLE_PART_SPEC, 0, {10 << 3, AGT_JOURNAL_FORMAT + 1}, 2},
    {DOUBLE_PART_SPEC, 0, {UNKNOWN}, 3},
    {DOUBLE_PART_INPUT, 2, {UNKNOWN}, 3},
    {DOUBLE_PART_INPUT, 2, {1 << 3 | 2, 3, UNKNOWN}, 5},
    {DOUBLE_PART_INPUT, 2, {1 << 3 | 2, 6, 0xda, 1, 3, UNKNOWN}, 8}, /* of one of its more_calls */
};

static void a_run_of_a_newer_program_is_left_to_one(void **state)
{
    struct house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(newer); i++) {
        leave_run(house, false, id);
        append(house, newer[i].part, newer[i].index, newer[i].bytes, newer[i].size);

        assert_int_equal(take_up(house, id), -EPROTO);
        assert_int_equal(restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 0);
        run_to_its_end(house);
    }
}

static void a_run_with_an_event_of_a_newer_program_is_left_to_one(void **state)
{
    struct house *house = *state;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char id[AGT_STORE_ID_SIZE];
    uint8_t packed[256];

    leave_run(house, false, id);
    event.run_id = id;
    event.seq = 10;
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 9, packed,
                       crisol__agent__v1__run_event__pack(&event, packed));

    assert_int_equal(take_up(house, id), -EPROTO);
    assert_int_equal(house->loaded_count, 0);
}

/* It asks for nothing any more. */
static void an_ended_run_with_a_field_of_a_newer_program_can_be_read(void **state)
{
    static const uint8_t unknown[] = {UNKNOWN};
    struct house *house = *state;
    struct run_reader reader;
    char id[AGT_STORE_ID_SIZE];

    leave_run(house, true, id);
    append(house, DOUBLE_PART_SPEC, 0, unknown, sizeof(unknown));

    assert_int_equal(restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 1);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

/* Programs that know format 1 would ask for its checks in another way, and wait for ends that are
 * not there. */
static void a_new_run_is_none_for_older_programs(void **state)
{
    struct house *house = *state;
    Crisol__Journal__V1__RunSpec *spec;
    const void *stored;
    size_t size = 0;

    run_to_its_end(house);
    stored = double_store_part(house->store, DOUBLE_PART_SPEC, 0, &size);
    spec = crisol__journal__v1__run_spec__unpack(NULL, size, stored);
    assert_non_null(spec);
    assert_true(spec->has_numbered_checks);
    assert_int_equal(spec->format, 2);
    crisol__journal__v1__run_spec__free_unpacked(spec, NULL);
}

static void a_torn_run_that_goes_on_is_let_go_of(void **state)
{
    struct house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(torn); i++) {
        leave_run(house, false, id);
        if (torn[i].index > 9)
            continue;
        spoil_by_cut(house->store, torn[i].part, torn[i].index);

        assert_int_equal(take_up(house, id), -EPROTO);
        assert_int_equal(house->loaded_count, 0);
    }
}

/* ---- a field of the spec that cannot be used ---- */

static const struct {
    const char *name;
    uint8_t bytes[8];
    size_t size;
} damaged[] = {
    /* A number without its last byte, where there are limits. */
    {"sandbox_limits", {8 << 3, 1, 7 << 3 | 2, 2, 8, 0x80}, 6},
    {"terms", {12 << 3 | 2, 2, 0x0a, 0x7f}, 4},
    {"max_iterations", {4 << 3, 99}, 2},
    {"verify", {9 << 3, 99}, 2},
    {"task", {3 << 3 | 2, 0}, 2},
};

static void assert_names(const struct run_reader *reader, const char *field)
{
    char text[80];

    (void)snprintf(text, sizeof(text), "what its journal has as %s cannot be read", field);
    assert_int_equal(reader->result->status, STATUS(FAILED));
    assert_int_equal(reader->result->cause,
                     CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL);
    if (!strstr(reader->result->final_response, text))
        fail_msg("'%s' is not in '%s'", text, reader->result->final_response);
}

/* Wherever it was left: at the end of each of its turns, within one, and before the first. */
static void a_damaged_field_ends_the_run_and_is_named(void **state)
{
    static const size_t cuts[] = {0, 2, 3, 6, 10, 11};
    struct house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(damaged) * CR_ARRAY_SIZE(cuts); i++) {
        size_t at = i / CR_ARRAY_SIZE(cuts);
        struct run_reader reader;

        leave_run(house, true, id);
        append(house, DOUBLE_PART_SPEC, 0, damaged[at].bytes, damaged[at].size);
        double_store_cut(house->store, cuts[i % CR_ARRAY_SIZE(cuts)]);

        assert_int_equal(take_up(house, id), 0);
        assert_int_equal(house->loaded_count, 1);
        run_reader_read(&reader, house->loaded);
        assert_names(&reader, damaged[at].name);
        assert_int_equal(house->fixture.answers, 0);
        run_reader_done(&reader);
    }
}

static void an_ended_run_with_a_damaged_field_can_be_read(void **state)
{
    struct house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(damaged); i++) {
        struct run_reader reader;

        leave_run(house, true, id);
        append(house, DOUBLE_PART_SPEC, 0, damaged[i].bytes, damaged[i].size);

        assert_int_equal(restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 1);
        run_reader_read(&reader, house->loaded);
        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        run_reader_done(&reader);
    }
}

/* ---- taking a run up ---- */

static void a_journal_that_is_cut_anywhere_goes_on_to_the_same_end(void **state)
{
    struct house *house = *state;
    static uint8_t first[32][8192];
    size_t sizes[32];
    size_t whole;

    run_to_its_end(house);
    whole = double_store_count(house->store);
    assert_int_equal(whole, 18);
    for (size_t i = 0; i < whole; i++)
        read_stored(house, i, first[i], &sizes[i]);
    for (size_t cut = whole - 1; cut > 0; cut--) {
        bool has_asked = cut > 2; /* an answer that is in the journal is not bought again */
        bool has_code = cut > 6;
        struct run_reader reader;

        double_store_cut(house->store, cut);
        assert_int_equal(restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 1);
        run_reader_read(&reader, house->loaded);

        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        assert_int_equal(house->fixture.answers, 2 - has_asked - has_code);
        for (size_t i = 0; i < cut; i++) {
            size_t size = 0;
            const void *stored = double_store_part(house->store, DOUBLE_PART_PAYLOAD, i, &size);

            assert_int_equal(size, sizes[i]);
            assert_memory_equal(stored, first[i], size);
        }
        run_reader_done(&reader);
    }
}

/* Each check has a fault at its first try; the waits behind it are as long as chance will have it.
 */
static void fail_first_tries(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                             struct double_execution *ret_execution)
{
    struct house *house = user;
    enum double_check check = double_check_of(request);

    if (check == DOUBLE_CHECK_NONE)
        double_pass(NULL, request, ret_execution);
    else if (house->tries[check]++ == 0)
        ret_execution->code = RPC_UNAVAILABLE;
    else
        double_answer_check(request, ret_execution);
}

/* The first check refutes the attempt while the others go on. */
static void refute_at_once(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           struct double_execution *ret_execution)
{
    enum double_check check = double_check_of(request);

    (void)user;
    double_pass(NULL, request, ret_execution); /* which a canary must not */
    ret_execution->is_held = check != DOUBLE_CHECK_NONE && check != DOUBLE_CHECK_CANARY;
}

/* A run with such checks, cut behind each event of its evaluation: it ends as it did. */
static void cut_checks(struct house *house, double_sandbox_script checks)
{
    struct run_reader before;
    size_t whole;

    engine_fixture_stop(&house->fixture);
    house->checks = checks;
    open_house(house);
    run_reader_read(&before, engine_fixture_run(&house->fixture, 1));
    whole = double_store_count(house->store);
    for (size_t cut = whole - 1; cut > 10; cut--) {
        struct run_reader after;

        double_store_cut(house->store, cut);
        assert_int_equal(restart(house, NULL), 0);
        run_reader_read(&after, house->loaded);
        assert_int_equal(after.result->status, before.result->status);
        assert_int_equal(after.result->cause, before.result->cause);
        assert_int_equal(run_reader_count(&after, EVENT(VERIFICATION_CHECK)),
                         run_reader_count(&before, EVENT(VERIFICATION_CHECK)));
        assert_int_equal(house->fixture.answers, 0);
        run_reader_done(&after);
    }
    run_reader_done(&before);
}

/* Whichever waited longer then, and does now: each end is that of its own check. */
static void checks_that_are_tried_again_keep_their_results(void **state)
{
    for (int i = 0; i < 3; i++) {
        cut_checks(*state, fail_first_tries);
        tear_down(state);
        set_up(state);
    }
}

static void checks_that_were_cancelled_hold_nothing_up(void **state)
{
    cut_checks(*state, refute_at_once);
}

/* Counts what stops at the first test that fails. */
static void count_stopping(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           struct double_execution *ret_execution)
{
    struct house *house = user;

    if (double_check_of(request) == DOUBLE_CHECK_NONE) {
        double_pass(NULL, request, ret_execution);
        return;
    }
    house->tries[DOUBLE_CHECK_RAISE] += request->n_args > 0;
    house->prefixes += strstr(request->files[0]->text, "crisol_") != NULL ||
                       strstr(request->files[1]->text, "test_crisol_") != NULL;
    double_answer_check(request, ret_execution);
}

/* Else its export would ask for something else when it is repeated. */
static void checks_of_an_older_program_are_asked_for_as_it_did(void **state)
{
    /* has_numbered_checks, and the format */
    static const uint8_t older[] = {0x90, 0x01, 0, 10 << 3, 1};
    struct house *house = *state;
    struct run_reader reader;

    engine_fixture_stop(&house->fixture);
    house->checks = count_stopping;
    open_house(house);
    run_reader_read(&reader, engine_fixture_run(&house->fixture, 1));
    run_reader_done(&reader);
    assert_int_equal(house->tries[DOUBLE_CHECK_RAISE], 2);
    assert_int_equal(house->prefixes, 0);
    append(house, DOUBLE_PART_SPEC, 0, older, sizeof(older));
    double_store_cut(house->store, 10);

    assert_int_equal(restart(house, NULL), 0);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(house->tries[DOUBLE_CHECK_RAISE], 2);
    assert_int_equal(house->prefixes, 3);
    run_reader_done(&reader);
}

static void a_journal_that_tells_another_way_ends_the_run_with_a_cause(void **state)
{
    struct house *house = *state;
    Crisol__Agent__V1__RunEvent *event;
    struct run_reader reader;
    uint8_t bytes[8192];
    size_t size = 0;
    char outcome[] = "ask_again";
    char *before;

    run_to_its_end(house);
    double_store_cut(house->store, 10);
    read_stored(house, 4, bytes, &size);
    event = crisol__agent__v1__run_event__unpack(NULL, size, bytes);
    assert_non_null(event);
    assert_int_equal(event->event_case, EVENT(EDGE_TAKEN));
    before = event->edge_taken->outcome;
    event->edge_taken->outcome = outcome;
    size = crisol__agent__v1__run_event__pack(event, bytes);
    event->edge_taken->outcome = before;
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 4, bytes, size);
    assert_int_equal(restart(house, NULL), 0);
    run_reader_read(&reader, house->loaded);

    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause,
                     CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL);
    assert_non_null(strstr(reader.result->final_response, "journal does not fit"));
    assert_int_equal(house->fixture.answers, 0);
    run_reader_done(&reader);
}

static void a_cancel_that_comes_while_a_run_is_repeated_ends_it_once(void **state)
{
    struct house *house = *state;
    struct run_reader reader;

    run_to_its_end(house);
    double_store_cut(house->store, 10);
    assert_int_equal(restart(house, NULL), 0);
    agt_run_cancel(house->loaded);
    run_reader_read(&reader, house->loaded);

    assert_int_equal(run_reader_count(&reader, EVENT(RESULT)), 1);
    run_reader_done(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(an_ended_run_is_there_after_a_restart),
        CASE(nothing_is_seen_or_bought_before_it_is_durable),
        CASE(lost_deltas_are_a_gap_where_they_were),
        CASE(a_turn_is_one_batch),
        CASE(a_run_that_cannot_be_written_is_left_and_others_go_on),
        CASE(a_run_whose_end_cannot_be_written_is_left_and_not_failed),
        CASE(a_store_without_room_refuses_new_runs),
        CASE(a_torn_run_is_left_out_and_the_service_goes_on),
        CASE(an_ended_run_whose_end_was_cut_off_is_left_out),
        CASE(a_run_of_a_newer_program_is_left_to_one),
        CASE(a_run_with_an_event_of_a_newer_program_is_left_to_one),
        CASE(an_ended_run_with_a_field_of_a_newer_program_can_be_read),
        CASE(a_new_run_is_none_for_older_programs),
        CASE(a_torn_run_that_goes_on_is_let_go_of),
        CASE(a_damaged_field_ends_the_run_and_is_named),
        CASE(an_ended_run_with_a_damaged_field_can_be_read),
        CASE(a_journal_that_is_cut_anywhere_goes_on_to_the_same_end),
        CASE(checks_that_are_tried_again_keep_their_results),
        CASE(checks_that_were_cancelled_hold_nothing_up),
        CASE(checks_of_an_older_program_are_asked_for_as_it_did),
        CASE(a_journal_that_tells_another_way_ends_the_run_with_a_cause),
        CASE(a_cancel_that_comes_while_a_run_is_repeated_ends_it_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
