/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/store/postgres_db.h"

#include <inttypes.h>
#include <stdio.h>

/* $1 the name of this process, $2 milliseconds of a lease. */
static void add_owner(const struct agt_pg_db *db, struct agt_pg_params *params,
                      char lease[static 12])
{
    (void)snprintf(lease, 12, "%u", db->lease_ms);
    agt_pg_add_text(params, db->owner);
    agt_pg_add_text(params, lease);
}

/* A statement about this process. */
static PGresult *ask_as_owner(struct agt_pg_db *db, const char *statement, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    char lease[12];

    add_owner(db, &params, lease);
    return agt_pg_ask(&db->link, statement, &params, true, err);
}

int agt_pg_db_renew(struct agt_pg_db *db, uint64_t *ret_left, struct cr_err *err)
{
    /* One run that somebody has locked must not hold up the others. */
    PGresult *result =
        ask_as_owner(db,
                     "WITH mine AS MATERIALIZED (SELECT run FROM crisol_runs"
                     "  WHERE owner = $1 AND NOT has_ended FOR NO KEY UPDATE SKIP LOCKED),"
                     " kept AS (UPDATE crisol_runs AS r"
                     "  SET lease_until = now() + $2::integer * interval '1 ms'"
                     "  FROM mine WHERE r.run = mine.run RETURNING 1)"
                     " SELECT (SELECT count(*) FROM crisol_runs WHERE owner = $1 AND NOT has_ended)"
                     " - (SELECT count(*) FROM kept)",
                     err);

    if (!result)
        return -EHOSTUNREACH;
    *ret_left = agt_pg_number(result, 0, 0);
    PQclear(result);
    return 0;
}

int agt_pg_db_release(struct agt_pg_db *db, struct cr_err *err)
{
    PGresult *result = ask_as_owner(db,
                                    "UPDATE crisol_runs SET lease_until = '-infinity'"
                                    " WHERE owner = $1 AND NOT has_ended AND $2::integer > 0",
                                    err);

    if (!result)
        return -EHOSTUNREACH;
    PQclear(result);
    return agt_pg_do(&db->link, "NOTIFY crisol_runs", err);
}

/* With its owner the next renewal would take it back. */
int agt_pg_db_let_go(struct agt_pg_db *db, const char *run_id, uint64_t fence, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    char text[24];
    PGresult *result;

    (void)snprintf(text, sizeof(text), "%" PRIu64, fence);
    agt_pg_add_text(&params, db->owner);
    agt_pg_add_text(&params, run_id);
    agt_pg_add_text(&params, text);
    result = agt_pg_ask(&db->link,
                        "UPDATE crisol_runs SET lease_until = '-infinity', owner = ''"
                        " WHERE NOT has_ended AND owner = $1 AND id = $2 AND fence = $3::bigint",
                        &params, true, err);
    if (!result)
        return -EHOSTUNREACH;
    PQclear(result);
    return agt_pg_do(&db->link, "NOTIFY crisol_runs", err);
}

/* The order is that of the index: otherwise it walks over all that is held (measured: 400 claims a
 * second become 40). */
#define CLAIM(which)                                                                               \
    "UPDATE crisol_runs SET fence = fence + 1, owner = $1,"                                        \
    " lease_until = now() + $2::integer * interval '1 ms'"                                         \
    " WHERE run IN (SELECT run FROM crisol_runs"                                                   \
    "  WHERE NOT has_ended AND lease_until " which " AND owner <> $1 AND id <> ALL ($3::text[])"   \
    "  ORDER BY lease_until LIMIT 16 FOR UPDATE SKIP LOCKED) RETURNING " AGT_PG_RUN_COLUMNS

PGresult *agt_pg_db_claim(struct agt_pg_db *db, bool only_released, const char *without,
                          struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    char lease[12];

    add_owner(db, &params, lease);
    agt_pg_add_text(&params, without);
    return agt_pg_ask(&db->link, only_released ? CLAIM("= '-infinity'") : CLAIM("< now()"), &params,
                      true, err);
}

PGresult *agt_pg_db_held(struct agt_pg_db *db, uint64_t *after, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    char text[24];
    PGresult *result;

    (void)snprintf(text, sizeof(text), "%" PRIu64, *after);
    agt_pg_add_text(&params, db->owner);
    agt_pg_add_text(&params, text);
    result = agt_pg_ask(&db->link,
                        "SELECT " AGT_PG_RUN_COLUMNS ", run FROM crisol_runs WHERE NOT has_ended"
                        " AND owner = $1 AND run > $2::bigint ORDER BY run LIMIT 100",
                        &params, true, err);
    if (result && PQntuples(result) > 0)
        *after = agt_pg_number(result, PQntuples(result) - 1, 4);
    return result;
}

PGresult *agt_pg_db_ended_elsewhere(struct agt_pg_db *db, struct cr_err *err)
{
    return ask_as_owner(db,
                        "SELECT " AGT_PG_RUN_COLUMNS " FROM crisol_runs WHERE has_ended"
                        " AND ended_at > now() - interval '1 minute' AND owner <> $1"
                        " AND $2::integer > 0 ORDER BY run",
                        err);
}

PGresult *agt_pg_db_elsewhere(struct agt_pg_db *db, bool is_first, struct cr_err *err)
{
    /* What a transaction began a minute ago is visible by now. */
    return ask_as_owner(db,
                        is_first
                            ? "SELECT " AGT_PG_RUN_COLUMNS " FROM crisol_runs WHERE NOT has_ended"
                              " AND owner <> $1 AND $2::integer > 0"
                              " ORDER BY run DESC LIMIT 1000"
                            : "SELECT " AGT_PG_RUN_COLUMNS " FROM crisol_runs WHERE NOT has_ended"
                              " AND owner <> $1 AND $2::integer > 0"
                              " AND started_at > now() - interval '1 minute'"
                              " ORDER BY run DESC LIMIT 1000",
                        err);
}
