/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "tests/unit/orchestrator/store/postgres_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct suite suite = {.open = postgres_open};

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
    struct agt_store *store = postgres_open(NULL);
    struct cr_err err;

    (void)state;
    store->ops->free(store);
    postgres_execute("UPDATE crisol_schema SET version = 7");
    assert_int_equal(try_open(postgres_uri(), &err), -EPROTO);
    assert_non_null(strstr(err.text, "version 7"));
}

static const struct {
    const char *address;
    int error;
    const char *text;
} bad_addresses[] = {
    {"postgresql://me:secret@localhost/x", -EINVAL, "password file"},
    {"postgresql:///x?password=secret", -EINVAL, "password file"},
    {"postgresql:///x?sslpassword=secret", -EINVAL, "password file"},
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
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_begin_run(second, ID_B), 0);
    second->ops->free(second);
    first->ops->free(first);
}

/* It reads the tables in one transaction. */
static void a_backup_keeps_nobody_out(void **state)
{
    struct agt_store *store = postgres_open(NULL);
    PGconn *session = postgres_lock("LOCK TABLE crisol_runs IN ACCESS SHARE MODE");

    (void)state;
    store->ops->free(store);
    store = postgres_open(NULL);
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    store->ops->free(store);
    postgres_unlock(session);
}

/* And not for as long as a statement may take: others queue behind who waits. */
static void a_table_that_is_locked_is_waited_for_for_a_while(void **state)
{
    struct agt_store *store = postgres_open(NULL);
    PGconn *session;
    struct cr_err err;

    (void)state;
    store->ops->free(store);
    session = postgres_lock("LOCK TABLE crisol_runs");
    assert_int_equal(try_open(postgres_uri(), &err), -EIO);
    assert_non_null(strstr(err.text, "lock timeout"));
    postgres_unlock(session);
}

/* ---- a connection that breaks ---- */

static void what_is_appended_after_the_server_dropped_us_is_written(void **state)
{
    struct agt_store *store = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    for (uint32_t seq = 1; seq <= 5; seq++) {
        postgres_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                         " WHERE application_name = 'crisol'");
        assert_int_equal(suite_append_event(store, ID_A, seq, "x"), 0);
    }
    assert_string_equal(suite_see(store, ID_A), " 1=x 2=x 3=x 4=x 5=x");
    store->ops->free(store);
}

/* ---- what another process writes ---- */

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
    struct agt_store *first = postgres_open(NULL);
    struct agt_store *second = postgres_open(NULL);

    (void)state;
    assert_int_equal(suite_begin_run(first, ID_A), 0);
    assert_int_equal(suite_append_event(first, ID_A, 1, "one"), 0);
    follower.store = second;
    second->ops->watch(second, on_other_run, &follower);
    wait_for_events(&follower, " 1=one");
    assert_int_equal(suite_append_event(first, ID_A, 2, "two"), 0);
    assert_int_equal(suite_end_run(first, ID_A, 3), 0);
    wait_for_events(&follower, " 1=one 2=two 3=end");
    postgres_close(second);
    first->ops->free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        POSTGRES_TEST(acknowledged_is_there_after_a_restart),
        POSTGRES_TEST(only_what_follows_is_taken),
        POSTGRES_TEST(forgotten_is_gone),
        POSTGRES_TEST(a_stale_batch_takes_no_other_with_it),
        POSTGRES_TEST(a_run_is_read_behind_what_was_appended),
        POSTGRES_TEST(large_events_come_back_whole),
        POSTGRES_TEST(a_request_is_told_until_it_is_settled),
        POSTGRES_TEST(a_key_starts_one_run),
        POSTGRES_TEST(a_newer_schema_is_refused),
        POSTGRES_TEST(a_bad_address_is_refused_and_no_password_is_told),
        POSTGRES_TEST(two_that_lay_out_at_once_both_succeed),
        POSTGRES_TEST(a_backup_keeps_nobody_out),
        POSTGRES_TEST(a_table_that_is_locked_is_waited_for_for_a_while),
        POSTGRES_TEST(what_is_appended_after_the_server_dropped_us_is_written),
        POSTGRES_TEST(a_run_that_goes_on_elsewhere_is_read_along),
    };

    if (!postgres_uri())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
