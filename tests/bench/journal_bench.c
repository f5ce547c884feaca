/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does a step of the journal take? A state event of usual size, with
 * the answer of a model for every fourth, from the append to the moment when
 * it is durable: one run at a time, and a hundred at once; and the disk alone.
 * Takes a folder for SQLite, or the address of a PostgreSQL database. Prints
 * one JSON object.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/store/store.h"
#include "tests/bench/samples.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 2000U
#define MANY 100U
#define EVENT_BYTES 700U
#define ANSWER_BYTES 4096U
#define ANSWER_EVERY 4U

/* One run, a step of which is on its way. */
struct run {
    struct agt_store_batch batch;
    struct agt_store_event event;
    int64_t began_ns;
    int64_t took_ns;
    int error;
    sem_t done;
};

static char event_bytes[EVENT_BYTES];
static char answer_bytes[ANSWER_BYTES];

/* The store's thread. */
static void on_done(struct agt_store_batch *batch, int error)
{
    struct run *run = batch->user;

    run->took_ns = cr_clock_mono_ns() - run->began_ns;
    run->error = error;
    (void)sem_post(&run->done);
}

static void begin_run(struct run *run, unsigned number)
{
    (void)sem_init(&run->done, 0, 0);
    (void)snprintf(run->batch.run_id, sizeof(run->batch.run_id), "%08x%016llx%08x", number,
                   (unsigned long long)cr_clock_real_ms(), number);
    run->batch.on_done = on_done;
    run->batch.user = run;
    run->batch.events = &run->event;
    run->batch.event_count = 1;
    run->batch.fence = AGT_STORE_FIRST_FENCE;
    run->event = (struct agt_store_event){.payload = event_bytes, .size = sizeof(event_bytes)};
}

static void append(struct agt_store *store, struct run *run)
{
    run->event.seq++;
    run->batch.spec = run->event.seq == 1 ? event_bytes : NULL;
    run->batch.spec_size = run->event.seq == 1 ? sizeof(event_bytes) : 0;
    run->event.input = run->event.seq % ANSWER_EVERY == 0 ? answer_bytes : NULL;
    run->event.input_size = run->event.input ? sizeof(answer_bytes) : 0;
    run->began_ns = cr_clock_mono_ns();
    store->ops->append(store, &run->batch);
}

static int wait_for(struct run *run)
{
    while (sem_wait(&run->done) < 0)
        ;
    return run->error;
}

/* `count` runs with a step each at one time, `steps` times. */
static int measure(struct agt_store *store, size_t count, size_t steps, const char *name)
{
    static struct run runs[MANY];
    struct bench_samples samples;
    int r = bench_samples_init(&samples, count * steps);

    for (size_t i = 0; r == 0 && i < count; i++)
        begin_run(&runs[i], (unsigned)(count * 1000 + i));
    for (size_t step = 0; r == 0 && step < steps; step++) {
        for (size_t i = 0; i < count; i++)
            append(store, &runs[i]);
        for (size_t i = 0; i < count; i++) {
            int error = wait_for(&runs[i]);

            r = r < 0 ? r : error;
            bench_samples_add(&samples, runs[i].took_ns);
        }
    }
    if (r == 0)
        bench_samples_print(name, &samples);
    bench_samples_done(&samples);
    return r;
}

/* What the disk alone takes, for comparison: a page written and synced. */
static int measure_disk(const char *folder)
{
    static const char page[ANSWER_BYTES];
    struct bench_samples samples;
    CR_AUTO_CLOSE int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : bench_samples_init(&samples, STEPS);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < STEPS; i++) {
        int64_t began_ns = cr_clock_mono_ns();

        if (pwrite(fd, page, sizeof(page), (off_t)(i * sizeof(page))) < 0 || fdatasync(fd) < 0)
            r = -errno;
        bench_samples_add(&samples, cr_clock_mono_ns() - began_ns);
    }
    if (r == 0) {
        (void)printf(",");
        bench_samples_print("disk", &samples);
    }
    bench_samples_done(&samples);
    return r;
}

static int open_store(const char *where, struct agt_store **ret_store, struct cr_err *err)
{
    struct agt_sqlite_options sqlite = {.min_free_bytes = 1};
    struct agt_postgres_options postgres = {.uri = where};
    char path[4096];

    if (strstr(where, "://"))
        return agt_store_postgres_new(&postgres, ret_store, err);
    if ((size_t)snprintf(path, sizeof(path), "%s/journal.db", where) >= sizeof(path))
        return cr_err_set(err, ENAMETOOLONG, "'%s' is too long", where);
    sqlite.path = path;
    return agt_store_sqlite_new(&sqlite, ret_store, err);
}

int main(int argc, char **argv)
{
    struct agt_store *store = NULL;
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("journal_bench", CR_LOG_WARN, CR_LOG_TEXT);
    if (argc != 2) {
        (void)fprintf(stderr, "usage: journal_bench FOLDER|postgresql://…\n");
        return EXIT_FAILURE;
    }
    memset(event_bytes, 'e', sizeof(event_bytes));
    memset(answer_bytes, 'a', sizeof(answer_bytes));
    r = open_store(argv[1], &store, &err);
    if (r < 0) {
        cr_log_error("%s", err.text);
        return EXIT_FAILURE;
    }
    (void)printf("{\"bench\":\"journal\",\"store\":\"%s\",\"series\":{",
                 strstr(argv[1], "://") ? "postgresql" : "sqlite");
    r = measure(store, 1, STEPS, "one_run");
    (void)printf(",");
    if (r == 0)
        r = measure(store, MANY, STEPS / MANY, "hundred_runs");
    if (r == 0 && !strstr(argv[1], "://"))
        r = measure_disk(argv[1]);
    (void)printf("}}\n");
    store->ops->free(store);
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
