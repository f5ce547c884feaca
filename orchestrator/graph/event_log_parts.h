/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_event;
struct agt_event_log;
struct agt_watch;

/*
 * What the log (event_log.c: what is kept, and for how long) and its readers
 * (event_watch.c) share. Nothing else includes this.
 */

/*
 * Every event has a position: 0, 1, 2, … over states and deltas together.
 * State events are never missing, so a position that a reader cannot find any
 * more was a delta: the jump is the number of dropped ones.
 */
struct agt_log_entry {
    uint64_t position;
    struct agt_event *event;
};

struct agt_event_log {
    uint32_t refs; /* atomic */
    char run_id[33];

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t notified;
    struct agt_log_entry *states; /* by seq - 1 */
    size_t state_count;
    size_t state_room;
    struct agt_log_entry *deltas; /* ring; NULL until the first */
    size_t delta_room;            /* entries of the ring; at most AGT_LOG_DELTAS_MAX */
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
    bool only_last;        /* the other events are none for it */
    bool is_waiting;       /* was told that there is nothing */
    bool is_notify_due;    /* to be told that there is something */
    bool is_unlinked;      /* is in no list any more: `next` says nothing */
    uint32_t notify_count; /* notify calls under way */
};

/* All of these are called, and return, with the lock held. */

/* The first event at or behind the position, a state or a delta; NULL: there is none yet. Valid
 * until the lock is released. */
const struct agt_log_entry *agt_event_log_find(const struct agt_event_log *log, uint64_t position);

/* Where nothing is added any more and nobody reads: what is kept of an ended run are its state
 * events, which say all that its deltas said. There may be thousands of such runs. */
void agt_event_log_settle(struct agt_event_log *log);

/* ---- event_watch.c ---- */

/* Something was added, or the log has ended: whoever was told that there is nothing is told
 * otherwise, by agt_watches_notify(), which releases the lock around each. */
void agt_watches_mark(struct agt_event_log *log);
void agt_watches_notify(struct agt_event_log *log);
