/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/tail.h"

#include "common/buf.h"
#include "common/clock.h"
#include "common/utf8.h"
#include "rpc/callers.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_CALLER_MAX 16U
#define RINGS_BYTES_MAX (32U << 20) /* of all */
#define FULL_RETRY_MS 5000

/* ---- life ---- */

void sbx_tails_init(struct sbx_tails *list)
{
    *list = (struct sbx_tails){.first = NULL};
    (void)pthread_mutex_init(&list->lock, NULL); /* cannot fail with default attributes */
}

static void free_tail(struct sbx_tail *tail)
{
    (void)rpc_call_unref(tail->reader); /* only where it never began */
    sbx_execution_unref(tail->execution);
    sbx_ring_done(&tail->rings[0]);
    sbx_ring_done(&tail->rings[1]);
    cr_buf_done(&tail->chunk);
    free(tail);
}

/* With the lock. */
static void unref(struct sbx_tail *tail)
{
    if (--tail->refs == 0)
        free_tail(tail);
}

struct sbx_tail *sbx_tail_unref(struct sbx_tail *tail)
{
    struct sbx_tails *list = tail ? tail->list : NULL;

    if (!tail)
        return NULL;
    (void)pthread_mutex_lock(&list->lock);
    unref(tail);
    (void)pthread_mutex_unlock(&list->lock);
    return NULL;
}

/* With the lock. */
static void forget(struct sbx_tail *tail)
{
    struct sbx_tail **slot = &tail->list->first;

    while (*slot && *slot != tail)
        slot = &(*slot)->next;
    if (!*slot)
        return;
    *slot = tail->next;
    tail->is_listed = false;
    unref(tail);
}

void sbx_tails_done(struct sbx_tails *list)
{
    (void)pthread_mutex_lock(&list->lock);
    while (list->first)
        forget(list->first);
    (void)pthread_mutex_unlock(&list->lock);
    (void)pthread_mutex_destroy(&list->lock);
}

/* ---- taking events ---- */

/*
 * Somebody who reads loses nothing: the program is held back while what he has
 * not taken and one more chunk would not fit. Without a reader the ring moves on.
 */
static bool has_room(const struct sbx_tail *tail)
{
    for (size_t i = 0; tail->reader && i < 2; i++) {
        const uint64_t unread = tail->rings[i].end - tail->taken[i];

        if (unread > 0 && unread + SBX_CHUNK_MAX > tail->rings[i].cap)
            return false;
    }
    return true;
}

/* With the lock. */
static void end(struct sbx_tail *tail)
{
    tail->is_ended = true;
    tail->until_ns = cr_clock_mono_ns() + tail->grace_ns;
    sbx_service_remove(tail->service, &tail->entry);
    if (tail->is_counted)
        rpc_callers_leave(tail->service->callers, sbx_execution_caller(tail->execution));
    tail->is_counted = false;
}

/* Takes what the execution has and there is room for. With the lock. */
static void pump(struct sbx_tail *tail)
{
    while (!tail->is_ended && has_room(tail)) {
        const struct sbx_event event = sbx_execution_take(tail->execution, &tail->chunk);

        if (event.type == SBX_EVENT_NONE)
            return;
        if (event.type == SBX_EVENT_STARTED)
            tail->is_started = true;
        else if (event.type == SBX_EVENT_DATA)
            sbx_ring_add(&tail->rings[event.stream - 1], tail->chunk.data, tail->chunk.size);
        else if (event.type == SBX_EVENT_TRUNCATED)
            tail->dropped[event.stream - 1] = event.dropped;
        else
            end(tail);
        cr_buf_clear(&tail->chunk);
    }
}

/* From the stream thread. */
static void on_wake(void *user)
{
    struct sbx_tail *tail = user;

    (void)pthread_mutex_lock(&tail->list->lock);
    pump(tail);
    if (tail->reader)
        rpc_call_wake(tail->reader);
    (void)pthread_mutex_unlock(&tail->list->lock);
}

static void on_release(void *user)
{
    (void)sbx_tail_unref(user);
}

/* ---- making ---- */

static void refuse(struct rpc_status *status, const char *reason, const char *text)
{
    rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "%s", text);
    status->retry_after_ms = FULL_RETRY_MS;
    (void)snprintf(status->reason, sizeof(status->reason), "%s", reason);
}

/* With the lock. */
static bool is_admitted(const struct sbx_tails *list, const struct sbx_request *request,
                        const char *caller, struct rpc_status *status)
{
    uint64_t bytes = 2 * (uint64_t)request->ring_bytes;
    uint32_t own = 0;

    for (const struct sbx_tail *at = list->first; at; at = at->next) {
        bytes += 2 * at->rings[0].cap;
        own += at->execution && strcmp(sbx_execution_caller(at->execution), caller) == 0;
    }
    if (own < OF_CALLER_MAX && bytes <= RINGS_BYTES_MAX)
        return true;
    refuse(status, "RESUME_QUOTA",
           own < OF_CALLER_MAX
               ? "resume: the memory that is for output to be taken up again is all in use"
               : "resume: you have as many executions that outlive their stream as one caller may");
    return false;
}

struct sbx_tail *sbx_tails_new(struct sbx_service *service, struct rpc_call *call,
                               const struct sbx_request *request, const char *caller,
                               struct rpc_status *status)
{
    struct sbx_tails *list = service->tails;
    struct sbx_tail *tail = calloc(1, sizeof(*tail));
    bool is_made = tail && sbx_ring_init(&tail->rings[0], request->ring_bytes) == 0 &&
                   sbx_ring_init(&tail->rings[1], request->ring_bytes) == 0;

    if (!is_made)
        refuse(status, "", "the service is out of memory; try again later");
    (void)pthread_mutex_lock(&list->lock);
    is_made = is_made && is_admitted(list, request, caller, status);
    (void)pthread_mutex_unlock(&list->lock);
    if (!is_made) {
        if (tail)
            free_tail(tail);
        return NULL;
    }
    tail->list = list;
    tail->refs = 1;
    tail->service = service;
    tail->grace_ns = request->grace_ms * CR_NS_PER_MS;
    tail->until_ns = INT64_MAX;
    tail->reader = rpc_call_ref(call);
    cr_buf_init(&tail->chunk, SBX_CHUNK_MAX);
    return tail;
}

struct sbx_waker sbx_tail_waker(struct sbx_tail *tail)
{
    return (struct sbx_waker){on_wake, on_release, tail};
}

void sbx_tail_begin(struct sbx_tail *tail, struct sbx_execution *execution)
{
    struct sbx_tails *list = tail->list;

    (void)pthread_mutex_lock(&list->lock);
    tail->execution = execution;
    tail->entry.execution = execution;
    tail->is_listed = true;
    tail->refs += 2; /* of the list, and of the waker */
    tail->next = list->first;
    list->first = tail;
    (void)pthread_mutex_unlock(&list->lock);
    sbx_service_add(tail->service, &tail->entry);
}

/* ---- readers ---- */

/*
 * With the lock. Returns the call that it was, to be woken and let go without
 * it: the end of a call comes back here.
 */
static struct rpc_call *set_reader(struct sbx_tail *tail, struct rpc_call *call)
{
    struct rpc_call *before = tail->reader;

    tail->reader = call ? rpc_call_ref(call) : NULL;
    if (!tail->is_ended)
        tail->until_ns = call ? INT64_MAX : cr_clock_mono_ns() + tail->grace_ns;
    return before;
}

static void let_go(struct rpc_call *call)
{
    if (call)
        rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

static struct sbx_tail *find(const struct sbx_tails *list, const char *caller, const char *id)
{
    for (struct sbx_tail *at = list->first; at; at = at->next) {
        if (strcmp(sbx_execution_id(at->execution), id) == 0)
            return strcmp(sbx_execution_caller(at->execution), caller) == 0 ? at : NULL;
    }
    return NULL;
}

static bool are_offsets_valid(const struct sbx_tail *tail, const uint64_t offsets[2],
                              struct rpc_status *status)
{
    static const char *const fields[] = {"stdout_offset", "stderr_offset"};

    for (size_t i = 0; i < 2; i++) {
        if (offsets[i] <= tail->rings[i].end)
            continue;
        rpc_status_set(status, RPC_OUT_OF_RANGE,
                       "%s: %" PRIu64 " is beyond the %" PRIu64 " bytes that were written",
                       fields[i], offsets[i], tail->rings[i].end);
        return false;
    }
    return true;
}

struct sbx_tail *sbx_tails_attach(struct sbx_tails *list, struct rpc_call *call, const char *caller,
                                  const char *execution_id, const uint64_t offsets[2],
                                  struct rpc_status *status)
{
    struct rpc_call *before = NULL;
    struct sbx_tail *tail;

    (void)pthread_mutex_lock(&list->lock);
    tail = find(list, caller, execution_id);
    if (!tail) {
        rpc_status_set(status, RPC_NOT_FOUND,
                       "execution_id: you have no such execution whose output can be taken up; "
                       "it was not begun with `resume`, or its grace is over");
        (void)snprintf(status->reason, sizeof(status->reason), "EXECUTION_NOT_FOUND");
    } else if (!are_offsets_valid(tail, offsets, status)) {
        tail = NULL;
    } else {
        tail->refs++;
        memcpy(tail->taken, offsets, sizeof(tail->taken));
        before = set_reader(tail, call);
    }
    (void)pthread_mutex_unlock(&list->lock);
    let_go(before);
    return tail;
}

void sbx_tail_detach(struct sbx_tail *tail, const struct rpc_call *call)
{
    struct rpc_call *before = NULL;

    (void)pthread_mutex_lock(&tail->list->lock);
    if (tail->reader == call) {
        before = set_reader(tail, NULL);
        if (tail->execution)
            pump(tail); /* what was held back for him */
    }
    (void)pthread_mutex_unlock(&tail->list->lock);
    (void)rpc_call_unref(before);
    sbx_backend_nudge(tail->service->backend); /* who looks at the clock */
}

/* Into the chunk, which is empty. Returns how many bytes. */
static size_t copy(const struct sbx_tail *tail, const struct sbx_ring *ring, uint64_t at,
                   struct cr_buf *chunk)
{
    const uint8_t *data;
    size_t size = sbx_ring_span(ring, at, &data);

    while (size > 0 && chunk->size < SBX_CHUNK_MAX) {
        const size_t room = SBX_CHUNK_MAX - chunk->size;

        if (cr_buf_add(chunk, data, size < room ? size : room) < 0)
            break; /* the rest with the next */
        size = sbx_ring_span(ring, at + chunk->size, &data);
    }
    /* The end of a character may be on its way. */
    if (sbx_execution_request(tail->execution)->as_text &&
        !(tail->is_ended && at + chunk->size == ring->end))
        chunk->size = cr_utf8_complete_prefix(chunk->data, chunk->size);
    return chunk->size;
}

/* What there is of one stream. */
static enum sbx_tail_step next_of(struct sbx_tail *tail, size_t stream,
                                  struct sbx_tail_cursor *cursor, struct cr_buf *chunk,
                                  struct sbx_event *event)
{
    const struct sbx_ring *ring = &tail->rings[stream];
    uint64_t *at = &cursor->at[stream];
    size_t size;

    *event = (struct sbx_event){.stream = (uint32_t)stream + 1, .offset = *at};
    if (*at < ring->start) {
        event->dropped = ring->start - *at;
        *at = ring->start;
        return SBX_TAIL_LOST;
    }
    size = *at < ring->end ? copy(tail, ring, *at, chunk) : 0;
    if (size > 0) {
        *at += size;
        tail->taken[stream] = *at;
        cursor->last_stream = (uint32_t)stream;
        return SBX_TAIL_DATA;
    }
    event->dropped = tail->dropped[stream];
    if (event->dropped != cursor->dropped_told[stream] && *at == ring->end &&
        (cursor->dropped_told[stream] == 0 || tail->is_ended)) {
        cursor->dropped_told[stream] = event->dropped;
        return SBX_TAIL_TRUNCATED;
    }
    return SBX_TAIL_NONE;
}

static enum sbx_tail_step next(struct sbx_tail *tail, struct sbx_tail_cursor *cursor,
                               struct cr_buf *chunk, struct sbx_event *event)
{
    if (tail->is_started && !cursor->is_started_told) {
        cursor->is_started_told = true;
        return SBX_TAIL_STARTED;
    }
    /* The streams take turns. */
    for (uint32_t i = 1; i <= 2; i++) {
        enum sbx_tail_step step =
            next_of(tail, (cursor->last_stream + i) % 2, cursor, chunk, event);

        if (step != SBX_TAIL_NONE)
            return step;
    }
    return tail->is_ended ? SBX_TAIL_ENDED : SBX_TAIL_NONE;
}

enum sbx_tail_step sbx_tail_next(struct sbx_tail *tail, const struct rpc_call *call,
                                 struct sbx_tail_cursor *cursor, struct cr_buf *chunk,
                                 struct sbx_event *ret_event)
{
    enum sbx_tail_step step = SBX_TAIL_DISPLACED;

    (void)pthread_mutex_lock(&tail->list->lock);
    if (tail->reader == call) {
        pump(tail);
        step = next(tail, cursor, chunk, ret_event);
    }
    (void)pthread_mutex_unlock(&tail->list->lock);
    return step;
}

/* ---- time ---- */

int64_t sbx_tails_expire(struct sbx_tails *list, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;

    (void)pthread_mutex_lock(&list->lock);
    for (struct sbx_tail *at = list->first, *following; at; at = following) {
        following = at->next;
        if (at->until_ns <= now_ns && at->is_ended) {
            forget(at);
            continue;
        }
        if (at->until_ns <= now_ns) {
            sbx_execution_cancel(at->execution, false);
            at->until_ns = INT64_MAX;
        }
        next_ns = at->until_ns < next_ns ? at->until_ns : next_ns;
    }
    (void)pthread_mutex_unlock(&list->lock);
    return next_ns;
}
