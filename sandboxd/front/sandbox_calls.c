/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/sandbox_calls.h"

#include "common/unconst.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/sandbox_request.h"
#include "sandboxd/front/sandboxes.h"

#define LIST_MAX 64U

/* A Sandbox with what it points to. */
struct row {
    Crisol__Sandbox__V1__Sandbox message;
    Crisol__Sandbox__V1__Limits limits;
};

static void fill_row(struct row *row, const struct sbx_sandbox_info *info)
{
    size_t count;

    crisol__sandbox__v1__sandbox__init(&row->message);
    crisol__sandbox__v1__limits__init(&row->limits);
    sbx_limits_write(&info->limits, &row->limits);
    row->message.sandbox_id = cr_unconst(info->id);
    row->message.runtime = cr_unconst(sbx_runtimes(&count)[info->runtime].name);
    row->message.remaining_ms = info->remaining_ms;
    row->message.idle_remaining_ms = info->idle_remaining_ms;
    row->message.limits = &row->limits;
    row->message.calls = info->calls;
    row->message.is_busy = info->is_busy;
}

void sbx_sandbox_create(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__CreateSandboxRequest *message =
        (const Crisol__Sandbox__V1__CreateSandboxRequest *)(const void *)base;
    Crisol__Sandbox__V1__CreateSandboxResponse response =
        CRISOL__SANDBOX__V1__CREATE_SANDBOX_RESPONSE__INIT;
    struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_sandbox_info info = {.runtime = 0};
    struct sbx_sandbox_plan plan;
    struct sbx_msg_hello hello;
    struct row row;

    if (!sbx_backend_hello(service->backend, &hello)) {
        sbx_call_no_backend(&status);
    } else if (sbx_sandbox_check_create(message, &hello, &plan, &status) == 0) {
        plan.caller = rpc_call_peer(call)->caller;
        (void)sbx_sandboxes_create(service->sandboxes, &plan, &hello, &info, &status);
    }
    if (status.code != RPC_OK) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    sbx_backend_nudge(service->backend);
    fill_row(&row, &info);
    response.sandbox = &row.message;
    rpc_call_finish(call, NULL, &response.base);
}

void sbx_sandbox_list(struct rpc_call *call, const ProtobufCMessage *base)
{
    Crisol__Sandbox__V1__ListSandboxesResponse response =
        CRISOL__SANDBOX__V1__LIST_SANDBOXES_RESPONSE__INIT;
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_sandbox_info infos[LIST_MAX];
    Crisol__Sandbox__V1__Sandbox *list[LIST_MAX];
    struct row rows[LIST_MAX];

    (void)base;
    response.n_sandboxes =
        sbx_sandboxes_list(service->sandboxes, rpc_call_peer(call)->caller, infos, LIST_MAX);
    for (size_t i = 0; i < response.n_sandboxes; i++) {
        fill_row(&rows[i], &infos[i]);
        list[i] = &rows[i].message;
    }
    response.sandboxes = list;
    rpc_call_finish(call, NULL, &response.base);
}

void sbx_sandbox_delete(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__DeleteSandboxRequest *message =
        (const Crisol__Sandbox__V1__DeleteSandboxRequest *)(const void *)base;
    Crisol__Sandbox__V1__DeleteSandboxResponse response =
        CRISOL__SANDBOX__V1__DELETE_SANDBOX_RESPONSE__INIT;
    const struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (!*message->sandbox_id) {
        rpc_status_add_violation(&status, "sandbox_id", "is required");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    response.found =
        sbx_sandboxes_delete(service->sandboxes, rpc_call_peer(call)->caller, message->sandbox_id);
    if (response.found)
        sbx_backend_nudge(service->backend);
    rpc_call_finish(call, NULL, &response.base);
}

/* The sandbox of a call, entered, or NULL with `status` filled in. */
static struct sbx_sandbox *enter(struct rpc_call *call,
                                 const Crisol__Sandbox__V1__ExecuteInSandboxRequest *message,
                                 struct rpc_status *status)
{
    const struct sbx_service *service = rpc_call_context(call);

    if (!*message->sandbox_id)
        rpc_status_add_violation(status, "sandbox_id", "is required");
    if (!message->request)
        rpc_status_add_violation(status, "request", "is required: say what to run");
    if (status->code != RPC_OK)
        return NULL;
    return sbx_sandboxes_enter(service->sandboxes, rpc_call_peer(call)->caller, message->sandbox_id,
                               status);
}

void sbx_sandbox_execute(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__ExecuteInSandboxRequest *message =
        (const Crisol__Sandbox__V1__ExecuteInSandboxRequest *)(const void *)base;
    struct sbx_call_order order = {.kind = SBX_CALL_SANDBOX, .message = message->request};
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_call *state = NULL;

    order.sandbox = enter(call, message, &status);
    if (order.sandbox)
        state = sbx_call_new(call, &order, &status);
    if (!state) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_set_user(call, state);
    sbx_call_begin(call, state);
}
