/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rpc/service.h"

#include "google/protobuf/any.pb-c.h"
#include "rpc/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY &google__protobuf__any__descriptor

const struct rpc_client_method test_echo = {"/crisol.test.v1.TestService/Echo", ANY, ANY};
const struct rpc_client_method test_count = {"/crisol.test.v1.TestService/Count", ANY, ANY};

static void on_start(struct rpc_call *call)
{
    struct test_service *service = rpc_call_context(call);

    service->started++;
    service->last_uid = rpc_call_peer(call)->uid;
    service->has_deadline = rpc_call_deadline_ns(call) != INT64_MAX;
}

static void on_cancel(struct rpc_call *call)
{
    ((struct test_service *)rpc_call_context(call))->cancelled++;
}

static void on_free(struct rpc_call *call)
{
    free(rpc_call_user(call));
    ((struct test_service *)rpc_call_context(call))->freed++;
}

static const Google__Protobuf__Any *as_any(const ProtobufCMessage *message)
{
    return (const Google__Protobuf__Any *)(const void *)message;
}

static void fail(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_add_violation(&status, "limits.pids", "is above the maximum of %d", 64);
    rpc_status_add_violation(&status, "code", "is empty");
    status.retry_after_ms = 1250;
    (void)snprintf(status.reason, sizeof(status.reason), "TEST_REASON");
    rpc_call_finish(call, &status, NULL);
}

static void hang(struct rpc_call *call, struct test_service *service)
{
    (void)rpc_call_unref(atomic_exchange(&service->hung, rpc_call_ref(call)));
    service->hangs++;
}

static void tell_caller(struct rpc_call *call)
{
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    char caller[64];

    (void)snprintf(caller, sizeof(caller), "%s", rpc_call_peer(call)->caller);
    any.type_url = caller;
    rpc_call_finish(call, NULL, &any.base);
}

static void on_echo(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct test_service *service = rpc_call_context(call);
    const Google__Protobuf__Any *any = as_any(message);

    if (strcmp(any->type_url, "fail") == 0)
        fail(call);
    else if (strcmp(any->type_url, "hang") == 0)
        hang(call, service);
    else if (strcmp(any->type_url, "silence") == 0)
        rpc_call_finish(call, NULL, NULL);
    else if (strcmp(any->type_url, "who") == 0)
        tell_caller(call);
    else
        rpc_call_finish(call, NULL, message);
}

static void on_wake(struct rpc_call *call)
{
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    char text[] = "woken";

    any.type_url = text;
    rpc_call_finish(call, NULL, &any.base);
}

struct count {
    unsigned int left;
    size_t size;
};

static void send_chunk(struct rpc_call *call)
{
    struct test_service *service = rpc_call_context(call);
    struct count *count = rpc_call_user(call);
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;

    if (count->left == 0) {
        rpc_call_finish(call, NULL, NULL);
        return;
    }
    any.value.data = calloc(1, count->size + 1);
    any.value.len = count->size;
    if (!any.value.data || !rpc_call_send(call, &any.base))
        service->overlaps++;
    /* One is on its way now, so this must be refused. */
    if (rpc_call_can_send(call) || rpc_call_send(call, &any.base))
        service->overlaps++;
    free(any.value.data);
    count->left--;
    service->chunks_sent++;
}

static void on_count(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct count *count = calloc(1, sizeof(*count));
    const Google__Protobuf__Any *any = as_any(message);
    char text[64];
    char *end;

    if (!count)
        abort();
    (void)snprintf(text, sizeof(text), "%.*s", (int)any->value.len, (const char *)any->value.data);
    count->left = (unsigned int)strtoul(text, &end, 10);
    count->size = strtoul(end, NULL, 10);
    rpc_call_set_user(call, count);
    send_chunk(call);
}

static void on_chat(struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)rpc_call_send(call, message);
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, NULL, NULL);
}

const struct rpc_method test_service_methods[] = {
    {
        .path = "/crisol.test.v1.TestService/Echo",
        .kind = RPC_UNARY,
        .request = ANY,
        .response = ANY,
        .on_start = on_start,
        .on_message = on_echo,
        .on_wake = on_wake,
        .on_cancel = on_cancel,
        .on_free = on_free,
    },
    {
        .path = "/crisol.test.v1.TestService/Count",
        .kind = RPC_SERVER_STREAM,
        .request = ANY,
        .response = ANY,
        .on_start = on_start,
        .on_message = on_count,
        .on_writable = send_chunk,
        .on_cancel = on_cancel,
        .on_free = on_free,
    },
    {
        .path = "/crisol.test.v1.TestService/Chat",
        .kind = RPC_BIDI,
        .request = ANY,
        .response = ANY,
        .on_start = on_start,
        .on_message = on_chat,
        .on_writable = rpc_call_read,
        .on_half_close = on_half_close,
        .on_cancel = on_cancel,
        .on_free = on_free,
    },
    {.path = NULL},
};
