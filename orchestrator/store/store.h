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
 * time writes to a run: SQLite has one process altogether; with PostgreSQL a
 * run is leased to one of several, and a fence keeps out what a former holder
 * still sends.
 */
struct agt_store;

#define AGT_STORE_ID_SIZE 33 /* 32 hexadecimal digits and a NUL */
#define AGT_STORE_FIRST_FENCE 1U

struct agt_store_event {
    uint32_t seq; /* 1, 2, 3, … within the run */
    const void *payload;
    size_t size;
    const void *input; /* what led to the event, for doing it again; NULL: nothing */
    size_t input_size;
};

/* Something that the process which holds a run is to do, left by another one or by its former
 * life. */
struct agt_store_request {
    const char *run_id;
    uint32_t kind; /* numbers of the caller's */
    uint32_t seq;  /* the same kind and seq is kept once for each run, the first one */
    const void *payload;
    size_t size;
};

/*
 * What becomes durable together, or not at all. The caller's memory, with all
 * that it points to, until on_done.
 */
struct agt_store_batch {
    struct cr_mail link; /* first; the store's */
    char run_id[AGT_STORE_ID_SIZE];
    uint64_t fence;   /* of a known run: as in agt_store_run */
    const void *spec; /* of a new run, whose fence is AGT_STORE_FIRST_FENCE; NULL: it is known */
    size_t spec_size;
    const char *key; /* of a new run: no two runs have the same; NULL: none */
    const struct agt_store_event *events;
    size_t event_count;
    bool is_end; /* nothing follows the last of the events */
    /* Deletes the run with all its events, when it has ended or is held with `fence`; the others
     * are empty. */
    bool is_forget;
    /* Left for whoever holds the run, whose run_id is the batch's; dropped when the run has ended.
     * The others are empty. NULL: none. */
    const struct agt_store_request *request;
    /*
     * Reads the run in place of writing: called on the store's thread with each
     * of its events, before on_done. Returns 0 to go on, or what on_done gets.
     */
    int (*on_event)(struct agt_store_batch *batch, const struct agt_store_event *event);
    /*
     * Exactly once, on the store's thread. 0: durable. -ESTALE: it does not
     * follow what is there, or the run is another process's. -EEXIST: another run has the key.
     * -ECANCELED: the store was closed while it could not write. Frees the batch.
     */
    void (*on_done)(struct agt_store_batch *batch, int error);
    void *user;
    int error; /* the store's */
    /* With -EEXIST, the store's: the run that has the key ("": it is gone by now), and whether its
     * spec is the same, byte for byte. */
    char other_id[AGT_STORE_ID_SIZE];
    bool is_same_spec;
};

struct agt_store_run {
    const char *run_id;
    const void *spec;
    size_t spec_size;
    bool has_ended;
    bool is_elsewhere; /* it goes on in another process */
    uint64_t fence;    /* counts who held it; 0 where nobody else can */
};

/* Where the reader of a run is. */
struct agt_store_tail {
    const char *run_id;
    uint32_t seq; /* the last event that it has */
};

/* A run of the store; NULL where a function says so. Returns 0, or as that says. */
typedef int (*agt_store_on_run)(void *user, const struct agt_store_run *run);

struct agt_store_ops {
    /* Any thread, also from on_done. While the disk is full the batch waits. */
    void (*append)(struct agt_store *store, struct agt_store_batch *take_batch);
    /* False while there is too little room, or no connection, to begin something new. Any thread.
     */
    bool (*is_accepting)(struct agt_store *store);
    /*
     * Read all runs in the order in which they began (where runs are leased:
     * those that have ended), and the events of one run in the order of their
     * seq. A callback returns 0 to go on. They wait for the store: for the
     * start, and for on_run below. Return 0, what a callback returned, or a
     * negative errno.
     */
    int (*load_runs)(struct agt_store *store, agt_store_on_run on_run, void *user,
                     struct cr_err *err);
    int (*load_events)(struct agt_store *store, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err);
    /*
     * From now on `on_run` is told, on the store's thread, of each run that
     * this process is to go on with, because who had it is gone, of each that
     * has begun elsewhere (is_elsewhere), and of each that has ended there; of
     * one perhaps more than once. Behind each look, several in a lease, it is
     * called with NULL. With on_run NULL it stops, and waits for one that is
     * going on. A negative errno: the run cannot be taken up now; while this
     * process holds it, it is told of again. -EPROTO: this process never can;
     * it lets go of the run, so that another one takes it, and takes it no more
     * itself. A NULL function where there is nobody else.
     */
    void (*watch)(struct agt_store *store, agt_store_on_run on_run, void *user);
    /*
     * Reads what each of the runs has behind its tail, in the order of seq;
     * perhaps not all at once. For on_run of watch(). NULL where that is NULL.
     */
    int (*load_tails)(struct agt_store *store, const struct agt_store_tail *tails, size_t count,
                      int (*on_event)(void *user, size_t index,
                                      const struct agt_store_event *event),
                      void *user, struct cr_err *err);
    /*
     * Tells of each request to a run that this process holds and that goes on.
     * A callback returns 0 (it is told again), 1 (it is settled, and forgotten),
     * or a negative errno, which ends it. After load_runs, or for on_run of
     * watch() with NULL; who asks leaves a hint, so that the next look is soon.
     */
    int (*load_requests)(struct agt_store *store,
                         int (*on_request)(void *user, const struct agt_store_request *request),
                         void *user, struct cr_err *err);
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

struct agt_postgres_options {
    /*
     * "postgresql://user@host/database?…" for libpq; a password comes from a
     * password file (passfile=) or a service file (service=) and is refused
     * here. Copied.
     */
    const char *uri;
    uint32_t lease_ms; /* of a run, renewed long before; 0: 30,000 */
};

/*
 * Tables in a PostgreSQL database, shared by any number of processes. Refuses
 * (-EINVAL) a URI that is none or has a password, (-EPROTO) a newer schema,
 * (-EHOSTUNREACH) a server that cannot be reached. Later on it connects anew
 * whenever that is needed.
 */
int agt_store_postgres_new(const struct agt_postgres_options *options, struct agt_store **ret_store,
                           struct cr_err *err);

/* For whoever confines the process: what libpq will want for this address. */
struct agt_postgres_needs {
    void (*on_port)(void *user, unsigned long port); /* to connect to */
    void (*on_file)(void *user, const char *path);   /* to read; absolute */
    void *user;
};

/* Before any thread starts. Returns 0, or -EINVAL for what is no such address. */
int agt_store_postgres_needs(const char *uri, const struct agt_postgres_needs *needs,
                             struct cr_err *err);
