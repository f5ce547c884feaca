/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/export.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/service/agent.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PIECE_BYTES ((size_t)256 << 10)

struct export
{
    uint8_t *data; /* owned; written by the store's thread before is_there */
    size_t size;
    size_t sent;
    int error;
    bool is_counted; /* to be given back */
    atomic_bool is_there;
};

static void fail(struct rpc_call *call, int error)
{
    struct rpc_status status = RPC_STATUS_INIT;

    agt_runs_export_status(error, &status);
    rpc_call_finish(call, &status, NULL);
}

/* The store's thread. */
static void on_done(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct rpc_call *call = user;
    struct export *export = rpc_call_user(call);

    export->data = take_packed;
    export->size = size;
    export->error = error;
    atomic_store(&export->is_there, true);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

void agt_service_export_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ExportRunRequest *request = (const void *)message;
    const struct agt_service *service = rpc_call_context(call);
    struct export *export = calloc(1, sizeof(*export));
    struct rpc_status status = RPC_STATUS_INIT;

    if (!export) {
        fail(call, -ENOMEM);
        return;
    }
    rpc_call_set_user(call, export);
    (void)rpc_call_ref(call);
    export->is_counted = true;
    if (agt_runs_export(service->runs, rpc_call_peer(call)->caller, request->run_id, on_done, call,
                        &status) == 0)
        return;
    export->is_counted = false;
    rpc_call_finish(call, &status, NULL);
    (void)rpc_call_unref(call);
}

void agt_service_export_pump(struct rpc_call *call)
{
    struct export *export = rpc_call_user(call);

    if (!export || !atomic_load(&export->is_there))
        return;
    if (export->error < 0) {
        fail(call, export->error);
        return;
    }
    while (export->sent < export->size && rpc_call_can_send(call)) {
        Crisol__Agent__V1__ExportRunResponse piece = CRISOL__AGENT__V1__EXPORT_RUN_RESPONSE__INIT;
        size_t left = export->size - export->sent;

        piece.data.data = export->data + export->sent;
        piece.data.len = left < PIECE_BYTES ? left : PIECE_BYTES;
        if (!rpc_call_send(call, &piece.base))
            return;
        export->sent += piece.data.len;
    }
    if (export->sent == export->size)
        rpc_call_finish(call, NULL, NULL); /* follows what is on its way */
}

void agt_service_export_free(struct rpc_call *call)
{
    const struct agt_service *service = rpc_call_context(call);
    struct export *export = rpc_call_user(call);

    if (!export)
        return;
    if (export->is_counted)
        agt_runs_export_done(service->runs, rpc_call_peer(call)->caller);
    free(export->data);
    free(export);
    rpc_call_set_user(call, NULL);
}
