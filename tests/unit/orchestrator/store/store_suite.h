/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"

/* What every store has to do, and what tests of one are made of. Failures end the test. */

#define ID_A "0000000000000000000000000000000a"
#define ID_B "0000000000000000000000000000000b"

struct suite {
    struct agt_store *(*open)(void *user); /* again, after it was freed: with what was written */
    void *user;
};

void suite_acknowledged_is_there_after_a_restart(const struct suite *suite);
void suite_only_what_follows_is_taken(const struct suite *suite);
void suite_forgotten_is_gone(const struct suite *suite);
void suite_a_stale_batch_takes_no_other_with_it(const struct suite *suite);
void suite_a_run_is_read_behind_what_was_appended(const struct suite *suite);
void suite_a_key_starts_one_run(const struct suite *suite);
void suite_a_request_is_told_until_it_is_settled(const struct suite *suite);
void suite_large_events_come_back_whole(const struct suite *suite);

/* Write, and wait for what becomes of it. */
int suite_append(struct agt_store *store, struct agt_store_batch *batch);
int suite_append_event(struct agt_store *store, const char *id, uint32_t seq, const char *text);
int suite_end_run(struct agt_store *store, const char *id, uint32_t seq);
int suite_begin_run(struct agt_store *store, const char *id);

/* The events of a run, or (NULL) the runs, as text. Static storage. */
const char *suite_see(struct agt_store *store, const char *id);
