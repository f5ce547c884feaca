/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/graph/journal_house.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

void journal_house_answer(void *user, const struct agt_model_request *request,
                          struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    fixture->answers++;
    double_solve(NULL, request, ret_answer);
}

void journal_house_open(struct journal_house *house)
{
    const struct agt_engine_options options = {.retry_base_ms = house->checks ? 20 : 1,
                                               .store = house->store};

    engine_fixture_start(&house->fixture, journal_house_answer, house->checks, &options);
    if (!house->checks)
        return;
    double_sandbox_set_checks(house->fixture.sandbox, true);
    house->fixture.verify = 0; /* the default, which has checks */
}

int journal_house_set_up(void **state)
{
    struct journal_house *house = calloc(1, sizeof(*house));

    assert_non_null(house);
    house->store = double_store_new();
    journal_house_open(house);
    *state = house;
    return 0;
}

int journal_house_tear_down(void **state)
{
    struct journal_house *house = *state;

    engine_fixture_stop(&house->fixture);
    house->store->ops->free(house->store);
    free(house);
    return 0;
}

void journal_house_start_anew(struct journal_house *house)
{
    engine_fixture_stop(&house->fixture);
    house->store->ops->free(house->store);
    house->store = double_store_new();
    journal_house_open(house);
}

static int on_run(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct journal_house *house = user;

    (void)spec;
    (void)agt_run_unref(house->loaded);
    house->loaded = take_run;
    house->loaded_count++;
    return 0;
}

static void open_again(struct journal_house *house)
{
    engine_fixture_stop(&house->fixture);
    journal_house_open(house);
    house->loaded = NULL;
    house->loaded_count = 0;
}

int journal_house_restart(struct journal_house *house, struct cr_err *err)
{
    open_again(house);
    return agt_engine_load(house->fixture.engine, on_run, house, err);
}

int journal_house_take_up(struct journal_house *house, const char *id)
{
    struct agt_store_run row = {.run_id = id, .fence = AGT_STORE_FIRST_FENCE};

    open_again(house);
    row.spec = double_store_part(house->store, DOUBLE_PART_SPEC, 0, &row.spec_size);
    return agt_engine_take_up(house->fixture.engine, &row, on_run, house, NULL);
}

void journal_house_run(struct journal_house *house)
{
    struct run_reader reader;

    run_reader_read(&reader, engine_fixture_run(&house->fixture, 0));
    assert_int_equal(reader.result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS);
    run_reader_done(&reader);
}

void journal_house_read(struct journal_house *house, size_t index, uint8_t *bytes, size_t *ret_size)
{
    const void *data = double_store_part(house->store, DOUBLE_PART_PAYLOAD, index, ret_size);

    assert_in_range(*ret_size, 1, 8192);
    memcpy(bytes, data, *ret_size);
}

void journal_house_append(struct journal_house *house, enum double_part part, size_t index,
                          const void *bytes, size_t count)
{
    uint8_t all[65536];
    size_t size = 0;
    const void *stored = double_store_part(house->store, part, index, &size);

    assert_in_range(size, 1, sizeof(all) - count);
    memcpy(all, stored, size);
    memcpy(all + size, bytes, count);
    double_store_spoil(house->store, part, index, all, size + count);
}
