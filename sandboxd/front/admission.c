/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/admission.h"

#include "common/clock.h"
#include "rpc/status.h"

#define FIRST_AVERAGE_US 1000000
#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 30000
#define RETRY_RESTART_MS 1000

static const char shutting_down[] = "sandboxd is shutting down";
static const char no_backend[] = "the sandbox backend is not running; it is being started";

void sbx_admission_init(struct sbx_admission *admission, const struct sbx_run_host *host,
                        size_t queue_length)
{
    *admission = (struct sbx_admission){.host = host, .average_us = FIRST_AVERAGE_US};
    sbx_queue_init(&admission->queue, queue_length);
}

static uint64_t memory_of(const struct sbx_execution *execution)
{
    return execution->request.limits.value[SBX_LIMIT_MEMORY];
}

/*
 * A free slot, and room for its memory limit beside those of the others: what
 * was promised to a run is there when it wants it. Whoever is alone starts in
 * any case; the backend's maximum is no more than all of the memory.
 */
static bool has_room(const struct sbx_admission *admission, const struct sbx_execution *execution)
{
    const uint64_t taken = admission->memory_taken + admission->memory_kept;

    if (admission->run_count >= admission->slots)
        return false;
    return admission->memory_bytes == 0 || admission->run_count == 0 ||
           (taken <= admission->memory_bytes &&
            memory_of(execution) <= admission->memory_bytes - taken);
}

static void start(struct sbx_admission *admission, struct sbx_execution *execution)
{
    admission->memory_taken += memory_of(execution);
    execution->next = admission->runs;
    admission->runs = execution;
    admission->run_count++;
    sbx_run_start(execution, ++admission->last_run);
}

static struct sbx_execution *execution_of(struct sbx_queue_entry *entry)
{
    size_t offset = offsetof(struct sbx_execution, queue_entry);

    return entry ? (struct sbx_execution *)(void *)((char *)entry - offset) : NULL;
}

static struct sbx_execution *pop(struct sbx_admission *admission)
{
    return execution_of(sbx_queue_pop(&admission->queue));
}

/* Whose turn it is waits until it fits: smaller ones behind it would put it off for ever. */
void sbx_admission_fill(struct sbx_admission *admission)
{
    for (;;) {
        struct sbx_execution *next = execution_of(admission->queue.first);

        if (!next || !has_room(admission, next))
            return;
        (void)sbx_queue_pop(&admission->queue); /* the very same */
        start(admission, next);
    }
}

/* When a place in the queue may be free: the time of the average run, shared by the slots. */
static int32_t retry_hint_ms(const struct sbx_admission *admission)
{
    int64_t hint_ms = admission->average_us / 1000 / admission->slots + RETRY_MIN_MS;

    return (int32_t)(hint_ms > RETRY_MAX_MS ? RETRY_MAX_MS : hint_ms);
}

static void wait_in_queue(struct sbx_admission *admission, struct sbx_execution *execution)
{
    struct sbx_queue_entry *displaced;

    if (sbx_queue_push(&admission->queue, &execution->queue_entry, execution->caller, &displaced) <
        0) {
        sbx_run_refuse(execution, RPC_RESOURCE_EXHAUSTED,
                       "every slot is taken and the queue is full; try again later", "QUEUE_FULL",
                       retry_hint_ms(admission));
        return;
    }
    execution->state = SBX_RUN_QUEUED;
    if (displaced)
        sbx_run_refuse(execution_of(displaced), RPC_RESOURCE_EXHAUSTED,
                       "the queue is full and other callers wait too; try again later",
                       "QUEUE_SHARE", retry_hint_ms(admission));
}

/* What gives way ends, and its slot is free as soon as its box is dead. */
static void clear_way(const struct sbx_admission *admission)
{
    struct sbx_execution *next;

    for (struct sbx_execution *run = admission->runs; run; run = next) {
        next = run->next; /* one that never got to the backend is gone at once */
        if (run->gives_way)
            sbx_run_kicked(run, SBX_KICK_CANCEL);
    }
}

void sbx_admission_submit(struct sbx_admission *admission, struct sbx_execution *execution)
{
    execution->host = admission->host;
    execution->submitted_ns = cr_clock_mono_ns();
    if (!execution->gives_way)
        clear_way(admission);
    if (admission->is_draining) {
        sbx_run_refuse(execution, RPC_UNAVAILABLE, shutting_down, RPC_REASON_DRAINING,
                       RETRY_RESTART_MS);
    } else if (admission->slots == 0) {
        sbx_run_refuse(execution, RPC_UNAVAILABLE, no_backend, "NO_BACKEND", RETRY_RESTART_MS);
    } else if (execution->gives_way && (admission->queue.count > 0 || admission->run_count > 0)) {
        sbx_run_refuse(execution, RPC_RESOURCE_EXHAUSTED, "others are here", "GIVES_WAY",
                       RETRY_MIN_MS);
    } else if (admission->queue.count == 0 && has_room(admission, execution)) {
        start(admission, execution);
    } else {
        wait_in_queue(admission, execution);
    }
}

void sbx_admission_cancel(struct sbx_admission *admission, struct sbx_execution *execution)
{
    int64_t waited_ns = cr_clock_mono_ns() - execution->submitted_ns;

    sbx_queue_remove(&admission->queue, &execution->queue_entry);
    execution->queue_us = (uint64_t)(waited_ns / CR_NS_PER_US);
    sbx_run_abort(execution, SBX_VERDICT_CANCELLED, SBX_STAGE_NONE, 0);
}

static void refuse_waiting(struct sbx_admission *admission, const char *text, const char *reason)
{
    struct sbx_execution *execution;

    while ((execution = pop(admission)))
        sbx_run_refuse(execution, RPC_UNAVAILABLE, text, reason, RETRY_RESTART_MS);
}

void sbx_admission_lose(struct sbx_admission *admission)
{
    admission->slots = 0;
    while (admission->runs)
        sbx_run_abort(admission->runs, SBX_VERDICT_SANDBOX_LOST, SBX_STAGE_NONE, 0);
    refuse_waiting(admission, no_backend, "NO_BACKEND");
}

void sbx_admission_drain(struct sbx_admission *admission)
{
    admission->is_draining = true;
    refuse_waiting(admission, shutting_down, RPC_REASON_DRAINING);
}

void sbx_admission_ended(struct sbx_admission *admission, struct sbx_execution *execution)
{
    struct sbx_execution **slot = &admission->runs;
    int64_t wall_us = (int64_t)execution->outcome.result.wall_us;

    while (*slot && *slot != execution)
        slot = &(*slot)->next;
    if (!*slot)
        return;
    *slot = execution->next;
    admission->run_count--;
    admission->memory_taken -= memory_of(execution);
    admission->average_us += (wall_us - admission->average_us) / 8;
}

struct sbx_execution *sbx_admission_find(const struct sbx_admission *admission, uint64_t run)
{
    struct sbx_execution *execution = admission->runs;

    while (execution && execution->run != run)
        execution = execution->next;
    return execution;
}
