/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/unit/orchestrator/store/postgres_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

static int on_run_a(void *user, const struct agt_store_run *run)
{
    return !run || strcmp(run->run_id, ID_A) == 0 ? on_run(user, run) : 0;
}

static int count_of(struct watcher *watcher)
{
    int count;

    (void)pthread_mutex_lock(&watcher->lock);
    count = watcher->count;
    (void)pthread_mutex_unlock(&watcher->lock);
    return count;
}

static void wait_for_count(struct watcher *watcher, int count)
{
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;

    while (count_of(watcher) < count && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_true(count_of(watcher) >= count);
}

static int looks_of(struct watcher *watcher)
{
    int looks;

    (void)pthread_mutex_lock(&watcher->lock);
    looks = watcher->looks;
    (void)pthread_mutex_unlock(&watcher->lock);
    return looks;
}

/* Each looks so often from now on. */
static void wait_for_looks(struct watcher watchers[static 2], int count)
{
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;
    const int first = looks_of(&watchers[0]) + count;
    const int second = looks_of(&watchers[1]) + count;

    while ((looks_of(&watchers[0]) < first || looks_of(&watchers[1]) < second) &&
           cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_true(looks_of(&watchers[0]) >= first && looks_of(&watchers[1]) >= second);
}

static void wait_for_run(struct watcher *watcher)
{
    int64_t until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    while (count_of(watcher) == 0 && cr_clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, 5);
    assert_int_not_equal(count_of(watcher), 0);
}

/* ---- who holds a run ---- */

_Static_assert(AGT_STORE_FIRST_FENCE == 1, "as below");

/* It was not heard of. It lives, and may renew its lease before another one looks: then again. */
static void lose_holder(void)
{
    postgres_execute("UPDATE crisol_runs SET lease_until = '-infinity' WHERE fence = 1");
}

static void a_run_whose_holder_is_gone_is_taken_once_and_the_late_write_is_refused(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct watcher third_watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store_event event = {.seq = 2, .payload = "two", .size = 3};
    struct agt_store_batch batch = {.run_id = ID_A, .events = &event, .event_count = 1};
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);
    struct agt_store *third = postgres_open(NULL);
    int64_t until_ns;

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    second->ops->watch(second, on_run, &watcher);
    third->ops->watch(third, on_run, &third_watcher);
    until_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    while (count_of(&watcher) + count_of(&third_watcher) == 0 && cr_clock_mono_ns() < until_ns) {
        lose_holder();
        (void)poll(NULL, 0, 20);
    }
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
    postgres_close(third);
    second->ops->free(second);
}

static void a_lease_is_renewed_while_its_holder_lives(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int64_t until_ns = cr_clock_mono_ns() + POSTGRES_LEASE_MS * 3 / 2 * CR_NS_PER_MS;
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    second->ops->watch(second, on_run, &watcher);
    while (cr_clock_mono_ns() < until_ns) /* a lease, a look and some time to spare */
        (void)poll(NULL, 0, 50);
    assert_int_equal(count_of(&watcher), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    postgres_close(second);
    first->ops->free(first);
}

static void who_stops_lets_go_at_once(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct agt_postgres_options hour = {.uri = postgres_uri(), .lease_ms = 3600000};
    struct agt_store *first = NULL;
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(agt_store_postgres_new(&hour, &first, NULL), 0);
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    second->ops->watch(second, on_run, &watcher);
    first->ops->free(first);
    wait_for_run(&watcher);
    assert_string_equal(watcher.run_id, ID_A);
    assert_false(watcher.has_ended);
    postgres_close(second);
}

static void a_run_that_ends_elsewhere_is_told(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    second->ops->watch(second, on_run, &watcher);
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_end_run(first, ID_A, 1), 0);
    wait_for_run(&watcher);
    assert_string_equal(watcher.run_id, ID_A);
    assert_true(watcher.has_ended);
    postgres_close(second);
    first->ops->free(first);
}

/* ---- locks of somebody else's ---- */

/* How long the run is leased from the beginning of 2000 on, in ms. */
static long lease_of(const char *id)
{
    PGconn *session = PQconnectdb(postgres_uri());
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
    struct late_write late = {.store = postgres_open(NULL)};
    PGconn *session;
    pthread_t thread;

    (void)state;
    assert_int_equal(suite_begin_run(late.store, ID_A), 0);
    assert_int_equal(suite_begin_run(late.store, ID_B), 0);
    session = postgres_lock("SELECT FROM crisol_runs WHERE id = '" ID_A "' FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, write_late, &late), 0);
    for (int i = 0; i < 3; i++) /* the first may have been before the write */
        wait_for_renewal(ID_B);
    postgres_unlock(session);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.result, 0);
    wait_for_renewal(ID_A);
    late.store->ops->free(late.store);
}

static void after_an_outage_the_others_get_time_to_renew(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *store = postgres_open(NULL);
    PGconn *session;

    (void)state;
    store->ops->watch(store, on_run, &watcher);
    session = postgres_lock("LOCK TABLE crisol_runs"); /* not even to be read */
    (void)poll(NULL, 0, POSTGRES_LEASE_MS);
    PQclear(PQexec(session,
                   "INSERT INTO crisol_runs (id, head, has_ended, spec, fence, owner, lease_until)"
                   " VALUES ('" ID_A "', 0, false, 's', 1, 'other', now()),"
                   " ('" ID_B "', 0, false, 's', 1, 'stopped', '-infinity')"));
    postgres_unlock(session);
    wait_for_count(&watcher, 2);
    assert_string_equal(watcher.run_id, ID_A); /* the holder of the other one let go of it */
    assert_true(watcher.looks_at[1] > watcher.looks_at[0]);
    postgres_close(store);
}

/* ---- what is told again ---- */

/* Else it would be renewed, and nobody go on with it. */
static void a_run_that_could_not_be_taken_up_is_told_again(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 2};
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    first->ops->free(first);
    second->ops->watch(second, on_run_a, &watcher);
    wait_for_count(&watcher, 3);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 1); /* it was claimed once */
    postgres_close(second);
}

/* Each of two older programs takes it once, and neither keeps it from a newer one. */
static void a_run_that_cannot_be_read_here_is_let_go_of(void **state)
{
    struct watcher older[2] = {
        {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 100, .error = -EPROTO},
        {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = 100, .error = -EPROTO},
    };
    struct watcher newer = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *stores[] = {postgres_open(NULL), postgres_open(NULL), postgres_open(NULL)};

    (void)state;
    assert_int_equal(suite_begin_run(stores[2], ID_A), 0);
    stores[2]->ops->free(stores[2]);
    for (size_t i = 0; i < 2; i++) {
        stores[i]->ops->watch(stores[i], on_run_a, &older[i]);
        wait_for_count(&older[i], 1);
    }
    stores[2] = postgres_open(NULL);
    wait_for_looks(older, 3);
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
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_begin_run(second, ID_B), 0);
    second->ops->watch(second, on_run_a, &watcher);
    /* What the server does at such a claim, and the end of the connection behind it. */
    postgres_execute(
        "UPDATE crisol_runs a SET fence = a.fence + 1, owner = b.owner FROM crisol_runs b"
        " WHERE a.id = '" ID_A "' AND b.id = '" ID_B "'");
    postgres_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE application_name = 'crisol'");
    wait_for_count(&watcher, 1);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 1);
    postgres_close(second);
    first->ops->free(first);
}

/* It was another's for a while, whose end let it come back before anything was written here. */
static void a_run_that_came_back_is_told_when_the_former_hold_is_refused(void **state)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct agt_store *store = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    store->ops->watch(store, on_run_a, &watcher);
    postgres_execute("UPDATE crisol_runs SET fence = fence + 2");
    assert_int_equal(suite_append_event(store, ID_A, 1, "late"), -ESTALE);
    wait_for_count(&watcher, 1);
    assert_int_equal(watcher.fence, AGT_STORE_FIRST_FENCE + 2);
    postgres_close(store);
}

/* More than are asked for at one time. */
static void tell_all_that_is_held(int refuses)
{
    struct watcher watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .refuses = refuses};
    struct agt_store *store = postgres_open(NULL);
    int64_t until_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;
    char last[AGT_STORE_ID_SIZE] = "";

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    postgres_execute(
        "INSERT INTO crisol_runs (id, head, has_ended, spec, fence, owner, lease_until)"
        " SELECT lpad(i::text, 32, '0'), 0, false, spec, 1, owner, lease_until"
        " FROM crisol_runs, generate_series(2, 250) i");
    store->ops->watch(store, on_run, &watcher);
    postgres_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
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
        POSTGRES_TEST(a_run_whose_holder_is_gone_is_taken_once_and_the_late_write_is_refused),
        POSTGRES_TEST(a_lease_is_renewed_while_its_holder_lives),
        POSTGRES_TEST(who_stops_lets_go_at_once),
        POSTGRES_TEST(a_run_that_ends_elsewhere_is_told),
        POSTGRES_TEST(a_write_that_waits_for_a_lock_does_not_hold_up_renewals),
        POSTGRES_TEST(after_an_outage_the_others_get_time_to_renew),
        POSTGRES_TEST(a_run_that_could_not_be_taken_up_is_told_again),
        POSTGRES_TEST(a_run_that_cannot_be_read_here_is_let_go_of),
        POSTGRES_TEST(a_claim_whose_answer_was_lost_is_found_again),
        POSTGRES_TEST(a_run_that_came_back_is_told_when_the_former_hold_is_refused),
        POSTGRES_TEST(every_run_that_is_held_is_told_again),
        POSTGRES_TEST(runs_that_fail_again_and_again_hide_no_other),
    };

    if (!postgres_uri())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
