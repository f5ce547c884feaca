/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * An engine on a store in memory, which stays when the engine goes: what a process that starts
 * finds of the one before. A group's state; set_up and tear_down are cmocka's.
 */
struct journal_house {
    struct engine_fixture fixture; /* first: scripts get it */
    struct agt_store *store;
    struct agt_run *loaded; /* a reference; the last run that was loaded */
    size_t loaded_count;
    double_sandbox_script checks; /* NULL: they come out as they should, and no level has any */
    uint32_t tries[DOUBLE_CHECK_ORACLE + 1]; /* for a script of sandboxd */
    uint32_t prefixes;                       /* likewise */
};

int journal_house_set_up(void **state);
int journal_house_tear_down(void **state);

/* A script of the model: solves, and counts in fixture.answers. */
void journal_house_answer(void *user, const struct agt_model_request *request,
                          struct double_answer *ret_answer);

/* An engine, after engine_fixture_stop(). */
void journal_house_open(struct journal_house *house);

/* Engine and store without anything of what there was. */
void journal_house_start_anew(struct journal_house *house);

/* Another process takes up what is stored. Returns as agt_engine_load(). */
int journal_house_restart(struct journal_house *house, struct cr_err *err);

/* As when the store tells of one run that this process holds now. Returns as agt_engine_take_up().
 */
int journal_house_take_up(struct journal_house *house, const char *id);

/* A run to its end, which is SUCCESS. */
void journal_house_run(struct journal_house *house);

/* The stored event of this index. `bytes`: room for 8192. */
void journal_house_read(struct journal_house *house, size_t index, uint8_t *bytes,
                        size_t *ret_size);

/* Behind what is stored: of a field that is there twice, the last counts. */
void journal_house_append(struct journal_house *house, enum double_part part, size_t index,
                          const void *bytes, size_t count);
