/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/store/sqlite_db.h"

#include <string.h>

#define SCHEMA_VERSION 1
#define APPLICATION_ID 1129465161 /* "CRSI": so that no other program's file is taken for ours */

/*
 * Rowid tables: with WITHOUT ROWID the log grows 2.5 times as much for each
 * event. FULL: with NORMAL a loss of power loses what was acknowledged.
 */
static const char pragmas[] = "PRAGMA synchronous=FULL;"
                              "PRAGMA foreign_keys=ON;"
                              "PRAGMA temp_store=MEMORY;"
                              "PRAGMA trusted_schema=OFF;"
                              "PRAGMA cell_size_check=ON;"
                              "PRAGMA cache_size=-8192;"
                              "PRAGMA wal_autocheckpoint=1000;"
                              "PRAGMA journal_size_limit=16777216;";

#define REQUESTS_TABLE                                                                             \
    "CREATE TABLE IF NOT EXISTS requests (request INTEGER PRIMARY KEY, run INTEGER NOT NULL"       \
    " REFERENCES runs(run) ON DELETE CASCADE, kind INTEGER NOT NULL, seq INTEGER NOT NULL,"        \
    " payload BLOB NOT NULL, UNIQUE (run, kind, seq)) STRICT;"

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE runs (run INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, head INTEGER NOT NULL,"
    " has_ended INTEGER NOT NULL, spec BLOB NOT NULL) STRICT;"
    "CREATE TABLE events (event INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(run),"
    " seq INTEGER NOT NULL, payload BLOB NOT NULL, input BLOB) STRICT;"
    "CREATE UNIQUE INDEX events_by_seq ON events (run, seq);" REQUESTS_TABLE
    "PRAGMA application_id=1129465161;"
    "PRAGMA user_version=1;"
    "COMMIT;";

/* Came later; programs that do not know it leave it NULL, which is no key. */
static const char add_keys[] = "BEGIN IMMEDIATE;"
                               "ALTER TABLE runs ADD COLUMN start_key TEXT;"
                               "CREATE UNIQUE INDEX runs_by_key ON runs (start_key);"
                               "COMMIT;";

/* This, too. */
static const char add_requests[] = REQUESTS_TABLE;

static const char *const texts[AGT_SQL_COUNT] = {
    [AGT_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [AGT_SQL_COMMIT] = "COMMIT",
    [AGT_SQL_ROLLBACK] = "ROLLBACK",
    [AGT_SQL_SAVEPOINT] = "SAVEPOINT batch",
    [AGT_SQL_ROLLBACK_TO] = "ROLLBACK TO batch",
    [AGT_SQL_RELEASE] = "RELEASE batch",
    [AGT_SQL_NEW_RUN] = "INSERT INTO runs (id, head, has_ended, spec, start_key)"
                        " VALUES (?1, 0, 0, ?2, ?3)",
    [AGT_SQL_FIND_KEY] = "SELECT id, spec = ?2 FROM runs WHERE start_key = ?1",
    /* The head guards the order: a batch that does not follow changes nothing. */
    [AGT_SQL_MOVE_HEAD] = "UPDATE runs SET head = ?2, has_ended = ?3"
                          " WHERE id = ?1 AND head = ?4 AND has_ended = 0",
    [AGT_SQL_EVENT] = "INSERT INTO events (run, seq, payload, input)"
                      " SELECT run, ?2, ?3, ?4 FROM runs WHERE id = ?1",
    [AGT_SQL_DELETE_EVENTS] = "DELETE FROM events WHERE run = (SELECT run FROM runs WHERE id = ?1)",
    [AGT_SQL_DELETE_RUN] = "DELETE FROM runs WHERE id = ?1",
    [AGT_SQL_LOAD_RUNS] = "SELECT id, spec, has_ended FROM runs ORDER BY run",
    [AGT_SQL_LOAD_EVENTS] = "SELECT seq, payload, input FROM events"
                            " WHERE run = (SELECT run FROM runs WHERE id = ?1) ORDER BY seq",
    [AGT_SQL_REQUEST] = "INSERT INTO requests (run, kind, seq, payload)"
                        " SELECT run, ?2, ?3, ?4 FROM runs WHERE id = ?1 AND has_ended = 0"
                        " ON CONFLICT DO NOTHING",
    [AGT_SQL_LOAD_REQUESTS] = "SELECT runs.id, kind, seq, payload, request FROM requests"
                              " JOIN runs USING (run) WHERE has_ended = 0 AND request > ?1"
                              " ORDER BY request LIMIT 1",
    [AGT_SQL_DELETE_REQUEST] = "DELETE FROM requests WHERE request = ?1 OR run IN"
                               " (SELECT run FROM runs WHERE has_ended = 1)",
};

static int errno_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return EUCLEAN;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        return EACCES;
    default:
        return EIO;
    }
}

int agt_sqlite_fail(const struct agt_sqlite_db *db, int code, const char *what, struct cr_err *err)
{
    return cr_err_set(err, errno_of(code), "%s: %s", what,
                      db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code));
}

/* The first value of a query's first row: as a number, and compared with `expected` (or NULL). */
static int ask(const struct agt_sqlite_db *db, const char *query, int *ret_number,
               const char *expected, struct cr_err *err)
{
    sqlite3_stmt *statement = NULL;
    const char *text = NULL;
    int r = 0;
    int code = sqlite3_prepare_v2(db->handle, query, -1, &statement, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        r = agt_sqlite_fail(db, code, query, err);
    } else {
        if (ret_number)
            *ret_number = sqlite3_column_int(statement, 0);
        text = (const char *)sqlite3_column_text(statement, 0);
        if (expected && (!text || strcmp(text, expected) != 0))
            r = cr_err_set(err, EUCLEAN, "%s: is '%s', must be '%s'", query, text ? text : "",
                           expected);
    }
    (void)sqlite3_finalize(statement);
    return r;
}

static int lay_out_keys(const struct agt_sqlite_db *db, struct cr_err *err)
{
    int count = 0;
    int code;
    int r = ask(db, "SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'start_key'",
                &count, NULL, err);

    if (r < 0 || count > 0)
        return r;
    code = sqlite3_exec(db->handle, add_keys, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : agt_sqlite_fail(db, code, "add the keys to the tables", err);
}

static int lay_out_requests(const struct agt_sqlite_db *db, struct cr_err *err)
{
    int code = sqlite3_exec(db->handle, add_requests, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : agt_sqlite_fail(db, code, "add the requests to the tables", err);
}

static int lay_out(const struct agt_sqlite_db *db, struct cr_err *err)
{
    int tables = 0;
    int version = 0;
    int application = 0;
    int code;
    int r = ask(db, "PRAGMA user_version", &version, NULL, err);

    if (r == 0)
        r = ask(db, "PRAGMA application_id", &application, NULL, err);
    if (r == 0)
        r = ask(db, "SELECT count(*) FROM sqlite_schema", &tables, NULL, err);
    if (r < 0)
        return r;
    if (tables > 0 && application != APPLICATION_ID)
        return cr_err_set(err, EPROTO, "it is the database of another program");
    if (version > SCHEMA_VERSION)
        return cr_err_set(err, EPROTO,
                          "its schema is version %d and this program knows up to %d; use a newer "
                          "program, or another file",
                          version, SCHEMA_VERSION);
    if (tables > 0)
        return 0;
    code = sqlite3_exec(db->handle, schema, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : agt_sqlite_fail(db, code, "lay out the tables", err);
}

static int prepare(struct agt_sqlite_db *db, struct cr_err *err)
{
    for (size_t i = 0; i < AGT_SQL_COUNT; i++) {
        int code = sqlite3_prepare_v3(db->handle, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->statements[i], NULL);

        if (code != SQLITE_OK)
            return agt_sqlite_fail(db, code, texts[i], err);
    }
    return 0;
}

static int open_and_check(struct agt_sqlite_db *db, const char *path, struct cr_err *err)
{
    int code = sqlite3_open_v2(
        path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    int r;

    if (code != SQLITE_OK)
        return agt_sqlite_fail(db, code, "open", err);
    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_timeout(db->handle, 2000);
    r = ask(db, "PRAGMA journal_mode=WAL", NULL, "wal", err);
    if (r == 0) {
        code = sqlite3_exec(db->handle, pragmas, NULL, NULL, NULL);
        r = code == SQLITE_OK ? 0 : agt_sqlite_fail(db, code, "configure", err);
    }
    if (r == 0)
        r = ask(db, "PRAGMA quick_check(1)", NULL, "ok", err);
    if (r == 0)
        r = lay_out(db, err);
    if (r == 0)
        r = lay_out_keys(db, err);
    if (r == 0)
        r = lay_out_requests(db, err);
    return r == 0 ? prepare(db, err) : r;
}

int agt_sqlite_db_open(struct agt_sqlite_db *db, const char *path, struct cr_err *err)
{
    int r;

    *db = (struct agt_sqlite_db){.handle = NULL};
    r = open_and_check(db, path, err);
    if (r < 0)
        agt_sqlite_db_close(db);
    return r;
}

void agt_sqlite_db_close(struct agt_sqlite_db *db)
{
    for (size_t i = 0; i < AGT_SQL_COUNT; i++) {
        (void)sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    (void)sqlite3_close(db->handle);
    db->handle = NULL;
}
