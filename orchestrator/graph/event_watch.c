/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/event_log_parts.h"

#include <assert.h>
#include <stdlib.h>

void agt_watches_mark(struct agt_event_log *log)
{
    for (struct agt_watch *watch = log->watches; watch; watch = watch->next) {
        if (watch->only_last && !log->is_ended)
            continue;
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

void agt_watches_notify(struct agt_event_log *log)
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

void agt_watch_only_last(struct agt_watch *watch)
{
    (void)pthread_mutex_lock(&watch->log->lock);
    watch->only_last = true;
    (void)pthread_mutex_unlock(&watch->log->lock);
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

/* Behind everything but the last event, which is a state event. */
static void skip_to_last(struct agt_watch *watch)
{
    const struct agt_event_log *log = watch->log;
    uint64_t last = log->state_count > 0 ? log->states[log->state_count - 1].position : 0;

    if (watch->position < last)
        watch->position = last;
}

static int next_locked(struct agt_watch *watch, struct agt_event **ret_event)
{
    const struct agt_log_entry *entry;
    struct agt_event *gap;

    if (!place(watch) || (watch->only_last && !watch->log->is_ended))
        return nothing_yet(watch);
    if (watch->only_last)
        skip_to_last(watch);
    entry = agt_event_log_find(watch->log, watch->position);
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
    agt_event_log_settle(log);
    (void)pthread_mutex_unlock(&log->lock);
    (void)agt_event_log_unref(log);
    free(watch);
    return NULL;
}
