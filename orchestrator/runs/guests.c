/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"

#include <errno.h>
#include <stdlib.h>

/*
 * What the store tells of runs in other processes. Those that go on there are
 * here as guests: their events are read from the store behind each of its
 * looks, so that any process can be asked for any run. All on the store's
 * thread.
 */

/* More of them are not known here until they have ended; each holds its events in memory. */
#define GUESTS_MAX 1000

/* The guests that go on. References. */
struct guests {
    struct agt_run *runs[GUESTS_MAX];
    struct agt_store_tail tails[GUESTS_MAX];
    size_t count;
};

static void collect(struct agt_runs *runs, struct guests *guests)
{
    (void)pthread_mutex_lock(&runs->lock);
    for (const struct agt_runs_entry *entry = runs->newest; entry && guests->count < GUESTS_MAX;
         entry = entry->older) {
        struct agt_run *run = entry->run;

        if (!agt_run_is_guest(run) || agt_run_is_left(run) || agt_run_has_ended(run))
            continue;
        guests->runs[guests->count] = agt_run_ref(run);
        guests->tails[guests->count].run_id = agt_run_id(run);
        guests->tails[guests->count++].seq = agt_guest_seq(run);
    }
    runs->guest_count = guests->count;
    (void)pthread_mutex_unlock(&runs->lock);
}

static int on_event(void *user, size_t index, const struct agt_store_event *event)
{
    struct guests *guests = user;
    int r;

    if (index >= guests->count)
        return -EBADMSG;
    r = agt_guest_add(guests->runs[index], event);
    if (r != -EBADMSG)
        return r; /* what follows waits for the next look, as this does */
    cr_log_error("runs: a run of another process cannot be read behind event %u, leaving it run=%s",
                 agt_guest_seq(guests->runs[index]), agt_run_id(guests->runs[index]));
    agt_guest_leave(guests->runs[index]);
    return 0;
}

static void read_guests(struct agt_runs *runs)
{
    struct agt_store *store = runs->options.store;
    struct guests *guests = calloc(1, sizeof(*guests));
    struct cr_err err = CR_ERR_INIT;

    if (!guests)
        return; /* with the next look */
    collect(runs, guests);
    if (guests->count > 0 &&
        store->ops->load_tails(store, guests->tails, guests->count, on_event, guests, &err) < 0)
        cr_log_warn("runs: cannot read the runs of other processes (%s), trying again",
                    err.code ? err.text : "out of memory");
    for (size_t i = 0; i < guests->count; i++)
        (void)agt_run_unref(guests->runs[i]);
    free(guests);
}

/* What is to be done about a run of the store. */
enum news {
    NEWS_NONE,
    NEWS_TAKE_UP,
    NEWS_HELD_ANEW, /* what goes on here of it is of a hold that was lost in between */
};

/* With the lock. */
static enum news judge(const struct agt_runs *runs, const struct agt_runs_entry *entry,
                       const struct agt_store_run *row)
{
    bool is_held = !row->is_elsewhere && !row->has_ended;

    if (!entry)
        return row->is_elsewhere && runs->guest_count >= GUESTS_MAX ? NEWS_NONE : NEWS_TAKE_UP;
    if (agt_run_is_left(entry->run))
        return NEWS_TAKE_UP;
    /* A guest that this process is to go on with is none any more; its end will be read. */
    if (agt_run_is_guest(entry->run))
        return is_held ? NEWS_TAKE_UP : NEWS_NONE;
    return is_held && agt_run_fence(entry->run) != row->fence && !agt_run_has_ended(entry->run)
               ? NEWS_HELD_ANEW
               : NEWS_NONE;
}

static enum news look_at(struct agt_runs *runs, const struct agt_store_run *row)
{
    const struct agt_runs_entry *entry;
    enum news news;

    (void)pthread_mutex_lock(&runs->lock);
    entry = agt_runs_find_entry(runs, row->run_id);
    news = judge(runs, entry, row);
    if (news == NEWS_HELD_ANEW)
        agt_run_leave(entry->run);
    runs->guest_count += news == NEWS_TAKE_UP && row->is_elsewhere;
    (void)pthread_mutex_unlock(&runs->lock);
    return news;
}

static int take_up(struct agt_runs *runs, const struct agt_store_run *row)
{
    struct cr_err err = CR_ERR_INIT;
    int r = agt_engine_take_up(runs->options.engine, row, agt_runs_on_loaded, runs, &err);

    if (r < 0 && r != -EPROTO) /* which the engine has told */
        cr_log_error("runs: a run of the store cannot be taken up (%s), trying again run=%s",
                     err.code ? err.text : "out of memory", row->run_id);
    return r;
}

int agt_runs_on_stored(void *user, const struct agt_store_run *row)
{
    struct agt_runs *runs = user;

    if (!row) {
        read_guests(runs);
        agt_runs_take_requests(runs);
        return 0;
    }
    switch (look_at(runs, row)) {
    case NEWS_TAKE_UP:
        return take_up(runs, row);
    case NEWS_HELD_ANEW:
        return -EBUSY; /* once the engine has let go of it */
    default:
        return 0;
    }
}
