/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/status.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_fake_counts.h"
#include "tests/integration/orchestrator/http_fakes.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Crisol__Sandbox__V1__ExecuteResponse response;

/* One execution and its thread, which stands in for the loop of the gRPC client. */
struct agt_sandbox_call {
    struct agt_sandbox_handlers handlers;
    char code[16];
    pthread_t thread;
    atomic_uint refs; /* the caller's and the thread's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_cancelled; /* under the lock */
};

static void emit_output(struct agt_sandbox_call *call, const char *data, size_t size,
                        Crisol__Sandbox__V1__OutputStream stream)
{
    response event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;
    uint8_t *copy = malloc(size);

    assert_non_null(copy);
    memcpy(copy, data, size);
    output.stream = stream;
    output.data.data = copy;
    output.data.len = size;
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    event.output = &output;
    call->handlers.on_event(call->handlers.user, &event.base);
    free(copy);
}

static void emit_started(struct agt_sandbox_call *call)
{
    response event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Started started = CRISOL__SANDBOX__V1__STARTED__INIT;

    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED;
    event.started = &started;
    call->handlers.on_event(call->handlers.user, &event.base);
}

static char *make_summary(const char *code)
{
    bool is_huge = strcmp(code, "huge") == 0;
    size_t size = is_huge ? (size_t)40 << 20 : sizeof("OK: exit 0") - 1;
    char *summary = malloc(size + 1);

    assert_non_null(summary);
    if (is_huge)
        memset(summary, 'x', size);
    else
        memcpy(summary, "OK: exit 0", size);
    summary[size] = '\0';
    return summary;
}

static void emit_result(struct agt_sandbox_call *call)
{
    response event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    char *summary = make_summary(call->code);

    result.summary = summary;
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT;
    event.result = &result;
    call->handlers.on_event(call->handlers.user, &event.base);
    free(summary);
}

static void emit_flood(struct agt_sandbox_call *call)
{
    char chunk[65536];

    memset(chunk, 'x', sizeof(chunk));
    for (int i = 0; i < 256; i++)
        emit_output(call, chunk, sizeof(chunk),
                    CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT);
}

static void wait_for_cancel(struct agt_sandbox_call *call, struct rpc_status *status)
{
    (void)pthread_mutex_lock(&call->lock);
    while (!call->is_cancelled)
        (void)pthread_cond_wait(&call->changed, &call->lock);
    (void)pthread_mutex_unlock(&call->lock);
    rpc_status_set(status, RPC_CANCELLED, "cancelled");
}

/* Plays the program; true when it has a result. */
static bool play(struct agt_sandbox_call *call, struct rpc_status *status)
{
    const char *code = call->code;

    if (strcmp(code, "full") == 0) {
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "the queue is full");
        status->retry_after_ms = 2500;
        return false;
    }
    if (strcmp(code, "bad") == 0) {
        rpc_status_add_violation(status, "files[0].path", "must be relative");
        return false;
    }
    if (strcmp(code, "none") == 0)
        return false;
    emit_started(call);
    if (strcmp(code, "hang") == 0) {
        wait_for_cancel(call, status);
        return false;
    }
    if (strcmp(code, "flood") == 0)
        emit_flood(call);
    emit_output(call, strcmp(code, "binary") == 0 ? "\xff\xfe" : "4\n", 2,
                CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT);
    emit_output(call, "warn\n", 5, CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR);
    if (strcmp(code, "late") != 0)
        return true;
    rpc_status_set(status, RPC_UNAVAILABLE, "sandboxd went away");
    return false;
}

static void unref(struct agt_sandbox_call *call)
{
    if (atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    (void)pthread_cond_destroy(&call->changed);
    (void)pthread_mutex_destroy(&call->lock);
    free(call);
    atomic_fetch_sub(&fake_now.executions_live, 1);
}

static void *run_call(void *user)
{
    struct agt_sandbox_call *call = user;
    struct rpc_status status = RPC_STATUS_INIT;

    if (play(call, &status))
        emit_result(call);
    call->handlers.on_end(call->handlers.user, &status);
    atomic_fetch_add(&fake_now.executions_ended, 1);
    unref(call);
    return NULL;
}

static int execute(struct agt_sandbox *sandbox, const ProtobufCMessage *request, int deadline_ms,
                   const struct agt_sandbox_handlers *handlers, struct agt_sandbox_call **ret_call,
                   struct cr_err *err)
{
    const void *typeless = request;
    const Crisol__Sandbox__V1__ExecuteRequest *typed = typeless;
    struct agt_sandbox_call *call;

    (void)sandbox;
    assert_true(deadline_ms > 0);
    if (strcmp(typed->code, "down") == 0)
        return cr_err_set(err, ENOTCONN, "not connected");
    call = calloc(1, sizeof(*call));
    assert_non_null(call);
    call->handlers = *handlers;
    (void)snprintf(call->code, sizeof(call->code), "%s", typed->code);
    atomic_init(&call->refs, 2);
    (void)pthread_mutex_init(&call->lock, NULL);
    (void)pthread_cond_init(&call->changed, NULL);
    atomic_fetch_add(&fake_now.executions_live, 1);
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
    (void)pthread_detach(call->thread);
    *ret_call = call;
    return 0;
}

static void cancel(struct agt_sandbox_call *call)
{
    (void)pthread_mutex_lock(&call->lock);
    if (!call->is_cancelled && strcmp(call->code, "hang") == 0)
        atomic_fetch_add(&fake_now.executions_cancelled, 1);
    call->is_cancelled = true;
    (void)pthread_cond_signal(&call->changed);
    (void)pthread_mutex_unlock(&call->lock);
}

static void free_sandbox(struct agt_sandbox *sandbox)
{
    free(sandbox);
}

struct agt_sandbox *fake_sandbox_new(void)
{
    static const struct agt_sandbox_ops ops = {
        .execute = execute,
        .cancel = cancel,
        .unref = unref,
        .free = free_sandbox,
    };
    struct agt_sandbox *sandbox = calloc(1, sizeof(*sandbox));

    assert_non_null(sandbox);
    sandbox->ops = &ops;
    return sandbox;
}
