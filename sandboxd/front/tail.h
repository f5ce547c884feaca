/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/execution.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/ring.h"
#include "sandboxd/front/service.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct rpc_call;
struct rpc_status;

/*
 * An execution that outlives its stream (ExecuteRequest.resume): takes its
 * events as they come and keeps the newest output, for whoever reads it now
 * or attaches later. Everything is guarded by the lock of the list; it is
 * taken before the lock of an execution.
 */
struct sbx_tail {
    struct sbx_tail *next;
    struct sbx_tails *list; /* borrowed: outlives it */
    uint32_t refs;          /* the list's, the stream thread's, each call's */
    struct sbx_execution *execution;
    struct sbx_policy policy; /* the completion queue thread's */
    struct sbx_live entry;    /* for Cancel, until the end */
    struct sbx_service *service;
    int64_t grace_ns;
    bool is_listed;
    bool is_counted; /* among what its caller has going on */

    struct sbx_ring rings[2];
    uint64_t dropped[2]; /* by the output limit */
    uint64_t taken[2];   /* offset up to which the reader has it */
    struct cr_buf chunk;
    bool is_started;
    bool is_ended;
    struct rpc_call *reader; /* a reference; NULL: nobody reads */
    int64_t until_ns;        /* without a reader: when it is killed; ended: when it is forgotten */
};

struct sbx_tails {
    pthread_mutex_t lock;
    struct sbx_tail *first;
};

void sbx_tails_init(struct sbx_tails *list);

/* Every call and every execution must have ended. */
void sbx_tails_done(struct sbx_tails *list);

/*
 * One for a call, which reads it from the beginning. Returns it with a
 * reference of the caller's; or NULL with `status` filled in: RESOURCE_EXHAUSTED
 * when this caller, or all of them, have as many as they may.
 */
struct sbx_tail *sbx_tails_new(struct sbx_service *service, struct rpc_call *call,
                               const struct sbx_request *request, const char *caller,
                               struct rpc_status *status);

/* What the execution of a tail is made with; holds a reference until its release. */
struct sbx_waker sbx_tail_waker(struct sbx_tail *tail);

/* The execution was made (taken), and is about to be submitted. */
void sbx_tail_begin(struct sbx_tail *tail, struct sbx_execution *execution);

/*
 * Another call takes its place as the reader, from these offsets on. Returns
 * the tail with a reference, or NULL with `status` filled in: NOT_FOUND
 * (another caller's, too), OUT_OF_RANGE for an offset beyond what was written.
 */
struct sbx_tail *sbx_tails_attach(struct sbx_tails *list, struct rpc_call *call, const char *caller,
                                  const char *execution_id, const uint64_t offsets[2],
                                  struct rpc_status *status);

/* The call reads no more: the program goes on for its grace. Safe to repeat. */
void sbx_tail_detach(struct sbx_tail *tail, const struct rpc_call *call);

/* NULL is allowed; always returns NULL. */
struct sbx_tail *sbx_tail_unref(struct sbx_tail *tail);

/* Where a reader is. */
struct sbx_tail_cursor {
    uint64_t at[2];
    uint64_t dropped_told[2];
    uint32_t last_stream;
    bool is_started_told;
};

enum sbx_tail_step {
    SBX_TAIL_NONE, /* nothing now; a wake will follow */
    SBX_TAIL_STARTED,
    SBX_TAIL_LOST, /* the ring has moved on: `event` has stream and offset, and how many as
                      `dropped` */
    SBX_TAIL_DATA, /* appended to the chunk */
    SBX_TAIL_TRUNCATED,
    SBX_TAIL_ENDED,
    SBX_TAIL_DISPLACED, /* another call reads it now */
};

/* The next step of a reader; lets the program write on. */
enum sbx_tail_step sbx_tail_next(struct sbx_tail *tail, const struct rpc_call *call,
                                 struct sbx_tail_cursor *cursor, struct cr_buf *chunk,
                                 struct sbx_event *ret_event);

/* Stream thread: kills and forgets those whose time is over. Returns when to look again, INT64_MAX:
 * there is none. */
int64_t sbx_tails_expire(struct sbx_tails *list, int64_t now_ns);
