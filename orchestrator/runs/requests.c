/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

/*
 * What is asked of a run that another process holds goes through the store:
 * a row for each request, which the holder finds at its next look. It stays
 * until the run shows that it was done, so that a holder that dies in between
 * leaves it to the next one. A process leaves such a row for itself, too,
 * when a durable run is cancelled: a restart does not forget it.
 */

/* In the store: the numbers stay. */
enum {
    REQUEST_CANCEL = 1, /* seq 0, no payload */
    REQUEST_RESUME = 2, /* seq of the interrupt; a packed Resumed */
};

/* A request on its way into the store. */
struct sending {
    struct agt_store_batch batch; /* first */
    struct agt_store_request request;
    uint8_t *payload;    /* owned; NULL: none */
    struct agt_run *run; /* a reference */
    agt_runs_on_stored_request on_stored;
    void *user;
};

static void free_sending(struct sending *sending)
{
    (void)agt_run_unref(sending->run);
    free(sending->payload);
    free(sending);
}

static void on_sent(struct agt_store_batch *batch, int error)
{
    struct sending *sending = (struct sending *)(void *)batch;

    if (error < 0)
        cr_log_warn("runs: a request to the holder of a run was not stored errno=%d run=%s", -error,
                    batch->run_id);
    if (error < 0 && sending->request.kind == REQUEST_RESUME)
        agt_guest_take_back_resume(sending->run, sending->request.seq);
    sending->on_stored(sending->user, error);
    free_sending(sending);
}

/* Takes the payload. Returns 1, or -ENOMEM. */
static int leave(struct agt_runs *runs, struct agt_run *run,
                 const struct agt_store_request *request, uint8_t *take_payload,
                 agt_runs_on_stored_request on_stored, void *user)
{
    struct sending *sending = calloc(1, sizeof(*sending));

    if (!sending) {
        free(take_payload);
        return -ENOMEM;
    }
    (void)memccpy(sending->batch.run_id, agt_run_id(run), '\0', sizeof(sending->batch.run_id) - 1);
    sending->run = agt_run_ref(run);
    sending->payload = take_payload;
    sending->on_stored = on_stored;
    sending->user = user;
    sending->request = *request;
    sending->request.run_id = sending->batch.run_id;
    sending->request.payload = take_payload;
    sending->batch.request = &sending->request;
    sending->batch.on_done = on_sent;
    runs->options.store->ops->append(runs->options.store, &sending->batch);
    return 1;
}

static bool is_held_elsewhere(const struct agt_run *run)
{
    return agt_run_is_guest(run) && !agt_run_has_ended(run);
}

/* Whoever holds the run finds nothing while the store takes nothing in. */
static int refuse_unreachable(struct rpc_status *ret_status)
{
    agt_runs_stored_status(-EHOSTUNREACH, ret_status);
    return -EHOSTUNREACH;
}

static void ignore(void *user, int error)
{
    (void)user;
    (void)error; /* on_sent has said it */
}

int agt_runs_cancel(struct agt_runs *runs, struct agt_run *run,
                    agt_runs_on_stored_request on_stored, void *user, struct rpc_status *ret_status)
{
    const struct agt_store_request request = {.kind = REQUEST_CANCEL};
    struct agt_store *store = runs->options.store;
    bool is_elsewhere = is_held_elsewhere(run);
    bool is_waited_for = store && store->ops->is_accepting(store);
    int r = 0;

    if (is_elsewhere && !is_waited_for)
        return refuse_unreachable(ret_status);
    if (!agt_run_has_ended(run) && store && store->ops->load_requests)
        r = leave(runs, run, &request, NULL, is_waited_for ? on_stored : ignore, user);
    if (r < 0 && is_elsewhere)
        return agt_runs_out_of_memory(ret_status);
    agt_run_cancel(run); /* does nothing where it is not held */
    return r > 0 && is_waited_for;
}

int agt_runs_resume(struct agt_runs *runs, struct agt_run *run, const struct agt_edits *edits,
                    uint32_t *ret_seq, agt_runs_on_stored_request on_stored, void *user,
                    struct rpc_status *ret_status)
{
    struct agt_store_request request = {.kind = REQUEST_RESUME};
    uint8_t *packed = NULL;
    int r;

    if (!is_held_elsewhere(run))
        return agt_run_resume(run, edits, ret_seq, ret_status);
    if (!runs->options.store->ops->is_accepting(runs->options.store))
        return refuse_unreachable(ret_status);
    r = agt_guest_pack_resume(run, edits, &packed, &request.size, ret_seq, ret_status);
    if (r < 0)
        return r;
    request.seq = *ret_seq;
    r = leave(runs, run, &request, packed, on_stored, user);
    if (r < 0) {
        agt_guest_take_back_resume(run, *ret_seq);
        return agt_runs_out_of_memory(ret_status);
    }
    return r;
}

void agt_runs_stored_status(int error, struct rpc_status *ret_status)
{
    (void)error; /* whatever it was, the journal is the one that knows */
    rpc_status_set(ret_status, RPC_UNAVAILABLE,
                   "the journal cannot take the request now; ask again");
    ret_status->retry_after_ms = 1000;
}

/* ---- of others, to this process; the store's thread, or the start ---- */

static struct agt_run *find_held(struct agt_runs *runs, const char *run_id)
{
    const struct agt_runs_entry *entry;
    struct agt_run *run = NULL;

    (void)pthread_mutex_lock(&runs->lock);
    entry = agt_runs_find_entry(runs, run_id);
    if (entry && !agt_run_is_guest(entry->run) && !agt_run_is_left(entry->run))
        run = agt_run_ref(entry->run);
    (void)pthread_mutex_unlock(&runs->lock);
    return run;
}

/* 1: settled. */
static int do_request(struct agt_run *run, const struct agt_store_request *request)
{
    int r;

    switch (request->kind) {
    case REQUEST_CANCEL:
        agt_run_cancel(run);
        return agt_run_has_ended(run);
    case REQUEST_RESUME:
        if (agt_run_seq(run) > request->seq)
            return 1; /* the run went on behind the interrupt */
        r = agt_run_resume_packed(run, request->seq, request->payload, request->size);
        /* Not yet there again after a restart, or done and not yet durable: once more. */
        return r == 0 || r == -EBUSY || r == -ENOMEM ? 0 : 1;
    default:
        return 0; /* of a newer program */
    }
}

static int on_request(void *user, const struct agt_store_request *request)
{
    struct agt_run *run = find_held(user, request->run_id);
    int r;

    if (!run)
        return 0; /* it was just taken over, and is being read */
    r = do_request(run, request);
    (void)agt_run_unref(run);
    return r;
}

void agt_runs_take_requests(struct agt_runs *runs)
{
    struct agt_store *store = runs->options.store;
    struct cr_err err = CR_ERR_INIT;

    if (store->ops->load_requests && store->ops->load_requests(store, on_request, runs, &err) < 0)
        cr_log_warn("runs: cannot read what is asked of the runs (%s), trying again", err.text);
}
