/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/turns.h"
#include "rpc/client_call.h"
#include "rpc/core.h"

#include <stdatomic.h>
#include <stdlib.h>

struct rpc_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t empty; /* no call is left */
    struct rpc_client_call *calls;
    bool is_closing;
    atomic_uint_fast64_t turns; /* any thread */
};

/*
 * What the starting thread wrote into a call it gave away under this lock;
 * the queue in between is no barrier that C or the tools know of.
 */
static void see_new_calls(struct rpc_loop *loop)
{
    (void)pthread_mutex_lock(&loop->lock);
    (void)pthread_mutex_unlock(&loop->lock);
}

static void *turn(void *argument)
{
    struct rpc_loop *loop = argument;

    for (;;) {
        const int64_t turn_ns = cr_clock_mono_ns() + CR_TURN_MS * CR_NS_PER_MS;
        grpc_event event = grpc_completion_queue_next(loop->queue, rpc_core_time(turn_ns), NULL);

        (void)atomic_fetch_add(&loop->turns, 1);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type != GRPC_OP_COMPLETE)
            continue;
        see_new_calls(loop);
        rpc_client_dispatch(&event);
    }
}

static void destroy(struct rpc_loop *loop)
{
    grpc_completion_queue_destroy(loop->queue);
    (void)pthread_cond_destroy(&loop->empty);
    (void)pthread_mutex_destroy(&loop->lock);
    free(loop);
}

int rpc_loop_new(struct rpc_loop **ret_loop, struct cr_err *err)
{
    struct rpc_loop *loop = calloc(1, sizeof(*loop));
    int error;

    if (!loop)
        return cr_err_set(err, ENOMEM, "out of memory for a client loop");
    (void)pthread_mutex_init(&loop->lock, NULL); /* neither can fail with default attributes */
    (void)pthread_cond_init(&loop->empty, NULL);
    loop->queue = grpc_completion_queue_create_for_next(NULL);
    error = pthread_create(&loop->thread, NULL, turn, loop);
    if (error != 0) {
        grpc_completion_queue_shutdown(loop->queue);
        (void)grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        destroy(loop);
        return cr_err_sys(err, error, "start the thread of a client loop");
    }
    *ret_loop = loop;
    return 0;
}

struct rpc_loop *rpc_loop_free(struct rpc_loop *loop)
{
    if (!loop)
        return NULL;
    (void)pthread_mutex_lock(&loop->lock);
    loop->is_closing = true;
    for (struct rpc_client_call *call = loop->calls; call; call = call->next)
        rpc_client_cancel(call);
    /* Cannot take long: core ends a cancelled call without asking the server. */
    while (loop->calls)
        (void)pthread_cond_wait(&loop->empty, &loop->lock);
    (void)pthread_mutex_unlock(&loop->lock);
    grpc_completion_queue_shutdown(loop->queue);
    (void)pthread_join(loop->thread, NULL);
    destroy(loop);
    return NULL;
}

uint64_t rpc_loop_turns(const struct rpc_loop *loop)
{
    return atomic_load(&loop->turns);
}

static int add_call(struct rpc_loop *loop, struct rpc_client_call *call)
{
    int r = 0;

    (void)pthread_mutex_lock(&loop->lock);
    if (loop->is_closing) {
        r = -ESHUTDOWN;
    } else {
        call->next = loop->calls;
        if (loop->calls)
            loop->calls->previous = call;
        loop->calls = call;
    }
    (void)pthread_mutex_unlock(&loop->lock);
    return r;
}

static void remove_call(struct rpc_client_call *call)
{
    struct rpc_loop *loop = call->loop;

    (void)pthread_mutex_lock(&loop->lock);
    if (call->previous)
        call->previous->next = call->next;
    else
        loop->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    if (!loop->calls)
        (void)pthread_cond_signal(&loop->empty);
    (void)pthread_mutex_unlock(&loop->lock);
}

/* `request` is NULL for a bidirectional call. */
static int start(struct rpc_loop *loop, struct rpc_channel *channel,
                 const struct rpc_client_method *method, const ProtobufCMessage *request,
                 int deadline_ms, const struct rpc_client_handlers *handlers,
                 struct rpc_client_call **ret_call, struct cr_err *err)
{
    struct rpc_client_call *call;
    int r = rpc_client_call_new(channel, loop->queue, method, deadline_ms, &call, err);

    if (r < 0)
        return r;
    call->handlers = *handlers;
    call->on_gone = remove_call;
    call->loop = loop;
    r = add_call(loop, call);
    if (r < 0) {
        (void)rpc_client_unref(call);
        (void)rpc_client_unref(call);
        return cr_err_set(err, -r, "the client loop is closing");
    }
    /* Before the call begins: its end may come before the return, and use what the caller keeps
     * there. */
    *ret_call = call;
    rpc_client_call_begin(call, channel, request);
    return 0;
}

int rpc_client_start(struct rpc_loop *loop, struct rpc_channel *channel,
                     const struct rpc_client_method *method, const ProtobufCMessage *request,
                     int deadline_ms, const struct rpc_client_handlers *handlers,
                     struct rpc_client_call **ret_call, struct cr_err *err)
{
    return start(loop, channel, method, request, deadline_ms, handlers, ret_call, err);
}

int rpc_client_open(struct rpc_loop *loop, struct rpc_channel *channel,
                    const struct rpc_client_method *method, int deadline_ms,
                    const struct rpc_client_handlers *handlers, struct rpc_client_call **ret_call,
                    struct cr_err *err)
{
    return start(loop, channel, method, NULL, deadline_ms, handlers, ret_call, err);
}
