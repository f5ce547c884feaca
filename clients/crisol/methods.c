/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/methods.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"

const struct rpc_client_method cli_method_execute = {
    "/crisol.sandbox.v1.SandboxService/Execute",
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__execute_response__descriptor,
};

/* RunRequest is ExecuteRequest field for field, so one message serves both. */
const struct rpc_client_method cli_method_run = {
    "/crisol.sandbox.v1.SandboxService/Run",
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__run_response__descriptor,
};

const struct rpc_client_method cli_method_execute_interactive = {
    "/crisol.sandbox.v1.SandboxService/ExecuteInteractive",
    &crisol__sandbox__v1__execute_interactive_request__descriptor,
    &crisol__sandbox__v1__execute_interactive_response__descriptor,
};

const struct rpc_client_method cli_method_run_batch = {
    "/crisol.sandbox.v1.SandboxService/RunBatch",
    &crisol__sandbox__v1__run_batch_request__descriptor,
    &crisol__sandbox__v1__run_batch_response__descriptor,
};

const struct rpc_client_method cli_method_get_capabilities = {
    "/crisol.sandbox.v1.SandboxService/GetCapabilities",
    &crisol__sandbox__v1__get_capabilities_request__descriptor,
    &crisol__sandbox__v1__get_capabilities_response__descriptor,
};

const struct rpc_client_method cli_method_generate_stream = {
    "/crisol.agent.v1.AgentService/GenerateStream",
    &crisol__agent__v1__generate_stream_request__descriptor,
    &crisol__agent__v1__generate_stream_response__descriptor,
};

const struct rpc_client_method cli_method_submit_run = {
    "/crisol.agent.v1.AgentService/SubmitRun",
    &crisol__agent__v1__submit_run_request__descriptor,
    &crisol__agent__v1__submit_run_response__descriptor,
};

const struct rpc_client_method cli_method_list_runs = {
    "/crisol.agent.v1.AgentService/ListRuns",
    &crisol__agent__v1__list_runs_request__descriptor,
    &crisol__agent__v1__list_runs_response__descriptor,
};

const struct rpc_client_method cli_method_watch_run = {
    "/crisol.agent.v1.AgentService/WatchRun",
    &crisol__agent__v1__watch_run_request__descriptor,
    &crisol__agent__v1__watch_run_response__descriptor,
};

const struct rpc_client_method cli_method_resume_run = {
    "/crisol.agent.v1.AgentService/ResumeRun",
    &crisol__agent__v1__resume_run_request__descriptor,
    &crisol__agent__v1__resume_run_response__descriptor,
};

const struct rpc_client_method cli_method_fork_run = {
    "/crisol.agent.v1.AgentService/ForkRun",
    &crisol__agent__v1__fork_run_request__descriptor,
    &crisol__agent__v1__fork_run_response__descriptor,
};

const struct rpc_client_method cli_method_cancel_run = {
    "/crisol.agent.v1.AgentService/CancelRun",
    &crisol__agent__v1__cancel_run_request__descriptor,
    &crisol__agent__v1__cancel_run_response__descriptor,
};

const struct rpc_client_method cli_method_delete_run = {
    "/crisol.agent.v1.AgentService/DeleteRun",
    &crisol__agent__v1__delete_run_request__descriptor,
    &crisol__agent__v1__delete_run_response__descriptor,
};

const struct rpc_client_method cli_method_export_run = {
    "/crisol.agent.v1.AgentService/ExportRun",
    &crisol__agent__v1__export_run_request__descriptor,
    &crisol__agent__v1__export_run_response__descriptor,
};

const struct rpc_client_method cli_method_health_check = {
    "/grpc.health.v1.Health/Check",
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
};
