/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/store/postgres_parts.h"

#include <stdio.h>
#include <string.h>

static bool is_refused(const struct agt_pg_refused *refused, const char *run_id)
{
    for (size_t i = 0; i < refused->count && i < AGT_PG_REFUSED_MAX; i++) {
        if (strcmp(refused->ids[i], run_id) == 0)
            return true;
    }
    return false;
}

static void note_refused(struct agt_pg_refused *refused, const char *run_id)
{
    bool is_id = strspn(run_id, "0123456789abcdef") == AGT_STORE_ID_SIZE - 1;
    size_t size = 0;

    if (is_id && !is_refused(refused, run_id))
        (void)snprintf(refused->ids[refused->count++ % AGT_PG_REFUSED_MAX], AGT_STORE_ID_SIZE, "%s",
                       run_id);
    for (size_t i = 0; i < refused->count && i < AGT_PG_REFUSED_MAX; i++)
        size += (size_t)snprintf(refused->text + size, sizeof(refused->text) - size, "%c%s",
                                 i == 0 ? '{' : ',', refused->ids[i]);
    (void)snprintf(refused->text + size, sizeof(refused->text) - size, size > 0 ? "}" : "{}");
}

/* This process would renew it, and never go on with it. */
static void let_go(struct agt_pg_store *store, const struct agt_store_run *run)
{
    struct cr_err err = CR_ERR_INIT;

    (void)pthread_mutex_lock(&store->lock);
    if (agt_pg_db_let_go(&store->db, run->run_id, run->fence, &err) < 0)
        store->must_recount = true;
    (void)pthread_mutex_unlock(&store->lock);
}

static int tell(void *user, const struct agt_store_run *run)
{
    struct agt_pg_store *store = user;
    bool is_held = !run->is_elsewhere && !run->has_ended;
    int r = 0;

    if (store->on_run && (is_held || !is_refused(&store->refused, run->run_id)))
        r = store->on_run(store->on_run_user, run);
    if (r == -EPROTO)
        note_refused(&store->refused, run->run_id);
    if (r == -EPROTO && is_held) {
        let_go(store, run);
    } else if (r < 0 && r != -EPROTO) {
        (void)pthread_mutex_lock(&store->lock);
        store->must_recount = true;
        (void)pthread_mutex_unlock(&store->lock);
    }
    return 0;
}

/* What a look has found. */
struct look {
    PGresult *held;
    PGresult *claimed;
    PGresult *ended;
    PGresult *others;
};

/* Returns whether all of it could be asked for. */
static bool ask_for_runs(struct agt_pg_store *store, struct look *look, struct cr_err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    /* One round after the other: what fails again and again must not hide those behind it. */
    if (store->must_recount && !store->is_recounting) {
        store->must_recount = false;
        store->is_recounting = true;
        store->recounted = 0;
    }
    /* Before the claim, which tells of its runs itself. */
    if (store->is_recounting)
        look->held = agt_pg_db_held(&store->db, &store->recounted, err);
    if (look->held || !store->is_recounting)
        look->claimed = agt_pg_db_claim(&store->db, cr_clock_mono_ns() < store->claim_ns,
                                        store->refused.text, err);
    if (look->claimed)
        look->ended = agt_pg_db_ended_elsewhere(&store->db, err);
    if (look->ended)
        look->others = agt_pg_db_elsewhere(&store->db, !store->has_looked, err);
    (void)pthread_mutex_unlock(&store->lock);
    return look->others != NULL;
}

static void tell_all(struct agt_pg_store *store, PGresult *take_result, bool is_elsewhere)
{
    if (take_result)
        (void)agt_pg_db_each(take_result, is_elsewhere, tell, store);
}

/* Runs that are free, and those that ended elsewhere. With watch_lock. False: not now. */
static bool look_for_runs(struct agt_pg_store *store, struct cr_err *err)
{
    struct look look = {.held = NULL};
    bool is_whole = ask_for_runs(store, &look, err);

    if (look.claimed && PQntuples(look.claimed) > 0)
        cr_log_info("store: taking over runs that nobody holds runs=%d", PQntuples(look.claimed));
    if (look.held && PQntuples(look.held) < AGT_PG_HELD_MAX)
        store->is_recounting = false;
    if ((look.claimed && PQntuples(look.claimed) == AGT_PG_CLAIM_MAX) ||
        (look.held && store->is_recounting))
        store->look_at_ns = 0; /* there may be more */
    tell_all(store, look.held, false);
    tell_all(store, look.claimed, false);
    tell_all(store, look.ended, false);
    tell_all(store, look.others, true);
    store->has_looked |= is_whole;
    if (is_whole && store->on_run)
        (void)store->on_run(store->on_run_user, NULL);
    return is_whole;
}

/*
 * While the database did not answer us it may have answered nobody, and the
 * server's clock went on: the leases of the others ran out for no fault of
 * theirs. They get the time of one to renew them.
 */
bool agt_pg_look_around(struct agt_pg_store *store, struct cr_err *err)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns - store->seen_ns > agt_pg_lease_ns(store) / 2)
        store->claim_ns = now_ns + agt_pg_lease_ns(store);
    if (store->on_run && !look_for_runs(store, err))
        return false;
    store->seen_ns = cr_clock_mono_ns();
    return true;
}
