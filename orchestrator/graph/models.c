/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/engine.h"

#include <stdlib.h>

#define DEADLINE_MS 15000

struct asked {
    agt_engine_on_models on_models;
    void *user;
};

/* The ends of a question about the provider, told to whoever asked us. */
static enum rpc_code code_of(enum agt_model_end end)
{
    switch (end) {
    case AGT_MODEL_OK:
        return RPC_OK;
    case AGT_MODEL_AUTH:
    case AGT_MODEL_BAD_REQUEST:
        return RPC_FAILED_PRECONDITION;
    case AGT_MODEL_QUOTA:
        return RPC_RESOURCE_EXHAUSTED;
    case AGT_MODEL_DEADLINE:
        return RPC_DEADLINE_EXCEEDED;
    default:
        return RPC_UNAVAILABLE;
    }
}

static void on_list(void *user, const struct agt_model_list *list)
{
    struct asked *asked = user;
    struct rpc_status status = RPC_STATUS_INIT;

    if (list->end != AGT_MODEL_OK)
        rpc_status_set(&status, code_of(list->end), "%s", list->message);
    asked->on_models(asked->user, &status, list->names, list->count);
    free(asked);
}

int agt_engine_list_models(struct agt_engine *engine, agt_engine_on_models on_models, void *user,
                           struct rpc_status *ret_status)
{
    struct agt_model *model = agt_engine_options(engine)->model;
    struct asked *asked = calloc(1, sizeof(*asked));
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!asked || !model->ops->list) {
        free(asked);
        rpc_status_set(ret_status, RPC_UNIMPLEMENTED, "the provider has no list of models");
        return -ENOSYS;
    }
    *asked = (struct asked){on_models, user};
    r = model->ops->list(model, cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS, on_list, asked,
                         &err);
    if (r == 0)
        return 0;
    free(asked);
    rpc_status_set(ret_status, r == -ENOKEY ? RPC_FAILED_PRECONDITION : RPC_UNAVAILABLE, "%s",
                   err.text);
    return r;
}
