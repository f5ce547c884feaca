/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/fork.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/service/agent.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct fork {
    char run_id[33]; /* written by the store's thread before is_there */
    struct rpc_status status;
    atomic_bool is_there;
};

/* The store's thread. */
static void on_done(void *user, const char *run_id, const struct rpc_status *status)
{
    struct rpc_call *call = user;
    struct fork *fork = rpc_call_user(call);

    if (run_id)
        (void)memccpy(fork->run_id, run_id, '\0', sizeof(fork->run_id) - 1);
    else
        fork->status = *status;
    atomic_store(&fork->is_there, true);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

void agt_service_fork_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ForkRunRequest *request = (const void *)message;
    const struct agt_service *service = rpc_call_context(call);
    const struct agt_runs_fork from = {.run_id = request->run_id, .seq = request->seq};
    struct fork *fork = calloc(1, sizeof(*fork));
    struct rpc_status status = RPC_STATUS_INIT;

    if (!fork) {
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_set_user(call, fork);
    (void)rpc_call_ref(call);
    if (agt_runs_fork(service->runs, rpc_call_peer(call)->caller, &from, on_done, call, &status) ==
        0)
        return;
    rpc_call_finish(call, &status, NULL);
    (void)rpc_call_unref(call);
}

void agt_service_fork_answer(struct rpc_call *call)
{
    Crisol__Agent__V1__ForkRunResponse response = CRISOL__AGENT__V1__FORK_RUN_RESPONSE__INIT;
    struct fork *fork = rpc_call_user(call);

    if (!fork || !atomic_load(&fork->is_there))
        return;
    response.run_id = fork->run_id;
    if (fork->run_id[0])
        rpc_call_finish(call, NULL, &response.base);
    else
        rpc_call_finish(call, &fork->status, NULL);
}

void agt_service_fork_free(struct rpc_call *call)
{
    free(rpc_call_user(call));
    rpc_call_set_user(call, NULL);
}
