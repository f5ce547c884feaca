/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/compile.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/request.h"
#include "sandboxd/front/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_MS 1000

void sbx_call_finish(struct rpc_call *call, const struct sbx_call *state,
                     const struct rpc_status *status, const ProtobufCMessage *last)
{
    if (state->answer.take)
        state->answer.take(state->answer.user, status, last);
    else
        rpc_call_finish(call, status, last);
}

void sbx_call_refusal(const struct sbx_outcome *outcome, struct rpc_status *ret_status)
{
    rpc_status_set(ret_status, outcome->refusal, "%s", outcome->refusal_text);
    ret_status->retry_after_ms = outcome->retry_after_ms;
    if (outcome->refusal_reason)
        (void)snprintf(ret_status->reason, sizeof(ret_status->reason), "%s",
                       outcome->refusal_reason);
}

void sbx_call_no_memory(struct rpc_status *ret_status)
{
    rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED,
                   "the service is out of memory; try again later");
    ret_status->retry_after_ms = RETRY_MS;
}

void sbx_call_finish_refused(struct rpc_call *call, const struct sbx_call *state,
                             const struct sbx_outcome *outcome)
{
    struct rpc_status status = RPC_STATUS_INIT;

    sbx_call_refusal(outcome, &status);
    sbx_call_finish(call, state, &status, NULL);
}

void sbx_call_finish_out_of_memory(struct rpc_call *call, const struct sbx_call *state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    sbx_call_no_memory(&status);
    sbx_call_finish(call, state, &status, NULL);
}

/* An event as its method sends it: as it is, or alone in a message. All of these are alike. */
static const ProtobufCMessage *wrap(struct sbx_call *state,
                                    Crisol__Sandbox__V1__ExecuteResponse *response,
                                    Crisol__Sandbox__V1__ExecuteInSandboxResponse *outer)
{
    response->execution_id = cr_unconst(sbx_execution_id(state->execution));
    response->seq = state->seq++;
    if (!state->is_wrapped)
        return &response->base;
    crisol__sandbox__v1__execute_in_sandbox_response__init(outer);
    outer->event = response;
    return &outer->base;
}

static void send_event(struct rpc_call *call, struct sbx_call *state,
                       Crisol__Sandbox__V1__ExecuteResponse *response)
{
    Crisol__Sandbox__V1__ExecuteInSandboxResponse outer;
    const ProtobufCMessage *message = wrap(state, response, &outer);

    sbx_call_keep(state, message);
    (void)rpc_call_send(call, message); /* cannot fail: can_send was asked before */
}

/* That of a tail is there for every call that reads it. */
static struct sbx_policy *policy_of(struct sbx_call *state)
{
    return state->tail ? &state->tail->policy : &state->policy;
}

static void send_started(struct rpc_call *call, struct sbx_call *state)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Started started = CRISOL__SANDBOX__V1__STARTED__INIT;
    uint64_t queue_us = sbx_execution_queue_us(state->execution);

    started.policy = &policy_of(state)->message;
    started.queue_us = queue_us > UINT32_MAX ? UINT32_MAX : (uint32_t)queue_us;
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED;
    response.started = &started;
    send_event(call, state, &response);
}

/* A terminal has one stream, which comes by the pipe of standard output. */
static Crisol__Sandbox__V1__OutputStream stream_of(const struct sbx_call *state,
                                                   const struct sbx_event *event)
{
    return sbx_execution_request(state->execution)->flags & SBX_RUN_HAS_TERMINAL
               ? CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_TERMINAL
               : (Crisol__Sandbox__V1__OutputStream)event->stream;
}

/* Returns false when there is no memory for the text. */
static bool send_output(struct rpc_call *call, struct sbx_call *state,
                        const struct sbx_event *event)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;
    CR_AUTO_BUF struct cr_buf text;

    cr_buf_init(&text, (size_t)3 * SBX_CHUNK_MAX); /* each ill-formed byte becomes three */
    output.stream = stream_of(state, event);
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

    truncated.stream = stream_of(state, event);
    truncated.dropped_bytes = event->dropped;
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_TRUNCATED;
    response.truncated = &truncated;
    send_event(call, state, &response);
}

static void send_lost(struct rpc_call *call, struct sbx_call *state, const struct sbx_event *event)
{
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Lost lost = CRISOL__SANDBOX__V1__LOST__INIT;

    lost.stream = stream_of(state, event);
    lost.offset = event->offset;
    lost.lost_bytes = event->dropped;
    response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_LOST;
    response.lost = &lost;
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
    sbx_call_keep(state, &response.base);
    sbx_call_finish(call, state, NULL, &response.base);
    return true;
}

/* Of the program, or of the compile stage when that was the end. */
static int fill_result(struct sbx_call *state, struct sbx_result *result)
{
    struct sbx_compile *compile = state->compile;
    int r;

    if (!compile)
        return sbx_result_fill(result, state->execution, policy_of(state));
    r = sbx_result_fill(result, sbx_call_last(state),
                        compile->has_failed ? &compile->policy : &state->policy);
    return r == 0 ? sbx_compile_tell(compile, result) : r;
}

static void finish_with_result(struct rpc_call *call, struct sbx_call *state)
{
    Crisol__Sandbox__V1__ExecuteInSandboxResponse outer;
    Crisol__Sandbox__V1__ExecuteResponse response = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    struct sbx_result *result = malloc(sizeof(*result));
    bool is_done = false;

    if (result && fill_result(state, result) == 0) {
        if (state->is_run) {
            is_done = finish_run(call, state, &result->message);
        } else {
            const ProtobufCMessage *message = wrap(state, &response, &outer);

            response.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT;
            response.result = &result->message;
            sbx_call_keep(state, message);
            sbx_call_finish(call, state, NULL, message);
            is_done = true;
        }
    }
    if (result)
        sbx_result_done(result);
    free(result);
    if (is_done) {
        sbx_call_end_record(state);
        return;
    }
    sbx_call_drop_record(state);
    sbx_call_finish_out_of_memory(call, state);
}

static void on_ended(struct rpc_call *call, struct sbx_call *state)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(sbx_call_last(state));

    sbx_service_remove(state->service, &state->entry);
    if (outcome->refusal == RPC_OK) {
        finish_with_result(call, state);
        return;
    }
    sbx_call_drop_record(state);
    sbx_call_finish_refused(call, state, outcome);
}

/* Not enough memory for the output: nobody gets half of it as if it were all. */
static void give_up(struct rpc_call *call, struct sbx_call *state)
{
    sbx_call_drop_record(state);
    sbx_execution_cancel(state->execution, true);
    sbx_call_finish_out_of_memory(call, state);
}

/* What the stage left does not fit the files of the request, which only a strange one does. */
static void refuse_compiled(struct rpc_call *call, struct sbx_call *state, int error)
{
    static const struct sbx_outcome too_large = {
        .refusal = RPC_OUT_OF_RANGE,
        .refusal_text = "what the compile stage made and the files are more than 8 MiB together",
        .refusal_reason = "COMPILED_TOO_LARGE",
    };
    static const struct sbx_outcome clash = {
        .refusal = RPC_FAILED_PRECONDITION,
        .refusal_text = "what the compile stage made clashes with the path of a file",
        .refusal_reason = "COMPILED_CLASHES",
    };

    sbx_call_drop_record(state);
    if (error == -ENOSPC || error == -EEXIST)
        sbx_call_finish_refused(call, state, error == -EEXIST ? &clash : &too_large);
    else
        sbx_call_finish_out_of_memory(call, state);
}

bool sbx_call_pump_compile(struct rpc_call *call, struct sbx_call *state)
{
    struct sbx_compile *compile = state->compile;
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (compile->is_over)
        return true;
    if (!sbx_compile_take(compile))
        return false;
    if (!sbx_compile_is_good(compile)) {
        compile->has_failed = true;
        on_ended(call, state);
        return false;
    }
    compile->is_over = true;
    sbx_service_remove(state->service, &state->entry);
    r = sbx_call_go_on(call, state, &err);
    if (r < 0) {
        cr_log_debug("cannot run what was compiled error=\"%s\"", err.text);
        refuse_compiled(call, state, r);
    }
    return r == 0;
}

void sbx_call_pump_stream(struct rpc_call *call, struct sbx_call *state)
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

static void finish_displaced(struct rpc_call *call, const struct sbx_call *state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, RPC_ABORTED, "another call has taken up this output");
    (void)snprintf(status.reason, sizeof(status.reason), "ATTACHED_ELSEWHERE");
    sbx_call_finish(call, state, &status, NULL);
}

/* One step. Returns false when there is nothing more to do now. */
static bool pump_tail(struct rpc_call *call, struct sbx_call *state)
{
    struct sbx_event event;

    switch (sbx_tail_next(state->tail, call, &state->cursor, &state->chunk, &event)) {
    case SBX_TAIL_STARTED:
        send_started(call, state);
        return true;
    case SBX_TAIL_LOST:
        send_lost(call, state, &event);
        return true;
    case SBX_TAIL_DATA:
        if (send_output(call, state, &event))
            return true;
        cr_buf_clear(&state->chunk);
        sbx_call_finish_out_of_memory(call, state);
        break;
    case SBX_TAIL_TRUNCATED:
        send_truncated(call, state, &event);
        return true;
    case SBX_TAIL_ENDED:
        on_ended(call, state);
        break;
    case SBX_TAIL_DISPLACED:
        finish_displaced(call, state);
        return false;
    case SBX_TAIL_NONE:
    default:
        return false;
    }
    sbx_tail_detach(state->tail, call);
    return false;
}

void sbx_call_pump_tail(struct rpc_call *call, struct sbx_call *state)
{
    bool goes_on = true;

    while (goes_on && rpc_call_can_send(call))
        goes_on = pump_tail(call, state);
}

/* Run keeps everything up to the caps and sends once. */
void sbx_call_pump_run(struct rpc_call *call, struct sbx_call *state)
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
