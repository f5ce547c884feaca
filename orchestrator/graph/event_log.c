/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/event_log.h"

#include "common/clock.h"
#include "common/err.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DELTAS_FIRST 32
_Static_assert(AGT_LOG_DELTAS_MAX % DELTAS_FIRST == 0,
               "doubled, the ring becomes as large as may be");

/*
 * Every event has a position: 0, 1, 2, … over states and deltas together.
 * State events are never missing, so a position that a reader cannot find any
 * more was a delta: the jump is the number of dropped ones.
 */
struct entry {
    uint64_t position;
    struct agt_event *event;
};

struct agt_event_log {
    uint32_t refs; /* atomic */
    char run_id[33];

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t notified;
    struct entry *states; /* by seq - 1 */
    size_t state_count;
    size_t state_room;
    struct entry *deltas; /* ring; NULL until the first */
    size_t delta_room;    /* entries of the ring; at most AGT_LOG_DELTAS_MAX */
    size_t delta_first;
    size_t delta_count;
    size_t delta_bytes;
    size_t state_bytes;
    uint64_t next_position;
    bool is_ended;
    struct agt_watch *watches;
};

struct agt_watch {
    struct agt_event_log *log; /* a reference */
    void (*notify)(void *user);
    void *user;
    /* guarded by the log's lock */
    struct agt_watch *next;
    uint32_t from_seq;     /* 0: placed; else still to be placed at this state event */
    uint64_t position;     /* next to deliver */
    uint32_t last_seq;     /* of the last state event delivered */
    bool is_waiting;       /* was told that there is nothing */
    bool is_notify_due;    /* to be told that there is something */
    bool is_unlinked;      /* is in no list any more: `next` says nothing */
    uint32_t notify_count; /* notify calls under way */
};

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

static struct entry *delta_at(const struct agt_event_log *log, size_t index)
{
    return &log->deltas[(log->delta_first + index) % log->delta_room];
}

static void forget_first_delta(struct agt_event_log *log)
{
    struct entry *entry = delta_at(log, 0);

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
        struct entry *states = reallocarray(log->states, room, sizeof(*states));

        if (!states)
            return -ENOMEM;
        log->states = states;
        log->state_room = room;
    }
    assert(event->seq == log->state_count + 1);
    log->states[log->state_count++] = (struct entry){log->next_position++, event};
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

/*
 * Nothing is added any more and nobody reads: what is kept of an ended run are its state events,
 * which say all that its deltas said. There may be thousands of such runs.
 */
static void settle_end(struct agt_event_log *log)
{
    struct entry *states;

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
    struct entry *deltas = calloc(room, sizeof(*deltas));

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
    *delta_at(log, log->delta_count) = (struct entry){log->next_position++, event};
    log->delta_count++;
    log->delta_bytes += event->size;
    return 0;
}

static void mark_waiting(struct agt_event_log *log)
{
    for (struct agt_watch *watch = log->watches; watch; watch = watch->next) {
        watch->is_notify_due |= watch->is_waiting;
        watch->is_waiting = false;
    }
}

static struct agt_watch *find_due(struct agt_watch *watch)
{
    while (watch && !watch->is_notify_due)
        watch = watch->next;
    return watch;
}

/* Called and returns with the lock held; it is released around each notify. */
static void notify_due(struct agt_event_log *log)
{
    struct agt_watch *watch = find_due(log->watches);

    while (watch) {
        watch->is_notify_due = false;
        watch->notify_count++;
        (void)pthread_mutex_unlock(&log->lock);
        watch->notify(watch->user);
        (void)pthread_mutex_lock(&log->lock);
        watch->notify_count--; /* agt_watch_free() waits for this: the watch is alive */
        if (watch->is_unlinked)
            (void)pthread_cond_broadcast(&log->notified);
        watch = find_due(watch->is_unlinked ? log->watches : watch->next);
    }
}

int agt_event_log_add(struct agt_event_log *log, struct agt_event *take_event)
{
    int r;

    (void)pthread_mutex_lock(&log->lock);
    assert(!log->is_ended);
    r = take_event->is_state ? add_state(log, take_event) : add_delta(log, take_event);
    if (r == 0) {
        mark_waiting(log);
        notify_due(log);
        settle_end(log);
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
    mark_waiting(log);
    notify_due(log);
    settle_end(log);
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

int agt_event_log_watch(struct agt_event_log *log, uint32_t from_seq, void (*notify)(void *user),
                        void *user, struct agt_watch **ret_watch)
{
    struct agt_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return -ENOMEM;
    watch->log = agt_event_log_ref(log);
    watch->notify = notify;
    watch->user = user;
    watch->from_seq = from_seq;
    (void)pthread_mutex_lock(&log->lock);
    watch->next = log->watches;
    log->watches = watch;
    (void)pthread_mutex_unlock(&log->lock);
    *ret_watch = watch;
    return 0;
}

/* First state event at or behind the position; by bisection, as a late reader may start anywhere.
 */
static const struct entry *find_state(const struct agt_event_log *log, uint64_t position)
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

static const struct entry *find_delta(const struct agt_event_log *log, uint64_t position)
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

static struct agt_event *new_gap(const struct agt_watch *watch, uint64_t dropped)
{
    Crisol__Agent__V1__Gap gap = CRISOL__AGENT__V1__GAP__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    gap.dropped_deltas = dropped < UINT32_MAX ? (uint32_t)dropped : UINT32_MAX;
    event.run_id = watch->log->run_id;
    event.seq = watch->last_seq;
    event.time_ms = (uint64_t)cr_clock_real_ms();
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_GAP;
    event.gap = &gap;
    return agt_event_new(&event, false, false);
}

/* False while the state event that the reader wants to start with has not happened. */
static bool place(struct agt_watch *watch)
{
    if (watch->from_seq == 0)
        return true;
    if (watch->log->state_count < watch->from_seq)
        return false;
    watch->position = watch->log->states[watch->from_seq - 1].position;
    watch->last_seq = watch->from_seq - 1;
    watch->from_seq = 0;
    return true;
}

static int nothing_yet(struct agt_watch *watch)
{
    if (watch->log->is_ended)
        return -EPIPE;
    watch->is_waiting = true;
    return 0;
}

static int next_locked(struct agt_watch *watch, struct agt_event **ret_event)
{
    const struct entry *state;
    const struct entry *entry;
    struct agt_event *gap;

    if (!place(watch))
        return nothing_yet(watch);
    state = find_state(watch->log, watch->position);
    entry = find_delta(watch->log, watch->position);
    if (!entry || (state && state->position < entry->position))
        entry = state;
    if (!entry)
        return nothing_yet(watch);
    if (entry->position > watch->position) {
        gap = new_gap(watch, entry->position - watch->position);
        if (!gap)
            return -ENOMEM;
        watch->position = entry->position;
        *ret_event = gap;
        return 1;
    }
    watch->position++;
    if (entry->event->is_state)
        watch->last_seq = entry->event->seq;
    *ret_event = agt_event_ref(entry->event);
    return 1;
}

int agt_watch_next(struct agt_watch *watch, struct agt_event **ret_event)
{
    int r;

    (void)pthread_mutex_lock(&watch->log->lock);
    r = next_locked(watch, ret_event);
    (void)pthread_mutex_unlock(&watch->log->lock);
    return r;
}

struct agt_watch *agt_watch_free(struct agt_watch *watch)
{
    struct agt_event_log *log;
    struct agt_watch **link;

    if (!watch)
        return NULL;
    log = watch->log;
    (void)pthread_mutex_lock(&log->lock);
    for (link = &log->watches; *link != watch; link = &(*link)->next)
        assert(*link);
    *link = watch->next;
    watch->is_unlinked = true;
    while (watch->notify_count > 0)
        (void)pthread_cond_wait(&log->notified, &log->lock);
    settle_end(log);
    (void)pthread_mutex_unlock(&log->lock);
    (void)agt_event_log_unref(log);
    free(watch);
    return NULL;
}
