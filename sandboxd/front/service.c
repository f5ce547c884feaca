/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/service.h"

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/artifact_calls.h"
#include "sandboxd/front/batch.h"
#include "sandboxd/front/call.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/interactive.h"
#include "sandboxd/front/sandbox_calls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEALTH_PREFIX "/grpc.health.v1.Health/"

void sbx_service_init(struct sbx_service *service, struct sbx_backend *backend,
                      const struct sbx_auth *auth, struct sbx_audit *audit,
                      struct sbx_sandboxes *sandboxes, struct sbx_tails *tails)
{
    *service = (struct sbx_service){
        .backend = backend, .auth = *auth, .audit = audit, .sandboxes = sandboxes, .tails = tails};
    (void)pthread_mutex_init(&service->lock, NULL); /* cannot fail with default attributes */
}

void sbx_service_done(struct sbx_service *service)
{
    sbx_recall_done(&service->recall);
    sbx_artifacts_done(&service->artifacts);
    (void)pthread_mutex_destroy(&service->lock);
}

void sbx_service_set_version(struct sbx_service *service, uint32_t runtime, const char *version)
{
    (void)pthread_mutex_lock(&service->lock);
    (void)snprintf(service->versions[runtime], SBX_VERSION_TEXT_MAX, "%s", version);
    (void)pthread_mutex_unlock(&service->lock);
}

void sbx_service_add(struct sbx_service *service, struct sbx_live *entry)
{
    (void)pthread_mutex_lock(&service->lock);
    entry->next = service->live;
    service->live = entry;
    (void)pthread_mutex_unlock(&service->lock);
}

void sbx_service_remove(struct sbx_service *service, struct sbx_live *entry)
{
    struct sbx_live **slot = &service->live;

    (void)pthread_mutex_lock(&service->lock);
    while (*slot && *slot != entry)
        slot = &(*slot)->next;
    if (*slot)
        *slot = entry->next;
    (void)pthread_mutex_unlock(&service->lock);
}

static bool is_meant(const struct sbx_execution *execution, const char *caller,
                     const char *execution_id, const char *request_id)
{
    if (strcmp(sbx_execution_caller(execution), caller) != 0)
        return false;
    if (*execution_id)
        return strcmp(sbx_execution_id(execution), execution_id) == 0;
    return *request_id && strcmp(sbx_execution_request_id(execution), request_id) == 0;
}

bool sbx_service_cancel(struct sbx_service *service, const char *caller, const char *execution_id,
                        const char *request_id)
{
    bool found = false;

    (void)pthread_mutex_lock(&service->lock);
    for (struct sbx_live *entry = service->live; entry; entry = entry->next) {
        if (is_meant(entry->execution, caller, execution_id, request_id)) {
            sbx_execution_cancel(entry->execution, false);
            found = true;
        }
    }
    (void)pthread_mutex_unlock(&service->lock);
    return found;
}

bool sbx_service_authorize(void *context, const struct rpc_call *call, char caller[64],
                           struct rpc_status *status)
{
    const struct sbx_service *service = context;
    const char *authorization = NULL;
    size_t size = 0;

    if (strncmp(rpc_call_path(call), HEALTH_PREFIX, sizeof(HEALTH_PREFIX) - 1) == 0)
        return true;
    (void)rpc_call_metadata(call, "authorization", &authorization, &size);
    return sbx_auth_decide(&service->auth, rpc_call_peer(call), authorization, size, caller,
                           status);
}

/* ---- the other methods ---- */

static void on_cancel_request(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__CancelRequest *message =
        (const Crisol__Sandbox__V1__CancelRequest *)(const void *)base;
    Crisol__Sandbox__V1__CancelResponse response = CRISOL__SANDBOX__V1__CANCEL_RESPONSE__INIT;
    struct rpc_status status = RPC_STATUS_INIT;

    if (!*message->execution_id == !*message->request_id)
        rpc_status_add_violation(&status, "execution_id",
                                 "set exactly one of execution_id and request_id");
    if (status.code != RPC_OK) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    response.found = sbx_service_cancel(rpc_call_context(call), rpc_call_peer(call)->caller,
                                        message->execution_id, message->request_id);
    rpc_call_finish(call, NULL, &response.base);
}

static void on_list_runtimes(struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    sbx_service_list_runtimes(call);
}

static void on_get_capabilities(struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    sbx_service_get_capabilities(call);
}

#define PATH(name) "/crisol.sandbox.v1.SandboxService/" name
#define TYPE(name) &crisol__sandbox__v1__##name##__descriptor

const struct rpc_method sbx_service_methods[] = {
    {.path = PATH("Execute"),
     .kind = RPC_SERVER_STREAM,
     .request = TYPE(execute_request),
     .response = TYPE(execute_response),
     .on_message = sbx_call_execute,
     .on_writable = sbx_call_pump,
     .on_wake = sbx_call_pump,
     .on_cancel = sbx_call_cancel,
     .on_free = sbx_call_free},
    /* RunRequest is ExecuteRequest field for field (a test compares them), so one type reads both.
     */
    {.path = PATH("Run"),
     .kind = RPC_UNARY,
     .request = TYPE(execute_request),
     .response = TYPE(run_response),
     .on_message = sbx_call_run,
     .on_wake = sbx_call_pump,
     .on_cancel = sbx_call_cancel,
     .on_free = sbx_call_free},
    {.path = PATH("RunBatch"),
     .kind = RPC_BIDI,
     .request = TYPE(run_batch_request),
     .response = TYPE(run_batch_response),
     .on_start = sbx_batch_start,
     .on_message = sbx_batch_message,
     .on_half_close = sbx_batch_half_close,
     .on_writable = sbx_batch_pump,
     .on_wake = sbx_batch_pump,
     .on_cancel = sbx_batch_cancel,
     .on_free = sbx_batch_free},
    {.path = PATH("Cancel"),
     .kind = RPC_UNARY,
     .request = TYPE(cancel_request),
     .response = TYPE(cancel_response),
     .on_message = on_cancel_request},
    {.path = PATH("ListRuntimes"),
     .kind = RPC_UNARY,
     .request = TYPE(list_runtimes_request),
     .response = TYPE(list_runtimes_response),
     .on_message = on_list_runtimes},
    {.path = PATH("GetCapabilities"),
     .kind = RPC_UNARY,
     .request = TYPE(get_capabilities_request),
     .response = TYPE(get_capabilities_response),
     .on_message = on_get_capabilities},
    {.path = PATH("ExecuteInteractive"),
     .kind = RPC_BIDI,
     .request = TYPE(execute_interactive_request),
     .response = TYPE(execute_interactive_response),
     .on_message = sbx_interactive_message,
     .on_half_close = sbx_interactive_half_close,
     .on_writable = sbx_interactive_pump,
     .on_wake = sbx_interactive_pump,
     .on_cancel = sbx_call_cancel,
     .on_free = sbx_call_free},
    {.path = PATH("Attach"),
     .kind = RPC_SERVER_STREAM,
     .request = TYPE(attach_request),
     .response = TYPE(attach_response),
     .on_message = sbx_call_attach,
     .on_writable = sbx_call_pump,
     .on_wake = sbx_call_pump,
     .on_cancel = sbx_call_cancel,
     .on_free = sbx_call_free},
    {.path = PATH("WriteArtifact"),
     .kind = RPC_BIDI,
     .request = TYPE(write_artifact_request),
     .response = TYPE(write_artifact_response),
     .on_start = sbx_artifact_start,
     .on_message = sbx_artifact_message,
     .on_half_close = sbx_artifact_half_close,
     .on_free = sbx_artifact_free},
    {.path = PATH("ListArtifacts"),
     .kind = RPC_UNARY,
     .request = TYPE(list_artifacts_request),
     .response = TYPE(list_artifacts_response),
     .on_message = sbx_artifact_list},
    {.path = PATH("DeleteArtifact"),
     .kind = RPC_UNARY,
     .request = TYPE(delete_artifact_request),
     .response = TYPE(delete_artifact_response),
     .on_message = sbx_artifact_delete},
    {.path = PATH("CreateSandbox"),
     .kind = RPC_UNARY,
     .request = TYPE(create_sandbox_request),
     .response = TYPE(create_sandbox_response),
     .on_message = sbx_sandbox_create},
    {.path = PATH("ExecuteInSandbox"),
     .kind = RPC_SERVER_STREAM,
     .request = TYPE(execute_in_sandbox_request),
     .response = TYPE(execute_in_sandbox_response),
     .on_message = sbx_sandbox_execute,
     .on_writable = sbx_call_pump,
     .on_wake = sbx_call_pump,
     .on_cancel = sbx_call_cancel,
     .on_free = sbx_call_free},
    {.path = PATH("WriteFiles"),
     .kind = RPC_BIDI,
     .request = TYPE(write_files_request),
     .response = TYPE(write_files_response),
     .on_start = sbx_sandbox_write_start,
     .on_message = sbx_sandbox_write_message,
     .on_half_close = sbx_sandbox_write_half_close,
     .on_wake = sbx_sandbox_files_pump,
     .on_cancel = sbx_sandbox_files_cancel,
     .on_free = sbx_sandbox_files_free},
    {.path = PATH("ReadFiles"),
     .kind = RPC_SERVER_STREAM,
     .request = TYPE(read_files_request),
     .response = TYPE(read_files_response),
     .on_message = sbx_sandbox_read,
     .on_writable = sbx_sandbox_files_pump,
     .on_wake = sbx_sandbox_files_pump,
     .on_cancel = sbx_sandbox_files_cancel,
     .on_free = sbx_sandbox_files_free},
    {.path = PATH("ListSandboxes"),
     .kind = RPC_UNARY,
     .request = TYPE(list_sandboxes_request),
     .response = TYPE(list_sandboxes_response),
     .on_message = sbx_sandbox_list},
    {.path = PATH("DeleteSandbox"),
     .kind = RPC_UNARY,
     .request = TYPE(delete_sandbox_request),
     .response = TYPE(delete_sandbox_response),
     .on_message = sbx_sandbox_delete},
    {.path = NULL},
};
