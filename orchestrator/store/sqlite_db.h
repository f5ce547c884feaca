/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"

#include <sqlite3.h>

/* Internal to orchestrator/store: the database, used by one thread at a time. */

enum agt_statement {
    AGT_SQL_BEGIN,
    AGT_SQL_COMMIT,
    AGT_SQL_ROLLBACK,
    AGT_SQL_SAVEPOINT,
    AGT_SQL_ROLLBACK_TO,
    AGT_SQL_RELEASE,
    AGT_SQL_NEW_RUN,
    AGT_SQL_FIND_KEY,
    AGT_SQL_MOVE_HEAD,
    AGT_SQL_EVENT,
    AGT_SQL_DELETE_EVENTS,
    AGT_SQL_DELETE_RUN,
    AGT_SQL_LOAD_RUNS,
    AGT_SQL_LOAD_EVENTS,
    AGT_SQL_REQUEST,
    AGT_SQL_LOAD_REQUESTS,
    AGT_SQL_DELETE_REQUEST,
    AGT_SQL_COUNT,
};

struct agt_sqlite_db {
    sqlite3 *handle;
    sqlite3_stmt *statements[AGT_SQL_COUNT];
};

/* ---- sqlite_open.c ---- */

/* Returns the errno of what SQLite said, and sets the error. */
int agt_sqlite_fail(const struct agt_sqlite_db *db, int code, const char *what, struct cr_err *err);

/* Opens, checks and, when it is new, lays out the database. On failure it is closed again. */
int agt_sqlite_db_open(struct agt_sqlite_db *db, const char *path, struct cr_err *err);

/* Writes the log back into the database. Safe to repeat. */
void agt_sqlite_db_close(struct agt_sqlite_db *db);

/* ---- sqlite_db.c ---- */

/*
 * Writes all batches of a list as one transaction and notes the error of each
 * that does not follow what is there. Returns SQLITE_OK or what the database
 * said; then nothing was written.
 */
int agt_sqlite_db_write(struct agt_sqlite_db *db, struct agt_store_batch *first);

int agt_sqlite_db_load_runs(struct agt_sqlite_db *db,
                            int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                            struct cr_err *err);
int agt_sqlite_db_load_events(struct agt_sqlite_db *db, const char *run_id,
                              int (*on_event)(void *user, const struct agt_store_event *event),
                              void *user, struct cr_err *err);

/* As load_requests() of a store. */
int agt_sqlite_db_load_requests(struct agt_sqlite_db *db,
                                int (*on_request)(void *user,
                                                  const struct agt_store_request *request),
                                void *user, struct cr_err *err);
