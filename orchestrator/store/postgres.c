/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/store/postgres_parts.h"
#include "orchestrator/store/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#define LEASE_DEFAULT_MS 30000
/* Notifications are a hint only: runs are looked for this often in any case, or four times in a
 * lease. */
#define LOOK_EVERY_MS 1000U
#define COMPLAIN_EVERY_NS (10 * CR_NS_PER_S)

static struct agt_pg_store *of(struct agt_store *store)
{
    return (struct agt_pg_store *)(void *)store;
}

/* ---- on the writer's thread ---- */

static void complain(struct agt_pg_store *store, const struct cr_err *err)
{
    int64_t now_ns = cr_clock_mono_ns();

    atomic_store(&store->is_reachable, false);
    if (now_ns < store->complain_at_ns)
        return;
    store->complain_at_ns = now_ns + COMPLAIN_EVERY_NS;
    cr_log_error("store: cannot use the database (%s), trying again; new runs are refused until "
                 "then",
                 err->text);
}

/* Connects when that is needed. With the lock. */
static int ensure(struct agt_pg_store *store, struct cr_err *err)
{
    int r;

    if (store->db.link.handle)
        return 0;
    r = agt_pg_db_open(&store->db, err);
    if (r < 0)
        return r;
    store->must_recount = true;
    cr_log_info("store: connected to the database again");
    return 0;
}

/* Takes the lock of a database that is connected. Returns 0 with it, or a negative errno without.
 */
static int enter(struct agt_pg_store *store, struct cr_err *err)
{
    int r;

    (void)pthread_mutex_lock(&store->lock);
    r = ensure(store, err);
    if (r < 0)
        (void)pthread_mutex_unlock(&store->lock);
    return r;
}

static void leave(struct agt_pg_store *store)
{
    (void)pthread_mutex_unlock(&store->lock);
}

static bool has_stale(const struct agt_store_batch *first)
{
    for (const struct cr_mail *mail = &first->link; mail; mail = mail->next) {
        if (((const struct agt_store_batch *)(const void *)mail)->error == -ESTALE)
            return true;
    }
    return false;
}

static bool write_list(void *user, struct agt_store_batch *first, bool is_repeat)
{
    struct agt_pg_store *store = user;
    struct cr_err err = CR_ERR_INIT;
    int r = enter(store, &err);

    if (r == 0) {
        r = agt_pg_db_write(&store->db, first, is_repeat, &err);
        /* Whoever took the run may be gone by now, and this process have it again. */
        store->must_recount |= r == 0 && has_stale(first);
        leave(store);
    }
    if (r < 0)
        complain(store, &err);
    else
        atomic_store(&store->is_reachable, true);
    return r == 0;
}

int64_t agt_pg_lease_ns(const struct agt_pg_store *store)
{
    return store->db.lease_ms * CR_NS_PER_MS;
}

static int64_t look_every_ns(const struct agt_pg_store *store)
{
    uint32_t quarter_ms = store->db.lease_ms / 4;

    return (quarter_ms < LOOK_EVERY_MS ? quarter_ms : LOOK_EVERY_MS) * CR_NS_PER_MS;
}

/* When it is due. With the lock, connected. */
static int renew(struct agt_pg_store *store, struct cr_err *err)
{
    int64_t now_ns = cr_clock_mono_ns();
    uint64_t left = 0;
    int r;

    if (now_ns < store->renew_at_ns)
        return 0;
    r = agt_pg_db_renew(&store->db, &left, err);
    if (r == 0)
        store->renew_at_ns =
            now_ns + (left > 0 ? look_every_ns(store) : agt_pg_lease_ns(store) / 4);
    if (left > 0)
        cr_log_warn("store: another session of the database has locked runs of ours, whose leases "
                    "may run out runs=%llu",
                    (unsigned long long)left);
    return r;
}

/* A write that fails again and again: without this, another process would take all our runs. */
static void keep_up(void *user)
{
    struct agt_pg_store *store = user;
    struct cr_err err = CR_ERR_INIT;
    int r;

    (void)pthread_mutex_lock(&store->lock);
    r = store->db.link.handle ? renew(store, &err) : 0;
    (void)pthread_mutex_unlock(&store->lock);
    if (r < 0)
        complain(store, &err);
}

static void look_after(void *user)
{
    struct agt_pg_store *store = user;
    struct cr_err err = CR_ERR_INIT;
    int64_t now_ns = cr_clock_mono_ns();
    int r;

    (void)pthread_mutex_lock(&store->lock);
    if (agt_pg_look(&store->db.link))
        store->look_at_ns = 0;
    r = ensure(store, &err);
    if (r == 0)
        r = renew(store, &err);
    (void)pthread_mutex_unlock(&store->lock);
    if (r == 0 && now_ns >= store->look_at_ns) {
        store->look_at_ns = now_ns + look_every_ns(store);
        (void)pthread_mutex_lock(&store->watch_lock);
        if (!agt_pg_look_around(store, &err))
            r = -EIO;
        (void)pthread_mutex_unlock(&store->watch_lock);
    }
    if (r < 0)
        complain(store, &err);
    else
        atomic_store(&store->is_reachable, true);
}

static int wake_fd(void *user)
{
    struct agt_pg_store *store = user;
    int fd;

    (void)pthread_mutex_lock(&store->lock);
    fd = store->db.link.handle ? PQsocket(store->db.link.handle) : -1;
    (void)pthread_mutex_unlock(&store->lock);
    return fd;
}

/* ---- what a store does ---- */

static void append(struct agt_store *base, struct agt_store_batch *take_batch)
{
    agt_writer_append(of(base)->writer, take_batch);
}

static bool is_accepting(struct agt_store *base)
{
    return atomic_load(&of(base)->is_reachable);
}

static int load_runs(struct agt_store *base, agt_store_on_run on_run, void *user,
                     struct cr_err *err)
{
    struct agt_pg_store *store = of(base);
    int r = enter(store, err);

    if (r < 0)
        return r;
    r = agt_pg_db_load_runs(&store->db, on_run, user, err);
    leave(store);
    return r;
}

static int load_events(struct agt_store *base, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err)
{
    struct agt_pg_store *store = of(base);
    int r = enter(store, err);

    if (r < 0)
        return r;
    r = agt_pg_db_load_events(&store->db, run_id, on_event, user, err);
    leave(store);
    return r;
}

/* On the writer's thread, with watch_lock. */
static int load_tails(struct agt_store *base, const struct agt_store_tail *tails, size_t count,
                      int (*on_event)(void *user, size_t index,
                                      const struct agt_store_event *event),
                      void *user, struct cr_err *err)
{
    struct agt_pg_store *store = of(base);
    PGresult *result;
    int r = enter(store, err);

    if (r < 0)
        return r;
    result = agt_pg_tails_ask(&store->db, tails, count, err);
    leave(store);
    if (!result)
        return -EHOSTUNREACH;
    if (PQntuples(result) == AGT_PG_TAIL_MAX)
        store->look_at_ns = 0; /* there may be more */
    return agt_pg_tails_each(result, on_event, user);
}

static int settle(struct agt_pg_store *store, const struct agt_store_request *request,
                  struct cr_err *err)
{
    int r = enter(store, err);

    if (r < 0)
        return r;
    r = agt_pg_requests_settle(&store->db, request, err);
    leave(store);
    return r;
}

static int load_requests(struct agt_store *base,
                         int (*on_request)(void *user, const struct agt_store_request *request),
                         void *user, struct cr_err *err)
{
    struct agt_pg_store *store = of(base);
    PGresult *result;
    int r = enter(store, err);

    if (r < 0)
        return r;
    result = agt_pg_requests_ask(&store->db, err);
    leave(store);
    if (!result)
        return -EHOSTUNREACH;
    for (int i = 0; r == 0 && i < PQntuples(result); i++) {
        struct agt_store_request request;

        agt_pg_requests_row(result, i, &request);
        r = on_request(user, &request);
        if (r == 1)
            r = settle(store, &request, err);
    }
    PQclear(result);
    return r;
}

static const struct agt_writer_ops writer_ops = {
    .write = write_list,
    .keep_up = keep_up,
    .look_after = look_after,
    .fd = wake_fd,
};

static void watch(struct agt_store *base, agt_store_on_run on_run, void *user)
{
    struct agt_pg_store *store = of(base);

    (void)pthread_mutex_lock(&store->watch_lock);
    store->on_run = on_run;
    store->on_run_user = user;
    (void)pthread_mutex_unlock(&store->watch_lock);
}

static void hurry(struct agt_store *base)
{
    agt_writer_hurry(of(base)->writer);
}

static void free_store(struct agt_store *base)
{
    struct agt_pg_store *store = of(base);

    (void)agt_writer_stop(store->writer);
    if (store->writer && store->db.link.handle)
        (void)agt_pg_db_release(&store->db, NULL); /* else the leases run out */
    agt_pg_close(&store->db.link);
    (void)pthread_mutex_destroy(&store->watch_lock);
    (void)pthread_mutex_destroy(&store->lock);
    free(store->uri);
    free(store);
}

static const struct agt_store_ops ops = {
    .append = append,
    .is_accepting = is_accepting,
    .load_runs = load_runs,
    .load_events = load_events,
    .watch = watch,
    .load_tails = load_tails,
    .load_requests = load_requests,
    .hurry = hurry,
    .free = free_store,
};

/* ---- opening ---- */

/* No two processes, nor two lives of one, have the same. */
static void name_owner(struct agt_pg_db *db)
{
    uint64_t number = 0;

    (void)!getrandom(&number, sizeof(number), 0);
    (void)snprintf(db->owner, sizeof(db->owner), "%016llx", (unsigned long long)number);
}

static int open_parts(struct agt_pg_store *store, struct cr_err *err)
{
    int r = agt_pg_check_uri(store->uri, err);

    if (r == 0)
        r = agt_pg_db_open(&store->db, err);
    if (r == 0)
        r = agt_writer_start(&writer_ops, &store->base, store, &store->writer, err);
    return r;
}

int agt_store_postgres_new(const struct agt_postgres_options *options, struct agt_store **ret_store,
                           struct cr_err *err)
{
    struct agt_pg_store *store = calloc(1, sizeof(*store));
    int r;

    if (!store)
        return cr_err_set(err, ENOMEM, "out of memory for the store");
    store->base.ops = &ops;
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)pthread_mutex_init(&store->watch_lock, NULL);
    store->uri = strdup(options->uri);
    store->db.uri = store->uri;
    store->db.lease_ms = options->lease_ms ? options->lease_ms : LEASE_DEFAULT_MS;
    name_owner(&store->db);
    store->seen_ns = cr_clock_mono_ns();
    (void)snprintf(store->refused.text, sizeof(store->refused.text), "{}");
    atomic_store(&store->is_reachable, true);
    r = store->uri ? open_parts(store, err) : cr_err_set(err, ENOMEM, "out of memory");
    if (r < 0) {
        free_store(&store->base);
        return cr_err_wrap(err, "store in PostgreSQL");
    }
    *ret_store = &store->base;
    return 0;
}
