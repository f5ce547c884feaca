/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/execute_answer.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/sse.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/json.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Output kept for one JSON answer, per stream; sandboxd's own limit is lower by default. */
#define STREAM_CAP ((size_t)8 << 20)
/* Frames that wait for a slow reader; output beyond it is dropped and counted. */
#define FRAMES_SOFT_CAP ((size_t)2 << 20)
/* The result always fits behind them: it may carry collected files. */
#define FRAMES_CAP ((size_t)32 << 20)

struct execution {
    struct agt_exchange *exchange; /* borrowed; the call holds a reference */
    struct agt_sandbox_call *call; /* loop thread; NULL when it could not be started */
    bool is_stream;
    pthread_mutex_t lock;      /* guards what follows: filled on the call's thread */
    struct cr_buf stdout_data; /* JSON answers */
    struct cr_buf stderr_data; /* JSON answers */
    struct cr_buf result;      /* packed ExecuteResult */
    struct cr_buf frames;      /* streams */
    struct cr_buf scratch;     /* streams */
    uint64_t dropped_bytes;    /* streams: since the last frame */
    bool is_cut;               /* JSON answers: a stream was larger than STREAM_CAP */
    bool has_result;
    bool has_ended;
    int error; /* what could not be kept: a negative errno */
    struct rpc_status status;
};

/* ---- on the call's thread, under the lock ---- */

static void keep_output(struct execution *execution, const Crisol__Sandbox__V1__Output *output)
{
    bool is_stderr = output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    struct cr_buf *buf = is_stderr ? &execution->stderr_data : &execution->stdout_data;
    size_t room = buf->cap - buf->size;
    size_t size = output->data.len;

    if (size > room) {
        size = room;
        execution->is_cut = true;
    }
    if (size > 0 && cr_buf_add(buf, output->data.data, size) < 0)
        execution->error = -ENOMEM;
}

static void keep_result(struct execution *execution,
                        const Crisol__Sandbox__V1__ExecuteResult *result)
{
    execution->has_result = true;
    if (rpc_pack_into(&result->base, &execution->result) < 0)
        execution->error = -ENOMEM;
}

static void add_gap(struct execution *execution)
{
    char data[64];

    if (execution->dropped_bytes == 0)
        return;
    (void)snprintf(data, sizeof(data), "{\"gap\":{\"dropped_bytes\":%llu}}",
                   (unsigned long long)execution->dropped_bytes);
    if (agt_sse_add_event(&execution->frames, 0, "gap", data) < 0)
        execution->error = -ENOMEM;
    execution->dropped_bytes = 0;
}

static void add_frame(struct execution *execution,
                      const Crisol__Sandbox__V1__ExecuteResponse *event)
{
    if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT &&
        execution->frames.size > FRAMES_SOFT_CAP) {
        execution->dropped_bytes += event->output->data.len;
        return;
    }
    add_gap(execution);
    if (agt_execute_add_event(event, &execution->scratch, &execution->frames) < 0)
        execution->error = -ENOMEM;
    else if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        execution->has_result = true;
}

static void on_event(void *user, const ProtobufCMessage *message)
{
    struct execution *execution = user;
    const void *typeless = message;
    const Crisol__Sandbox__V1__ExecuteResponse *event = typeless;

    (void)pthread_mutex_lock(&execution->lock);
    if (execution->is_stream)
        add_frame(execution, event);
    else if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT)
        keep_output(execution, event->output);
    else if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        keep_result(execution, event->result);
    (void)pthread_mutex_unlock(&execution->lock);
    if (execution->is_stream)
        agt_exchange_wake(execution->exchange);
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct execution *execution = user;
    struct agt_exchange *exchange = execution->exchange;

    (void)pthread_mutex_lock(&execution->lock);
    execution->status = *status;
    execution->has_ended = true;
    (void)pthread_mutex_unlock(&execution->lock);
    agt_exchange_wake(exchange);
    agt_exchange_unref(exchange);
}

/* ---- on the loop thread, under the lock ---- */

/* Why there is no result; a call that ended well without one is sandboxd's fault. */
static void get_problem(const struct execution *execution, struct agt_problem *problem)
{
    if (execution->status.code != RPC_OK)
        agt_problem_from_status(problem, &execution->status);
    else
        agt_problem_set(problem, MHD_HTTP_INTERNAL_SERVER_ERROR, RPC_INTERNAL,
                        "the execution ended without a result that could be kept");
}

static int write_answer(const struct execution *execution, struct cr_buf *buf)
{
    Crisol__Sandbox__V1__ExecuteResult *result = crisol__sandbox__v1__execute_result__unpack(
        NULL, execution->result.size, execution->result.data);
    const struct agt_execute_answer answer = {
        .result = result,
        .stdout_data = &execution->stdout_data,
        .stderr_data = &execution->stderr_data,
        .is_cut = execution->is_cut,
    };
    int r;

    if (!result)
        return -ENOMEM;
    r = agt_execute_answer_write(&answer, buf);
    crisol__sandbox__v1__execute_result__free_unpacked(result, NULL);
    return r;
}

static void answer_json(struct agt_exchange *exchange, const struct execution *execution)
{
    struct agt_problem problem;
    int r;

    if (!execution->has_result || execution->error < 0) {
        get_problem(execution, &problem);
        agt_exchange_fail(exchange, &problem);
        return;
    }
    r = write_answer(execution, &exchange->out);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the result of the execution", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

/* An execution that was refused has an HTTP status of its own: a stream begins with its first
 * event only. */
static void begin_answer(struct agt_exchange *exchange, struct execution *execution)
{
    struct agt_problem problem;

    if (execution->is_stream && execution->frames.size > 0) {
        agt_exchange_begin_stream(exchange);
    } else if (execution->is_stream && execution->has_ended) {
        get_problem(execution, &problem);
        agt_exchange_fail(exchange, &problem);
    } else if (execution->has_ended) {
        answer_json(exchange, execution);
    }
}

/* The status line is gone by now; an event tells instead. */
static void add_error_event(struct agt_exchange *exchange, const struct execution *execution)
{
    CR_AUTO_BUF struct cr_buf text;
    struct agt_problem problem;

    cr_buf_init(&text, sizeof(problem) * 8);
    get_problem(execution, &problem);
    if (agt_problem_write(&problem, &text) == 0)
        (void)agt_sse_add_event(&exchange->out, 0, "error", cr_buf_str(&text));
}

static void fill(struct agt_exchange *exchange)
{
    struct execution *execution = exchange->user;

    (void)pthread_mutex_lock(&execution->lock);
    if (cr_buf_add(&exchange->out, execution->frames.data, execution->frames.size) < 0) {
        execution->error = -ENOMEM;
        execution->has_result = false; /* it may have been among them */
    }
    cr_buf_clear(&execution->frames);
    if (execution->has_ended || execution->error < 0) {
        exchange->is_ended = true;
        if (!execution->has_result)
            add_error_event(exchange, execution);
    }
    (void)pthread_mutex_unlock(&execution->lock);
}

static void on_wake(struct agt_exchange *exchange)
{
    struct execution *execution = exchange->user;

    (void)pthread_mutex_lock(&execution->lock);
    begin_answer(exchange, execution);
    (void)pthread_mutex_unlock(&execution->lock);
}

static void stop(struct agt_exchange *exchange)
{
    struct execution *execution = exchange->user;

    if (execution->call)
        exchange->http->options.sandbox->ops->cancel(execution->call);
}

static void free_execution(void *user)
{
    struct execution *execution = user;

    if (execution->call)
        execution->exchange->http->options.sandbox->ops->unref(execution->call);
    cr_buf_done(&execution->stdout_data);
    cr_buf_done(&execution->stderr_data);
    cr_buf_done(&execution->result);
    cr_buf_done(&execution->frames);
    cr_buf_done(&execution->scratch);
    (void)pthread_mutex_destroy(&execution->lock);
    free(execution);
}

static const struct agt_operation operation = {
    .on_wake = on_wake,
    .fill = fill,
    .stop = stop,
    .free = free_execution,
};

static struct execution *new_execution(struct agt_exchange *exchange)
{
    struct execution *execution = calloc(1, sizeof(*execution));

    if (!execution)
        return NULL;
    execution->exchange = exchange;
    execution->is_stream = exchange->wants_events;
    (void)pthread_mutex_init(&execution->lock, NULL);
    cr_buf_init(&execution->stdout_data, STREAM_CAP);
    cr_buf_init(&execution->stderr_data, STREAM_CAP);
    cr_buf_init(&execution->result, FRAMES_CAP);
    cr_buf_init(&execution->frames, FRAMES_CAP);
    cr_buf_init(&execution->scratch, FRAMES_CAP);
    return execution;
}

static void start(struct agt_exchange *exchange, const Crisol__Sandbox__V1__ExecuteRequest *request)
{
    struct agt_sandbox *sandbox = exchange->http->options.sandbox;
    struct execution *execution = exchange->user;
    const struct agt_sandbox_handlers handlers = {
        .on_event = on_event,
        .on_end = on_end,
        .user = execution,
    };
    uint32_t wall_time_ms = request->limits ? request->limits->wall_time_ms : 0;
    struct agt_problem problem;
    struct cr_err err = CR_ERR_INIT;

    agt_exchange_ref(exchange);
    if (sandbox->ops->execute(sandbox, &request->base, agt_execute_deadline_ms(wall_time_ms),
                              &handlers, &execution->call, &err) >= 0)
        return;
    cr_log_warn("cannot start an execution error=%s", err.text);
    agt_exchange_unref(exchange);
    agt_problem_set(&problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_UNAVAILABLE,
                    "sandboxd cannot be reached; is it running?");
    agt_exchange_fail(exchange, &problem);
}

/* Nobody can take an execution up again here: it would run on for its grace when a client leaves.
 */
static int read_request(const struct cr_buf *body, ProtobufCMessage **ret_message,
                        struct rpc_status *status)
{
    int r = rpc_json_read(&crisol__sandbox__v1__execute_request__descriptor, cr_buf_str(body),
                          body->size, ret_message, status);

    if (r < 0 || !((const Crisol__Sandbox__V1__ExecuteRequest *)(void *)*ret_message)->resume)
        return r;
    rpc_status_add_violation(status, "resume", "is for callers of sandboxd, who have Attach");
    protobuf_c_message_free_unpacked(*ret_message, NULL);
    return -EINVAL;
}

void agt_handle_execute(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    Crisol__Sandbox__V1__ExecuteRequest *request;
    struct agt_problem problem;

    if (read_request(&exchange->body, &message, &status) < 0) {
        agt_problem_from_status(&problem, &status);
        problem.place = "body";
        agt_exchange_fail(exchange, &problem);
        return;
    }
    request = (Crisol__Sandbox__V1__ExecuteRequest *)message;
    /* Chunks as text, so that a character is never split over two events. */
    request->output_text = request->output_text || exchange->wants_events;
    exchange->user = new_execution(exchange);
    if (exchange->user) {
        exchange->operation = &operation;
        start(exchange, request);
    } else {
        agt_exchange_fail_internal(exchange, "start the execution", -ENOMEM);
    }
    protobuf_c_message_free_unpacked(message, NULL);
}
