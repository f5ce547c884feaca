/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/clock.h"

#include <stdint.h>

struct agt_run;

/*
 * When the live runs of an engine want to be called: a wheel of slots, so that
 * ten thousand of them cost no more than one each time. The engine's thread
 * only. Zeroed: empty, at time 0.
 */
#define AGT_TIMER_TICK_NS (5 * CR_NS_PER_MS)
#define AGT_TIMER_SLOTS 4096

struct agt_timers {
    struct agt_run *slots[AGT_TIMER_SLOTS]; /* what is further away than all waits in the last */
    struct agt_run *due;                    /* from the slots up to `tick`, not taken yet */
    int64_t tick;
};

/* In each run. */
struct agt_timer {
    struct agt_run *next;
    struct agt_run *previous;
    int64_t tick; /* whose slot it is in; 0: in none; -1: it is due */
};

/* Calls it at `due_ns` or one tick later; INT64_MAX: never. Safe to repeat. */
void agt_timers_set(struct agt_timers *timers, struct agt_run *run, int64_t due_ns);

/* Takes out a run whose time may have come by `now_ns`; NULL: there is none. Its owner looks
 * whether it has, and sets it again. */
struct agt_run *agt_timers_take(struct agt_timers *timers, int64_t now_ns);

/* A moment before which agt_timers_take() has nothing; INT64_MAX when nothing is set. */
int64_t agt_timers_due_ns(const struct agt_timers *timers);
