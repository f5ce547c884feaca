/* SPDX-License-Identifier: Apache-2.0 */
#include "common/unconst.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/runs/runs.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef Crisol__Agent__V1__ListModelsResponse list;

/* Written by the provider's thread before is_there. */
struct models {
    uint8_t *packed; /* a list; owned. NULL: there is none */
    size_t size;
    struct rpc_status status;
    atomic_bool is_there;
};

/* The names are gone after the return. */
static void pack(struct models *models, const char *const *names, size_t count)
{
    list response = CRISOL__AGENT__V1__LIST_MODELS_RESPONSE__INIT;

    response.n_models = count;
    response.models = (char **)cr_unconst(names);
    if (rpc_pack(&response.base, &models->packed, &models->size) < 0)
        rpc_status_set(&models->status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
}

static void on_models(void *user, const struct rpc_status *status, const char *const *names,
                      size_t count)
{
    struct agt_exchange *exchange = user;
    struct models *models = exchange->user;

    models->status = *status;
    if (status->code == RPC_OK)
        pack(models, names, count);
    atomic_store(&models->is_there, true);
    agt_exchange_wake(exchange);
    (void)agt_exchange_unref(exchange);
}

static void fail(struct agt_exchange *exchange, const struct rpc_status *status)
{
    struct agt_problem problem;

    agt_problem_from_status(&problem, status);
    agt_exchange_fail(exchange, &problem);
}

static void answer(struct agt_exchange *exchange)
{
    const struct models *models = exchange->user;
    list *response;
    int r = -ENOMEM;

    if (exchange->http_status != 0 || !atomic_load(&models->is_there))
        return;
    if (models->status.code != RPC_OK) {
        fail(exchange, &models->status);
        return;
    }
    response = crisol__agent__v1__list_models_response__unpack(NULL, models->size, models->packed);
    if (response)
        r = agt_json_add_message(&exchange->out, &response->base, true);
    crisol__agent__v1__list_models_response__free_unpacked(response, NULL);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the answer", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

static void leave(struct agt_exchange *exchange)
{
    (void)exchange; /* the provider answers within its own deadline, for nobody */
}

static void free_models(void *user)
{
    struct models *models = user;

    free(models->packed);
    free(models);
}

static const struct agt_operation operation = {
    .on_wake = answer,
    .stop = leave,
    .free = free_models,
};

void agt_handle_models(struct agt_exchange *exchange)
{
    struct models *models = calloc(1, sizeof(*models));
    struct rpc_status status = RPC_STATUS_INIT;

    if (!models) {
        agt_exchange_fail_internal(exchange, "list the models", -ENOMEM);
        return;
    }
    exchange->user = models;
    exchange->operation = &operation;
    (void)agt_exchange_ref(exchange);
    if (agt_runs_list_models(exchange->http->options.runs, on_models, exchange, &status) == 0)
        return;
    fail(exchange, &status);
    (void)agt_exchange_unref(exchange);
}
