/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"

#include <stdatomic.h>
#include <stdbool.h>

struct agt_writer;
struct cr_err;

/*
 * Internal to orchestrator/store: the thread of a store. It writes all batches
 * that came meanwhile as one transaction, tries again until that is written,
 * and looks after the store in between. What it calls runs on its thread.
 */
struct agt_writer_ops {
    /*
     * Writes all batches of a list, or none, and notes the error of each that
     * does not follow what is there. False: try again. `is_repeat` tells that
     * it was tried before and may have been written.
     */
    bool (*write)(void *user, struct agt_store_batch *first, bool is_repeat);
    /* Before each further try of a write, which may fail for long: what must not wait for it.
     * NULL: nothing. */
    void (*keep_up)(void *user);
    /* After every write, and several times a second. */
    void (*look_after)(void *user);
    /* To be woken for: -1: nothing. NULL: never anything. */
    int (*fd)(void *user);
};

/* Starts the thread. `ops` is static; `store`, whose events batches read, and `user` outlive the
 * writer. */
int agt_writer_start(const struct agt_writer_ops *ops, struct agt_store *store, void *user,
                     struct agt_writer **ret_writer, struct cr_err *err);

/* Any thread. */
void agt_writer_append(struct agt_writer *writer, struct agt_store_batch *take_batch);

/* From now on what cannot be written at once is given up. Any thread. */
void agt_writer_hurry(struct agt_writer *writer);

/* Writes what was appended, or gives it up, and ends the thread. NULL is allowed; returns NULL. */
struct agt_writer *agt_writer_stop(struct agt_writer *writer);
