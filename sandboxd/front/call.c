/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/call.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/request.h"
#include "sandboxd/front/result.h"
#include "sandboxd/front/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 1000
#define RUN_OUTPUT_MAX (16U << 20) /* per stream: Run keeps it in memory and sends it at once */

/* An Execute or Run call. */
struct sbx_call {
    struct sbx_live entry; /* in the service's list */
    struct sbx_service *service;
    struct sbx_execution *execution;
    struct sbx_policy policy;
    bool is_run;
    uint32_t seq;
    struct cr_buf chunk;      /* Execute: bytes of one event; Run: unused */
    struct cr_buf outputs[2]; /* Run: everything */
};

/* ---- Execute and Run: events out ---- */

static void finish_refused(struct rpc_call *call, const struct sbx_outcome *outcome)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, outcome->refusal, "%s", outcome->refusal_text);
    status.retry_after_ms = outcome->retry_after_ms;
    if (outcome->refusal_reason)
        (void)snprintf(status.reason, sizeof(status.reason), "%s", outcome->refusal_reason);
    rpc_call_finish(call, &status, NULL);
}

static void finish_out_of_memory(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED,
                   "the service is out of memory; try again later");
    status.retry_after_ms = RETRY_MS;
    rpc_call_finish(call, &status, NULL);
}

static void send_event(struct rpc_call *call, struct sbx_call *state,
                       Crisol__Sandbox__V1__ExecuteResponse *response)
{
    response->execution_id = cr_unconst(sbx_execution_id(state->execution));
    response->seq = state->seq++;
    (void)rpc_call_send(call, &response->base); /* cannot fail: can_send was asked before */
}

static void send_started(struct rpc_call *call, struct sbx_call *state)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Started started = CRISOL__SANDBOX__V1__STARTED__INIT;
    uint64_t queue_us = sbx_execution_queue_us(state->execution);

    started.policy = &state->policy.message;
    started.queue_us = queue_us > UINT32_MAX ? UINT32_MAX : (uint32_t)queue_us;
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED;
    response.started = &started;
    send_event(call, state, &response);
}

/* Returns false when there is no memory for the text. */
static bool send_output(struct rpc_call *call, struct sbx_call *state,
                        const struct sbx_event *event)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;
    CR_AUTO_BUF struct cr_buf text;

    cr_buf_init(&text, (size_t)3 * SBX_CHUNK_MAX); /* each ill-formed byte becomes three */
    output.stream = (Crisol__Sandbox__V1__OutputStream)event->stream;
    output.offset = event->offset;
    output.data = (ProtobufCBinaryData){.len = state->chunk.size, .data = state->chunk.data};
    if (sbx_execution_request(state->execution)->as_text) {
        if (cr_utf8_add_lossy(&text, state->chunk.data, state->chunk.size) < 0)
            return false;
        output.text = cr_unconst(cr_buf_str(&text));
    }
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    response.output = &output;
    send_event(call, state, &response);
    cr_buf_clear(&state->chunk);
    return true;
}

static void send_truncated(struct rpc_call *call, struct sbx_call *state,
                           const struct sbx_event *event)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Truncated truncated = CRISOL__SANDBOX__V1__TRUNCATED__INIT;

    truncated.stream = (Crisol__Sandbox__V1__OutputStream)event->stream;
    truncated.dropped_bytes = event->dropped;
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_TRUNCATED;
    response.truncated = &truncated;
    send_event(call, state, &response);
}

/* The RunResponse around a result. Returns false when there is no memory for the texts. */
static bool finish_run(struct rpc_call *call, struct sbx_call *state,
                       Crisol__Sandbox__V1__ExecuteResult *result)
{
    Crisol__Sandbox__V1__RunResponse response = CRISOL__SANDBOX__V1__RUN_RESPONSE__INIT;
    struct cr_buf *outputs = state->outputs;
    CR_AUTO_BUF struct cr_buf stdout_text;
    CR_AUTO_BUF struct cr_buf stderr_text;

    cr_buf_init(&stdout_text, 3 * outputs[0].size);
    cr_buf_init(&stderr_text, 3 * outputs[1].size);
    response.result = result;
    response.stdout_data = (ProtobufCBinaryData){.len = outputs[0].size, .data = outputs[0].data};
    response.stderr_data = (ProtobufCBinaryData){.len = outputs[1].size, .data = outputs[1].data};
    if (sbx_execution_request(state->execution)->as_text) {
        if (cr_utf8_add_lossy(&stdout_text, outputs[0].data, outputs[0].size) < 0 ||
            cr_utf8_add_lossy(&stderr_text, outputs[1].data, outputs[1].size) < 0)
            return false;
        response.stdout_text = cr_unconst(cr_buf_str(&stdout_text));
        response.stderr_text = cr_unconst(cr_buf_str(&stderr_text));
    }
    rpc_call_finish(call, NULL, &response.base);
    return true;
}

static void finish_with_result(struct rpc_call *call, struct sbx_call *state)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    struct sbx_result *result = malloc(sizeof(*result));
    bool is_done = false;

    if (result && sbx_result_fill(result, state->execution, &state->policy) == 0) {
        if (state->is_run) {
            is_done = finish_run(call, state, &result->message);
        } else {
            response.execution_id = cr_unconst(sbx_execution_id(state->execution));
            response.seq = state->seq++;
            response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT;
            response.result = &result->message;
            rpc_call_finish(call, NULL, &response.base);
            is_done = true;
        }
    }
    if (result)
        sbx_result_done(result);
    free(result);
    if (!is_done)
        finish_out_of_memory(call);
}

static void on_ended(struct rpc_call *call, struct sbx_call *state)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(state->execution);

    sbx_service_remove(state->service, &state->entry);
    if (outcome->refusal != RPC_OK)
        finish_refused(call, outcome);
    else
        finish_with_result(call, state);
}

/* Not enough memory for the output: nobody gets half of it as if it were all. */
static void give_up(struct rpc_call *call, struct sbx_call *state)
{
    sbx_execution_cancel(state->execution, true);
    finish_out_of_memory(call);
}

static void pump_stream(struct rpc_call *call, struct sbx_call *state)
{
    while (rpc_call_can_send(call)) {
        struct sbx_event event = sbx_execution_take(state->execution, &state->chunk);

        switch (event.type) {
        case SBX_EVENT_NONE:
            return;
        case SBX_EVENT_STARTED:
            send_started(call, state);
            break;
        case SBX_EVENT_DATA:
            if (!send_output(call, state, &event))
                give_up(call, state);
            break;
        case SBX_EVENT_TRUNCATED:
            send_truncated(call, state, &event);
            break;
        case SBX_EVENT_ENDED:
            on_ended(call, state);
            return;
        }
    }
}

/* Run keeps everything up to the caps and sends once. */
static void pump_run(struct rpc_call *call, struct sbx_call *state)
{
    for (;;) {
        struct sbx_event event = sbx_execution_take(state->execution, &state->chunk);

        if (event.type == SBX_EVENT_NONE)
            return;
        if (event.type == SBX_EVENT_ENDED) {
            on_ended(call, state);
            return;
        }
        if (event.type == SBX_EVENT_DATA) {
            struct cr_buf *output = &state->outputs[event.stream - 1];

            if (cr_buf_add(output, state->chunk.data, state->chunk.size) < 0) {
                give_up(call, state);
                return;
            }
            cr_buf_clear(&state->chunk);
        }
    }
}

void sbx_call_pump(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (!state || rpc_call_is_cancelled(call))
        return;
    if (state->is_run)
        pump_run(call, state);
    else
        pump_stream(call, state);
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

    finish_refused(call, &outcome);
}

static struct sbx_call *new_state(struct rpc_call *call, const struct sbx_request *request,
                                  const struct sbx_msg_hello *hello)
{
    struct sbx_call *state = calloc(1, sizeof(*state));

    if (!state)
        return NULL;
    state->service = rpc_call_context(call);
    cr_buf_init(&state->chunk, SBX_CHUNK_MAX);
    cr_buf_init(&state->outputs[0], (size_t)request->limits.value[SBX_LIMIT_OUTPUT]);
    cr_buf_init(&state->outputs[1], (size_t)request->limits.value[SBX_LIMIT_OUTPUT]);
    sbx_policy_fill(&state->policy, request, hello);
    return state;
}

static void free_state(struct sbx_call *state)
{
    cr_buf_done(&state->chunk);
    cr_buf_done(&state->outputs[0]);
    cr_buf_done(&state->outputs[1]);
    sbx_execution_unref(state->execution);
    free(state);
}

static void start(struct rpc_call *call, const Crisol__Sandbox__V1__ExecuteRequest *message,
                  const struct sbx_request *request, struct sbx_call *state)
{
    struct sbx_waker waker = {wake_call, release_call, call};
    struct cr_err err = CR_ERR_INIT;
    char caller[64];

    sbx_auth_caller(rpc_call_peer(call), caller);
    if (sbx_execution_new(message, request, caller, &waker, &state->execution, &err) < 0) {
        cr_log_error("make an execution error=%s", err.text);
        free_state(state);
        finish_out_of_memory(call);
        return;
    }
    rpc_call_set_user(call, state);
    state->entry.execution = state->execution;
    sbx_service_add(state->service, &state->entry);
    (void)rpc_call_ref(call); /* the waker's, until the stream thread is done with it */
    sbx_execution_submit(state->execution, state->service->backend);
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
        finish_without_backend(call);
        return;
    }
    rules = (struct sbx_request_rules){.maximum = hello.maximum,
                                       .runtimes = sbx_service_runtimes(service, &hello),
                                       .backend = (Crisol__Sandbox__V1__Backend)hello.backend};
    if (is_run && rules.maximum.value[SBX_LIMIT_OUTPUT] > RUN_OUTPUT_MAX)
        rules.maximum.value[SBX_LIMIT_OUTPUT] = RUN_OUTPUT_MAX;
    if (sbx_request_check(message, &rules, &request, &status) < 0) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    state = new_state(call, &request, &hello);
    if (!state) {
        finish_out_of_memory(call);
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

    if (state)
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
