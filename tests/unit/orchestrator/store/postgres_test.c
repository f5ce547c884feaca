/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/store/store_suite.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 3000U

/* The server is started around this program, by tests/harness/postgres.py. */
static const char *uri;

static void execute(const char *statement)
{
    PGconn *connection = PQconnectdb(uri);
    PGresult *result;

    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    result = PQexec(connection, statement);
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        fail_msg("%s", PQresultErrorMessage(result));
    PQclear(result);
    PQfinish(connection);
}

static struct agt_store *open_store(void *user)
{
    const struct agt_postgres_options options = {.uri = uri, .lease_ms = LEASE_MS};
    struct agt_store *store = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)user;
    if (agt_store_postgres_new(&options, &store, &err) < 0)
        fail_msg("%s", err.text);
    return store;
}

static int set_up(void **state)
{
    (void)state;
    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    execute("SET client_min_messages = warning;"
            "DROP TABLE IF EXISTS crisol_requests, crisol_events, crisol_runs, crisol_schema");
    return 0;
}

static const struct suite suite = {.open = open_store};

#define FROM_SUITE(name)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        int fds = test_count_fds();                                                                \
                                                                                                   \
        (void)state;                                                                               \
        suite_##name(&suite);                                                                      \
        assert_int_equal(test_count_fds(), fds);                                                   \
    }

FROM_SUITE(acknowledged_is_there_after_a_restart)
FROM_SUITE(only_what_follows_is_taken)
FROM_SUITE(forgotten_is_gone)
FROM_SUITE(a_stale_batch_takes_no_other_with_it)
FROM_SUITE(a_run_is_read_behind_what_was_appended)
FROM_SUITE(large_events_come_back_whole)
FROM_SUITE(a_request_is_told_until_it_is_settled)
FROM_SUITE(a_key_starts_one_run)

/* ---- what can be wrong ---- */

static int try_open(const char *address, struct cr_err *err)
{
    const struct agt_postgres_options options = {.uri = address};
    struct agt_store *store = NULL;

    *err = (struct cr_err)CR_ERR_INIT;
    return agt_store_postgres_new(&options, &store, err);
}

static void a_newer_schema_is_refused(void **state)
{
    struct agt_store *store = open_store(NULL);
    struct cr_err err;

    (void)state;
    store->ops->free(store);
    execute("UPDATE crisol_schema SET version = 7");
    assert_int_equal(try_open(uri, &err), -EPROTO);
    assert_non_null(strstr(err.text, "version 7"));
}

static const struct {
    const char *address;
    int error;
    const char *text;
} bad_addresses[] = {
    {"postgresql://me:secret@localhost/x", -EINVAL, "password file"},
    {"postgresql:///x?password=secret", -EINVAL, "password file"},
    {"postgresql://[x", -EINVAL, "no address"},
    {"postgresql:///x?nonsense=1", -EINVAL, "no address"},
    {"postgresql:///x?host=/nonexistent", -EHOSTUNREACH, "connect"},
    {"postgresql://127.0.0.1:1/x", -EHOSTUNREACH, "connect"},
};

static void a_bad_address_is_refused_and_no_password_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad_addresses); i++) {
        struct cr_err err;

        assert_int_equal(try_open(bad_addresses[i].address, &err), bad_addresses[i].error);
        assert_non_null(strstr(err.text, bad_addresses[i].text));
        assert_null(strstr(err.text, "secret"));
    }
}

static void two_that_lay_out_at_once_both_succeed(void **state)
{
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_begin_run(second, ID_B), 0);
    second->ops->free(second);
    first->ops->free(first);
}

/* ---- a connection that breaks ---- */

static void what_is_appended_after_the_server_dropped_us_is_written(void **state)
{
    struct agt_store *store = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    for (uint32_t seq = 1; seq <= 5; seq++) {
        execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'crisol'");
        assert_int_equal(suite_append_event(store, ID_A, seq, "x"), 0);
    }
    assert_string_equal(suite_see(store, ID_A), " 1=x 2=x 3=x 4=x 5=x");
    store->ops->free(store);
}

/* ---- leases ---- */

struct watcher {
    pthread_mutex_t lock;
    char run_id[AGT_STORE_ID_SIZE];
    uint64_t fence;
    bool has_ended;
    int count;
    int looks;       /* that are over */
    int looks_at[2]; /* by the first runs that it was told of */
    int refuses;     /* so often it says that it cannot take the run up … */
    int error;       /* … with this */
};

static int on_run(void *user, const struct agt_store_run *run)
{
    struct watcher *watcher = user;
    int r = 0;

    if (run && run->is_elsewhere)
        return 0;
    (void)pthread_mutex_lock(&watcher->lock);
    if (!run) {
        watcher->looks++;
        (void)pthread_mutex_unlock(&watcher->lock);
        return 0;
    }
    if (watcher->count < (int)CR_ARRAY_SIZE(watcher->looks_at))
        watcher->looks_at[watcher->count] = watcher->looks;
    (void)memccpy(watcher->run_id, run->run_id, '\0', sizeof(watcher->run_id));
    watcher->fence = run->fence;
    watcher->has_ended = run->has_ended;
    watcher->count++;
    if (watcher->refuses > 0) {
        watcher->refuses--;
        r = watcher->error ? watcher->error : -EHOSTUNREACH;
    }
    (void)pthread_mutex_unlock(&watcher->lock);
    return r;
}

static int count_of(struct watcher *watcher)
{
    int count;

    (void)pthread_mutex_lock(&watcher->lock);
    count = watcher->count;
    (void)pthread_mutex_unlock(&watcher->lock);
    return count;
}

static void wait_for_run(struct watcher *watcher)
{
    int64_t until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    while (count_of(watcher) == 0 && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_int_not_equal(count_of(watcher), 0);
}

/* Reads along with what another process writes. */
struct follower {
    pthread_mutex_t lock;
    struct agt_store *store;
    uint32_t seq;
    char seen[64]; /* as text */
    bool is_told;
};

static int follow_event(void *user, size_t index, const struct agt_store_event *event)
{
    struct follower *follower = user;
    size_t size = strlen(follower->seen);

    assert_int_equal(index, 1);
    assert_int_equal(event->seq, follower->seq + 1);
    (void)snprintf(follower->seen + size, sizeof(follower->seen) - size, " %u=%.*s", event->seq,
                   (int)event->size, (const char *)event->payload);
    follower->seq++;
    return 0;
}

static int on_other_run(void *user, const struct agt_store_run *run)
{
    struct follower *follower = user;
    const struct agt_store_tail tails[] = {{ID_B, 0}, {ID_A, follower->seq}};

    (void)pthread_mutex_lock(&follower->lock);
    if (run && run->is_elsewhere && strcmp(run->run_id, ID_A) == 0)
        follower->is_told = true;
    if (!run && follower->is_told)
        assert_int_equal(follower->store->ops->load_tails(follower->store, tails, 2, follow_event,
                                                          follower, NULL),
                         0);
    (void)pthread_mutex_unlock(&follower->lock);
    return 0;
}

static void wait_for_events(struct follower *follower, const char *expected)
{
    int64_t until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    bool is_there = false;

    while (!is_there && cr_clock_mono_ns() < until_ns) {
        (void)poll(NULL, 0, 5);
        (void)pthread_mutex_lock(&follower->lock);
        is_there = strcmp(follower->seen, expected) == 0;
        (void)pthread_mutex_unlock(&follower->lock);
    }
    assert_true(is_there);
}

static void a_run_that_goes_on_elsewhere_is_read_along(void **state)
{
    struct follower follower = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    follower.store = second;
    second->ops->watch(second, on_other_run, &follower);
    wait_for_events(&follower, " 1=one");
    assert_int_equal(suite_append_event(first, ID_A, 2, "two"), 0);
    assert_int_equal(suite_end_run(first, ID_A, 3), 0);
    wait_for_events(&follower, " 1=one 2=two 3=end");
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
    first->ops->free(first);
}

static void a_run_whose_holder_is_gone_is_taken_once_and_the_late_write_is_refused(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct watcher third_watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store_event event = {.seq = 2, .payload = "two", .size = 3};
    struct agt_store_batch batch = {.run_id = ID_A, .events = &event, .event_count = 1};
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);
    struct agt_store *third = open_store(NULL);
    int64_t until_ns;

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    second->ops->watch(second, on_run, &watcher);
    third->ops->watch(third, on_run, &third_watcher);
    execute("UPDATE crisol_runs SET lease_until = '-infinity'"); /* it was not heard of */
    until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    while (count_of(&watcher) + count_of(&third_watcher) == 0 && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    if (count_of(&watcher) == 0) {
        struct agt_store *swapped = second;

        second = third;
        third = swapped;
        watcher.fence = third_watcher.fence;
        memcpy(watcher.run_id, third_watcher.run_id, sizeof(watcher.run_id));
    }
    assert_string_equal(watcher.run_id, ID_A);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 1);

    batch.fence = AGT_STORE_FIRST_FENCE;
    assert_int_equal(suite_append(first, &batch), -ESTALE);
    batch.fence = watcher.fence;
    assert_int_equal(suite_append(first, &batch), -ESTALE); /* a right guess is not enough */
    assert_int_equal(suite_append(second, &batch), 0);
    assert_string_equal(suite_see(first, ID_A), " 1=one 2=two");
    first->ops->free(first);
    second->ops->watch(second, NULL, NULL);
    third->ops->watch(third, NULL, NULL);
    third->ops->free(third);
    second->ops->free(second);
}

static void a_lease_is_renewed_while_its_holder_lives(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int64_t until_ns = cr_clock_mono_ns() + 2 * LEASE_MS * CR_NS_PER_MS;
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    second->ops->watch(second, on_run, &watcher);
    while (cr_clock_mono_ns() < until_ns) /* what must not happen needs the time to happen */
        (void)poll(NULL, 0, 50);
    assert_int_equal(count_of(&watcher), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
    first->ops->free(first);
}

static void who_stops_lets_go_at_once(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct agt_postgres_options hour = {.uri = uri, .lease_ms = 3600000};
    struct agt_store *first = NULL;
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(agt_store_postgres_new(&hour, &first, NULL), 0);
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    second->ops->watch(second, on_run, &watcher);
    first->ops->free(first);
    wait_for_run(&watcher);
    assert_string_equal(watcher.run_id, ID_A);
    assert_false(watcher.has_ended);
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
}

static void a_run_that_ends_elsewhere_is_told(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    second->ops->watch(second, on_run, &watcher);
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_end_run(first, ID_A, 1), 0);
    wait_for_run(&watcher);
    assert_string_equal(watcher.run_id, ID_A);
    assert_true(watcher.has_ended);
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
    first->ops->free(first);
}

static int on_run_a(void *user, const struct agt_store_run *run)
{
    return !run || strcmp(run->run_id, ID_A) == 0 ? on_run(user, run) : 0;
}

static void wait_for_count(struct watcher *watcher, int count)
{
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;

    while (count_of(watcher) < count && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_true(count_of(watcher) >= count);
}

/* ---- locks of somebody else's ---- */

/* A session in a transaction that holds a lock. */
static PGconn *begin_lock(const char *statement)
{
    PGconn *session = PQconnectdb(uri);

    PQclear(PQexec(session, "BEGIN"));
    PQclear(PQexec(session, statement));
    assert_int_equal(PQtransactionStatus(session), PQTRANS_INTRANS);
    return session;
}

static void end_lock(PGconn *session)
{
    PQclear(PQexec(session, "COMMIT"));
    PQfinish(session);
}

/* How long the run is leased from the beginning of 2000 on, in ms. */
static long lease_of(const char *id)
{
    PGconn *session = PQconnectdb(uri);
    const char *values[] = {id};
    PGresult *result =
        PQexecParams(session,
                     "SELECT (extract(epoch FROM lease_until - '2000-01-01') * 1000)::bigint"
                     " FROM crisol_runs WHERE id = $1",
                     1, NULL, values, NULL, NULL, 0);
    long ms;

    assert_int_equal(PQntuples(result), 1);
    ms = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(session);
    return ms;
}

static void wait_for_renewal(const char *id)
{
    int64_t until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    long before = lease_of(id);

    while (lease_of(id) <= before && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 50);
    assert_true(lease_of(id) > before);
}

struct late_write {
    struct agt_store *store;
    int result;
};

static void *write_late(void *user)
{
    struct late_write *late = user;

    late->result = suite_append_event(late->store, ID_A, 1, "one");
    return NULL;
}

static void a_write_that_waits_for_a_lock_does_not_hold_up_renewals(void **state)
{
    struct late_write late = {.store = open_store(NULL)};
    PGconn *session;
    pthread_t thread;

    (void)state;
    assert_int_equal(suite_begin_run(late.store, ID_A), 0);
    assert_int_equal(suite_begin_run(late.store, ID_B), 0);
    session = begin_lock("SELECT FROM crisol_runs WHERE id = '" ID_A "' FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, write_late, &late), 0);
    for (int i = 0; i < 3; i++) /* the first may have been before the write */
        wait_for_renewal(ID_B);
    end_lock(session);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.result, 0);
    wait_for_renewal(ID_A);
    late.store->ops->free(late.store);
}

static void after_an_outage_the_others_get_time_to_renew(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *store = open_store(NULL);
    PGconn *session;

    (void)state;
    store->ops->watch(store, on_run, &watcher);
    session = begin_lock("LOCK TABLE crisol_runs"); /* not even to be read */
    (void)poll(NULL, 0, LEASE_MS);
    PQclear(PQexec(session,
                   "INSERT INTO crisol_runs (id, head, has_ended, spec, fence, owner, lease_until)"
                   " VALUES ('" ID_A "', 0, false, 's', 1, 'other', now()),"
                   " ('" ID_B "', 0, false, 's', 1, 'stopped', '-infinity')"));
    end_lock(session);
    wait_for_count(&watcher, 2);
    assert_string_equal(watcher.run_id, ID_A); /* the holder of the other one let go of it */
    assert_true(watcher.looks_at[1] > watcher.looks_at[0]);
    store->ops->watch(store, NULL, NULL);
    store->ops->free(store);
}

/* It reads the tables in one transaction. */
static void a_backup_keeps_nobody_out(void **state)
{
    struct agt_store *store = open_store(NULL);
    PGconn *session = begin_lock("LOCK TABLE crisol_runs IN ACCESS SHARE MODE");

    (void)state;
    store->ops->free(store);
    store = open_store(NULL);
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    store->ops->free(store);
    end_lock(session);
}

/* And not for as long as a statement may take: others queue behind who waits. */
static void a_table_that_is_locked_is_waited_for_for_a_while(void **state)
{
    struct agt_store *store = open_store(NULL);
    PGconn *session;
    struct cr_err err;

    (void)state;
    store->ops->free(store);
    session = begin_lock("LOCK TABLE crisol_runs");
    assert_int_equal(try_open(uri, &err), -EIO);
    assert_non_null(strstr(err.text, "lock timeout"));
    end_lock(session);
}

/* Else it would be renewed, and nobody go on with it. */
static void a_run_that_could_not_be_taken_up_is_told_again(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 2};
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    first->ops->free(first);
    second->ops->watch(second, on_run_a, &watcher);
    wait_for_count(&watcher, 3);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 1); /* it was claimed once */
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
}

static int looks_of(struct watcher *watcher)
{
    int looks;

    (void)pthread_mutex_lock(&watcher->lock);
    looks = watcher->looks;
    (void)pthread_mutex_unlock(&watcher->lock);
    return looks;
}

static void wait_for_looks(struct watcher *watcher, int count)
{
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;
    int looks = looks_of(watcher) + count;

    while (looks_of(watcher) < looks && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_true(looks_of(watcher) >= looks);
}

/* Each of two older programs takes it once, and neither keeps it from a newer one. */
static void a_run_that_cannot_be_read_here_is_let_go_of(void **state)
{
    struct watcher older[2] = {
        {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 100, .error = -EPROTO},
        {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 100, .error = -EPROTO},
    };
    struct watcher newer = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *stores[] = {open_store(NULL), open_store(NULL), open_store(NULL)};

    (void)state;
    assert_int_equal(suite_begin_run(stores[2], ID_A), 0);
    stores[2]->ops->free(stores[2]);
    for (size_t i = 0; i < 2; i++) {
        stores[i]->ops->watch(stores[i], on_run_a, &older[i]);
        wait_for_count(&older[i], 1);
    }
    stores[2] = open_store(NULL);
    wait_for_looks(&older[0], 3);
    wait_for_looks(&older[1], 3);
    stores[2]->ops->watch(stores[2], on_run_a, &newer);
    wait_for_count(&newer, 1);
    assert_int_equal(newer.fence, AGT_STORE_FIRST_FENCE + 3);
    for (size_t i = 0; i < 3; i++)
        stores[i]->ops->watch(stores[i], NULL, NULL);
    assert_int_equal(older[0].count + older[1].count, 2);
    for (size_t i = 0; i < 3; i++)
        stores[i]->ops->free(stores[i]);
}

static void a_claim_whose_answer_was_lost_is_found_again(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *first = open_store(NULL);
    struct agt_store *second = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_begin_run(second, ID_B), 0);
    second->ops->watch(second, on_run_a, &watcher);
    /* What the server does at such a claim, and the end of the connection behind it. */
    execute("UPDATE crisol_runs a SET fence = a.fence + 1, owner = b.owner FROM crisol_runs b"
            " WHERE a.id = '" ID_A "' AND b.id = '" ID_B "'");
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'crisol'");
    wait_for_count(&watcher, 1);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 1);
    second->ops->watch(second, NULL, NULL);
    second->ops->free(second);
    first->ops->free(first);
}

/* It was another's for a while, whose end let it come back before anything was written here. */
static void a_run_that_came_back_is_told_when_the_former_hold_is_refused(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *store = open_store(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    store->ops->watch(store, on_run_a, &watcher);
    execute("UPDATE crisol_runs SET fence = fence + 2");
    assert_int_equal(suite_append_event(store, ID_A, 1, "late"), -ESTALE);
    wait_for_count(&watcher, 1);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 2);
    store->ops->watch(store, NULL, NULL);
    store->ops->free(store);
}

/* More than are asked for at one time. */
static void tell_all_that_is_held(int refuses)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = refuses};
    struct agt_store *store = open_store(NULL);
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;
    char last[AGT_STORE_ID_SIZE] = "";

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    execute("INSERT INTO crisol_runs (id, head, has_ended, spec, fence, owner, lease_until)"
            " SELECT lpad(i::text, 32, '0'), 0, false, spec, 1, owner, lease_until"
            " FROM crisol_runs, generate_series(2, 250) i");
    store->ops->watch(store, on_run, &watcher);
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'crisol'");
    while (strtol(last, NULL, 10) != 250 && cr_clock_mono_ns() < until_ns) {
        (void)poll(NULL, 0, 5);
        (void)pthread_mutex_lock(&watcher.lock);
        memcpy(last, watcher.run_id, sizeof(last));
        (void)pthread_mutex_unlock(&watcher.lock);
    }
    store->ops->watch(store, NULL, NULL);
    assert_int_equal(strtol(last, NULL, 10), 250);
    store->ops->free(store);
}

static void every_run_that_is_held_is_told_again(void **state)
{
    (void)state;
    tell_all_that_is_held(0);
}

static void runs_that_fail_again_and_again_hide_no_other(void **state)
{
    (void)state;
    tell_all_that_is_held(1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup(name, set_up)
        CASE(acknowledged_is_there_after_a_restart),
        CASE(only_what_follows_is_taken),
        CASE(forgotten_is_gone),
        CASE(a_stale_batch_takes_no_other_with_it),
        CASE(a_run_is_read_behind_what_was_appended),
        CASE(large_events_come_back_whole),
        CASE(a_request_is_told_until_it_is_settled),
        CASE(a_key_starts_one_run),
        CASE(a_run_that_goes_on_elsewhere_is_read_along),
        CASE(a_newer_schema_is_refused),
        CASE(a_bad_address_is_refused_and_no_password_is_told),
        CASE(two_that_lay_out_at_once_both_succeed),
        CASE(what_is_appended_after_the_server_dropped_us_is_written),
        CASE(a_run_whose_holder_is_gone_is_taken_once_and_the_late_write_is_refused),
        CASE(a_lease_is_renewed_while_its_holder_lives),
        CASE(a_write_that_waits_for_a_lock_does_not_hold_up_renewals),
        CASE(after_an_outage_the_others_get_time_to_renew),
        CASE(a_backup_keeps_nobody_out),
        CASE(a_table_that_is_locked_is_waited_for_for_a_while),
        CASE(who_stops_lets_go_at_once),
        CASE(a_run_that_ends_elsewhere_is_told),
        CASE(a_run_that_could_not_be_taken_up_is_told_again),
        CASE(a_run_that_cannot_be_read_here_is_let_go_of),
        CASE(a_claim_whose_answer_was_lost_is_found_again),
        CASE(a_run_that_came_back_is_told_when_the_former_hold_is_refused),
        CASE(every_run_that_is_held_is_told_again),
        CASE(runs_that_fail_again_and_again_hide_no_other),
    };

    uri = getenv("CRISOL_TEST_POSTGRES");
    if (!uri)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
