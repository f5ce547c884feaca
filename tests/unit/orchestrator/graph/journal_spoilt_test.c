/* SPDX-License-Identifier: Apache-2.0 */

/* What can be wrong with a journal that is taken up: torn, of a newer program, or damaged. */
#include "common/auto.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/journal.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/graph/journal_house.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name

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
    struct journal_house *house = *state;

    for (size_t i = 0; i < CR_ARRAY_SIZE(torn); i++) {
        journal_house_start_anew(house);
        journal_house_run(house);
        if (!torn[i].has_ended)
            double_store_cut(house->store, 10);
        spoil_by_cut(house->store, torn[i].part, torn[i].index);

        assert_int_equal(journal_house_restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 0);
        journal_house_run(house);
    }
}

static void an_ended_run_whose_end_was_cut_off_is_left_out(void **state)
{
    struct journal_house *house = *state;
    size_t size = 0;
    uint8_t event[8192];

    journal_house_run(house);
    journal_house_read(house, 16, event, &size);
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 17, event, size);

    assert_int_equal(journal_house_restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 0);
    journal_house_run(house);
}

/* A run that was left behind its tenth event, or one that has ended. */
static void leave_run(struct journal_house *house, bool has_ended,
                      char id[static AGT_STORE_ID_SIZE])
{
    struct agt_run *run;
    struct run_reader reader;

    journal_house_start_anew(house);
    run = engine_fixture_run(&house->fixture, 0);
    (void)memccpy(id, agt_run_id(run), '\0', AGT_STORE_ID_SIZE);
    run_reader_read(&reader, run);
    run_reader_done(&reader);
    if (!has_ended)
        double_store_cut(house->store, 10);
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
    struct journal_house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(newer); i++) {
        leave_run(house, false, id);
        journal_house_append(house, newer[i].part, newer[i].index, newer[i].bytes, newer[i].size);

        assert_int_equal(journal_house_take_up(house, id), -EPROTO);
        assert_int_equal(journal_house_restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 0);
        journal_house_run(house);
    }
}

static void a_run_with_an_event_of_a_newer_program_is_left_to_one(void **state)
{
    struct journal_house *house = *state;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char id[AGT_STORE_ID_SIZE];
    uint8_t packed[256];

    leave_run(house, false, id);
    event.run_id = id;
    event.seq = 10;
    double_store_spoil(house->store, DOUBLE_PART_PAYLOAD, 9, packed,
                       crisol__agent__v1__run_event__pack(&event, packed));

    assert_int_equal(journal_house_take_up(house, id), -EPROTO);
    assert_int_equal(house->loaded_count, 0);
}

/* It asks for nothing any more. */
static void an_ended_run_with_a_field_of_a_newer_program_can_be_read(void **state)
{
    static const uint8_t unknown[] = {UNKNOWN};
    struct journal_house *house = *state;
    struct run_reader reader;
    char id[AGT_STORE_ID_SIZE];

    leave_run(house, true, id);
    journal_house_append(house, DOUBLE_PART_SPEC, 0, unknown, sizeof(unknown));

    assert_int_equal(journal_house_restart(house, NULL), 0);
    assert_int_equal(house->loaded_count, 1);
    run_reader_read(&reader, house->loaded);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    run_reader_done(&reader);
}

/* Programs that know format 1 would ask for its checks in another way, and wait for ends that are
 * not there; those that know 2, count other failures than there are. */
static void a_new_run_is_none_for_older_programs(void **state)
{
    struct journal_house *house = *state;
    Crisol__Journal__V1__RunSpec *spec;
    const void *stored;
    size_t size = 0;

    journal_house_run(house);
    stored = double_store_part(house->store, DOUBLE_PART_SPEC, 0, &size);
    spec = crisol__journal__v1__run_spec__unpack(NULL, size, stored);
    assert_non_null(spec);
    assert_true(spec->has_numbered_checks);
    assert_int_equal(spec->format, 3);
    crisol__journal__v1__run_spec__free_unpacked(spec, NULL);
}

static void a_torn_run_that_goes_on_is_let_go_of(void **state)
{
    struct journal_house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(torn); i++) {
        leave_run(house, false, id);
        if (torn[i].index > 9)
            continue;
        spoil_by_cut(house->store, torn[i].part, torn[i].index);

        assert_int_equal(journal_house_take_up(house, id), -EPROTO);
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
    struct journal_house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(damaged) * CR_ARRAY_SIZE(cuts); i++) {
        size_t at = i / CR_ARRAY_SIZE(cuts);
        struct run_reader reader;

        leave_run(house, true, id);
        journal_house_append(house, DOUBLE_PART_SPEC, 0, damaged[at].bytes, damaged[at].size);
        double_store_cut(house->store, cuts[i % CR_ARRAY_SIZE(cuts)]);

        assert_int_equal(journal_house_take_up(house, id), 0);
        assert_int_equal(house->loaded_count, 1);
        run_reader_read(&reader, house->loaded);
        assert_names(&reader, damaged[at].name);
        assert_int_equal(house->fixture.answers, 0);
        run_reader_done(&reader);
    }
}

static void an_ended_run_with_a_damaged_field_can_be_read(void **state)
{
    struct journal_house *house = *state;
    char id[AGT_STORE_ID_SIZE];

    for (size_t i = 0; i < CR_ARRAY_SIZE(damaged); i++) {
        struct run_reader reader;

        leave_run(house, true, id);
        journal_house_append(house, DOUBLE_PART_SPEC, 0, damaged[i].bytes, damaged[i].size);

        assert_int_equal(journal_house_restart(house, NULL), 0);
        assert_int_equal(house->loaded_count, 1);
        run_reader_read(&reader, house->loaded);
        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        run_reader_done(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, journal_house_set_up, journal_house_tear_down)
        CASE(a_torn_run_is_left_out_and_the_service_goes_on),
        CASE(an_ended_run_whose_end_was_cut_off_is_left_out),
        CASE(a_run_of_a_newer_program_is_left_to_one),
        CASE(a_run_with_an_event_of_a_newer_program_is_left_to_one),
        CASE(an_ended_run_with_a_field_of_a_newer_program_can_be_read),
        CASE(a_new_run_is_none_for_older_programs),
        CASE(a_torn_run_that_goes_on_is_let_go_of),
        CASE(a_damaged_field_ends_the_run_and_is_named),
        CASE(an_ended_run_with_a_damaged_field_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
