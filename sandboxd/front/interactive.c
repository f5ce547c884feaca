/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/interactive.h"

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/request.h"
#include "sandboxd/wire/msg.h"

#include <inttypes.h>

#define CHUNK_MAX (64U << 10)
#define SIZE_MAX_CELLS 4096U

static uint32_t features(struct rpc_call *call)
{
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_msg_hello hello;

    return sbx_backend_hello(service->backend, &hello) ? hello.features : 0;
}

/* The call ends with `status`, and so does its program. */
static void end_with(struct rpc_call *call, const struct rpc_status *status)
{
    struct sbx_call *state = rpc_call_user(call);

    if (state)
        sbx_call_abandon(state);
    rpc_call_finish(call, status, NULL);
}

/* ---- the first message ---- */

static void check_size(const Crisol__Sandbox__V1__TerminalSize *size, const char *field,
                       struct rpc_status *status)
{
    if (size->columns == 0 || size->columns > SIZE_MAX_CELLS || size->rows == 0 ||
        size->rows > SIZE_MAX_CELLS)
        rpc_status_add_violation(
            status, field, "%" PRIu32 " columns and %" PRIu32 " rows are not between 1 and %u",
            size->columns, size->rows, SIZE_MAX_CELLS);
}

static void check_start(struct rpc_call *call,
                        const Crisol__Sandbox__V1__ExecuteInteractiveRequest *message,
                        struct rpc_status *status)
{
    if (message->input_case != CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_START) {
        rpc_status_add_violation(status, "start", "is required with the first message");
        return;
    }
    if (*message->start->request_id)
        rpc_status_add_violation(status, "start.request_id",
                                 "is not for interactive calls: they cannot be repeated");
    if (!message->terminal)
        return;
    check_size(message->terminal, "terminal", status);
    if (status->code == RPC_OK && !(features(call) & SBX_FEATURE_TERMINAL))
        rpc_status_set(status, RPC_UNIMPLEMENTED,
                       "terminal: this backend gives programs no terminal; leave the field out, "
                       "and they get pipes");
}

static void start(struct rpc_call *call,
                  const Crisol__Sandbox__V1__ExecuteInteractiveRequest *message)
{
    struct sbx_call_order order = {.kind = SBX_CALL_INTERACTIVE};
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_call *state = NULL;

    check_start(call, message, &status);
    if (status.code == RPC_OK) {
        order.message = message->start;
        if (message->terminal) {
            order.columns = (uint16_t)message->terminal->columns;
            order.rows = (uint16_t)message->terminal->rows;
        }
        state = sbx_call_new(call, &order, &status);
        if (!state)
            sbx_request_name_part(&status, "start");
    }
    if (!state) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_set_user(call, state);
    sbx_call_begin(call, state);
}

/* ---- the others ---- */

static void give_input(struct rpc_call *call, const struct sbx_call *state,
                       const ProtobufCBinaryData *data)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (data->len > CHUNK_MAX) {
        rpc_status_add_violation(&status, "stdin_data", "is larger than 64 KiB");
        end_with(call, &status);
    } else if (sbx_execution_add_input(state->execution, data->data, data->len) < 0) {
        sbx_call_no_memory(&status);
        end_with(call, &status);
    }
}

static void give_signal(struct rpc_call *call, const struct sbx_call *state, int32_t number)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (number < 1 || number > (int32_t)SBX_SIGNAL_MAX) {
        rpc_status_add_violation(&status, "signal", "%" PRId32 " is not between 1 and %u", number,
                                 SBX_SIGNAL_MAX);
        end_with(call, &status);
    } else if (!(features(call) & SBX_FEATURE_SIGNALS)) {
        rpc_status_set(&status, RPC_UNIMPLEMENTED,
                       "signal: this backend passes no signals on; Cancel kills the program");
        end_with(call, &status);
    } else {
        sbx_execution_signal(state->execution, (uint32_t)number);
    }
}

static void give_size(struct rpc_call *call, const struct sbx_call *state,
                      const Crisol__Sandbox__V1__TerminalSize *size)
{
    struct rpc_status status = RPC_STATUS_INIT;

    check_size(size, "resize", &status);
    if (!(sbx_execution_request(state->execution)->flags & SBX_RUN_HAS_TERMINAL))
        rpc_status_add_violation(&status, "resize", "is for programs that were given a terminal");
    if (status.code != RPC_OK)
        end_with(call, &status);
    else
        sbx_execution_resize(state->execution, (uint16_t)size->columns, (uint16_t)size->rows);
}

static void go_on(struct rpc_call *call, const struct sbx_call *state,
                  const Crisol__Sandbox__V1__ExecuteInteractiveRequest *message)
{
    struct rpc_status status = RPC_STATUS_INIT;

    switch (message->input_case) {
    case CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_STDIN_DATA:
        give_input(call, state, &message->stdin_data);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_CLOSE_STDIN:
        if (message->close_stdin)
            sbx_execution_close_input(state->execution);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_SIGNAL:
        give_signal(call, state, message->signal);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_RESIZE:
        give_size(call, state, message->resize);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_START:
        rpc_status_add_violation(&status, "start", "belongs to the first message alone");
        end_with(call, &status);
        break;
    default:
        break; /* nothing is nothing */
    }
}

/* Reads the next message, unless the program is behind. */
static void read_on(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (!state || !state->must_read || rpc_call_is_cancelled(call) ||
        !sbx_execution_wants_input(state->execution))
        return;
    state->must_read = false;
    rpc_call_read(call);
}

void sbx_interactive_message(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__ExecuteInteractiveRequest *message =
        (const Crisol__Sandbox__V1__ExecuteInteractiveRequest *)(const void *)base;
    struct sbx_call *state = rpc_call_user(call);

    if (state)
        go_on(call, state, message);
    else
        start(call, message);
    state = rpc_call_user(call);
    if (state)
        state->must_read = true;
    read_on(call);
}

void sbx_interactive_half_close(struct rpc_call *call)
{
    const struct sbx_call *state = rpc_call_user(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (state) {
        sbx_execution_close_input(state->execution);
        return;
    }
    rpc_status_add_violation(&status, "start", "is required with the first message");
    rpc_call_finish(call, &status, NULL);
}

void sbx_interactive_pump(struct rpc_call *call)
{
    sbx_call_pump(call);
    read_on(call);
}
