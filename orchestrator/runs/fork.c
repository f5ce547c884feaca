/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/fork.h"

#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

/* On its way: the run is read, its beginning is written as a new run, which is taken up. */
struct forking {
    struct agt_runs *runs; /* borrowed: it waits for us */
    uint32_t seq;
    void (*on_done)(void *user, const char *run_id, const struct rpc_status *status);
    void *user;
};

static void count(struct agt_runs *runs, int change)
{
    (void)pthread_mutex_lock(&runs->lock);
    runs->forks += (uint32_t)change;
    (void)pthread_cond_broadcast(&runs->forked);
    (void)pthread_mutex_unlock(&runs->lock);
}

static void finish(struct forking *forking, const char *run_id, const struct rpc_status *status)
{
    struct agt_runs *runs = forking->runs;

    forking->on_done(forking->user, run_id, status);
    free(forking);
    count(runs, -1);
}

static void fail(struct forking *forking, enum rpc_code code, const char *message)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, code, "%s", message);
    finish(forking, NULL, &status);
}

static void on_written(struct agt_store_batch *batch, int error)
{
    struct forking *forking = batch->user;
    const struct agt_store_run row = {
        .run_id = batch->run_id,
        .spec = batch->spec,
        .spec_size = batch->spec_size,
        .fence = AGT_STORE_FIRST_FENCE,
    };
    struct cr_err err = CR_ERR_INIT;

    if (error == 0)
        error = agt_engine_take_up(forking->runs->options.engine, &row, agt_runs_on_loaded,
                                   forking->runs, &err);
    if (error < 0)
        fail(forking, RPC_UNAVAILABLE, "the journal cannot take the new run now; try again");
    else
        finish(forking, batch->run_id, NULL);
    agt_fork_free(batch);
}

static void on_read(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct forking *forking = user;
    CR_AUTO_FREE uint8_t *packed = take_packed;
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_store *store = forking->runs->options.store;
    struct agt_store_batch *batch = NULL;

    if (error < 0) {
        fail(forking, RPC_UNAVAILABLE, "the journal cannot be read now; try again");
        return;
    }
    if (agt_fork_make(packed, size, forking->seq, &batch, &status) < 0) {
        finish(forking, NULL, &status);
        return;
    }
    batch->on_done = on_written;
    batch->user = forking;
    store->ops->append(store, batch);
}

int agt_runs_fork(struct agt_runs *runs, const char *caller, const char *run_id, uint32_t seq,
                  void (*on_done)(void *user, const char *run_id, const struct rpc_status *status),
                  void *user, struct rpc_status *ret_status)
{
    struct forking *forking;
    int r = agt_engine_check_room(runs->options.engine, ret_status);

    if (r < 0)
        return r;
    forking = calloc(1, sizeof(*forking));
    if (!forking)
        return agt_runs_out_of_memory(ret_status);
    *forking = (struct forking){runs, seq, on_done, user};
    count(runs, 1);
    r = agt_runs_export(runs, caller, run_id, on_read, forking, ret_status);
    if (r < 0) {
        free(forking);
        count(runs, -1);
    }
    return r;
}
