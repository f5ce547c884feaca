/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/timers.h"

#include "orchestrator/graph/run.h"

#define DUE (-1)

static struct agt_run **list_of(struct agt_timers *timers, int64_t tick)
{
    return tick == DUE ? &timers->due : &timers->slots[tick % AGT_TIMER_SLOTS];
}

static void put_into(struct agt_timers *timers, struct agt_run *run, int64_t tick)
{
    struct agt_run **list = list_of(timers, tick);

    run->timer = (struct agt_timer){.next = *list, .tick = tick};
    if (*list)
        (*list)->timer.previous = run;
    *list = run;
}

static void take_out(struct agt_timers *timers, struct agt_run *run)
{
    struct agt_timer *timer = &run->timer;

    if (timer->tick == 0)
        return;
    if (timer->next)
        timer->next->timer.previous = timer->previous;
    if (timer->previous)
        timer->previous->timer.next = timer->next;
    else
        *list_of(timers, timer->tick) = timer->next;
    *timer = (struct agt_timer){0};
}

/* The first tick at which all of `due_ns` has passed, as far as the wheel reaches. */
static int64_t tick_of(const struct agt_timers *timers, int64_t due_ns)
{
    int64_t tick = due_ns / AGT_TIMER_TICK_NS + 1;

    if (tick <= timers->tick)
        return timers->tick + 1;
    return tick < timers->tick + AGT_TIMER_SLOTS ? tick : timers->tick + AGT_TIMER_SLOTS - 1;
}

void agt_timers_set(struct agt_timers *timers, struct agt_run *run, int64_t due_ns)
{
    int64_t tick = due_ns == INT64_MAX ? 0 : tick_of(timers, due_ns);

    if (tick == run->timer.tick)
        return;
    take_out(timers, run);
    if (tick != 0)
        put_into(timers, run, tick);
}

struct agt_run *agt_timers_take(struct agt_timers *timers, int64_t now_ns)
{
    int64_t now = now_ns / AGT_TIMER_TICK_NS;
    struct agt_run *run;

    /* After a long silence no slot has to be looked at twice. */
    if (now - timers->tick > AGT_TIMER_SLOTS)
        timers->tick = now - AGT_TIMER_SLOTS;
    while (timers->tick < now) {
        timers->tick++;
        while ((run = *list_of(timers, timers->tick))) {
            take_out(timers, run);
            put_into(timers, run, DUE);
        }
    }
    run = timers->due;
    if (run)
        take_out(timers, run);
    return run;
}

int64_t agt_timers_due_ns(const struct agt_timers *timers)
{
    for (int64_t tick = timers->tick + 1; tick < timers->tick + AGT_TIMER_SLOTS; tick++) {
        if (timers->slots[tick % AGT_TIMER_SLOTS])
            return tick * AGT_TIMER_TICK_NS;
    }
    return INT64_MAX;
}
