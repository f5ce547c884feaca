/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/postgres_db.h"
#include "orchestrator/store/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_writer;
struct cr_err;

/*
 * The store in PostgreSQL, for postgres.c (what a store does, and its thread)
 * and postgres_watch.c (its looks for runs of others). Nothing else includes
 * this.
 */

/* Runs that this process cannot read. When there are more, the first are forgotten: they may be
 * told of, taken and let go of once more. */
#define AGT_PG_REFUSED_MAX 256U

/* As an array of PostgreSQL, "{id,id}"; ids have no other characters than digits. */
struct agt_pg_refused {
    char ids[AGT_PG_REFUSED_MAX][AGT_STORE_ID_SIZE];
    size_t count; /* of all that ever were; the next is at its remainder */
    char text[AGT_PG_REFUSED_MAX * AGT_STORE_ID_SIZE + 2];
};

struct agt_pg_store {
    struct agt_store base; /* first */
    char *uri;
    struct agt_writer *writer;
    atomic_bool is_reachable;

    pthread_mutex_t lock; /* guards the next two; of all callbacks, held in those of a load alone */
    struct agt_pg_db db;
    /* There may be runs that this process holds and does not go on with: the answer to a claim was
     * lost, or a run could not be taken up. They would be renewed, and so be lost to everybody. */
    bool must_recount;

    pthread_mutex_t watch_lock; /* guards the next two, held while on_run runs; taken first */
    agt_store_on_run on_run;    /* NULL: nobody watches */
    void *on_run_user;

    /* The writer's thread only. */
    int64_t renew_at_ns;
    int64_t look_at_ns;
    int64_t complain_at_ns;
    int64_t seen_ns;    /* the database answered the last look */
    int64_t claim_ns;   /* until then a run whose lease ran out is left alone */
    bool has_looked;    /* the runs of the others are known but for new ones */
    bool is_recounting; /* a part of what this process holds at each look … */
    uint64_t recounted; /* … up to here */
    struct agt_pg_refused refused;
};

int64_t agt_pg_lease_ns(const struct agt_pg_store *store);

/*
 * Looks for runs that nobody holds, that began or that ended elsewhere, and tells of them. On the
 * writer's thread, with watch_lock. False: not now.
 */
bool agt_pg_look_around(struct agt_pg_store *store, struct cr_err *err);
