/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/store/postgres_db.h"

#include <string.h>

/* A thousand runs with 32 digits each, and as many numbers. */
#define LIST_CAP ((size_t)64 << 10)

/* Ids are hexadecimal digits, so nothing in these arrays needs a quote. */
static int add_item(struct cr_buf *buf, size_t index, const char *text)
{
    int r = cr_buf_add_char(buf, index == 0 ? '{' : ',');

    return r < 0 ? r : cr_buf_add_str(buf, text);
}

static int write_lists(const struct agt_store_tail *tails, size_t count, struct cr_buf *ids,
                       struct cr_buf *seqs)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < count; i++) {
        if (strspn(tails[i].run_id, "0123456789abcdef") != AGT_STORE_ID_SIZE - 1)
            return -EINVAL;
        r = add_item(ids, i, tails[i].run_id);
        if (r >= 0)
            r = cr_buf_printf(seqs, "%c%u", i == 0 ? '{' : ',', tails[i].seq);
    }
    if (r >= 0)
        r = cr_buf_add_char(ids, '}');
    return r < 0 ? r : cr_buf_add_char(seqs, '}');
}

PGresult *agt_pg_tails_ask(struct agt_pg_db *db, const struct agt_store_tail *tails, size_t count,
                           struct cr_err *err)
{
    struct agt_pg_params params = {.count = 0};
    CR_AUTO_BUF struct cr_buf ids;
    CR_AUTO_BUF struct cr_buf seqs;
    int r;

    cr_buf_init(&ids, LIST_CAP);
    cr_buf_init(&seqs, LIST_CAP);
    r = write_lists(tails, count, &ids, &seqs);
    if (r < 0) {
        (void)cr_err_set(err, -r, "cannot ask for the events of %zu runs", count);
        return NULL;
    }
    agt_pg_add_text(&params, cr_buf_str(&ids));
    agt_pg_add_text(&params, cr_buf_str(&seqs));
    return agt_pg_ask(&db->link,
                      "SELECT k.n, e.seq, e.payload FROM"
                      " unnest($1::text[], $2::integer[]) WITH ORDINALITY AS k(id, seq, n)"
                      " JOIN crisol_runs r ON r.id = k.id AND r.head > k.seq"
                      " JOIN crisol_events e ON e.run = r.run AND e.seq > k.seq"
                      " ORDER BY k.n, e.seq LIMIT 200",
                      &params, true, err);
}

int agt_pg_tails_each(PGresult *take_result,
                      int (*on_event)(void *user, size_t index,
                                      const struct agt_store_event *event),
                      void *user)
{
    int r = 0;

    for (int i = 0; r == 0 && i < PQntuples(take_result); i++) {
        const struct agt_store_event event = {
            .seq = (uint32_t)agt_pg_number(take_result, i, 1),
            .payload = PQgetvalue(take_result, i, 2),
            .size = (size_t)PQgetlength(take_result, i, 2),
        };

        r = on_event(user, (size_t)agt_pg_number(take_result, i, 0) - 1, &event);
    }
    PQclear(take_result);
    return r;
}
