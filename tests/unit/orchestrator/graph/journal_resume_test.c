/* SPDX-License-Identifier: Apache-2.0 */

/* A run that is taken up where its journal ends goes on to the same end. */
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/graph/journal_house.h"

#include <stdint.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name

static void a_journal_that_is_cut_anywhere_goes_on_to_the_same_end(void **state)
{
    struct journal_house *house = *state;
    static uint8_t first[32][8192];
    size_t sizes[32];
    size_t whole;

    journal_house_run(house);
    whole = double_store_count(house->store);
    assert_int_equal(whole, 18);
    for (size_t i = 0; i < whole; i++)
        journal_house_read(house, i, first[i], &sizes[i]);
    for (size_t cut = whole - 1; cut > 0; cut--) {
        bool has_asked = cut > 2; /* an answer that is in the journal is not bought again */
        bool has_code = cut > 6;
        struct run_reader reader;

        double_store_cut(house->store, cut);
        assert_int_equal(journal_house_restart(house, NULL), 0);
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
    struct journal_house *house = user;
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
static void cut_checks(struct journal_house *house, double_sandbox_script checks)
{
    struct run_reader before;
    size_t whole;

    engine_fixture_stop(&house->fixture);
    house->checks = checks;
    journal_house_open(house);
    run_reader_read(&before, engine_fixture_run(&house->fixture, 1));
    whole = double_store_count(house->store);
    for (size_t cut = whole - 1; cut > 10; cut--) {
        struct run_reader after;

        double_store_cut(house->store, cut);
        assert_int_equal(journal_house_restart(house, NULL), 0);
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
        journal_house_tear_down(state);
        journal_house_set_up(state);
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
    struct journal_house *house = user;

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
    struct journal_house *house = *state;
    struct run_reader reader;

    engine_fixture_stop(&house->fixture);
    house->checks = count_stopping;
    journal_house_open(house);
    run_reader_read(&reader, engine_fixture_run(&house->fixture, 1));
    run_reader_done(&reader);
    assert_int_equal(house->tries[DOUBLE_CHECK_RAISE], 2);
    assert_int_equal(house->prefixes, 0);
    journal_house_append(house, DOUBLE_PART_SPEC, 0, older, sizeof(older));
    double_store_cut(house->store, 10);

    assert_int_equal(journal_house_restart(house, NULL), 0);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(house->tries[DOUBLE_CHECK_RAISE], 2);
    assert_int_equal(house->prefixes, 3);
    run_reader_done(&reader);
}

/* Counts what must fail in the tests of the task, too. */
static void count_canaries(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           struct double_execution *ret_execution)
{
    struct journal_house *house = user;

    if (double_check_of(request) == DOUBLE_CHECK_NONE) {
        double_pass(NULL, request, ret_execution);
        return;
    }
    double_answer_check(request, ret_execution);
    house->prefixes += double_check_of(request) == DOUBLE_CHECK_CANARY && ret_execution->failed > 1;
}

/* Else it would find a failure less in what is recorded than there has to be. */
static void tests_of_the_task_are_run_as_the_program_before_did(void **state)
{
    static const uint8_t older[] = {10 << 3, 2}; /* the format */
    static char path[] = "test_accept.py";
    static char text[] = "def test_x(): pass\n";
    Crisol__Agent__V1__File file = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File *files[] = {&file};
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    struct journal_house *house = *state;
    struct run_reader reader;
    uint8_t packed[256];

    file.path = path;
    file.text = text;
    terms.acceptance_tests = files;
    terms.n_acceptance_tests = 1;
    engine_fixture_stop(&house->fixture);
    house->checks = count_canaries;
    journal_house_open(house);
    house->fixture.terms_size = crisol__agent__v1__task_terms__pack(&terms, packed);
    house->fixture.terms = packed;
    run_reader_read(&reader, engine_fixture_run(&house->fixture, 1));
    run_reader_done(&reader);
    assert_int_equal(house->prefixes, 1);
    journal_house_append(house, DOUBLE_PART_SPEC, 0, older, sizeof(older));
    double_store_cut(house->store, 10);

    assert_int_equal(journal_house_restart(house, NULL), 0);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(house->prefixes, 1);
    run_reader_done(&reader);
}

static void a_journal_that_tells_another_way_ends_the_run_with_a_cause(void **state)
{
    struct journal_house *house = *state;
    Crisol__Agent__V1__RunEvent *event;
    struct run_reader reader;
    uint8_t bytes[8192];
    size_t size = 0;
    char outcome[] = "ask_again";
    char *before;

    journal_house_run(house);
    double_store_cut(house->store, 10);
    journal_house_read(house, 4, bytes, &size);
    event = crisol__agent__v1__run_event__unpack(NULL, size, bytes);
    assert_non_null(event);
    assert_int_equal(event->event_case, EVENT(EDGE_TAKEN));
    before = event->edge_taken->outcome;
    event->edge_taken->outcome = outcome;
    size = crisol__agent__v1__run_event__pack(event, bytes);
    event->edge_taken->outcome = before;
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 4, bytes, size);
    assert_int_equal(journal_house_restart(house, NULL), 0);
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
    struct journal_house *house = *state;
    struct run_reader reader;

    journal_house_run(house);
    double_store_cut(house->store, 10);
    assert_int_equal(journal_house_restart(house, NULL), 0);
    agt_run_cancel(house->loaded);
    run_reader_read(&reader, house->loaded);

    assert_int_equal(run_reader_count(&reader, EVENT(RESULT)), 1);
    run_reader_done(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, journal_house_set_up, journal_house_tear_down)
        CASE(a_journal_that_is_cut_anywhere_goes_on_to_the_same_end),
        CASE(checks_that_are_tried_again_keep_their_results),
        CASE(checks_that_were_cancelled_hold_nothing_up),
        CASE(checks_of_an_older_program_are_asked_for_as_it_did),
        CASE(tests_of_the_task_are_run_as_the_program_before_did),
        CASE(a_journal_that_tells_another_way_ends_the_run_with_a_cause),
        CASE(a_cancel_that_comes_while_a_run_is_repeated_ends_it_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
