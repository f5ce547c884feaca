/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * The journal of runs: append-only lists of events, whatever they hold. It
 * knows neither gRPC nor the messages: contents are bytes. One process at a
 * time writes to it.
 */
struct agt_store;

#define AGT_STORE_ID_SIZE 33 /* 32 hexadecimal digits and a NUL */

struct agt_store_event {
    uint32_t seq; /* 1, 2, 3, … within the run */
    const void *payload;
    size_t size;
    const void *input; /* what led to the event, for doing it again; NULL: nothing */
    size_t input_size;
};

/*
 * What becomes durable together, or not at all. The caller's memory, with all
 * that it points to, until on_done.
 */
struct agt_store_batch {
    struct cr_mail link; /* first; the store's */
    char run_id[AGT_STORE_ID_SIZE];
    const void *spec; /* of a new run; NULL: the run is known */
    size_t spec_size;
    const struct agt_store_event *events;
    size_t event_count;
    bool is_end;    /* nothing follows the last of the events */
    bool is_forget; /* deletes the run with all its events; the others are empty */
    /*
     * Exactly once, on the store's thread. 0: durable. -ESTALE: it does not
     * follow what is there. -ECANCELED: the store was closed while it could
     * not write. Frees the batch.
     */
    void (*on_done)(struct agt_store_batch *batch, int error);
    void *user;
    int error; /* the store's */
};

struct agt_store_run {
    const char *run_id;
    const void *spec;
    size_t spec_size;
    bool has_ended;
};

struct agt_store_ops {
    /* Any thread, also from on_done. While the disk is full the batch waits. */
    void (*append)(struct agt_store *store, struct agt_store_batch *take_batch);
    /* False while there is too little room to begin something new. Any thread. */
    bool (*is_accepting)(struct agt_store *store);
    /*
     * Read all runs in the order in which they began, and the events of one
     * run in the order of their seq. A callback returns 0 to go on. For the
     * start, before anything is appended. Return 0, what a callback returned,
     * or a negative errno.
     */
    int (*load_runs)(struct agt_store *store,
                     int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                     struct cr_err *err);
    int (*load_events)(struct agt_store *store, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err);
    /* From now on a batch that cannot be written is given up at once: the process ends. */
    void (*hurry)(struct agt_store *store);
    /* Writes what was appended, or gives it up when it cannot be written. NULL is not allowed. */
    void (*free)(struct agt_store *store);
};

/* First member of every store. */
struct agt_store {
    const struct agt_store_ops *ops;
};

struct agt_sqlite_options {
    const char *path;        /* of the database; its folder exists. Copied */
    uint64_t min_free_bytes; /* on the disk, to begin something new; 0: 256 MiB */
    uint64_t ballast_bytes;  /* given back when the disk is full; 0: 16 MiB */
};

/*
 * One file on a local disk, with its -wal, -shm, .lock and .ballast beside it.
 * Refuses (-EBUSY) a file that another process uses, (-EPROTO) one of a newer
 * schema or of another program, (-EUCLEAN) one that is damaged.
 */
int agt_store_sqlite_new(const struct agt_sqlite_options *options, struct agt_store **ret_store,
                         struct cr_err *err);
