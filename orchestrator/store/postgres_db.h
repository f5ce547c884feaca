/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/postgres_link.h"
#include "orchestrator/store/store.h"

/* Internal to orchestrator/store: the tables in PostgreSQL, used by one thread at a time. */

struct agt_pg_db {
    struct agt_pg_link link;
    const char *uri; /* borrowed */
    char owner[17];  /* this process, among those that share the tables */
    uint32_t lease_ms;
};

/* Connects, and lays out the tables when they are missing. Refuses (-EPROTO) a newer schema. */
int agt_pg_db_open(struct agt_pg_db *db, struct cr_err *err);

/*
 * Writes all batches of a list as one transaction and notes the error of each
 * that does not follow what is there, or whose run is another process's. With
 * `is_repeat`, one that is there already as this process wrote it is no error.
 */
int agt_pg_db_write(struct agt_pg_db *db, struct agt_store_batch *first, bool is_repeat,
                    struct cr_err *err);

/* Columns of a run, in binary; what agt_pg_db_each() is told. */
#define AGT_PG_RUN_COLUMNS "id, spec, has_ended, fence"

/* The runs that have ended, in order. */
int agt_pg_db_load_runs(struct agt_pg_db *db,
                        int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                        struct cr_err *err);
int agt_pg_db_load_events(struct agt_pg_db *db, const char *run_id,
                          int (*on_event)(void *user, const struct agt_store_event *event),
                          void *user, struct cr_err *err);

/* ---- postgres_lease.c: the server's clock alone counts ---- */

/* Holds on to the runs of this process. *ret_left: those that another session has locked. */
int agt_pg_db_renew(struct agt_pg_db *db, uint64_t *ret_left, struct cr_err *err);

/* Lets go of them, and tells the others. */
int agt_pg_db_release(struct agt_pg_db *db, struct cr_err *err);

/* Lets go of one of them, of this fence. */
int agt_pg_db_let_go(struct agt_pg_db *db, const char *run_id, uint64_t fence, struct cr_err *err);

#define AGT_PG_CLAIM_MAX 16

/*
 * Takes up to AGT_PG_CLAIM_MAX runs that nobody holds any more, or whose
 * holder let go of them itself (`only_released`), but for those of these ids
 * ("{id,id}"); no two processes get the same. NULL when it failed. For
 * agt_pg_db_each().
 */
PGresult *agt_pg_db_claim(struct agt_pg_db *db, bool only_released, const char *without,
                          struct cr_err *err);

#define AGT_PG_HELD_MAX 100

/* The next AGT_PG_HELD_MAX of the runs that this process holds, behind the one of the number
 * `after`, which is that of the last then. NULL when it failed. For agt_pg_db_each(). */
PGresult *agt_pg_db_held(struct agt_pg_db *db, uint64_t *after, struct cr_err *err);

/* The runs that ended in other processes within the last minute. */
PGresult *agt_pg_db_ended_elsewhere(struct agt_pg_db *db, struct cr_err *err);

/* The newest runs that go on in other processes: those of the last minute, or all (`is_first`). */
PGresult *agt_pg_db_elsewhere(struct agt_pg_db *db, bool is_first, struct cr_err *err);

/* Tells of each run of such a result, and frees it. Returns as a callback did, or 0. */
int agt_pg_db_each(PGresult *take_result, bool is_elsewhere,
                   int (*on_run)(void *user, const struct agt_store_run *run), void *user);

/* ---- postgres_request.c ---- */

/* The requests to runs of this process. For agt_pg_requests_row(); NULL when it failed. */
PGresult *agt_pg_requests_ask(struct agt_pg_db *db, struct cr_err *err);

/* One of them; valid as long as the result. */
void agt_pg_requests_row(const PGresult *result, int row, struct agt_store_request *ret_request);

/* Forgets one that is settled. */
int agt_pg_requests_settle(struct agt_pg_db *db, const struct agt_store_request *request,
                           struct cr_err *err);

/* ---- postgres_tail.c ---- */

#define AGT_PG_TAIL_MAX 200 /* events */

/* Up to AGT_PG_TAIL_MAX events behind these tails. For agt_pg_tails_each(). */
PGresult *agt_pg_tails_ask(struct agt_pg_db *db, const struct agt_store_tail *tails, size_t count,
                           struct cr_err *err);

/* Tells of each event of such a result, and frees it. Returns as a callback did, or 0. */
int agt_pg_tails_each(PGresult *take_result,
                      int (*on_event)(void *user, size_t index,
                                      const struct agt_store_event *event),
                      void *user);
