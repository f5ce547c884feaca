/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/call.h"

#include <errno.h>
#include <string.h>

/* Health and reflection calls at once. A call of one answer is let in beyond that: whoever watches
 * must not make the service look ill to those who only ask. */
#define INTERNAL_CALLS_MAX 1024

/*
 * What a server knows about its methods and its calls.
 */

static int compare_path(grpc_slice path, const char *text)
{
    size_t path_size = GRPC_SLICE_LENGTH(path);
    size_t text_size = strlen(text);
    size_t size = path_size < text_size ? path_size : text_size;
    int order = memcmp(GRPC_SLICE_START_PTR(path), text, size);

    if (order != 0)
        return order;
    return (path_size > text_size) - (path_size < text_size);
}

const struct rpc_route *rpc_server_find_route(const struct rpc_server *server, grpc_slice path)
{
    size_t low = 0;
    size_t high = server->route_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_path(path, server->routes[middle].method->path);

        if (order == 0)
            return &server->routes[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static void link_call(struct rpc_server *server, struct rpc_call *call)
{
    call->next = server->calls;
    if (server->calls)
        server->calls->previous = call;
    server->calls = call;
}

static void unlink_call(struct rpc_server *server, struct rpc_call *call)
{
    if (call->previous)
        call->previous->next = call->next;
    else
        server->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
}

static int admit(struct rpc_server *server, struct rpc_call *call, enum rpc_call_kind kind)
{
    bool is_internal = kind == RPC_CALL_INTERNAL;
    uint32_t *count = is_internal ? &server->internal_calls : &server->service_calls;
    uint32_t max = is_internal ? INTERNAL_CALLS_MAX : server->options.max_calls;

    if (server->is_draining)
        return -ESHUTDOWN;
    if (*count >= max && !(is_internal && call->method->kind == RPC_UNARY))
        return -EBUSY;
    (*count)++;
    call->kind = kind;
    link_call(server, call);
    return 0;
}

int rpc_server_admit(struct rpc_server *server, struct rpc_call *call, enum rpc_call_kind kind)
{
    int r;

    (void)pthread_mutex_lock(&server->lock);
    r = admit(server, call, kind);
    (void)pthread_mutex_unlock(&server->lock);
    return r;
}

void rpc_server_call_opened(struct rpc_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->open_calls++;
    (void)pthread_mutex_unlock(&server->lock);
}

void rpc_server_call_freed(struct rpc_server *server, struct rpc_call *call)
{
    (void)pthread_mutex_lock(&server->lock);
    if (call->kind == RPC_CALL_SERVICE)
        server->service_calls--;
    if (call->kind == RPC_CALL_INTERNAL)
        server->internal_calls--;
    if (call->kind != RPC_CALL_UNCOUNTED)
        unlink_call(server, call);
    server->open_calls--;
    if (server->open_calls == 0)
        (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

bool rpc_server_is_draining(struct rpc_server *server)
{
    bool is_draining;

    (void)pthread_mutex_lock(&server->lock);
    is_draining = server->is_draining;
    (void)pthread_mutex_unlock(&server->lock);
    return is_draining;
}

/* False for a call that is being freed; the list still shows it until that is done. */
static bool try_ref(struct rpc_call *call)
{
    int refs = atomic_load(&call->refs);

    while (refs > 0 && !atomic_compare_exchange_weak(&call->refs, &refs, refs + 1))
        ;
    return refs > 0;
}

static void wake(struct rpc_server *server, bool is_for_all)
{
    (void)pthread_mutex_lock(&server->lock);
    for (struct rpc_call *call = server->calls; call; call = call->next) {
        if ((!is_for_all && call->kind != RPC_CALL_INTERNAL) || !try_ref(call))
            continue;
        rpc_call_wake(call);
        /* Never frees under the lock: on the queue's thread the wake holds a reference until we
         * are back there, and any other thread only posts the free. */
        (void)rpc_call_unref(call);
    }
    (void)pthread_mutex_unlock(&server->lock);
}

void rpc_server_wake_internal(struct rpc_server *server)
{
    wake(server, false);
}

void rpc_server_break_off(struct rpc_server *server)
{
    atomic_store(&server->has_no_grace, true);
    wake(server, true);
}
