/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/store/sqlite_db.h"
#include "orchestrator/store/writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define MIN_FREE_DEFAULT ((uint64_t)256 << 20)
#define BALLAST_DEFAULT ((uint64_t)16 << 20)
/* The log is told about a disk that cannot be written once in so long. */
#define COMPLAIN_EVERY_NS (10 * CR_NS_PER_S)

struct sqlite_store {
    struct agt_store base; /* first */
    struct agt_sqlite_options options;
    char *path;
    char *ballast_path;
    int lock_fd;
    dev_t device; /* where the file is, to notice that it is gone */
    ino_t inode;
    struct agt_writer *writer;
    atomic_bool is_roomy;

    pthread_mutex_t lock; /* guards the database: its thread writes, a start reads */
    struct agt_sqlite_db db;

    int64_t complain_at_ns; /* the thread's */
};

/* ---- the disk ---- */

/* SQLite goes on with a file that was removed or replaced, and nothing of it is kept. */
static bool is_gone(const struct sqlite_store *store)
{
    struct stat file;

    return stat(store->path, &file) < 0 || file.st_dev != store->device ||
           file.st_ino != store->inode;
}

static void look_at_room(struct sqlite_store *store)
{
    struct statfs disk;
    bool is_roomy;

    if (is_gone(store)) {
        if (atomic_exchange(&store->is_roomy, false))
            cr_log_error("store: its file was removed or replaced; what is written from now on is "
                         "lost, new runs are refused until a restart");
        return;
    }
    if (statfs(store->path, &disk) < 0)
        return; /* the next write will tell */
    is_roomy = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize >= store->options.min_free_bytes;
    if (is_roomy != atomic_exchange(&store->is_roomy, is_roomy))
        cr_log_warn("store: the disk %s; new runs are %s",
                    is_roomy ? "has room again" : "is nearly full",
                    is_roomy ? "taken" : "refused until there is room");
}

static void warn_of_disk(const struct sqlite_store *store)
{
    struct statfs disk;

    if (statfs(store->path, &disk) < 0)
        return;
    if (disk.f_type == TMPFS_MAGIC)
        cr_log_warn("store: it lies in memory (tmpfs) and is gone with the machine, ignoring");
    if (disk.f_type == OVERLAYFS_SUPER_MAGIC)
        cr_log_warn("store: it lies in a container's own layer (overlay) and is gone with the "
                    "container, ignoring");
}

/* Room that is given back when the disk is full, so that live runs can be brought to an end. */
static void lay_ballast(const struct sqlite_store *store)
{
    CR_AUTO_CLOSE int fd = -1;

    if (!atomic_load(&store->is_roomy))
        return;
    fd = open(store->ballast_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)store->options.ballast_bytes) != 0)
        cr_log_warn("store: no room was set aside for a full disk, ignoring");
}

static void drop_ballast(const struct sqlite_store *store)
{
    if (unlink(store->ballast_path) == 0)
        cr_log_warn("store: the disk is full; gave back the room that was set aside");
}

/* ---- on the writer's thread ---- */

static void complain(struct sqlite_store *store, int code)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns < store->complain_at_ns)
        return;
    store->complain_at_ns = now_ns + COMPLAIN_EVERY_NS;
    cr_log_error("store: cannot write (%s), trying again", sqlite3_errstr(code));
}

static bool write_list(void *user, struct agt_store_batch *first, bool is_repeat)
{
    struct sqlite_store *store = user;
    int code;

    (void)is_repeat; /* what failed was rolled back */
    (void)pthread_mutex_lock(&store->lock);
    code = agt_sqlite_db_write(&store->db, first);
    (void)pthread_mutex_unlock(&store->lock);
    if (code == SQLITE_OK) {
        look_at_room(store);
        return true;
    }
    complain(store, code);
    atomic_store(&store->is_roomy, false);
    if ((code & 0xff) == SQLITE_FULL)
        drop_ballast(store);
    return false;
}

static void look_after(void *user)
{
    struct sqlite_store *store = user;

    if (!atomic_load(&store->is_roomy))
        look_at_room(store);
}

/* ---- what a store does ---- */

static struct sqlite_store *of(struct agt_store *store)
{
    return (struct sqlite_store *)(void *)store;
}

static void append(struct agt_store *base, struct agt_store_batch *take_batch)
{
    agt_writer_append(of(base)->writer, take_batch);
}

static bool is_accepting(struct agt_store *base)
{
    return atomic_load(&of(base)->is_roomy);
}

static int load_runs(struct agt_store *base,
                     int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                     struct cr_err *err)
{
    struct sqlite_store *store = of(base);
    int r;

    (void)pthread_mutex_lock(&store->lock);
    r = agt_sqlite_db_load_runs(&store->db, on_run, user, err);
    (void)pthread_mutex_unlock(&store->lock);
    return r;
}

static int load_events(struct agt_store *base, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err)
{
    struct sqlite_store *store = of(base);
    int r;

    (void)pthread_mutex_lock(&store->lock);
    r = agt_sqlite_db_load_events(&store->db, run_id, on_event, user, err);
    (void)pthread_mutex_unlock(&store->lock);
    return r;
}

static int load_requests(struct agt_store *base,
                         int (*on_request)(void *user, const struct agt_store_request *request),
                         void *user, struct cr_err *err)
{
    struct sqlite_store *store = of(base);
    int r;

    (void)pthread_mutex_lock(&store->lock);
    r = agt_sqlite_db_load_requests(&store->db, on_request, user, err);
    (void)pthread_mutex_unlock(&store->lock);
    return r;
}

static const struct agt_writer_ops writer_ops = {.write = write_list, .look_after = look_after};

static void hurry(struct agt_store *base)
{
    agt_writer_hurry(of(base)->writer);
}

static void free_store(struct agt_store *base)
{
    struct sqlite_store *store = of(base);

    (void)agt_writer_stop(store->writer);
    agt_sqlite_db_close(&store->db);
    cr_close_fd(&store->lock_fd);
    (void)pthread_mutex_destroy(&store->lock);
    free(store->ballast_path);
    free(store->path);
    free(store);
}

static const struct agt_store_ops ops = {
    .append = append,
    .is_accepting = is_accepting,
    .load_runs = load_runs,
    .load_events = load_events,
    .load_requests = load_requests,
    .hurry = hurry,
    .free = free_store,
};

/* ---- opening ---- */

/* Held for the life of the store; the kernel gives it back when the process dies. */
static int take_lock(struct sqlite_store *store, struct cr_err *err)
{
    CR_AUTO_FREE char *path = NULL;

    if (asprintf(&path, "%s.lock", store->path) < 0)
        return cr_err_set(err, ENOMEM, "out of memory for the store");
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock_fd < 0)
        return cr_err_sys(err, errno, "open '%s'", path);
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return cr_err_set(
            err, EBUSY,
            "another process uses it; give each orchestrator a --store (CRISOL_STORE) of its own");
    return 0;
}

/* So that what SQLite makes beside it has the same mode: a journal holds tasks and code. */
static int make_file(struct sqlite_store *store, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    struct stat file;

    if (fd < 0 || fstat(fd, &file) < 0)
        return cr_err_sys(err, errno, "open it");
    store->device = file.st_dev;
    store->inode = file.st_ino;
    return 0;
}

static int open_parts(struct sqlite_store *store, struct cr_err *err)
{
    int r = take_lock(store, err);

    if (r == 0)
        r = make_file(store, err);
    if (r == 0)
        r = agt_sqlite_db_open(&store->db, store->path, err);
    if (r < 0)
        return r;
    atomic_store(&store->is_roomy, true);
    look_at_room(store);
    warn_of_disk(store);
    lay_ballast(store);
    return agt_writer_start(&writer_ops, &store->base, store, &store->writer, err);
}

int agt_store_sqlite_new(const struct agt_sqlite_options *options, struct agt_store **ret_store,
                         struct cr_err *err)
{
    struct sqlite_store *store = calloc(1, sizeof(*store));
    int r;

    if (!store)
        return cr_err_set(err, ENOMEM, "out of memory for the store");
    store->base.ops = &ops;
    store->lock_fd = -1;
    (void)pthread_mutex_init(&store->lock, NULL);
    store->options = *options;
    if (store->options.min_free_bytes == 0)
        store->options.min_free_bytes = MIN_FREE_DEFAULT;
    if (store->options.ballast_bytes == 0)
        store->options.ballast_bytes = BALLAST_DEFAULT;
    store->path = strdup(options->path);
    if (!store->path || asprintf(&store->ballast_path, "%s.ballast", options->path) < 0) {
        store->ballast_path = NULL;
        r = cr_err_set(err, ENOMEM, "out of memory for the store");
    } else {
        r = open_parts(store, err);
    }
    if (r < 0) {
        free_store(&store->base);
        return cr_err_wrap(err, "store '%s'", options->path);
    }
    *ret_store = &store->base;
    return 0;
}
