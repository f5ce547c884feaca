/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/store/sqlite_db.h"

#include "common/err.h"

#include <string.h>

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
        r = agt_sqlite_fail(db, code, "read", err);
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
    return code == SQLITE_OK ? 0 : agt_sqlite_fail(db, code, "delete a request", err);
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
