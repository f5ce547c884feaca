/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/store/sqlite_db.h"

#include "common/err.h"

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

/* ---- opening ---- */

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

static int fail(const struct agt_sqlite_db *db, int code, const char *what, struct cr_err *err)
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
        r = fail(db, code, query, err);
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
    return code == SQLITE_OK ? 0 : fail(db, code, "add the keys to the tables", err);
}

static int lay_out_requests(const struct agt_sqlite_db *db, struct cr_err *err)
{
    int code = sqlite3_exec(db->handle, add_requests, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : fail(db, code, "add the requests to the tables", err);
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
    return code == SQLITE_OK ? 0 : fail(db, code, "lay out the tables", err);
}

static int prepare(struct agt_sqlite_db *db, struct cr_err *err)
{
    for (size_t i = 0; i < AGT_SQL_COUNT; i++) {
        int code = sqlite3_prepare_v3(db->handle, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->statements[i], NULL);

        if (code != SQLITE_OK)
            return fail(db, code, texts[i], err);
    }
    return 0;
}

static int open_and_check(struct agt_sqlite_db *db, const char *path, struct cr_err *err)
{
    int code = sqlite3_open_v2(
        path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    int r;

    if (code != SQLITE_OK)
        return fail(db, code, "open", err);
    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_timeout(db->handle, 2000);
    r = ask(db, "PRAGMA journal_mode=WAL", NULL, "wal", err);
    if (r == 0) {
        code = sqlite3_exec(db->handle, pragmas, NULL, NULL, NULL);
        r = code == SQLITE_OK ? 0 : fail(db, code, "configure", err);
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

/* ---- writing ---- */

/* Runs a statement without rows; SQLITE_OK or what went wrong. */
static int run(const struct agt_sqlite_db *db, enum agt_statement id)
{
    sqlite3_stmt *statement = db->statements[id];
    int code = sqlite3_step(statement);

    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void bind_id(const struct agt_sqlite_db *db, enum agt_statement id, const char *run_id)
{
    (void)sqlite3_bind_text(db->statements[id], 1, run_id, -1, SQLITE_STATIC);
}

/* A blob of no bytes is not NULL. */
static void bind_blob(const struct agt_sqlite_db *db, enum agt_statement id, int index,
                      const void *data, size_t size)
{
    (void)sqlite3_bind_blob64(db->statements[id], index, size > 0 ? data : "", size, SQLITE_STATIC);
}

static int write_event(const struct agt_sqlite_db *db, const char *run_id,
                       const struct agt_store_event *event)
{
    bind_id(db, AGT_SQL_EVENT, run_id);
    (void)sqlite3_bind_int64(db->statements[AGT_SQL_EVENT], 2, event->seq);
    bind_blob(db, AGT_SQL_EVENT, 3, event->payload, event->size);
    if (event->input)
        bind_blob(db, AGT_SQL_EVENT, 4, event->input, event->input_size);
    return run(db, AGT_SQL_EVENT);
}

static int forget(const struct agt_sqlite_db *db, const char *run_id)
{
    int code;

    bind_id(db, AGT_SQL_DELETE_EVENTS, run_id);
    code = run(db, AGT_SQL_DELETE_EVENTS);
    bind_id(db, AGT_SQL_DELETE_RUN, run_id);
    return code == SQLITE_OK ? run(db, AGT_SQL_DELETE_RUN) : code;
}

static int write_request(const struct agt_sqlite_db *db, const char *run_id,
                         const struct agt_store_request *request)
{
    bind_id(db, AGT_SQL_REQUEST, run_id);
    (void)sqlite3_bind_int64(db->statements[AGT_SQL_REQUEST], 2, request->kind);
    (void)sqlite3_bind_int64(db->statements[AGT_SQL_REQUEST], 3, request->seq);
    bind_blob(db, AGT_SQL_REQUEST, 4, request->payload, request->size);
    return run(db, AGT_SQL_REQUEST);
}

/* SQLITE_CONSTRAINT for a batch that does not follow what is there. */
static int write_parts(const struct agt_sqlite_db *db, const struct agt_store_batch *batch)
{
    sqlite3_stmt *head = db->statements[AGT_SQL_MOVE_HEAD];
    int code = SQLITE_OK;

    if (batch->is_forget)
        return forget(db, batch->run_id);
    if (batch->request)
        return write_request(db, batch->run_id, batch->request);
    if (batch->spec) {
        bind_id(db, AGT_SQL_NEW_RUN, batch->run_id);
        bind_blob(db, AGT_SQL_NEW_RUN, 2, batch->spec, batch->spec_size);
        if (batch->key)
            (void)sqlite3_bind_text(db->statements[AGT_SQL_NEW_RUN], 3, batch->key, -1,
                                    SQLITE_STATIC);
        code = run(db, AGT_SQL_NEW_RUN);
    }
    if (code != SQLITE_OK || batch->event_count == 0)
        return code;
    bind_id(db, AGT_SQL_MOVE_HEAD, batch->run_id);
    (void)sqlite3_bind_int64(head, 2, batch->events[batch->event_count - 1].seq);
    (void)sqlite3_bind_int(head, 3, batch->is_end);
    (void)sqlite3_bind_int64(head, 4, (sqlite3_int64)batch->events[0].seq - 1);
    code = run(db, AGT_SQL_MOVE_HEAD);
    if (code == SQLITE_OK && sqlite3_changes(db->handle) != 1)
        code = SQLITE_CONSTRAINT;
    for (size_t i = 0; code == SQLITE_OK && i < batch->event_count; i++)
        code = write_event(db, batch->run_id, &batch->events[i]);
    return code;
}

/* Who has the key of a new run; nobody when it is refused for something else. */
static int find_key(const struct agt_sqlite_db *db, struct agt_store_batch *batch)
{
    sqlite3_stmt *statement = db->statements[AGT_SQL_FIND_KEY];
    int code;

    bind_id(db, AGT_SQL_FIND_KEY, batch->key);
    bind_blob(db, AGT_SQL_FIND_KEY, 2, batch->spec, batch->spec_size);
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        batch->error = -EEXIST;
        (void)memccpy(batch->other_id, sqlite3_column_text(statement, 0), '\0',
                      AGT_STORE_ID_SIZE - 1);
        batch->is_same_spec = sqlite3_column_int(statement, 1) != 0;
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* One that does not follow must not take the others of its transaction with it. */
static int write_batch(const struct agt_sqlite_db *db, struct agt_store_batch *batch)
{
    int code = run(db, AGT_SQL_SAVEPOINT);

    batch->error = 0;
    if (code != SQLITE_OK)
        return code;
    code = write_parts(db, batch);
    if ((code & 0xff) == SQLITE_CONSTRAINT) {
        batch->error = -ESTALE;
        code = run(db, AGT_SQL_ROLLBACK_TO);
        if (code == SQLITE_OK && batch->spec && batch->key)
            code = find_key(db, batch);
    }
    return code == SQLITE_OK ? run(db, AGT_SQL_RELEASE) : code;
}

int agt_sqlite_db_write(struct agt_sqlite_db *db, struct agt_store_batch *first)
{
    int code = run(db, AGT_SQL_BEGIN);

    for (struct cr_mail *mail = &first->link; mail && code == SQLITE_OK; mail = mail->next)
        code = write_batch(db, (struct agt_store_batch *)(void *)mail);
    if (code == SQLITE_OK)
        code = run(db, AGT_SQL_COMMIT);
    /* A full disk has rolled it back already. */
    if (code != SQLITE_OK && !sqlite3_get_autocommit(db->handle))
        (void)run(db, AGT_SQL_ROLLBACK);
    return code;
}

/* ---- reading ---- */

/* SQLite gives NULL for a blob of no bytes, too. */
static const void *column_blob(sqlite3_stmt *statement, int column, size_t *ret_size)
{
    const void *blob = sqlite3_column_blob(statement, column);

    *ret_size = (size_t)sqlite3_column_bytes(statement, column);
    return blob || sqlite3_column_type(statement, column) == SQLITE_NULL ? blob : "";
}

/* Steps through the rows of a statement. */
static int each_row(const struct agt_sqlite_db *db, enum agt_statement id,
                    int (*on_row)(void *user, sqlite3_stmt *statement), void *user,
                    struct cr_err *err)
{
    sqlite3_stmt *statement = db->statements[id];
    int code = SQLITE_ROW;
    int r = 0;

    while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW)
        r = on_row(user, statement);
    if (r == 0 && code != SQLITE_DONE)
        r = fail(db, code, "read", err);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return r;
}

struct run_reader {
    int (*on_run)(void *user, const struct agt_store_run *run);
    void *user;
};

static int on_run_row(void *user, sqlite3_stmt *statement)
{
    const struct run_reader *reader = user;
    struct agt_store_run row = {
        .run_id = (const char *)sqlite3_column_text(statement, 0),
        .has_ended = sqlite3_column_int(statement, 2) != 0,
    };

    row.spec = column_blob(statement, 1, &row.spec_size);
    return row.run_id ? reader->on_run(reader->user, &row) : -ENOMEM;
}

int agt_sqlite_db_load_runs(struct agt_sqlite_db *db,
                            int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                            struct cr_err *err)
{
    struct run_reader reader = {on_run, user};

    return each_row(db, AGT_SQL_LOAD_RUNS, on_run_row, &reader, err);
}

struct event_reader {
    int (*on_event)(void *user, const struct agt_store_event *event);
    void *user;
};

static int on_event_row(void *user, sqlite3_stmt *statement)
{
    const struct event_reader *reader = user;
    struct agt_store_event row = {.seq = (uint32_t)sqlite3_column_int64(statement, 0)};

    row.payload = column_blob(statement, 1, &row.size);
    row.input = column_blob(statement, 2, &row.input_size);
    return reader->on_event(reader->user, &row);
}

int agt_sqlite_db_load_events(struct agt_sqlite_db *db, const char *run_id,
                              int (*on_event)(void *user, const struct agt_store_event *event),
                              void *user, struct cr_err *err)
{
    struct event_reader reader = {on_event, user};

    bind_id(db, AGT_SQL_LOAD_EVENTS, run_id);
    return each_row(db, AGT_SQL_LOAD_EVENTS, on_event_row, &reader, err);
}

struct request_reader {
    int (*on_request)(void *user, const struct agt_store_request *request);
    void *user;
    sqlite3_int64 last;
    bool is_settled;
};

/* Returns 1 for a row, so that each_row() ends: what is settled is deleted by another statement. */
static int on_request_row(void *user, sqlite3_stmt *statement)
{
    struct request_reader *reader = user;
    struct agt_store_request row = {
        .run_id = (const char *)sqlite3_column_text(statement, 0),
        .kind = (uint32_t)sqlite3_column_int64(statement, 1),
        .seq = (uint32_t)sqlite3_column_int64(statement, 2),
    };
    int r;

    row.payload = column_blob(statement, 3, &row.size);
    reader->last = sqlite3_column_int64(statement, 4);
    r = row.run_id ? reader->on_request(reader->user, &row) : -ENOMEM;
    reader->is_settled = r == 1;
    return r < 0 ? r : 1;
}

static int delete_request(const struct agt_sqlite_db *db, sqlite3_int64 number, struct cr_err *err)
{
    int code;

    (void)sqlite3_bind_int64(db->statements[AGT_SQL_DELETE_REQUEST], 1, number);
    code = run(db, AGT_SQL_DELETE_REQUEST);
    return code == SQLITE_OK ? 0 : fail(db, code, "delete a request", err);
}

int agt_sqlite_db_load_requests(struct agt_sqlite_db *db,
                                int (*on_request)(void *user,
                                                  const struct agt_store_request *request),
                                void *user, struct cr_err *err)
{
    struct request_reader reader = {.on_request = on_request, .user = user};
    int r = 1;

    while (r == 1) {
        (void)sqlite3_bind_int64(db->statements[AGT_SQL_LOAD_REQUESTS], 1, reader.last);
        r = each_row(db, AGT_SQL_LOAD_REQUESTS, on_request_row, &reader, err);
        if (r == 1 && reader.is_settled)
            r = delete_request(db, reader.last, err) < 0 ? -EIO : 1;
    }
    return r;
}
