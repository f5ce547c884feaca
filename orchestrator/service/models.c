/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/models.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/service/agent.h"
#include "rpc/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Written by the provider's thread before is_there, read by ours after it. */
struct models {
    struct rpc_status status;
    char **names;
    size_t count;
    atomic_bool is_there;
};

static void copy_names(struct models *models, const char *const *names, size_t count)
{
    models->names = calloc(count + 1, sizeof(*models->names));
    for (size_t i = 0; models->names && i < count; i++) {
        models->names[i] = strdup(names[i]);
        if (!models->names[i])
            break;
        models->count++;
    }
    if (models->count < count)
        rpc_status_set(&models->status, RPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void on_models(void *user, const struct rpc_status *status, const char *const *names,
                      size_t count)
{
    struct rpc_call *call = user;
    struct models *models = rpc_call_user(call);

    models->status = *status;
    if (status->code == RPC_OK)
        copy_names(models, names, count);
    atomic_store(&models->is_there, true);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

void agt_service_list_models(struct rpc_call *call, const ProtobufCMessage *message)
{
    const struct agt_service *service = rpc_call_context(call);
    struct models *models = calloc(1, sizeof(*models));
    struct rpc_status status = RPC_STATUS_INIT;

    (void)message;
    if (!models) {
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_set_user(call, models);
    (void)rpc_call_ref(call);
    if (agt_runs_list_models(service->runs, on_models, call, &status) == 0)
        return;
    rpc_call_finish(call, &status, NULL);
    (void)rpc_call_unref(call);
}

void agt_service_models_pump(struct rpc_call *call)
{
    Crisol__Agent__V1__ListModelsResponse response = CRISOL__AGENT__V1__LIST_MODELS_RESPONSE__INIT;
    const struct models *models = rpc_call_user(call);

    if (!models || !atomic_load(&models->is_there))
        return;
    if (models->status.code != RPC_OK) {
        rpc_call_finish(call, &models->status, NULL);
        return;
    }
    response.models = models->names;
    response.n_models = models->count;
    rpc_call_finish(call, NULL, &response.base);
}

void agt_service_models_free(struct rpc_call *call)
{
    struct models *models = rpc_call_user(call);

    if (!models)
        return;
    for (size_t i = 0; i < models->count; i++)
        free(models->names[i]);
    free(models->names);
    free(models);
    rpc_call_set_user(call, NULL);
}
