/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A store in memory, whose contents a test can cut, spoil and keep over
 * several engines. Batches are taken on the thread that appends them, unless
 * they are held. Free with ops->free: then the contents are gone, too.
 */
struct agt_store *double_store_new(void);

/* From now on batches wait; false: those that wait are written, in order. */
void double_store_hold(struct agt_store *store, bool value);

/* From now on batches are given up with this error; 0: they are written. */
void double_store_fail(struct agt_store *store, int error);

/* The same for those only that hold the end of a run. */
void double_store_fail_ends(struct agt_store *store, int error);

/* False: is_accepting() says that there is no room. */
void double_store_set_accepting(struct agt_store *store, bool value);

/* State events of the first run. */
size_t double_store_count(struct agt_store *store);

/* Runs that were written, and not forgotten since; what is stored of those stays for the test. */
size_t double_store_kept(struct agt_store *store);

/* Batches that were given, and those of them that wait. */
size_t double_store_batches(struct agt_store *store);
size_t double_store_waiting(struct agt_store *store);

/* Keeps the first `count` events of the first run, which has not ended then. */
void double_store_cut(struct agt_store *store, size_t count);

enum double_part {
    DOUBLE_PART_SPEC,
    DOUBLE_PART_PAYLOAD,
    DOUBLE_PART_INPUT,
};

/* What is stored of the first run (an event of it: its index). Borrowed until the next write. */
const void *double_store_part(struct agt_store *store, enum double_part part, size_t index,
                              size_t *ret_size);

/* Puts these bytes in place of what is stored. */
void double_store_spoil(struct agt_store *store, enum double_part part, size_t index,
                        const void *data, size_t size);
