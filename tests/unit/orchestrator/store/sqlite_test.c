/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/store/store_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

struct fixture {
    char folder[64];
    char path[96];
    struct agt_store *store;
    int fds_before;
};

static void open_store(struct fixture *fixture)
{
    const struct agt_sqlite_options options = {
        .path = fixture->path, .min_free_bytes = 1, .ballast_bytes = 65536};
    struct cr_err err = CR_ERR_INIT;

    if (agt_store_sqlite_new(&options, &fixture->store, &err) < 0)
        fail_msg("%s", err.text);
}

static void close_store(struct fixture *fixture)
{
    fixture->store->ops->free(fixture->store);
    fixture->store = NULL;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    fixture->fds_before = test_count_fds();
    test_folder_make(fixture->folder, sizeof(fixture->folder));
    (void)snprintf(fixture->path, sizeof(fixture->path), "%s/journal.db", fixture->folder);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const endings[] = {"", "-wal", "-shm", ".lock", ".ballast"};
    struct fixture *fixture = *state;

    if (fixture->store)
        close_store(fixture);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s%s", fixture->path, endings[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(fixture->folder), 0);
    assert_int_equal(test_count_fds(), fixture->fds_before);
    free(fixture);
    return 0;
}

static struct agt_store *open_for_suite(void *user)
{
    struct fixture *fixture = user;
    struct agt_store *store;

    open_store(fixture);
    store = fixture->store;
    fixture->store = NULL; /* the suite frees it */
    return store;
}

#define FROM_SUITE(name)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        const struct suite suite = {.open = open_for_suite, .user = *state};                       \
                                                                                                   \
        suite_##name(&suite);                                                                      \
    }

FROM_SUITE(acknowledged_is_there_after_a_restart)
FROM_SUITE(only_what_follows_is_taken)
FROM_SUITE(forgotten_is_gone)
FROM_SUITE(a_stale_batch_takes_no_other_with_it)
FROM_SUITE(a_run_is_read_behind_what_was_appended)
FROM_SUITE(large_events_come_back_whole)
FROM_SUITE(a_request_is_told_until_it_is_settled)
FROM_SUITE(a_key_starts_one_run)

/* Whatever the mask of the process is. */
static void files_are_the_owners_alone(void **state)
{
    static const char *const endings[] = {"", "-wal", "-shm", ".lock", ".ballast"};
    struct fixture *fixture = *state;
    const mode_t before = umask(0);

    open_store(fixture);
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    (void)umask(before);

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        struct stat info;
        char path[128];

        (void)snprintf(path, sizeof(path), "%s%s", fixture->path, endings[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0600);
    }
}

/* ---- what can be wrong with the file ---- */

static int try_open(struct fixture *fixture, struct cr_err *err)
{
    const struct agt_sqlite_options options = {.path = fixture->path};
    struct agt_store *store = NULL;

    *err = (struct cr_err)CR_ERR_INIT;
    return agt_store_sqlite_new(&options, &store, err);
}

static void a_second_store_on_the_same_file_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err;

    open_store(fixture);
    assert_int_equal(try_open(fixture, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another process uses it"));
}

static void execute(struct fixture *fixture, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_newer_schema_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err;

    open_store(fixture);
    close_store(fixture);
    execute(fixture, "PRAGMA user_version=2");
    assert_int_equal(try_open(fixture, &err), -EPROTO);
    assert_non_null(strstr(err.text, "version 2"));
}

static void another_programs_database_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err;

    execute(fixture, "CREATE TABLE theirs (x)");
    assert_int_equal(try_open(fixture, &err), -EPROTO);
}

struct wait {
    sem_t done;
    int error;
};

static void on_done(struct agt_store_batch *batch, int error)
{
    struct wait *wait = batch->user;

    wait->error = error;
    (void)sem_post(&wait->done);
}

static void overwrite(const char *path, off_t offset)
{
    static const char noise[4096] = "this is no database";
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, noise, sizeof(noise), offset), sizeof(noise));
    (void)close(fd);
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err;

    overwrite(fixture->path, 0);
    assert_int_equal(try_open(fixture, &err), -EUCLEAN);
}

static void a_damaged_database_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err;

    open_store(fixture);
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    close_store(fixture);
    overwrite(fixture->path, 4096);
    assert_int_equal(try_open(fixture, &err), -EUCLEAN);
}

/* A copy made while the store is open is what a power loss leaves: cut, whole transactions go. */
static void copy(const char *from, const char *to, size_t cut)
{
    static char bytes[4 << 20];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t size = read(in, bytes, sizeof(bytes));

    assert_true(in >= 0 && out >= 0 && size > (ssize_t)cut);
    assert_int_equal(write(out, bytes, (size_t)size - cut), size - (ssize_t)cut);
    (void)close(in);
    (void)close(out);
}

static void a_torn_tail_loses_whole_transactions_only(void **state)
{
    struct fixture *fixture = *state;
    char wal[128];
    char kept[128];
    char kept_wal[160];
    unsigned last = 0;
    unsigned count = 0;

    open_store(fixture);
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    for (uint32_t seq = 1; seq <= 20; seq++)
        assert_int_equal(suite_append_event(fixture->store, ID_A, seq, "x"), 0);
    (void)snprintf(wal, sizeof(wal), "%s-wal", fixture->path);
    (void)snprintf(kept, sizeof(kept), "%s/kept", fixture->folder);
    (void)snprintf(kept_wal, sizeof(kept_wal), "%s-wal", kept);
    copy(fixture->path, kept, 0);
    copy(wal, kept_wal, 3000);
    close_store(fixture);
    assert_int_equal(rename(kept, fixture->path), 0);
    assert_int_equal(rename(kept_wal, wal), 0);

    open_store(fixture);
    for (const char *at = strchr(suite_see(fixture->store, ID_A), ' '); at;
         at = strchr(at + 1, ' ')) {
        last = (unsigned)strtoul(at + 1, NULL, 10);
        assert_int_equal(last, ++count);
    }
    assert_in_range(last, 15, 19);
    assert_int_equal(suite_append_event(fixture->store, ID_A, last + 1, "goes on"), 0);
}

/* ---- what can happen to it while it is used ---- */

static void a_file_that_is_removed_stops_admission(void **state)
{
    struct fixture *fixture = *state;
    int64_t due_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    open_store(fixture);
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    assert_true(fixture->store->ops->is_accepting(fixture->store));
    assert_int_equal(unlink(fixture->path), 0);
    (void)suite_append_event(fixture->store, ID_A, 1, "lost");
    while (fixture->store->ops->is_accepting(fixture->store) && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_false(fixture->store->ops->is_accepting(fixture->store));
}

static void a_database_that_somebody_locks_is_waited_for(void **state)
{
    struct fixture *fixture = *state;
    struct agt_store_event event = {.seq = 1, .payload = "one", .size = 3};
    struct wait wait = {.error = 1};
    struct agt_store_batch batch = {
        .run_id = ID_A, .events = &event, .event_count = 1, .on_done = on_done, .user = &wait};
    struct timespec until;
    sqlite3 *other = NULL;

    (void)sem_init(&wait.done, 0, 0);
    open_store(fixture);
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    fixture->store->ops->append(fixture->store, &batch);
    (void)poll(NULL, 0, 20);
    assert_int_equal(sem_trywait(&wait.done), -1);

    assert_int_equal(sqlite3_close(other), SQLITE_OK); /* rolls back, and with it the lock goes */
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    assert_int_equal(sem_timedwait(&wait.done, &until), 0);
    assert_int_equal(wait.error, 0);
    (void)sem_destroy(&wait.done);
}

/* ---- a full disk ---- */

static void fill_disk(const char *path)
{
    static const char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    (void)close(fd);
}

static void a_full_disk_makes_batches_wait_and_stops_admission(void **state)
{
    static char big[3 << 20];
    struct fixture *fixture = *state;
    struct agt_store_event event = {.seq = 1, .payload = big, .size = sizeof(big)};
    struct wait wait = {.error = 1};
    struct agt_store_batch batch = {
        .run_id = ID_A, .events = &event, .event_count = 1, .on_done = on_done, .user = &wait};
    char filler[96];
    int64_t due_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    if (mount("tmpfs", fixture->folder, "tmpfs", 0, "size=8m") < 0)
        skip();
    (void)sem_init(&wait.done, 0, 0);
    (void)snprintf(filler, sizeof(filler), "%s/filler", fixture->folder);
    open_store(fixture);
    assert_true(fixture->store->ops->is_accepting(fixture->store));
    assert_int_equal(suite_begin_run(fixture->store, ID_A), 0);
    fill_disk(filler);
    fixture->store->ops->append(fixture->store, &batch);
    while (fixture->store->ops->is_accepting(fixture->store) && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_false(fixture->store->ops->is_accepting(fixture->store));
    assert_int_equal(sem_trywait(&wait.done), -1);

    assert_int_equal(unlink(filler), 0);
    while (sem_trywait(&wait.done) < 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(wait.error, 0);
    close_store(fixture);
    (void)sem_destroy(&wait.done);
    assert_int_equal(umount(fixture->folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(acknowledged_is_there_after_a_restart),
        CASE(only_what_follows_is_taken),
        CASE(forgotten_is_gone),
        CASE(a_stale_batch_takes_no_other_with_it),
        CASE(a_run_is_read_behind_what_was_appended),
        CASE(large_events_come_back_whole),
        CASE(a_request_is_told_until_it_is_settled),
        CASE(a_key_starts_one_run),
        CASE(files_are_the_owners_alone),
        CASE(a_second_store_on_the_same_file_is_refused),
        CASE(a_newer_schema_is_refused),
        CASE(another_programs_database_is_refused),
        CASE(a_file_that_is_no_database_is_refused),
        CASE(a_damaged_database_is_refused),
        CASE(a_torn_tail_loses_whole_transactions_only),
        CASE(a_file_that_is_removed_stops_admission),
        CASE(a_database_that_somebody_locks_is_waited_for),
        CASE(a_full_disk_makes_batches_wait_and_stops_admission),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
