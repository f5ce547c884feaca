/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/trace.h"
#include "rpc/client.h"

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/grpc.h>

/*
 * Internal to rpc/: the life of one call on a completion queue, whoever turns
 * that queue: the thread of a loop, or the caller of a blocking function.
 */

struct rpc_counts;

struct rpc_client_tag {
    void (*run)(struct rpc_client_call *call, bool is_ok);
    struct rpc_client_call *call;
};

struct rpc_client_call {
    grpc_call *core;
    struct rpc_link *link; /* a reference: outlives core's call */
    const char *path;      /* static storage */
    const ProtobufCMessageDescriptor *response;
    size_t max_response_bytes;
    struct rpc_client_handlers handlers;
    /* After on_end, with the call still whole. NULL: nothing. */
    void (*on_gone)(struct rpc_client_call *call);
    struct rpc_loop *loop;                   /* borrowed: outlives the end. NULL: blocking */
    struct rpc_client_call *next, *previous; /* in the loop; guarded by its lock */
    bool keeps_message; /* the first message goes to `message`, not to on_message */
    ProtobufCMessage *message;

    struct rpc_client_tag start_tag, receive_tag, status_tag, resume_tag, send_tag;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *received;
    struct cr_trace trace;     /* not set: none */
    struct rpc_counts *counts; /* borrowed: the channel's, which outlives the call */
    int64_t started_ns;
    grpc_status_code code;
    grpc_slice text;
    struct rpc_status *failure; /* of our own, e.g. an answer that cannot be read */
    bool has_started, is_receiving, has_status, is_paused;

    atomic_int refs;
    pthread_mutex_t lock; /* guards below; also held while batches are started from outside */
    bool has_resume;      /* resume_tag is on its way */
    bool is_sending;      /* send_tag is on its way */
    bool has_ended;
};

/*
 * Makes a call that is not yet started. The caller gets one reference; a
 * second belongs to the call itself, from rpc_client_call_begin to its end.
 */
int rpc_client_call_new(struct rpc_channel *channel, grpc_completion_queue *queue,
                        const struct rpc_client_method *method, int deadline_ms,
                        struct rpc_client_call **ret_call, struct cr_err *err);

/* NULL request: bidirectional, the messages follow. */
void rpc_client_call_begin(struct rpc_client_call *call, struct rpc_channel *channel,
                           const ProtobufCMessage *request);

/* Handles what came from the queue. */
void rpc_client_dispatch(const grpc_event *event);
