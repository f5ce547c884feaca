/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cr_err;
struct cr_metrics;
struct rpc_status;

/* A channel to one target: "unix:/path", "host:port", "dns:///name:port". Thread-safe; outlives its
 * calls. */
struct rpc_channel;

/* A client loop: one completion queue and one thread, on which every callback of its calls runs. */
struct rpc_loop;

/* A call that was started; owned by the loop until on_end has returned. */
struct rpc_client_call;

struct cr_tls_material;

struct rpc_channel_options {
    const char *target; /* borrowed for the call */
    /* The authority of servers, and our own certificate with its key where they ask for one.
     * Borrowed for the call. NULL: plain text. */
    const struct cr_tls_material *tls;
    const char *tls_name; /* that the server's certificate must have; NULL: the target's host */
    const char *token;    /* bearer token sent with every call; NULL: none */
    /*
     * NULL: none. One that core cannot read is -EINVAL. What it asks for is less than it seems:
     * core retries no call whose answer has begun, a stream in particular; and its timeouts
     * shorten the deadline of a call but cannot lengthen it.
     */
    const char *service_config_json;
    size_t max_response_bytes; /* 0: 8 MiB */
};

/*
 * Refuses (-EINVAL) what is no address of a server: core would look a mistyped
 * one up in the DNS and report that instead. As rpc_channel_new() does.
 */
int rpc_channel_check_target(const char *target, struct cr_err *err);

int rpc_channel_new(const struct rpc_channel_options *options, struct rpc_channel **ret_channel,
                    struct cr_err *err);
struct rpc_channel *
rpc_channel_free(struct rpc_channel *channel); /* NULL is allowed; returns NULL */

/*
 * New calls go over new connections with these certificates; calls that have
 * begun go on where they are. Only for a channel that was made with some. Any
 * thread. On failure the channel stays as it was.
 */
int rpc_channel_renew(struct rpc_channel *channel, const struct cr_tls_material *tls,
                      struct cr_err *err);

/* New calls send this bearer token. Any thread. -EINVAL for what no token can be; the channel then
 * stays as it was. */
int rpc_channel_set_token(struct rpc_channel *channel, const char *token, struct cr_err *err);

/* Writes grpc_client_… of the methods that were called, in Prometheus' text format. Any thread. */
void rpc_channel_write_metrics(struct rpc_channel *channel, struct cr_metrics *metrics);

/* Waits until connected. Returns 0 or -ETIMEDOUT. */
int rpc_channel_wait_ready(struct rpc_channel *channel, int timeout_ms);

struct rpc_client_method {
    const char *path; /* "/package.Service/Method"; static storage */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
};

/*
 * A call passes the trace on that its starter's thread works for (common/trace.h), as metadata
 * "traceparent"; its callbacks on a loop run with that entered.
 */

/* ---- blocking, for command line tools and tests ---- */

/*
 * One unary call. On RPC_OK *ret_response is owned by the caller
 * (rpc_message_free). `deadline_ms` is relative; 0 or less means none. Returns the
 * status code, which is also in ret_status (may not be NULL).
 */
int rpc_call_blocking(struct rpc_channel *channel, const struct rpc_client_method *method,
                      const ProtobufCMessage *request, int deadline_ms,
                      ProtobufCMessage **ret_response, struct rpc_status *ret_status);

/*
 * One server-streaming call: `on_message` gets each message (valid until it
 * returns) and returns true to go on, false to cancel the call. Returns the
 * status code; RPC_CANCELLED after a false. `cancel_fd` (-1: none) cancels the
 * call when it becomes readable (signalfd, eventfd).
 */
int rpc_stream_blocking(struct rpc_channel *channel, const struct rpc_client_method *method,
                        const ProtobufCMessage *request, int deadline_ms, int cancel_fd,
                        bool (*on_message)(void *user, const ProtobufCMessage *message), void *user,
                        struct rpc_status *ret_status);

void rpc_message_free(ProtobufCMessage *message); /* NULL is allowed */

/* ---- asynchronous, for services ---- */

struct rpc_client_handlers {
    /*
     * A message, valid until the return. Return true to ask for the next at
     * once; false to pause (rpc_client_resume). NULL: messages are dropped.
     */
    bool (*on_message)(void *user, const ProtobufCMessage *message);
    /* The end, exactly once, always on the loop thread, after the last on_message. `status` is
     * valid until the return. */
    void (*on_end)(void *user, const struct rpc_status *status);
    /* rpc_client_open: the message given to rpc_client_send has left. Not after on_end. NULL:
     * nothing. */
    void (*on_writable)(void *user);
    void *user;
    bool is_unary; /* the method has one answer; for the counts alone */
};

int rpc_loop_new(struct rpc_loop **ret_loop, struct cr_err *err);
/* Cancels what is running, waits for every on_end, joins the thread. NULL is allowed; returns NULL.
 */
struct rpc_loop *rpc_loop_free(struct rpc_loop *loop);

/* Turns of its thread (common/turns.h). Any thread. */
uint64_t rpc_loop_turns(const struct rpc_loop *loop);

/*
 * Starts a unary or server-streaming call, from any thread. On success
 * *ret_call is a reference for rpc_client_cancel, rpc_client_resume and
 * rpc_client_unref; on failure on_end is not called.
 */
int rpc_client_start(struct rpc_loop *loop, struct rpc_channel *channel,
                     const struct rpc_client_method *method, const ProtobufCMessage *request,
                     int deadline_ms, const struct rpc_client_handlers *handlers,
                     struct rpc_client_call **ret_call, struct cr_err *err);

/* As rpc_client_start, for a bidirectional call: its messages follow. */
int rpc_client_open(struct rpc_loop *loop, struct rpc_channel *channel,
                    const struct rpc_client_method *method, int deadline_ms,
                    const struct rpc_client_handlers *handlers, struct rpc_client_call **ret_call,
                    struct cr_err *err);

/*
 * Sends one message of a call of rpc_client_open; packed before the return.
 * Any thread. False when one is still on its way, or after the end.
 */
bool rpc_client_send(struct rpc_client_call *call, const ProtobufCMessage *message);

/* Tells that no more will come, once. As rpc_client_send. */
bool rpc_client_close_send(struct rpc_client_call *call);

/* Any thread. Safe to repeat, and after the end. */
void rpc_client_cancel(struct rpc_client_call *call);
void rpc_client_resume(struct rpc_client_call *call);
struct rpc_client_call *
rpc_client_unref(struct rpc_client_call *call); /* NULL is allowed; returns NULL */
