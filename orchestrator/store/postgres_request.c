/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/store/postgres_db.h"

#include <stdio.h>

PGresult *agt_pg_requests_ask(struct agt_pg_db *db, struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};

    /* What was asked of a run that has ended by now is settled. */
    if (agt_pg_do(&db->link,
                  "DELETE FROM crisol_requests q USING crisol_runs r"
                  " WHERE q.run = r.run AND r.has_ended",
                  err) < 0)
        return NULL;
    agt_pg_add_text(&params, db->owner);
    return agt_pg_ask(&db->link,
                      "SELECT r.id, q.kind, q.seq, q.payload FROM crisol_requests q"
                      " JOIN crisol_runs r USING (run) WHERE r.owner = $1 AND NOT r.has_ended"
                      " ORDER BY q.run, q.kind, q.seq LIMIT 1000",
                      &params, true, err);
}

void agt_pg_requests_row(const PGresult *result, int row, struct agt_store_request *ret_request)
{
    *ret_request = (struct agt_store_request){
        .run_id = PQgetvalue(result, row, 0),
        .kind = (uint32_t)agt_pg_number(result, row, 1),
        .seq = (uint32_t)agt_pg_number(result, row, 2),
        .payload = PQgetvalue(result, row, 3),
        .size = (size_t)PQgetlength(result, row, 3),
    };
}

int agt_pg_requests_settle(struct agt_pg_db *db, const struct agt_store_request *request,
                           struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    char kind[12];
    char seq[12];
    PGresult *result;

    (void)snprintf(kind, sizeof(kind), "%u", request->kind);
    (void)snprintf(seq, sizeof(seq), "%u", request->seq);
    agt_pg_add_text(&params, request->run_id);
    agt_pg_add_text(&params, kind);
    agt_pg_add_text(&params, seq);
    result = agt_pg_ask(&db->link,
                        "DELETE FROM crisol_requests q USING crisol_runs r WHERE q.run = r.run"
                        " AND r.id = $1 AND q.kind = $2::integer AND q.seq = $3::integer",
                        &params, false, err);
    if (!result)
        return -EHOSTUNREACH;
    PQclear(result);
    return 0;
}
