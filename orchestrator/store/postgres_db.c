/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/store/postgres_db.h"

#include "common/buf.h"
#include "common/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#define SCHEMA_VERSION 1
#define LOCK_WAIT_MS 5000U

/* Object ids of the server's own types (its catalogue pg_type). */
enum {
    TYPE_BOOL = 16,
    TYPE_BYTEA = 17,
    TYPE_INT8 = 20,
    TYPE_INT4 = 23,
    TYPE_TEXT = 25,
    TYPE_BYTEA_ARRAY = 1001,
    TYPE_INT4_ARRAY = 1007,
};

/* Whoever starts first lays out; the lock keeps two from doing it at once. */
static const char layout[] =
    "BEGIN;"
    "SELECT pg_advisory_xact_lock(4857921036);"
    "CREATE TABLE IF NOT EXISTS crisol_schema (version integer NOT NULL);"
    "INSERT INTO crisol_schema SELECT 1 WHERE NOT EXISTS (SELECT FROM crisol_schema);"
    "CREATE TABLE IF NOT EXISTS crisol_runs ("
    " run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE,"
    " head integer NOT NULL, has_ended boolean NOT NULL, spec bytea NOT NULL,"
    " fence bigint NOT NULL, owner text NOT NULL, lease_until timestamptz NOT NULL,"
    " ended_at timestamptz) WITH (fillfactor=70);"
    "CREATE TABLE IF NOT EXISTS crisol_events ("
    " run bigint NOT NULL REFERENCES crisol_runs ON DELETE CASCADE, seq integer NOT NULL,"
    " payload bytea NOT NULL, input bytea, PRIMARY KEY (run, seq));"
    "CREATE INDEX IF NOT EXISTS crisol_runs_live ON crisol_runs (lease_until)"
    " WHERE NOT has_ended;"
    "CREATE INDEX IF NOT EXISTS crisol_runs_ended ON crisol_runs (ended_at) WHERE has_ended;"
    /* Came later; programs that do not know it leave it NULL, which is no key. To alter a table
     * that has them already would wait for whoever reads it, a backup for one. */
    "DO $$ BEGIN IF (SELECT count(*) FROM pg_attribute WHERE attrelid = 'crisol_runs'::regclass"
    " AND attname IN ('start_key', 'started_at') AND NOT attisdropped) < 2 THEN"
    " ALTER TABLE crisol_runs ADD COLUMN IF NOT EXISTS start_key text,"
    " ADD COLUMN IF NOT EXISTS started_at timestamptz DEFAULT now();"
    " END IF; END $$;"
    "CREATE UNIQUE INDEX IF NOT EXISTS crisol_runs_by_key ON crisol_runs (start_key);"
    "CREATE TABLE IF NOT EXISTS crisol_requests ("
    " run bigint NOT NULL REFERENCES crisol_runs ON DELETE CASCADE, kind integer NOT NULL,"
    " seq integer NOT NULL, payload bytea NOT NULL, PRIMARY KEY (run, kind, seq));"
    "COMMIT";

#define EVENTS_OF_R                                                                                \
    "e AS (INSERT INTO crisol_events (run, seq, payload, input)"                                   \
    " SELECT r.run, u.seq, u.payload, u.input FROM r, unnest($7, $8, $9)"                          \
    " AS u(seq, payload, input))"

/* $1 id, $2 head before, $3 head after, $4 has ended, $5 fence, $6 owner, $7-$9 events */
static const char more_text[] =
    "WITH r AS (UPDATE crisol_runs SET head = $3, has_ended = $4,"
    " ended_at = CASE WHEN $4 THEN now() END"
    " WHERE id = $1 AND head = $2 AND fence = $5 AND owner = $6 AND NOT has_ended"
    " RETURNING run), " EVENTS_OF_R " SELECT count(*) FROM r";

/* … $10 spec, $11 milliseconds of the lease, $12 key */
static const char new_text[] =
    "WITH r AS (INSERT INTO crisol_runs"
    " (id, head, has_ended, spec, fence, owner, lease_until, ended_at, start_key)"
    " SELECT $1, $3, $4, $10, $5, $6, now() + $11 * interval '1 ms', CASE WHEN $4 THEN now() END,"
    " $12 WHERE $2 = 0 ON CONFLICT DO NOTHING RETURNING run), " EVENTS_OF_R
    " SELECT count(*) FROM r";

/* What goes on elsewhere is not forgotten here. $1 id, $2 owner, $3 fence */
static const char forget_text[] = "DELETE FROM crisol_runs WHERE id = $1"
                                  " AND (has_ended OR (owner = $2 AND fence = $3))";

static const Oid forget_types[] = {TYPE_TEXT, TYPE_TEXT, TYPE_INT8};

static const Oid types[] = {TYPE_TEXT,        TYPE_INT4,  TYPE_INT4,       TYPE_BOOL,
                            TYPE_INT8,        TYPE_TEXT,  TYPE_INT4_ARRAY, TYPE_BYTEA_ARRAY,
                            TYPE_BYTEA_ARRAY, TYPE_BYTEA, TYPE_INT4,       TYPE_TEXT};

/* $1 id, $2 kind, $3 seq, $4 payload */
static const char request_text[] =
    "INSERT INTO crisol_requests (run, kind, seq, payload)"
    " SELECT run, $2, $3, $4 FROM crisol_runs WHERE id = $1 AND NOT has_ended"
    " ON CONFLICT DO NOTHING";

static const Oid request_types[] = {TYPE_TEXT, TYPE_INT4, TYPE_INT4, TYPE_BYTEA};

/* ---- opening ---- */

static int check_version(struct agt_pg_db *db, struct cr_err *err)
{
    static const struct agt_pg_params none = {.count = 0};
    PGresult *result =
        agt_pg_ask(&db->link, "SELECT max(version) FROM crisol_schema", &none, false, err);
    int64_t version;

    if (!result)
        return db->link.handle ? -EIO : -EHOSTUNREACH;
    version = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (version == SCHEMA_VERSION)
        return 0;
    agt_pg_close(&db->link);
    return cr_err_set(err, EPROTO,
                      "its schema is version %" PRId64 " and this program knows up to %d; use a "
                      "newer program, or another database",
                      version, SCHEMA_VERSION);
}

/* A statement that waits for somebody's lock gives up in time for the next renewal of the leases.
 */
static int limit_waits(struct agt_pg_db *db, struct cr_err *err)
{
    uint32_t quarter_ms = db->lease_ms / 4;
    char text[64];

    (void)snprintf(text, sizeof(text), "SET lock_timeout = %" PRIu32,
                   quarter_ms < LOCK_WAIT_MS ? quarter_ms : LOCK_WAIT_MS);
    return agt_pg_do(&db->link, text, err);
}

int agt_pg_db_open(struct agt_pg_db *db, struct cr_err *err)
{
    int r = agt_pg_connect(&db->link, db->uri, err);

    if (r == 0)
        r = agt_pg_do(&db->link, layout, err);
    if (r == 0)
        r = check_version(db, err);
    if (r == 0)
        r = limit_waits(db, err);
    if (r < 0)
        agt_pg_close(&db->link);
    return r;
}

/* ---- writing ---- */

/* Numbers and arrays of one batch, as they are sent. */
struct packed {
    char before[12];
    char after[12];
    char fence[24];
    struct cr_buf seqs;
    struct cr_buf payloads;
    struct cr_buf inputs;
};

struct writing {
    struct agt_pg_db *db;
    struct agt_store_batch **batches; /* in order */
    struct packed *packed;            /* one each */
    char lease[12];
};

static int add_number(struct cr_buf *buf, int32_t number)
{
    uint32_t wire = htonl((uint32_t)number);

    return cr_buf_add(buf, &wire, sizeof(wire));
}

/* The binary form of an array with one dimension (array_recv() of the server). */
static int add_header(struct cr_buf *buf, int32_t type, size_t count)
{
    const int32_t header[] = {count > 0, 1 /* may have NULL */, type, (int32_t)count, 1};
    size_t size = count > 0 ? 5 : 3;
    int r = 0;

    for (size_t i = 0; r == 0 && i < size; i++)
        r = add_number(buf, header[i]);
    return r;
}

static int add_blob(struct cr_buf *buf, const void *data, size_t size)
{
    int r = add_number(buf, data ? (int32_t)size : -1);

    return r == 0 && data && size > 0 ? cr_buf_add(buf, data, size) : r;
}

/* A parameter has less than 1 GiB; the journal bounds its batches far below. */
#define ARRAY_MAX ((size_t)512 << 20)

/* The numbers of a request lie where those of the heads would. */
static int pack_request(const struct agt_store_request *request, struct packed *packed)
{
    (void)snprintf(packed->before, sizeof(packed->before), "%u", request->kind);
    (void)snprintf(packed->after, sizeof(packed->after), "%u", request->seq);
    return 0;
}

static const char *text_of_step(const struct agt_store_batch *batch)
{
    if (batch->is_forget)
        return forget_text;
    if (batch->request)
        return request_text;
    return batch->spec ? new_text : more_text;
}

static const Oid *types_of_step(const struct agt_store_batch *batch)
{
    if (batch->is_forget)
        return forget_types;
    return batch->request ? request_types : types;
}

static int pack(const struct agt_store_batch *batch, struct packed *packed)
{
    size_t count = batch->event_count;
    uint32_t first = count > 0 ? batch->events[0].seq : 1;
    int r;

    cr_buf_init(&packed->seqs, ARRAY_MAX);
    cr_buf_init(&packed->payloads, ARRAY_MAX);
    cr_buf_init(&packed->inputs, ARRAY_MAX);
    if (batch->request)
        return pack_request(batch->request, packed);
    (void)snprintf(packed->before, sizeof(packed->before), "%u", first - 1);
    (void)snprintf(packed->after, sizeof(packed->after), "%u",
                   count > 0 ? batch->events[count - 1].seq : 0);
    (void)snprintf(packed->fence, sizeof(packed->fence), "%" PRIu64,
                   batch->spec ? (uint64_t)AGT_STORE_FIRST_FENCE : batch->fence);
    r = add_header(&packed->seqs, TYPE_INT4, count);
    if (r == 0)
        r = add_header(&packed->payloads, TYPE_BYTEA, count);
    if (r == 0)
        r = add_header(&packed->inputs, TYPE_BYTEA, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct agt_store_event *event = &batch->events[i];

        r = add_number(&packed->seqs, 4);
        if (r == 0)
            r = add_number(&packed->seqs, (int32_t)event->seq);
        if (r == 0)
            r = add_blob(&packed->payloads, event->size > 0 ? event->payload : "", event->size);
        if (r == 0)
            r = add_blob(&packed->inputs, event->input, event->input_size);
    }
    return r;
}

static void fill_request(const struct agt_store_request *request, const struct packed *packed,
                         struct agt_pg_params *params)
{
    agt_pg_add_text(params, packed->before);
    agt_pg_add_text(params, packed->after);
    agt_pg_add_bytes(params, request->size > 0 ? request->payload : "", request->size);
}

static void fill(void *user, size_t index, struct agt_pg_step *ret_step)
{
    struct writing *writing = user;
    const struct agt_store_batch *batch = writing->batches[index];
    const struct packed *packed = &writing->packed[index];
    struct agt_pg_params *params = &ret_step->params;

    ret_step->text = text_of_step(batch);
    ret_step->types = types_of_step(batch);
    agt_pg_add_text(params, batch->run_id);
    if (batch->request)
        fill_request(batch->request, packed, params);
    if (batch->is_forget) {
        agt_pg_add_text(params, writing->db->owner);
        agt_pg_add_text(params, packed->fence);
    }
    if (batch->is_forget || batch->request)
        return;
    agt_pg_add_text(params, packed->before);
    agt_pg_add_text(params, packed->after);
    agt_pg_add_text(params, batch->is_end ? "t" : "f");
    agt_pg_add_text(params, packed->fence);
    agt_pg_add_text(params, writing->db->owner);
    agt_pg_add_bytes(params, packed->seqs.data, packed->seqs.size);
    agt_pg_add_bytes(params, packed->payloads.data, packed->payloads.size);
    agt_pg_add_bytes(params, packed->inputs.data, packed->inputs.size);
    if (!batch->spec)
        return;
    agt_pg_add_bytes(params, batch->spec, batch->spec_size);
    agt_pg_add_text(params, writing->lease);
    agt_pg_add_text(params, batch->key);
}

static void on_result(void *user, size_t index, const PGresult *result)
{
    struct writing *writing = user;
    struct agt_store_batch *batch = writing->batches[index];

    batch->error = 0;
    if (!batch->is_forget && !batch->request && strcmp(PQgetvalue(result, 0, 0), "1") != 0)
        batch->error = batch->spec && batch->key ? -EEXIST : -ESTALE;
}

static size_t count_batches(const struct agt_store_batch *first)
{
    size_t count = 1;

    for (const struct cr_mail *mail = first->link.next; mail; mail = mail->next)
        count++;
    return count;
}

/* The answer to an attempt before may have been lost: what this process wrote is there. */
static int forgive(struct agt_pg_db *db, struct agt_store_batch *batch, const struct packed *packed,
                   struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    PGresult *result;

    agt_pg_add_text(&params, batch->run_id);
    agt_pg_add_text(&params, packed->after);
    agt_pg_add_text(&params, packed->fence);
    agt_pg_add_text(&params, db->owner);
    result = agt_pg_ask(&db->link,
                        "SELECT FROM crisol_runs WHERE id = $1 AND head >= $2::integer"
                        " AND fence = $3::bigint AND owner = $4",
                        &params, false, err);
    if (!result)
        return -EHOSTUNREACH;
    if (PQntuples(result) == 1)
        batch->error = 0;
    PQclear(result);
    return 0;
}

/* Who has the key of a new run that was refused for it. */
static int find_other(struct agt_pg_db *db, struct agt_store_batch *batch, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    PGresult *result;

    agt_pg_add_text(&params, batch->key);
    agt_pg_add_bytes(&params, batch->spec, batch->spec_size);
    result = agt_pg_ask(&db->link, "SELECT id, spec = $2 FROM crisol_runs WHERE start_key = $1",
                        &params, false, err);
    if (!result)
        return -EHOSTUNREACH;
    if (PQntuples(result) == 1) {
        (void)memccpy(batch->other_id, PQgetvalue(result, 0, 0), '\0', AGT_STORE_ID_SIZE - 1);
        batch->is_same_spec = PQgetvalue(result, 0, 1)[0] == 't';
    }
    PQclear(result);
    return 0;
}

/* Whoever holds the run looks at once. A hint only: it looks in any case. */
static void hint(struct writing *writing, size_t count)
{
    bool has_request = false;

    for (size_t i = 0; i < count; i++)
        has_request |= writing->batches[i]->request != NULL;
    if (has_request)
        (void)agt_pg_do(&writing->db->link, "NOTIFY crisol_runs", NULL);
}

static int write_batches(struct writing *writing, size_t count, bool is_repeat, struct cr_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++)
        r = pack(writing->batches[i], &writing->packed[i]);
    if (r < 0)
        return cr_err_set(err, -r, "no memory for what is to be written");
    r = agt_pg_transact(&writing->db->link, count, fill, on_result, writing, err);
    for (size_t i = 0; is_repeat && r == 0 && i < count; i++) {
        if (writing->batches[i]->error)
            r = forgive(writing->db, writing->batches[i], &writing->packed[i], err);
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (writing->batches[i]->error == -EEXIST)
            r = find_other(writing->db, writing->batches[i], err);
    }
    if (r == 0)
        hint(writing, count);
    return r;
}

int agt_pg_db_write(struct agt_pg_db *db, struct agt_store_batch *first, bool is_repeat,
                    struct cr_err *err)
{
    size_t count = count_batches(first);
    struct writing writing = {
        .db = db,
        .batches = calloc(count, sizeof(struct agt_store_batch *)),
        .packed = calloc(count, sizeof(struct packed)),
    };
    int r = -ENOMEM;

    (void)snprintf(writing.lease, sizeof(writing.lease), "%u", db->lease_ms);
    if (writing.batches && writing.packed) {
        size_t i = 0;

        for (struct cr_mail *mail = &first->link; mail; mail = mail->next)
            writing.batches[i++] = (struct agt_store_batch *)(void *)mail;
        r = write_batches(&writing, count, is_repeat, err);
    }
    for (size_t i = 0; writing.packed && i < count; i++) {
        cr_buf_done(&writing.packed[i].seqs);
        cr_buf_done(&writing.packed[i].payloads);
        cr_buf_done(&writing.packed[i].inputs);
    }
    free(writing.packed);
    free(writing.batches);
    return r;
}

/* ---- reading ---- */

static int tell_run(const PGresult *result, int row, bool is_elsewhere,
                    int (*on_run)(void *user, const struct agt_store_run *run), void *user)
{
    const struct agt_store_run run = {
        .run_id = PQgetvalue(result, row, 0),
        .spec = PQgetvalue(result, row, 1),
        .spec_size = (size_t)PQgetlength(result, row, 1),
        .has_ended = agt_pg_number(result, row, 2) != 0,
        .is_elsewhere = is_elsewhere,
        .fence = agt_pg_number(result, row, 3),
    };

    return on_run(user, &run);
}

int agt_pg_db_each(PGresult *take_result, bool is_elsewhere,
                   int (*on_run)(void *user, const struct agt_store_run *run), void *user)
{
    int r = 0;

    for (int i = 0; r == 0 && i < PQntuples(take_result); i++)
        r = tell_run(take_result, i, is_elsewhere, on_run, user);
    PQclear(take_result);
    return r;
}

int agt_pg_db_load_runs(struct agt_pg_db *db,
                        int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                        struct cr_err *err)
{
    uint64_t last = 0;
    int count = 1;
    int r = 0;

    while (r == 0 && count > 0) {
        struct agt_pg_params params = {.count = 0};
        char text[24];
        PGresult *result;

        (void)snprintf(text, sizeof(text), "%" PRIu64, last);
        agt_pg_add_text(&params, text);
        result = agt_pg_ask(&db->link,
                            "SELECT " AGT_PG_RUN_COLUMNS ", run FROM crisol_runs"
                            " WHERE has_ended AND run > $1::bigint ORDER BY run LIMIT 100",
                            &params, true, err);
        if (!result)
            return db->link.handle ? -EIO : -EHOSTUNREACH;
        count = PQntuples(result);
        if (count > 0)
            last = agt_pg_number(result, count - 1, 4);
        r = agt_pg_db_each(result, false, on_run, user);
    }
    return r;
}

int agt_pg_db_load_events(struct agt_pg_db *db, const char *run_id,
                          int (*on_event)(void *user, const struct agt_store_event *event),
                          void *user, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    PGresult *result;
    int r = 0;

    agt_pg_add_text(&params, run_id);
    result = agt_pg_ask(&db->link,
                        "SELECT seq, payload, input FROM crisol_events WHERE run ="
                        " (SELECT run FROM crisol_runs WHERE id = $1) ORDER BY seq",
                        &params, true, err);
    if (!result)
        return db->link.handle ? -EIO : -EHOSTUNREACH;
    for (int i = 0; r == 0 && i < PQntuples(result); i++) {
        bool has_input = !PQgetisnull(result, i, 2);
        const struct agt_store_event event = {
            .seq = (uint32_t)agt_pg_number(result, i, 0),
            .payload = PQgetvalue(result, i, 1),
            .size = (size_t)PQgetlength(result, i, 1),
            .input = has_input ? PQgetvalue(result, i, 2) : NULL,
            .input_size = has_input ? (size_t)PQgetlength(result, i, 2) : 0,
        };

        r = on_event(user, &event);
    }
    PQclear(result);
    return r;
}
