/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/http/call.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/execute_answer.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/judge_text.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/client.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_CAP ((size_t)8 << 20)
#define MESSAGE_CAP ((size_t)8 << 20)

/* POST /api/v2/execute: asks for the runtimes, then runs the program. */
struct judge {
    struct agt_exchange *exchange; /* borrowed; each call holds a reference */
    Crisol__Judge__V1__JudgeRequest *request;
    struct rpc_client_call *list_call;                   /* loop thread */
    struct agt_sandbox_call *run_call;                   /* loop thread */
    Crisol__Sandbox__V1__ListRuntimesResponse *runtimes; /* loop thread */
    const Crisol__Sandbox__V1__Runtime *runtime;         /* loop thread; of those */
    pthread_mutex_t lock; /* guards what follows: filled on the calls' threads */
    struct cr_buf list;   /* packed ListRuntimesResponse */
    struct cr_buf result; /* packed ExecuteResult */
    struct cr_buf streams[2];
    struct cr_buf output; /* both, as they came */
    struct rpc_status status;
    bool has_list_ended;
    bool has_ended;
    int error; /* what could not be kept: a negative errno */
};

/* ---- on the threads of the calls ---- */

static void keep(struct judge *judge, struct cr_buf *buf, const ProtobufCMessage *message)
{
    if (rpc_pack_into(message, buf) < 0)
        judge->error = -ENOMEM;
}

static bool on_list(void *user, const ProtobufCMessage *message)
{
    struct judge *judge = user;

    (void)pthread_mutex_lock(&judge->lock);
    keep(judge, &judge->list, message);
    (void)pthread_mutex_unlock(&judge->lock);
    return true;
}

/* Of either call. */
static void note_end(struct judge *judge, bool *has_ended, const struct rpc_status *status)
{
    struct agt_exchange *exchange = judge->exchange;

    (void)pthread_mutex_lock(&judge->lock);
    judge->status = *status;
    agt_sandbox_hide_address(&judge->status);
    *has_ended = true;
    (void)pthread_mutex_unlock(&judge->lock);
    agt_exchange_wake(exchange);
    agt_exchange_unref(exchange);
}

static void on_list_end(void *user, const struct rpc_status *status)
{
    struct judge *judge = user;

    note_end(judge, &judge->has_list_ended, status);
}

static void keep_output(struct judge *judge, const Crisol__Sandbox__V1__Output *output)
{
    bool is_stderr = output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;

    if (cr_buf_add(&judge->streams[is_stderr], output->data.data, output->data.len) < 0 ||
        cr_buf_add(&judge->output, output->data.data, output->data.len) < 0)
        judge->error = -ENOMEM;
}

static void on_event(void *user, const ProtobufCMessage *message)
{
    struct judge *judge = user;
    const Crisol__Sandbox__V1__ExecuteResponse *event = (const void *)message;

    (void)pthread_mutex_lock(&judge->lock);
    if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT)
        keep_output(judge, event->output);
    else if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        keep(judge, &judge->result, &event->result->base);
    (void)pthread_mutex_unlock(&judge->lock);
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct judge *judge = user;

    note_end(judge, &judge->has_ended, status);
}

/* ---- on the loop thread ---- */

/* What is wrong with the request is 400 there, and a language that is not known no other thing. */
static void refuse(struct agt_exchange *exchange, const struct rpc_status *status)
{
    struct agt_problem problem;

    agt_problem_from_status(&problem, status);
    if (status->code == RPC_INVALID_ARGUMENT || status->code == RPC_NOT_FOUND)
        problem.http_status = MHD_HTTP_BAD_REQUEST;
    agt_exchange_fail(exchange, &problem);
}

/* Until both stages are over, whatever they ask for: sandboxd says whether that is too much. */
static int deadline_ms(const Crisol__Sandbox__V1__ExecuteRequest *request,
                       const Crisol__Sandbox__V1__Runtime *runtime)
{
    const Crisol__Sandbox__V1__Limits *compile = request->compile_limits;
    uint64_t sum_ms = request->limits->wall_time_ms;

    if (compile && compile->wall_time_ms == 0)
        compile = runtime->default_compile_limits;
    sum_ms += compile ? compile->wall_time_ms : 0;
    return agt_execute_deadline_ms(sum_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)sum_ms);
}

static void run(struct judge *judge)
{
    struct agt_exchange *exchange = judge->exchange;
    struct agt_sandbox *sandbox = exchange->http->options.sandbox;
    const struct agt_sandbox_handlers handlers = {
        .on_event = on_event, .on_end = on_end, .user = judge};
    const Crisol__Sandbox__V1__ExecuteRequest *request;
    struct agt_judge_program *program = NULL;
    struct rpc_status status = RPC_STATUS_INIT;
    struct cr_err err = CR_ERR_INIT;
    int r = agt_judge_program_new(judge->request, judge->runtime, &program, &status);

    if (r == -EINVAL) {
        refuse(exchange, &status);
        return;
    }
    if (r < 0) {
        agt_exchange_fail_internal(exchange, "make the program", r);
        return;
    }
    request = agt_judge_program_request(program);
    agt_exchange_ref(exchange);
    r = sandbox->ops->execute(sandbox, &request->base, deadline_ms(request, judge->runtime),
                              &handlers, &judge->run_call, &err);
    (void)agt_judge_program_free(program);
    if (r >= 0)
        return;
    cr_log_warn("cannot start an execution error=%s", err.text);
    agt_exchange_unref(exchange);
    rpc_status_set(&status, RPC_UNAVAILABLE, "sandboxd cannot be reached; is it running?");
    refuse(exchange, &status);
}

/* The runtimes are there, or the reason why not. */
static void choose(struct judge *judge)
{
    const Crisol__Judge__V1__JudgeRequest *request = judge->request;

    if (judge->status.code == RPC_OK && judge->error < 0) /* no bytes are a list, too */
        rpc_status_set(&judge->status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    if (judge->status.code == RPC_OK)
        judge->runtimes = crisol__sandbox__v1__list_runtimes_response__unpack(
            NULL, judge->list.size, judge->list.data);
    if (judge->status.code == RPC_OK && !judge->runtimes)
        rpc_status_set(&judge->status, RPC_INTERNAL, "sandboxd's answer could not be read");
    if (judge->runtimes) {
        judge->runtime = agt_judge_find(judge->runtimes, request->language, request->version);
        if (!judge->runtime)
            rpc_status_set(&judge->status, RPC_NOT_FOUND, "%.64s-%.32s runtime is unknown",
                           request->language, request->version);
    }
    if (judge->status.code == RPC_OK)
        run(judge);
    else
        refuse(judge->exchange, &judge->status);
}

static int write_answer(const struct judge *judge, struct cr_buf *buf)
{
    Crisol__Sandbox__V1__ExecuteResult *result =
        crisol__sandbox__v1__execute_result__unpack(NULL, judge->result.size, judge->result.data);
    const struct agt_judge_outcome outcome = {
        .runtime = judge->runtime->name,
        .version = judge->runtime->version,
        .result = result,
        .streams = {&judge->streams[0], &judge->streams[1]},
        .output = &judge->output,
    };
    int r = result ? agt_judge_write(&outcome, buf) : -ENOMEM;

    crisol__sandbox__v1__execute_result__free_unpacked(result, NULL);
    return r;
}

static void answer(const struct judge *judge)
{
    struct agt_exchange *exchange = judge->exchange;
    struct rpc_status told;
    int r;

    if (judge->status.code != RPC_OK) {
        agt_judge_translate(&judge->status, agt_judge_hidden_index(judge->request, judge->runtime),
                            &told);
        refuse(exchange, &told);
        return;
    }
    r = judge->error < 0 ? judge->error : write_answer(judge, &exchange->out);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the result of the execution", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

static void on_wake(struct agt_exchange *exchange)
{
    struct judge *judge = exchange->user;
    bool has_list_ended;
    bool has_ended;

    (void)pthread_mutex_lock(&judge->lock);
    has_list_ended = judge->has_list_ended;
    has_ended = judge->has_ended;
    judge->has_list_ended = false; /* once */
    (void)pthread_mutex_unlock(&judge->lock);
    /* A call that has ended writes no more. */
    if (has_ended)
        answer(judge);
    else if (has_list_ended)
        choose(judge);
}

static void stop(struct agt_exchange *exchange)
{
    struct judge *judge = exchange->user;

    if (judge->list_call)
        rpc_client_cancel(judge->list_call);
    if (judge->run_call)
        exchange->http->options.sandbox->ops->cancel(judge->run_call);
}

static void free_judge(void *user)
{
    struct judge *judge = user;

    (void)rpc_client_unref(judge->list_call);
    if (judge->run_call)
        judge->exchange->http->options.sandbox->ops->unref(judge->run_call);
    crisol__judge__v1__judge_request__free_unpacked(judge->request, NULL);
    crisol__sandbox__v1__list_runtimes_response__free_unpacked(judge->runtimes, NULL);
    cr_buf_done(&judge->list);
    cr_buf_done(&judge->result);
    cr_buf_done(&judge->streams[0]);
    cr_buf_done(&judge->streams[1]);
    cr_buf_done(&judge->output);
    (void)pthread_mutex_destroy(&judge->lock);
    free(judge);
}

static const struct agt_operation operation = {
    .on_wake = on_wake,
    .stop = stop,
    .free = free_judge,
};

/* Consumes `request`. NULL when there is no memory. */
static struct judge *new_judge(struct agt_exchange *exchange,
                               Crisol__Judge__V1__JudgeRequest *request)
{
    struct judge *judge = calloc(1, sizeof(*judge));

    if (!judge) {
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
        return NULL;
    }
    judge->exchange = exchange;
    judge->request = request;
    (void)pthread_mutex_init(&judge->lock, NULL); /* cannot fail with default attributes */
    cr_buf_init(&judge->list, MESSAGE_CAP);
    cr_buf_init(&judge->result, MESSAGE_CAP);
    cr_buf_init(&judge->streams[0], STREAM_CAP);
    cr_buf_init(&judge->streams[1], STREAM_CAP);
    cr_buf_init(&judge->output, 2 * STREAM_CAP);
    return judge;
}

static void ask_for_runtimes(struct judge *judge)
{
    const struct agt_http_options *options = &judge->exchange->http->options;
    const struct rpc_client_handlers handlers = {
        .on_message = on_list, .on_end = on_list_end, .user = judge};
    struct rpc_status status = RPC_STATUS_INIT;
    struct cr_err err = CR_ERR_INIT;

    agt_exchange_ref(judge->exchange);
    if (options->loop && options->channel &&
        rpc_client_start(options->loop, options->channel, &agt_list_runtimes,
                         agt_list_runtimes_request, AGT_RUNTIMES_ASKED_MS, &handlers,
                         &judge->list_call, &err) >= 0)
        return;
    agt_exchange_unref(judge->exchange);
    rpc_status_set(&status, RPC_UNAVAILABLE, "sandboxd cannot be reached; is it running?");
    refuse(judge->exchange, &status);
}

void agt_handle_judge_execute(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Judge__V1__JudgeRequest *request = NULL;
    struct judge *judge;

    if (agt_judge_read(cr_buf_str(&exchange->body), exchange->body.size, &request, &status) < 0) {
        refuse(exchange, &status);
        return;
    }
    judge = new_judge(exchange, request);
    if (!judge) {
        agt_exchange_fail_internal(exchange, "start the execution", -ENOMEM);
        return;
    }
    exchange->user = judge;
    exchange->operation = &operation;
    ask_for_runtimes(judge);
}

/* ---- GET /api/v2/runtimes, GET /api/v2/packages ---- */

static void finish_list(struct agt_exchange *exchange, const struct rpc_status *status,
                        const ProtobufCMessage *response)
{
    int r;

    if (!response) {
        refuse(exchange, status);
        return;
    }
    r = exchange->route->id == AGT_ROUTE_JUDGE_RUNTIMES
            ? agt_judge_write_runtimes((const void *)response, &exchange->out)
            : agt_judge_write_packages((const void *)response, &exchange->out);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the runtimes", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

void agt_handle_judge_list(struct agt_exchange *exchange)
{
    agt_call_sandboxd(exchange, &agt_list_runtimes, agt_list_runtimes_request,
                      AGT_RUNTIMES_ASKED_MS, finish_list);
}
