/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/store/sqlite_db.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <linux/magic.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define MIN_FREE_DEFAULT ((uint64_t)256 << 20)
#define BALLAST_DEFAULT ((uint64_t)16 << 20)
#define RETRY_MS 200
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
    struct cr_mailbox *mailbox; /* of batches */
    pthread_t thread;
    bool has_thread;
    atomic_bool must_stop;
    atomic_bool is_hurried;
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

/* ---- the thread ---- */

static void finish(struct agt_store_batch *first, int error)
{
    struct cr_mail *next;

    for (struct cr_mail *mail = &first->link; mail; mail = next) {
        struct agt_store_batch *batch = (struct agt_store_batch *)(void *)mail;

        next = mail->next;
        batch->on_done(batch, error ? error : batch->error);
    }
}

static int write_once(struct sqlite_store *store, struct agt_store_batch *first)
{
    int code;

    (void)pthread_mutex_lock(&store->lock);
    code = agt_sqlite_db_write(&store->db, first);
    (void)pthread_mutex_unlock(&store->lock);
    return code;
}

static void complain(struct sqlite_store *store, int code)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns < store->complain_at_ns)
        return;
    store->complain_at_ns = now_ns + COMPLAIN_EVERY_NS;
    cr_log_error("store: cannot write (%s), trying again", sqlite3_errstr(code));
}

/* Tries until it is written: a run goes on when its journal does, and never before. */
static void write_all(struct sqlite_store *store, struct agt_store_batch *first)
{
    int code = write_once(store, first);

    while (code != SQLITE_OK && !atomic_load(&store->is_hurried)) {
        complain(store, code);
        atomic_store(&store->is_roomy, false);
        if ((code & 0xff) == SQLITE_FULL)
            drop_ballast(store);
        (void)poll(NULL, 0, RETRY_MS);
        code = write_once(store, first);
    }
    look_at_room(store);
    finish(first, code == SQLITE_OK ? 0 : -ECANCELED);
}

static void *store_main(void *user)
{
    struct sqlite_store *store = user;
    struct pollfd waiter = {.fd = cr_mailbox_fd(store->mailbox), .events = POLLIN};
    bool is_last = false;

    (void)prctl(PR_SET_NAME, "store", 0, 0, 0);
    while (!is_last) {
        struct cr_mail *mails;

        (void)poll(&waiter, 1, RETRY_MS);
        is_last = atomic_load(&store->must_stop); /* before the take: nothing is left behind */
        mails = cr_mailbox_take_all(store->mailbox);
        if (mails) /* all that came meanwhile, in one transaction */
            write_all(store, (struct agt_store_batch *)(void *)mails);
        else if (!atomic_load(&store->is_roomy))
            look_at_room(store);
    }
    return NULL;
}

/* ---- what a store does ---- */

static struct sqlite_store *of(struct agt_store *store)
{
    return (struct sqlite_store *)(void *)store;
}

static void append(struct agt_store *base, struct agt_store_batch *take_batch)
{
    /* Urgent: a run has a bounded number of batches on their way. */
    (void)cr_mailbox_post(of(base)->mailbox, &take_batch->link, true);
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

static void hurry(struct agt_store *base)
{
    atomic_store(&of(base)->is_hurried, true);
}

static void free_store(struct agt_store *base)
{
    struct sqlite_store *store = of(base);

    if (store->has_thread) {
        hurry(base);
        atomic_store(&store->must_stop, true);
        (void)pthread_join(store->thread, NULL);
    }
    agt_sqlite_db_close(&store->db);
    (void)cr_mailbox_free(store->mailbox);
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
        return cr_err_set(err, EBUSY, "another process uses it; one orchestrator has one store");
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
    if (r == 0)
        r = cr_mailbox_new(65536, &store->mailbox, err);
    if (r < 0)
        return r;
    atomic_store(&store->is_roomy, true);
    look_at_room(store);
    warn_of_disk(store);
    lay_ballast(store);
    r = -pthread_create(&store->thread, NULL, store_main, store);
    if (r < 0)
        return cr_err_sys(err, -r, "start the thread of the store");
    store->has_thread = true;
    return 0;
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
