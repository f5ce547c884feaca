/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "rpc/client_call.h"
#include "rpc/status.h"

#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include <sys/eventfd.h>

/* A call whose queue is turned by the caller. */
struct turn {
    struct rpc_client_call *call;
    grpc_completion_queue *queue;
    bool (*on_message)(void *user, const ProtobufCMessage *message);
    void *user;
    struct rpc_status *status;
    bool has_ended;
};

/* Cancels the call when a fd becomes readable, as gRPC core cannot wait for both. */
struct watcher {
    struct rpc_client_call *call;
    int cancel_fd; /* borrowed */
    int stop_fd;
    pthread_t thread;
};

static void on_end(void *user, const struct rpc_status *status)
{
    struct turn *turn = user;

    *turn->status = *status;
    turn->has_ended = true;
}

static bool pass_on(void *user, const ProtobufCMessage *message)
{
    const struct turn *turn = user;
    bool wants_more = turn->on_message(turn->user, message);

    if (!wants_more)
        rpc_client_cancel(turn->call);
    return wants_more;
}

static int open_turn(struct turn *turn, struct rpc_channel *channel,
                     const struct rpc_client_method *method, int deadline_ms)
{
    int r;

    turn->queue = grpc_completion_queue_create_for_next(NULL);
    r = rpc_client_call_new(channel, turn->queue, method, deadline_ms, &turn->call, NULL);
    if (r < 0) {
        rpc_status_set(turn->status, RPC_RESOURCE_EXHAUSTED, "out of memory for a call");
        return r;
    }
    turn->call->handlers =
        (struct rpc_client_handlers){.on_message = pass_on, .on_end = on_end, .user = turn};
    return 0;
}

static void run_turn(struct turn *turn)
{
    while (!turn->has_ended) {
        grpc_event event =
            grpc_completion_queue_next(turn->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

        rpc_client_dispatch(&event);
    }
}

static void close_turn(struct turn *turn)
{
    (void)rpc_client_unref(turn->call);
    grpc_completion_queue_shutdown(turn->queue);
    while (grpc_completion_queue_next(turn->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(turn->queue);
}

int rpc_call_blocking(struct rpc_channel *channel, const struct rpc_client_method *method,
                      const ProtobufCMessage *request, int deadline_ms,
                      ProtobufCMessage **ret_response, struct rpc_status *ret_status)
{
    struct turn turn = {.status = ret_status};

    if (open_turn(&turn, channel, method, deadline_ms) == 0) {
        turn.call->keeps_message = true;
        rpc_client_call_begin(turn.call, channel, request);
        run_turn(&turn);
        if (ret_status->code == RPC_OK && !turn.call->message)
            rpc_status_set(ret_status, RPC_INTERNAL, "the server gave no response message");
        if (ret_status->code == RPC_OK) {
            *ret_response = turn.call->message;
            turn.call->message = NULL;
        }
    }
    close_turn(&turn);
    return (int)ret_status->code;
}

static void *watch(void *argument)
{
    const struct watcher *watcher = argument;
    struct pollfd fds[2] = {{.fd = watcher->cancel_fd, .events = POLLIN},
                            {.fd = watcher->stop_fd, .events = POLLIN}};

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    /* Also when the fd is broken: a call that nobody can stop is worse than one that ends. */
    if (fds[0].revents != 0)
        rpc_client_cancel(watcher->call);
    return NULL;
}

static int start_watcher(struct watcher *watcher, struct rpc_client_call *call, int cancel_fd)
{
    *watcher = (struct watcher){.call = call, .cancel_fd = cancel_fd, .stop_fd = -1};
    if (cancel_fd < 0)
        return 0;
    watcher->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watcher->stop_fd < 0)
        return -errno;
    if (pthread_create(&watcher->thread, NULL, watch, watcher) != 0) {
        (void)close(watcher->stop_fd);
        return -EAGAIN;
    }
    return 0;
}

static void stop_watcher(const struct watcher *watcher)
{
    const uint64_t one = 1;

    if (watcher->stop_fd < 0)
        return;
    (void)!write(watcher->stop_fd, &one, sizeof(one));
    (void)pthread_join(watcher->thread, NULL);
    (void)close(watcher->stop_fd);
}

int rpc_stream_blocking(struct rpc_channel *channel, const struct rpc_client_method *method,
                        const ProtobufCMessage *request, int deadline_ms, int cancel_fd,
                        bool (*on_message)(void *user, const ProtobufCMessage *message), void *user,
                        struct rpc_status *ret_status)
{
    struct turn turn = {.on_message = on_message, .user = user, .status = ret_status};
    struct watcher watcher;

    if (open_turn(&turn, channel, method, deadline_ms) == 0) {
        if (start_watcher(&watcher, turn.call, cancel_fd) == 0) {
            rpc_client_call_begin(turn.call, channel, request);
            run_turn(&turn);
            stop_watcher(&watcher);
        } else {
            /* The reference that the end would have dropped. */
            (void)rpc_client_unref(turn.call);
            rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "no thread or fd for the cancel");
        }
    }
    close_turn(&turn);
    return (int)ret_status->code;
}
