/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/call.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/callers.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/artifacts.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/compile.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/request.h"
#include "sandboxd/front/sandbox_request.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 1000
#define RUN_OUTPUT_MAX (16U << 20) /* per stream: Run keeps it in memory and sends it at once */
#define BATCH_OUTPUT_MAX (1U << 20)
#define BATCH_WALL_MS 5000

static const struct sbx_outcome no_backend = {
    .refusal = RPC_UNAVAILABLE,
    .refusal_text = "the sandbox backend is not running; it is being started",
    .refusal_reason = "NO_BACKEND",
    .retry_after_ms = RETRY_MS,
};

void sbx_call_advance(struct rpc_call *call, struct sbx_call *state)
{
    if (!state->is_submitted) {
        if (state->record)
            sbx_call_pump_waiter(call, state);
    } else if (state->tail) {
        sbx_call_pump_tail(call, state);
    } else if (state->compile && !sbx_call_pump_compile(call, state)) {
        return;
    } else if (state->is_run) {
        sbx_call_pump_run(call, state);
    } else {
        sbx_call_pump_stream(call, state);
    }
}

void sbx_call_pump(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (state && !rpc_call_is_cancelled(call))
        sbx_call_advance(call, state);
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
    sbx_policy_fill(&state->policy, request, hello, &state->service->policy_memo);
    return state;
}

struct sbx_call *sbx_call_release(struct sbx_call *state)
{
    if (!state)
        return NULL;
    sbx_service_remove(state->service, &state->entry);
    if (state->is_counted)
        rpc_callers_leave(state->service->callers, sbx_execution_caller(state->execution));
    sbx_call_drop_record(state); /* nothing after its end: whoever vanished leaves no answer */
    if (state->record)
        sbx_record_leave(state->record, &state->waiter);
    (void)sbx_record_unref(state->record);
    cr_buf_done(&state->chunk);
    cr_buf_done(&state->outputs[0]);
    cr_buf_done(&state->outputs[1]);
    sbx_execution_unref(state->execution);
    (void)sbx_compile_free(state->compile);
    (void)sbx_tail_unref(state->tail);
    free(state);
    return NULL;
}

static void submit(struct rpc_call *call, struct sbx_call *state, struct sbx_execution *execution)
{
    state->is_submitted = true;
    if (state->tail) {
        state->tail->is_counted = state->is_counted; /* until its end, not that of this call */
        state->is_counted = false;
        sbx_tail_begin(state->tail, sbx_execution_ref(execution));
        sbx_execution_submit(execution, state->service->backend);
        return;
    }
    state->entry.execution = execution;
    sbx_service_add(state->service, &state->entry);
    (void)rpc_call_ref(call); /* the waker's, until the stream thread is done with it */
    sbx_execution_submit(execution, state->service->backend);
}

void sbx_call_submit(struct rpc_call *call, struct sbx_call *state)
{
    submit(call, state, state->compile ? state->compile->execution : state->execution);
}

/* What is kept for later runs; without room for it the run goes on, and has no artifact to name. */
static void keep_compiled(struct sbx_call *state, const struct cr_buf *compiled)
{
    if (state->compile->is_kept)
        (void)sbx_artifacts_put(&state->service->artifacts, sbx_execution_caller(state->execution),
                                compiled->data, compiled->size, cr_clock_mono_ns(),
                                state->compile->artifact);
}

int sbx_call_go_on(struct rpc_call *call, struct sbx_call *state, struct cr_err *err)
{
    size_t count;
    const struct sbx_collected *files = sbx_execution_files(state->compile->execution, &count);
    CR_AUTO_BUF struct cr_buf compiled;
    int r;

    cr_buf_init(&compiled, SBX_PAYLOAD_MAX);
    r = sbx_compiled_pack(files, count, &compiled);
    if (r < 0)
        return cr_err_sys(err, -r, "keep what was compiled");
    r = sbx_execution_complete(state->execution, compiled.data, compiled.size, err);
    if (r < 0)
        return r;
    keep_compiled(state, &compiled);
    submit(call, state, state->execution);
    return 0;
}

const struct sbx_execution *sbx_call_last(const struct sbx_call *state)
{
    return state->compile && state->compile->has_failed ? state->compile->execution
                                                        : state->execution;
}

void sbx_call_begin(struct rpc_call *call, struct sbx_call *state)
{
    if (*sbx_execution_request_id(state->execution))
        sbx_call_claim(call, state);
    else
        sbx_call_submit(call, state);
}

static int make_execution(struct rpc_call *call, const struct sbx_call_order *order,
                          const struct sbx_request *request, const struct sbx_msg_hello *hello,
                          struct sbx_call *state)
{
    struct sbx_waker waker = state->tail ? sbx_tail_waker(state->tail)
                                         : (struct sbx_waker){wake_call, release_call, call};
    struct cr_err err = CR_ERR_INIT;
    char scope[128]; /* what the request is to: the same one means another thing elsewhere */

    (void)snprintf(scope, sizeof(scope), "%s %s", rpc_call_path(call),
                   order->sandbox ? order->sandbox->id : "");
    if (sbx_execution_new(order->message, request, rpc_call_peer(call)->caller, &waker,
                          &state->execution, &err) < 0 ||
        (*order->message->request_id != '\0' &&
         sbx_recall_digest(scope, order->message, state->digest) < 0)) {
        cr_log_error("make an execution error=%s", err.text);
        return -ENOMEM;
    }
    sbx_execution_set_policy(state->execution, state->policy.digest);
    if (request->has_compile && sbx_compile_new(order->message, request, state->execution, &waker,
                                                hello, &state->compile, &err) < 0) {
        cr_log_error("make a compile stage error=%s", err.text);
        return -ENOMEM;
    }
    return 0;
}

static void audit_refused(struct rpc_call *call, const Crisol__Sandbox__V1__ExecuteRequest *message,
                          const struct rpc_status *status)
{
    const struct sbx_service *service = rpc_call_context(call);

    sbx_audit_refused(service->audit, rpc_call_peer(call)->caller, message->request_id,
                      status->code, status->reason);
}

void sbx_call_no_backend(struct rpc_status *ret_status)
{
    sbx_call_refusal(&no_backend, ret_status);
}

/* Checks the request by the rules of its kind. Returns 0 or -EINVAL with `status` filled in. */
static int check(struct rpc_call *call, const struct sbx_call_order *order,
                 const struct sbx_contents *contents, struct sbx_msg_hello *hello,
                 struct sbx_request *request, struct rpc_status *status)
{
    static const uint64_t output_max[] = {
        [SBX_CALL_EXECUTE] = UINT64_MAX,     [SBX_CALL_RUN] = RUN_OUTPUT_MAX,
        [SBX_CALL_BATCH] = BATCH_OUTPUT_MAX, [SBX_CALL_INTERACTIVE] = UINT64_MAX,
        [SBX_CALL_SANDBOX] = UINT64_MAX,
    };
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_request_rules rules;

    if (!sbx_backend_hello(service->backend, hello)) {
        sbx_call_no_backend(status);
        return -EINVAL;
    }
    rules = (struct sbx_request_rules){.maximum = hello->maximum,
                                       .runtimes = hello->runtimes,
                                       .backend = (Crisol__Sandbox__V1__Backend)hello->backend,
                                       .contents = contents,
                                       .can_resume = order->kind == SBX_CALL_EXECUTE ||
                                                     order->kind == SBX_CALL_SANDBOX};
    if (rules.maximum.value[SBX_LIMIT_OUTPUT] > output_max[order->kind])
        rules.maximum.value[SBX_LIMIT_OUTPUT] = output_max[order->kind];
    if (order->sandbox)
        return sbx_request_check_in(order->message, &rules, order->sandbox, request, status);
    return sbx_request_check(order->message, &rules, request, status);
}

/* Many programs are short ones: one that hangs holds up the others behind it. */
static void shorten_default(struct sbx_request *request, uint32_t limit, uint64_t value_ms)
{
    if (!(request->requested & (UINT32_C(1) << limit)) && request->limits.value[limit] > value_ms)
        request->limits.value[limit] = value_ms;
}

static void set_batch_defaults(struct sbx_request *request)
{
    shorten_default(request, SBX_LIMIT_WALL_TIME, BATCH_WALL_MS);
    /* The default of the CPU limit is the wall limit of the same request. */
    shorten_default(request, SBX_LIMIT_CPU_TIME, request->limits.value[SBX_LIMIT_WALL_TIME]);
}

/* Last, so that nothing is counted that would not run. */
static int count_run(struct rpc_call *call, struct sbx_call *state, struct rpc_status *status)
{
    struct rpc_callers *callers = state->service->callers;
    int r = 0;

    if (callers)
        r = rpc_callers_enter(callers, rpc_call_peer(call)->caller, "runs", cr_clock_mono_ns(),
                              status);
    state->is_counted = callers && r == 0;
    return r;
}

/* The execution outlives the call, and so does what its events are made with. */
static int make_tail(struct rpc_call *call, const struct sbx_request *request,
                     const struct sbx_msg_hello *hello, struct sbx_call *state,
                     struct rpc_status *status)
{
    state->tail = sbx_tails_new(state->service, call, request, rpc_call_peer(call)->caller, status);
    if (!state->tail)
        return -EINVAL;
    state->reader = call;
    sbx_policy_fill(&state->tail->policy, request, hello, NULL);
    return 0;
}

static void make_interactive(const struct sbx_call_order *order, struct sbx_request *request)
{
    request->is_interactive = true;
    request->columns = order->columns;
    request->rows = order->rows;
    if (order->columns > 0)
        request->flags |= SBX_RUN_HAS_TERMINAL;
}

struct sbx_call *sbx_call_new(struct rpc_call *call, const struct sbx_call_order *order,
                              struct rpc_status *ret_status)
{
    struct sbx_service *service = rpc_call_context(call);
    struct sbx_stored stored = {.artifacts = &service->artifacts,
                                .caller = rpc_call_peer(call)->caller,
                                .now_ns = cr_clock_mono_ns()};
    const struct sbx_contents contents = {.find = sbx_artifacts_find, .user = &stored};
    struct sbx_request request;
    struct sbx_msg_hello hello;
    struct sbx_call *state;

    if (check(call, order, &contents, &hello, &request, ret_status) < 0) {
        audit_refused(call, order->message, ret_status);
        (void)sbx_sandbox_leave(order->sandbox);
        return NULL;
    }
    if (order->kind == SBX_CALL_BATCH)
        set_batch_defaults(&request);
    if (order->kind == SBX_CALL_INTERACTIVE)
        make_interactive(order, &request);
    state = new_state(call, &request, &hello);
    if (state && request.ring_bytes > 0 &&
        make_tail(call, &request, &hello, state, ret_status) < 0) {
        (void)sbx_call_release(state);
        (void)sbx_sandbox_leave(order->sandbox);
        return NULL;
    }
    if (state && make_execution(call, order, &request, &hello, state) < 0)
        state = sbx_call_release(state);
    if (!state) {
        sbx_call_no_memory(ret_status);
        (void)sbx_sandbox_leave(order->sandbox);
        return NULL;
    }
    sbx_execution_set_sandbox(state->execution, order->sandbox);
    if (count_run(call, state, ret_status) < 0) {
        audit_refused(call, order->message, ret_status);
        return sbx_call_release(state);
    }
    state->is_run = order->kind == SBX_CALL_RUN || order->kind == SBX_CALL_BATCH;
    state->is_wrapped = order->kind == SBX_CALL_SANDBOX || order->kind == SBX_CALL_INTERACTIVE;
    return state;
}

static void on_request(struct rpc_call *call, const ProtobufCMessage *message,
                       enum sbx_call_kind kind)
{
    const struct sbx_call_order order = {
        .kind = kind,
        .message = (const Crisol__Sandbox__V1__ExecuteRequest *)(const void *)message,
    };
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_call *state = sbx_call_new(call, &order, &status);

    if (!state) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_set_user(call, state);
    sbx_call_begin(call, state);
}

void sbx_call_execute(struct rpc_call *call, const ProtobufCMessage *message)
{
    on_request(call, message, SBX_CALL_EXECUTE);
}

void sbx_call_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    on_request(call, message, SBX_CALL_RUN);
}

void sbx_call_abandon(struct sbx_call *state)
{
    sbx_call_drop_record(state);
    if (state->is_submitted && state->tail)
        sbx_tail_detach(state->tail, state->reader);
    else if (state->is_submitted)
        sbx_execution_cancel(state->entry.execution, true);
}

void sbx_call_attach(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__AttachRequest *message =
        (const Crisol__Sandbox__V1__AttachRequest *)(const void *)base;
    const uint64_t offsets[2] = {message->stdout_offset, message->stderr_offset};
    struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_call *state = calloc(1, sizeof(*state));

    if (!state)
        sbx_call_no_memory(&status);
    else if (!*message->execution_id)
        rpc_status_add_violation(&status, "execution_id", "is required");
    else
        state->tail = sbx_tails_attach(service->tails, call, rpc_call_peer(call)->caller,
                                       message->execution_id, offsets, &status);
    if (!state || !state->tail) {
        free(state);
        rpc_call_finish(call, &status, NULL);
        return;
    }
    state->service = service;
    state->execution = sbx_execution_ref(state->tail->execution);
    state->reader = call;
    state->is_submitted = true;
    state->is_wrapped = true;
    memcpy(state->cursor.at, offsets, sizeof(offsets));
    cr_buf_init(&state->chunk, SBX_CHUNK_MAX);
    rpc_call_set_user(call, state);
    sbx_call_advance(call, state);
}

void sbx_call_cancel(struct rpc_call *call)
{
    struct sbx_call *state = rpc_call_user(call);

    if (state)
        sbx_call_abandon(state);
}

void sbx_call_free(struct rpc_call *call)
{
    (void)sbx_call_release(rpc_call_user(call));
}
