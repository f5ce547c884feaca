/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/call.h"

#include "common/err.h"
#include "common/log.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/request.h"

#include <stdlib.h>

#define RETRY_MS 1000
#define RUN_OUTPUT_MAX (16U << 20) /* per stream: Run keeps it in memory and sends it at once */

void sbx_call_pump(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (!state || rpc_call_is_cancelled(call))
        return;
    if (!state->is_submitted) {
        if (state->record)
            sbx_call_pump_waiter(call, state);
    } else if (state->is_run) {
        sbx_call_pump_run(call, state);
    } else {
        sbx_call_pump_stream(call, state);
    }
}

/* ---- Execute and Run: request in ---- */

static void wake_call(void *user)
{
    rpc_call_wake(user);
}

static void release_call(void *user)
{
    (void)rpc_call_unref(user);
}

static void finish_without_backend(struct rpc_call *call)
{
    static const struct sbx_outcome outcome = {
        .refusal = RPC_UNAVAILABLE,
        .refusal_text = "the sandbox backend is not running; it is being started",
        .refusal_reason = "NO_BACKEND",
        .retry_after_ms = RETRY_MS,
    };

    sbx_call_finish_refused(call, &outcome);
}

static struct sbx_call *new_state(struct rpc_call *call, const struct sbx_request *request,
                                  const struct sbx_msg_hello *hello)
{
    struct sbx_call *state = calloc(1, sizeof(*state));

    if (!state)
        return NULL;
    state->service = rpc_call_context(call);
    state->waiter = (struct sbx_waiter){.wake = wake_call, .user = call};
    cr_buf_init(&state->chunk, SBX_CHUNK_MAX);
    cr_buf_init(&state->outputs[0], (size_t)request->limits.value[SBX_LIMIT_OUTPUT]);
    cr_buf_init(&state->outputs[1], (size_t)request->limits.value[SBX_LIMIT_OUTPUT]);
    sbx_policy_fill(&state->policy, request, hello);
    return state;
}

static void free_state(struct sbx_call *state)
{
    sbx_call_drop_record(state); /* nothing after its end: whoever vanished leaves no answer */
    if (state->record)
        sbx_record_leave(state->record, &state->waiter);
    (void)sbx_record_unref(state->record);
    cr_buf_done(&state->chunk);
    cr_buf_done(&state->outputs[0]);
    cr_buf_done(&state->outputs[1]);
    sbx_execution_unref(state->execution);
    free(state);
}

void sbx_call_submit(struct rpc_call *call, struct sbx_call *state)
{
    state->is_submitted = true;
    state->entry.execution = state->execution;
    sbx_service_add(state->service, &state->entry);
    (void)rpc_call_ref(call); /* the waker's, until the stream thread is done with it */
    sbx_execution_submit(state->execution, state->service->backend);
}

static void start(struct rpc_call *call, const Crisol__Sandbox__V1__ExecuteRequest *message,
                  const struct sbx_request *request, struct sbx_call *state)
{
    struct sbx_waker waker = {wake_call, release_call, call};
    bool has_id = *message->request_id != '\0';
    struct cr_err err = CR_ERR_INIT;
    char caller[64];

    sbx_auth_caller(rpc_call_peer(call), caller);
    if (sbx_execution_new(message, request, caller, &waker, &state->execution, &err) < 0 ||
        (has_id && sbx_recall_digest(rpc_call_path(call), message, state->digest) < 0)) {
        cr_log_error("make an execution error=%s", err.text);
        free_state(state);
        sbx_call_finish_out_of_memory(call);
        return;
    }
    sbx_execution_set_policy(state->execution, state->policy.digest);
    rpc_call_set_user(call, state);
    if (has_id)
        sbx_call_claim(call, state);
    else
        sbx_call_submit(call, state);
}

static void audit_refused(struct rpc_call *call, const Crisol__Sandbox__V1__ExecuteRequest *message,
                          enum rpc_code code, const char *reason)
{
    const struct sbx_service *service = rpc_call_context(call);
    char caller[64];

    sbx_auth_caller(rpc_call_peer(call), caller);
    sbx_audit_refused(service->audit, caller, message->request_id, code, reason);
}

static void on_request(struct rpc_call *call, const ProtobufCMessage *base, bool is_run)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message =
        (const Crisol__Sandbox__V1__ExecuteRequest *)(const void *)base;
    const struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_msg_hello hello;
    struct sbx_request_rules rules;
    struct sbx_request request;
    struct sbx_call *state;

    if (!sbx_backend_hello(service->backend, &hello)) {
        audit_refused(call, message, RPC_UNAVAILABLE, "NO_BACKEND");
        finish_without_backend(call);
        return;
    }
    rules = (struct sbx_request_rules){.maximum = hello.maximum,
                                       .runtimes = sbx_service_runtimes(service, &hello),
                                       .backend = (Crisol__Sandbox__V1__Backend)hello.backend};
    if (is_run && rules.maximum.value[SBX_LIMIT_OUTPUT] > RUN_OUTPUT_MAX)
        rules.maximum.value[SBX_LIMIT_OUTPUT] = RUN_OUTPUT_MAX;
    if (sbx_request_check(message, &rules, &request, &status) < 0) {
        audit_refused(call, message, status.code, status.reason);
        rpc_call_finish(call, &status, NULL);
        return;
    }
    state = new_state(call, &request, &hello);
    if (!state) {
        sbx_call_finish_out_of_memory(call);
        return;
    }
    state->is_run = is_run;
    start(call, message, &request, state);
}

void sbx_call_execute(struct rpc_call *call, const ProtobufCMessage *message)
{
    on_request(call, message, false);
}

void sbx_call_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    on_request(call, message, true);
}

void sbx_call_cancel(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (!state)
        return;
    sbx_call_drop_record(state);
    if (state->is_submitted)
        sbx_execution_cancel(state->execution, true);
}

void sbx_call_free(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (!state)
        return;
    sbx_service_remove(state->service, &state->entry);
    free_state(state);
}
