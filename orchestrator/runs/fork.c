/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/fork.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

/* On its way: the run is read, its beginning is written as a new run, which is taken up. */
struct agt_forking {
    struct agt_forking *previous; /* both under the lock of the registry */
    struct agt_forking *next;
    struct agt_runs *runs; /* borrowed: it waits for us */
    uint32_t seq;
    char *hint; /* owned; NULL: none */
    void (*on_done)(void *user, const char *run_id, const struct rpc_status *status);
    void *user;
    char caller[];
};

uint32_t agt_runs_count_forks(const struct agt_runs *runs, const char *caller)
{
    uint32_t count = 0;

    for (const struct agt_forking *at = runs->forking; at; at = at->next)
        count += strcmp(at->caller, caller) == 0;
    return count;
}

static void free_forking(struct agt_forking *forking)
{
    free(forking->hint);
    free(forking);
}

static struct agt_forking *new_forking(struct agt_runs *runs, const char *caller, const char *hint)
{
    size_t size = strlen(caller) + 1;
    struct agt_forking *forking = malloc(sizeof(*forking) + size);

    if (!forking)
        return NULL;
    *forking = (struct agt_forking){.runs = runs};
    memcpy(forking->caller, caller, size);
    forking->hint = hint ? strdup(hint) : NULL;
    if (!hint || forking->hint)
        return forking;
    free_forking(forking);
    return NULL;
}

/* As one run more of its caller, if that may have one. */
static int enter(struct agt_forking *forking, struct rpc_status *status)
{
    struct agt_runs *runs = forking->runs;
    int r;

    (void)pthread_mutex_lock(&runs->lock);
    r = agt_runs_check_quota(runs, forking->caller, cr_clock_mono_ns(), status);
    if (r == 0) {
        runs->forks++;
        forking->next = runs->forking;
        if (forking->next)
            forking->next->previous = forking;
        runs->forking = forking;
    }
    (void)pthread_mutex_unlock(&runs->lock);
    return r;
}

static void unlink_forking(struct agt_forking *forking)
{
    struct agt_runs *runs = forking->runs;

    (void)pthread_mutex_lock(&runs->lock);
    if (forking->previous)
        forking->previous->next = forking->next;
    else
        runs->forking = forking->next;
    if (forking->next)
        forking->next->previous = forking->previous;
    (void)pthread_mutex_unlock(&runs->lock);
}

static void leave(struct agt_runs *runs)
{
    (void)pthread_mutex_lock(&runs->lock);
    runs->forks--;
    (void)pthread_cond_broadcast(&runs->forked);
    (void)pthread_mutex_unlock(&runs->lock);
}

static void finish(struct agt_forking *forking, const char *run_id, const struct rpc_status *status)
{
    struct agt_runs *runs = forking->runs;

    unlink_forking(forking); /* first: the caller may begin its next run when it hears */
    forking->on_done(forking->user, run_id, status);
    free_forking(forking);
    leave(runs);
}

static void fail(struct agt_forking *forking, enum rpc_code code, const char *message)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, code, "%s", message);
    finish(forking, NULL, &status);
}

static void on_written(struct agt_store_batch *batch, int error)
{
    struct agt_forking *forking = batch->user;
    const struct agt_store_run row = {
        .run_id = batch->run_id,
        .spec = batch->spec,
        .spec_size = batch->spec_size,
        .fence = AGT_STORE_FIRST_FENCE,
    };
    struct cr_err err = CR_ERR_INIT;

    if (error < 0) {
        fail(forking, RPC_UNAVAILABLE, "the journal cannot take the new run now; try again");
        agt_fork_free(batch);
        return;
    }
    error = agt_engine_take_up(forking->runs->options.engine, &row, agt_runs_on_loaded,
                               forking->runs, &err);
    if (error == 0) {
        finish(forking, batch->run_id, NULL);
        agt_fork_free(batch);
        return;
    }
    /* It is stored, and this process would hold it with nobody at work on it. */
    agt_fork_take_back(batch);
    forking->runs->options.store->ops->append(forking->runs->options.store, batch);
    fail(forking, RPC_UNAVAILABLE, "the new run cannot be taken up now; try again");
}

static void on_read(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct agt_forking *forking = user;
    CR_AUTO_FREE uint8_t *packed = take_packed;
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_store *store = forking->runs->options.store;
    struct agt_store_batch *batch = NULL;

    /* What follows has one of these less in memory, and a place among the runs. */
    agt_runs_export_done(forking->runs, forking->caller);
    if (error < 0) {
        agt_runs_export_status(error, &status);
        finish(forking, NULL, &status);
        return;
    }
    if (agt_fork_make(packed, size, forking->seq, forking->hint, &batch, &status) < 0) {
        finish(forking, NULL, &status);
        return;
    }
    batch->on_done = on_written;
    batch->user = forking;
    store->ops->append(store, batch);
}

int agt_runs_fork(struct agt_runs *runs, const char *caller, const struct agt_runs_fork *from,
                  void (*on_done)(void *user, const char *run_id, const struct rpc_status *status),
                  void *user, struct rpc_status *ret_status)
{
    struct agt_forking *forking;
    int r = agt_engine_check_room(runs->options.engine, ret_status);

    if (r < 0)
        return r;
    forking = new_forking(runs, caller, from->hint);
    if (!forking)
        return agt_runs_out_of_memory(ret_status);
    forking->seq = from->seq;
    forking->on_done = on_done;
    forking->user = user;
    r = enter(forking, ret_status);
    if (r < 0) {
        free_forking(forking);
        return r;
    }
    r = agt_runs_export(runs, caller, from->run_id, on_read, forking, ret_status);
    if (r < 0) {
        unlink_forking(forking);
        free_forking(forking);
        leave(runs);
    }
    return r;
}
