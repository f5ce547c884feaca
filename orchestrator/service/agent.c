/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/agent.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/service/exchange.h"
#include "orchestrator/service/export.h"
#include "orchestrator/service/fork.h"
#include "orchestrator/service/models.h"
#include "orchestrator/service/runs.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "rpc/tokens.h"

#include <string.h>

#define METHOD(name) "/crisol.agent.v1.AgentService/" name
#define HEALTH_PREFIX "/grpc.health.v1.Health/"

bool agt_service_authorize(void *context, const struct rpc_call *call, char caller[64],
                           struct rpc_status *ret_status)
{
    const struct agt_service *service = context;
    const struct rpc_peer *peer = rpc_call_peer(call);
    const char *authorization = NULL;
    size_t size = 0;

    if (!service->tokens || peer->is_unix || peer->is_certified ||
        strncmp(rpc_call_path(call), HEALTH_PREFIX, sizeof(HEALTH_PREFIX) - 1) == 0)
        return true;
    (void)rpc_call_metadata(call, "authorization", &authorization, &size);
    if (rpc_tokens_find(service->tokens, authorization, size, caller))
        return true;
    rpc_status_set(ret_status, RPC_UNAUTHENTICATED,
                   "send a token of this service as metadata: authorization: Bearer TOKEN");
    return false;
}

static void on_generate(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__GenerateRequest *request = (const void *)message;
    struct agt_ask ask = {
        .task = request->task,
        .max_iterations = request->max_iterations,
        .model = request->model,
        .limits = request->sandbox_limits,
        .terms = request->terms,
        .verify = (int)request->verify,
        .interrupts = request->interrupt_after,
        .interrupt_count = request->n_interrupt_after,
        .on_disconnect = (int)request->on_disconnect,
        .is_stream = false,
    };

    agt_exchange_start(call, &ask);
}

static void on_generate_stream(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__GenerateStreamRequest *request = (const void *)message;
    struct agt_ask ask = {
        .task = request->task,
        .max_iterations = request->max_iterations,
        .model = request->model,
        .limits = request->sandbox_limits,
        .terms = request->terms,
        .verify = (int)request->verify,
        .interrupts = request->interrupt_after,
        .interrupt_count = request->n_interrupt_after,
        .on_disconnect = (int)request->on_disconnect,
        .is_stream = true,
    };

    agt_exchange_start(call, &ask);
}

const struct rpc_method agt_service_methods[] = {
    {
        .path = METHOD("Generate"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__generate_request__descriptor,
        .response = &crisol__agent__v1__generate_response__descriptor,
        .on_message = on_generate,
        .on_wake = agt_exchange_pump,
        .on_cancel = agt_exchange_cancel,
        .on_free = agt_exchange_free,
    },
    {
        .path = METHOD("GenerateStream"),
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__agent__v1__generate_stream_request__descriptor,
        .response = &crisol__agent__v1__generate_stream_response__descriptor,
        .on_message = on_generate_stream,
        .on_writable = agt_exchange_pump,
        .on_wake = agt_exchange_pump,
        .on_cancel = agt_exchange_cancel,
        .on_free = agt_exchange_free,
    },
    {
        .path = METHOD("DescribeGraph"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__describe_graph_request__descriptor,
        .response = &crisol__agent__v1__describe_graph_response__descriptor,
        .on_message = agt_service_describe_graph,
    },
    {
        .path = METHOD("SubmitRun"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__submit_run_request__descriptor,
        .response = &crisol__agent__v1__submit_run_response__descriptor,
        .on_message = agt_service_submit_run,
        .on_wake = agt_exchange_pump,
        .on_cancel = agt_exchange_cancel,
        .on_free = agt_exchange_free,
    },
    {
        .path = METHOD("GetRun"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__get_run_request__descriptor,
        .response = &crisol__agent__v1__get_run_response__descriptor,
        .on_message = agt_service_get_run,
    },
    {
        .path = METHOD("ListRuns"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__list_runs_request__descriptor,
        .response = &crisol__agent__v1__list_runs_response__descriptor,
        .on_message = agt_service_list_runs,
    },
    {
        .path = METHOD("WatchRun"),
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__agent__v1__watch_run_request__descriptor,
        .response = &crisol__agent__v1__watch_run_response__descriptor,
        .on_message = agt_service_watch_run,
        .on_writable = agt_exchange_pump,
        .on_wake = agt_exchange_pump,
        .on_cancel = agt_exchange_cancel,
        .on_free = agt_exchange_free,
    },
    {
        .path = METHOD("CancelRun"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__cancel_run_request__descriptor,
        .response = &crisol__agent__v1__cancel_run_response__descriptor,
        .on_message = agt_service_cancel_run,
        .on_wake = agt_service_cancel_answer,
        .on_free = agt_service_cancel_free,
    },
    {
        .path = METHOD("ExportRun"),
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__agent__v1__export_run_request__descriptor,
        .response = &crisol__agent__v1__export_run_response__descriptor,
        .on_message = agt_service_export_run,
        .on_writable = agt_service_export_pump,
        .on_wake = agt_service_export_pump,
        .on_free = agt_service_export_free,
    },
    {
        .path = METHOD("ResumeRun"),
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__agent__v1__resume_run_request__descriptor,
        .response = &crisol__agent__v1__resume_run_response__descriptor,
        .on_message = agt_service_resume_run,
        .on_writable = agt_exchange_pump,
        .on_wake = agt_exchange_pump,
        .on_cancel = agt_exchange_cancel,
        .on_free = agt_exchange_free,
    },
    {
        .path = METHOD("ForkRun"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__fork_run_request__descriptor,
        .response = &crisol__agent__v1__fork_run_response__descriptor,
        .on_message = agt_service_fork_run,
        .on_wake = agt_service_fork_answer,
        .on_free = agt_service_fork_free,
    },
    {
        .path = METHOD("DeleteRun"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__delete_run_request__descriptor,
        .response = &crisol__agent__v1__delete_run_response__descriptor,
        .on_message = agt_service_delete_run,
    },
    {
        .path = METHOD("ListModels"),
        .kind = RPC_UNARY,
        .request = &crisol__agent__v1__list_models_request__descriptor,
        .response = &crisol__agent__v1__list_models_response__descriptor,
        .on_message = agt_service_list_models,
        .on_wake = agt_service_models_pump,
        .on_free = agt_service_models_free,
    },
    {.path = NULL},
};
