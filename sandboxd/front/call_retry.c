/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/execution.h"

void sbx_call_drop_record(struct sbx_call *state)
{
    if (state->record && state->is_owner)
        sbx_record_drop(state->record);
}

void sbx_call_keep(struct sbx_call *state, const ProtobufCMessage *message)
{
    if (state->record && state->is_owner)
        sbx_record_add(state->record, message);
}

/* The whole answer is there. What the service broke, a retry may try again. */
void sbx_call_end_record(struct sbx_call *state)
{
    enum sbx_verdict verdict = sbx_execution_outcome(sbx_call_last(state))->result.verdict;

    if (!state->record || !state->is_owner)
        return;
    if (verdict == SBX_VERDICT_SANDBOX_ERROR || verdict == SBX_VERDICT_SANDBOX_LOST)
        sbx_record_drop(state->record);
    else
        sbx_record_end(state->record, cr_clock_mono_ns());
}

/* The last message of a kept answer ends the call. Returns false when there is no memory for it. */
static bool finish_replay(struct rpc_call *call, const struct sbx_call *state, const uint8_t *data,
                          size_t size)
{
    const ProtobufCMessageDescriptor *events =
        state->is_wrapped ? &crisol__sandbox__v1__execute_in_sandbox_response__descriptor
                          : &crisol__sandbox__v1__execute_response__descriptor;
    const ProtobufCMessageDescriptor *type =
        state->is_run ? &crisol__sandbox__v1__run_response__descriptor : events;
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, size, data);

    if (!message)
        return false;
    sbx_call_finish(call, state, NULL, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

static void pump_replay(struct rpc_call *call, struct sbx_call *state)
{
    const uint8_t *data;
    size_t size;

    /* Run's one message ends it; for an item of a batch, whether the call can send is no matter. */
    while ((state->is_run || rpc_call_can_send(call)) &&
           sbx_record_next(state->record, &state->replay_at, &data, &size)) {
        if (!sbx_record_is_last(state->record, state->replay_at)) {
            (void)rpc_call_send_packed(call, data, size);
        } else if (!finish_replay(call, state, data, size)) {
            sbx_call_finish_out_of_memory(call, state);
        }
    }
}

static void finish_exists(struct rpc_call *call, const struct sbx_call *state, const char *reason,
                          const char *text)
{
    const struct sbx_outcome outcome = {
        .refusal = RPC_ALREADY_EXISTS, .refusal_text = text, .refusal_reason = reason};

    sbx_audit_refused(state->service->audit, sbx_execution_caller(state->execution),
                      sbx_execution_request_id(state->execution), outcome.refusal, reason);
    sbx_call_finish_refused(call, state, &outcome);
}

static void finish_not_kept(struct rpc_call *call, const struct sbx_call *state)
{
    finish_exists(call, state, "RESULT_NOT_KEPT",
                  "request_id: this request has run, but its answer was too large to be kept for "
                  "a retry; send it with another request_id to run it again");
}

void sbx_call_claim(struct rpc_call *call, struct sbx_call *state)
{
    const struct sbx_recall_key key = {.caller = sbx_execution_caller(state->execution),
                                       .request_id = sbx_execution_request_id(state->execution),
                                       .digest = state->digest};
    int r = sbx_recall_claim(&state->service->recall, &key, cr_clock_mono_ns(), &state->waiter,
                             &state->record);

    switch (r) {
    case SBX_CLAIM_OWN:
        state->is_owner = true;
        sbx_call_submit(call, state);
        break;
    case SBX_CLAIM_WAIT:
        break;
    case SBX_CLAIM_ANSWERED:
        pump_replay(call, state);
        break;
    case SBX_CLAIM_NOT_KEPT:
        finish_not_kept(call, state);
        break;
    case SBX_CLAIM_OTHER:
        finish_exists(call, state, "REQUEST_ID_REUSED",
                      "request_id: was used for another request; take a new one for each request");
        break;
    default:
        sbx_call_finish_out_of_memory(call, state);
        break;
    }
}

/* The call that runs the same request has ended, one way or the other. */
void sbx_call_pump_waiter(struct rpc_call *call, struct sbx_call *state)
{
    if (!sbx_record_is_known(state->record)) {
        state->record = sbx_record_unref(state->record);
        sbx_call_claim(call, state);
    } else if (sbx_record_has_ended(state->record)) {
        if (sbx_record_is_kept(state->record))
            pump_replay(call, state);
        else
            finish_not_kept(call, state);
    }
}
