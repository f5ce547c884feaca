/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/event_log.h"

#include "common/err.h"
#include "orchestrator/graph/event_log_parts.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DELTAS_FIRST 32
_Static_assert(AGT_LOG_DELTAS_MAX % DELTAS_FIRST == 0,
               "doubled, the ring becomes as large as may be");

struct agt_event *agt_event_new(const Crisol__Agent__V1__RunEvent *message, bool is_state,
                                bool is_last)
{
    size_t size = crisol__agent__v1__run_event__get_packed_size(message);
    struct agt_event *event;

    if (size > UINT32_MAX)
        return NULL;
    event = malloc(sizeof(*event) + size);
    if (!event)
        return NULL;
    *event = (struct agt_event){
        .refs = 1,
        .seq = message->seq,
        .is_state = is_state,
        .is_last = is_last,
        .size = (uint32_t)size,
    };
    (void)crisol__agent__v1__run_event__pack(message, event->packed);
    return event;
}

struct agt_event *agt_event_ref(struct agt_event *event)
{
    (void)__atomic_fetch_add(&event->refs, 1, __ATOMIC_RELAXED);
    return event;
}

/* Room of events that came to lie behind each other. */
struct agt_event_block {
    uint32_t refs; /* atomic: those of the events */
    _Alignas(struct agt_event) uint8_t data[];
};

static void unref_block(struct agt_event_block *block)
{
    if (__atomic_fetch_sub(&block->refs, 1, __ATOMIC_ACQ_REL) == 1)
        free(block);
}

struct agt_event *agt_event_unref(struct agt_event *event)
{
    if (!event || __atomic_fetch_sub(&event->refs, 1, __ATOMIC_ACQ_REL) != 1)
        return NULL;
    if (event->block)
        unref_block(event->block);
    else
        free(event);
    return NULL;
}

struct agt_event_log *agt_event_log_new(const char *run_id)
{
    struct agt_event_log *log = calloc(1, sizeof(*log));

    if (!log)
        return NULL;
    log->refs = 1;
    (void)memccpy(log->run_id, run_id, '\0', sizeof(log->run_id) - 1);
    (void)pthread_mutex_init(&log->lock, NULL);
    (void)pthread_cond_init(&log->notified, NULL);
    return log;
}

struct agt_event_log *agt_event_log_ref(struct agt_event_log *log)
{
    (void)__atomic_fetch_add(&log->refs, 1, __ATOMIC_RELAXED);
    return log;
}

static struct agt_log_entry *delta_at(const struct agt_event_log *log, size_t index)
{
    return &log->deltas[(log->delta_first + index) % log->delta_room];
}

static void forget_first_delta(struct agt_event_log *log)
{
    struct agt_log_entry *entry = delta_at(log, 0);

    log->delta_bytes -= entry->event->size;
    entry->event = agt_event_unref(entry->event);
    log->delta_first = (log->delta_first + 1) % log->delta_room;
    log->delta_count--;
}

struct agt_event_log *agt_event_log_unref(struct agt_event_log *log)
{
    if (!log || __atomic_fetch_sub(&log->refs, 1, __ATOMIC_ACQ_REL) != 1)
        return NULL;
    for (size_t i = 0; i < log->state_count; i++)
        (void)agt_event_unref(log->states[i].event);
    while (log->delta_count > 0)
        forget_first_delta(log);
    free(log->states);
    free(log->deltas);
    (void)pthread_cond_destroy(&log->notified);
    (void)pthread_mutex_destroy(&log->lock);
    free(log);
    return NULL;
}

static int add_state(struct agt_event_log *log, struct agt_event *event)
{
    if (log->state_count == log->state_room) {
        size_t room = log->state_room ? 2 * log->state_room : 32;
        struct agt_log_entry *states = reallocarray(log->states, room, sizeof(*states));

        if (!states)
            return -ENOMEM;
        log->states = states;
        log->state_room = room;
    }
    assert(event->seq == log->state_count + 1);
    log->states[log->state_count++] = (struct agt_log_entry){log->next_position++, event};
    log->state_bytes += event->size;
    log->is_ended = event->is_last;
    return 0;
}

/* ---- what is kept of a run that has ended ---- */

/* A larger one has pages of its own. */
#define GATHERED_MAX 65536U

/* With the lock nobody takes a reference of an event that nobody has. */
static bool can_be_moved(const struct agt_event *event)
{
    return !event->block && event->size <= GATHERED_MAX &&
           __atomic_load_n(&event->refs, __ATOMIC_ACQUIRE) == 1;
}

static size_t room_of(const struct agt_event *event)
{
    size_t align = _Alignof(struct agt_event);

    return (sizeof(*event) + event->size + align - 1) / align * align;
}

static struct agt_event *move_to(struct agt_event *event, struct agt_event_block *block,
                                 size_t offset)
{
    struct agt_event *moved = (struct agt_event *)(void *)(block->data + offset);

    memcpy(moved, event, sizeof(*event) + event->size);
    moved->block = block;
    block->refs++;
    free(event);
    return moved;
}

/*
 * The events of a run were allocated between all that its calls needed for a while, and keep the
 * pages of that: of ten thousand ended runs, two thirds of the memory. Where there is no memory to
 * lay them behind each other, they stay where they are.
 */
static void gather(struct agt_event_log *log)
{
    struct agt_event_block *block;
    size_t room = 0;
    size_t used = 0;

    for (size_t i = 0; i < log->state_count; i++)
        room += can_be_moved(log->states[i].event) ? room_of(log->states[i].event) : 0;
    block = room > 0 ? malloc(sizeof(*block) + room) : NULL;
    if (!block)
        return;
    block->refs = 1; /* ours, until all is moved */
    for (size_t i = 0; i < log->state_count; i++) {
        struct agt_event *event = log->states[i].event;
        size_t size = room_of(event);

        /* A reader may have let go of one meanwhile, for which there is no room. */
        if (!can_be_moved(event) || size > room - used)
            continue;
        log->states[i].event = move_to(event, block, used);
        used += size;
    }
    unref_block(block);
}

void agt_event_log_settle(struct agt_event_log *log)
{
    struct agt_log_entry *states;

    if (!log->is_ended || log->watches)
        return;
    while (log->delta_count > 0)
        forget_first_delta(log);
    free(log->deltas);
    log->deltas = NULL;
    log->delta_room = 0;
    gather(log);
    if (log->state_count == 0 || log->state_count == log->state_room)
        return;
    states = reallocarray(log->states, log->state_count, sizeof(*states));
    if (states) {
        log->states = states;
        log->state_room = log->state_count;
    }
}

/* Most runs have few deltas, and there are many runs. */
static int grow_ring(struct agt_event_log *log)
{
    size_t room = log->delta_room ? 2 * log->delta_room : DELTAS_FIRST;
    struct agt_log_entry *deltas = calloc(room, sizeof(*deltas));

    if (!deltas)
        return -ENOMEM;
    for (size_t i = 0; i < log->delta_count; i++)
        deltas[i] = *delta_at(log, i);
    free(log->deltas);
    log->deltas = deltas;
    log->delta_room = room;
    log->delta_first = 0;
    return 0;
}

static int add_delta(struct agt_event_log *log, struct agt_event *event)
{
    if (log->delta_count == log->delta_room && log->delta_room < AGT_LOG_DELTAS_MAX &&
        grow_ring(log) < 0)
        return -ENOMEM;
    while (log->delta_count == AGT_LOG_DELTAS_MAX ||
           (log->delta_count > 0 && log->delta_bytes + event->size > AGT_LOG_DELTA_BYTES_MAX))
        forget_first_delta(log);
    *delta_at(log, log->delta_count) = (struct agt_log_entry){log->next_position++, event};
    log->delta_count++;
    log->delta_bytes += event->size;
    return 0;
}

int agt_event_log_add(struct agt_event_log *log, struct agt_event *take_event)
{
    int r;

    (void)pthread_mutex_lock(&log->lock);
    assert(!log->is_ended);
    r = take_event->is_state ? add_state(log, take_event) : add_delta(log, take_event);
    if (r == 0) {
        agt_watches_mark(log);
        agt_watches_notify(log);
        agt_event_log_settle(log);
    }
    (void)pthread_mutex_unlock(&log->lock);
    if (r < 0)
        (void)agt_event_unref(take_event);
    return r;
}

void agt_event_log_skip(struct agt_event_log *log, uint32_t deltas)
{
    (void)pthread_mutex_lock(&log->lock);
    log->next_position += deltas;
    (void)pthread_mutex_unlock(&log->lock);
}

void agt_event_log_end(struct agt_event_log *log)
{
    (void)pthread_mutex_lock(&log->lock);
    log->is_ended = true;
    agt_watches_mark(log);
    agt_watches_notify(log);
    agt_event_log_settle(log);
    (void)pthread_mutex_unlock(&log->lock);
}

bool agt_event_log_is_ended(struct agt_event_log *log)
{
    bool is_ended;

    (void)pthread_mutex_lock(&log->lock);
    is_ended = log->is_ended;
    (void)pthread_mutex_unlock(&log->lock);
    return is_ended;
}

struct agt_event *agt_event_log_last(struct agt_event_log *log)
{
    struct agt_event *event = NULL;

    (void)pthread_mutex_lock(&log->lock);
    if (log->state_count > 0 && log->states[log->state_count - 1].event->is_last)
        event = agt_event_ref(log->states[log->state_count - 1].event);
    (void)pthread_mutex_unlock(&log->lock);
    return event;
}

struct agt_event *agt_event_log_newest(struct agt_event_log *log)
{
    struct agt_event *event = NULL;

    (void)pthread_mutex_lock(&log->lock);
    if (log->state_count > 0)
        event = agt_event_ref(log->states[log->state_count - 1].event);
    (void)pthread_mutex_unlock(&log->lock);
    return event;
}

size_t agt_event_log_bytes(struct agt_event_log *log)
{
    size_t bytes;

    (void)pthread_mutex_lock(&log->lock);
    bytes = log->state_bytes + log->delta_bytes;
    (void)pthread_mutex_unlock(&log->lock);
    return bytes;
}

/* By bisection, as a late reader may start anywhere. */
static const struct agt_log_entry *find_state(const struct agt_event_log *log, uint64_t position)
{
    size_t low = 0;
    size_t high = log->state_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (log->states[middle].position < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log->state_count ? &log->states[low] : NULL;
}

static const struct agt_log_entry *find_delta(const struct agt_event_log *log, uint64_t position)
{
    size_t low = 0;
    size_t high = log->delta_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (delta_at(log, middle)->position < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log->delta_count ? delta_at(log, low) : NULL;
}

const struct agt_log_entry *agt_event_log_find(const struct agt_event_log *log, uint64_t position)
{
    const struct agt_log_entry *state = find_state(log, position);
    const struct agt_log_entry *delta = find_delta(log, position);

    return !delta || (state && state->position < delta->position) ? state : delta;
}
