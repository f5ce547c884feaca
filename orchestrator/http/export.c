/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/run_start.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/runs/view.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What is stored of a run; the store has to be waited for. */
struct export
{
    uint8_t *data; /* owned; written by the store's thread before is_there */
    size_t size;
    int error;
    atomic_bool is_there;
    struct agt_runs *runs; /* which it is to be given back to; NULL: none */
    char caller[AGT_CALLER_SIZE];
};

/* The store's thread. */
static void on_done(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct agt_exchange *exchange = user;
    struct export *export = exchange->user;

    export->data = take_packed;
    export->size = size;
    export->error = error;
    atomic_store(&export->is_there, true);
    agt_exchange_wake(exchange);
    (void)agt_exchange_unref(exchange);
}

static void answer(struct agt_exchange *exchange)
{
    const struct export *export = exchange->user;
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (exchange->http_status != 0 || !atomic_load(&export->is_there))
        return;
    if (export->error < 0) {
        agt_runs_export_status(export->error, &status);
        agt_run_refuse(exchange, &status);
        return;
    }
    r = cr_buf_add(&exchange->out, export->data, export->size);
    if (r < 0) {
        agt_exchange_fail_internal(exchange, "write the answer", r);
        return;
    }
    exchange->type = "application/x-protobuf";
    exchange->file = "attachment; filename=\"run.crisol\"";
    agt_exchange_answer(exchange, MHD_HTTP_OK);
}

static void leave(struct agt_exchange *exchange)
{
    (void)exchange; /* the store reads to the end, for nobody */
}

static void free_export(void *user)
{
    struct export *export = user;

    if (export->runs)
        agt_runs_export_done(export->runs, export->caller);
    free(export->data);
    free(export);
}

static const struct agt_operation operation = {
    .on_wake = answer,
    .stop = leave,
    .free = free_export,
};

void agt_handle_run_export(struct agt_exchange *exchange)
{
    struct agt_run *run = agt_run_find_by_path(exchange);
    struct export *export = run ? calloc(1, sizeof(*export)) : NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    if (run && !export)
        agt_exchange_fail_internal(exchange, "read the run", -ENOMEM);
    if (export) {
        exchange->user = export;
        exchange->operation = &operation;
        agt_exchange_await_store(exchange);
        (void)agt_exchange_ref(exchange);
        export->runs = exchange->http->options.runs;
        memcpy(export->caller, exchange->caller, sizeof(export->caller));
        if (agt_runs_export(export->runs, exchange->caller, agt_run_id(run), on_done, exchange,
                            &status) < 0) {
            export->runs = NULL;
            agt_run_refuse(exchange, &status);
            (void)agt_exchange_unref(exchange);
        }
    }
    (void)agt_run_unref(run);
}

/* ---- the receipt ---- */

static void answer_receipt(struct agt_exchange *exchange,
                           const Crisol__Agent__V1__RunResult *result)
{
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!result->receipt) {
        rpc_status_set(&status, RPC_FAILED_PRECONDITION,
                       "run_id: the run goes on; it has a receipt once it has ended");
        agt_run_refuse(exchange, &status);
        return;
    }
    r = agt_json_add_message(&exchange->out, &result->receipt->base, true);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the answer", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

void agt_handle_run_receipt(struct agt_exchange *exchange)
{
    struct agt_run *run = agt_run_find_by_path(exchange);
    Crisol__Agent__V1__RunResult *result;

    if (!run)
        return;
    result = agt_view_result(run);
    if (result)
        answer_receipt(exchange, result);
    else
        agt_exchange_fail_internal(exchange, "write the answer", -ENOMEM);
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    (void)agt_run_unref(run);
}
