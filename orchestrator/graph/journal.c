/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal_parts.h"
#include "orchestrator/graph/run.h"

#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

/* Inputs of one turn: an answer of the model has at most 8 MiB, a sandbox result 3. */
#define INPUT_MAX ((size_t)64 << 20)
/* Deltas that may wait for the state event before them; further ones are counted as lost. */
#define PENDING_DELTA_BYTES_MAX AGT_LOG_DELTA_BYTES_MAX

int agt_journal_new(struct agt_run *run, struct agt_store *store, bool is_new, uint64_t fence)
{
    struct agt_journal *journal = calloc(1, sizeof(*journal));

    if (!journal)
        return -ENOMEM;
    journal->store = store;
    journal->is_new = is_new;
    journal->fence = fence;
    cr_buf_init(&journal->input, INPUT_MAX);
    run->journal = journal;
    return 0;
}

static void free_pending(struct agt_pending *pending)
{
    (void)agt_event_unref(pending->event);
    free(pending->input);
    free(pending);
}

struct agt_journal *agt_journal_free(struct agt_journal *journal)
{
    struct agt_pending *next;

    if (!journal)
        return NULL;
    for (struct agt_pending *pending = journal->first; pending; pending = next) {
        next = pending->next;
        free_pending(pending);
    }
    cr_buf_done(&journal->input);
    agt_replay_done(&journal->replay);
    free(journal);
    return NULL;
}

int agt_journal_add_stored(struct agt_journal *journal, const struct agt_store_event *event)
{
    journal->written_seq = event->seq;
    journal->durable_seq = event->seq;
    return agt_replay_add(&journal->replay, event);
}

void agt_journal_watch(struct agt_journal *journal, const struct agt_replay_watch *watch)
{
    journal->replay.watch = watch;
}

bool agt_journal_is_idle(const struct agt_journal *journal)
{
    return !journal || (journal->turns == 0 && (journal->is_lost || !journal->first));
}

uint64_t agt_journal_fence(const struct agt_journal *journal)
{
    return journal ? journal->fence : 0;
}

bool agt_journal_is_lost(const struct agt_journal *journal)
{
    return journal && journal->is_lost;
}

bool agt_journal_is_replaying(const struct agt_run *run)
{
    return run->journal && run->journal->replay.is_on;
}

/* ---- events ---- */

/* The program does not go where the journal says it went: nothing of it can be trusted. */
void agt_journal_diverge(struct agt_run *run)
{
    struct agt_journal *journal = run->journal;

    cr_log_error("journal: the run cannot be repeated run=%s seq=%u", run->id, run->seq + 1);
    if (journal->replay.is_on)
        run->seq = (uint32_t)journal->replay.event_count;
    agt_replay_done(&journal->replay);
    if (run->damaged)
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "The run could not be taken up after a restart: what its journal has as %s "
                     "cannot be read.",
                     run->damaged);
    else
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "The run could not be taken up after a restart: its journal does not fit this "
                     "version of the program.");
    run->stop = AGT_STOP_DEADLINE;
    agt_checks_cancel(run->checks); /* the node ends when its calls have */
    if (run->call)
        agt_call_cancel(run->call);
}

static bool append_pending(struct agt_journal *journal, struct agt_event *take_event)
{
    struct agt_pending *pending = calloc(1, sizeof(*pending));

    if (!pending)
        return false;
    pending->event = take_event;
    pending->dropped = journal->dropped;
    journal->dropped = 0;
    if (take_event->is_state && journal->input.size > 0) {
        pending->input_size = journal->input.size;
        pending->input = journal->input.data;
        journal->input.data = NULL;
        cr_buf_done(&journal->input);
    }
    if (journal->last)
        journal->last->next = pending;
    else
        journal->first = pending;
    journal->last = pending;
    if (!journal->unwritten)
        journal->unwritten = pending;
    return true;
}

static void emit_delta(struct agt_run *run, struct agt_event *take_event)
{
    struct agt_journal *journal = run->journal;
    size_t size = take_event->size;

    if (!journal->first) {
        if (agt_event_log_add(run->log, take_event) < 0)
            agt_event_log_skip(run->log, 1);
        return;
    }
    if (journal->delta_bytes + size <= PENDING_DELTA_BYTES_MAX &&
        append_pending(journal, take_event)) {
        journal->delta_bytes += size;
        return;
    }
    journal->dropped++;
    (void)agt_event_unref(take_event);
}

void agt_journal_skip(struct agt_run *run, uint32_t deltas)
{
    if (run->journal && run->journal->first)
        run->journal->dropped += deltas; /* they lie behind what waits */
    else
        agt_event_log_skip(run->log, deltas);
}

bool agt_journal_emit(struct agt_run *run, struct agt_event *take_event)
{
    struct agt_journal *journal = run->journal;

    if (!take_event->is_state) {
        emit_delta(run, take_event);
        return false;
    }
    if (journal->replay.is_on && !agt_replay_is_over(run, &journal->replay)) {
        if (agt_replay_check(run, &journal->replay, take_event)) {
            (void)agt_event_unref(take_event);
            return true;
        }
        (void)agt_event_unref(take_event);
        agt_journal_diverge(run);
        return false;
    }
    if (append_pending(journal, take_event))
        return true;
    (void)agt_event_unref(take_event);
    cr_log_error("journal: no memory for an event, leaving the run run=%s", run->id);
    agt_journal_lose(run); /* what comes next would not follow what is stored */
    return false;
}

/* False: there was no memory for a state event, which nothing may follow. */
static bool show(struct agt_run *run, struct agt_pending *pending)
{
    if (pending->dropped > 0)
        agt_event_log_skip(run->log, pending->dropped);
    pending->dropped = 0;
    if (agt_event_log_add(run->log, agt_event_ref(pending->event)) == 0)
        return true;
    if (!pending->event->is_state)
        agt_event_log_skip(run->log, 1);
    return !pending->event->is_state;
}

static bool can_be_shown(const struct agt_journal *journal)
{
    const struct agt_pending *first = journal->first;

    return first && first != journal->unwritten &&
           (!first->event->is_state || first->event->seq <= journal->durable_seq);
}

void agt_journal_publish(struct agt_run *run)
{
    struct agt_journal *journal = run->journal;

    while (can_be_shown(journal)) {
        struct agt_pending *pending = journal->first;

        if (!show(run, pending)) {
            cr_log_error("journal: no memory to show an event, leaving the run run=%s", run->id);
            agt_journal_lose(run);
            return;
        }
        journal->first = pending->next;
        if (!journal->first)
            journal->last = NULL;
        if (!pending->event->is_state)
            journal->delta_bytes -= pending->event->size;
        free_pending(pending);
    }
    if (!journal->first && journal->dropped > 0) {
        agt_event_log_skip(run->log, journal->dropped);
        journal->dropped = 0;
    }
}

void agt_journal_lose(struct agt_run *run)
{
    run->journal->is_lost = true; /* what waits is freed with the run */
    agt_run_suspend(run);
}

/* ---- calls ---- */

void agt_journal_record(struct agt_run *run, const struct agt_call *call)
{
    struct agt_journal *journal = run->journal;

    if (agt_record_add(call, &journal->input) == 0)
        return;
    cr_log_error("journal: no memory for the end of a call, leaving the run run=%s", run->id);
    agt_journal_lose(run); /* a restart would wait for it */
}

void agt_journal_draw(struct agt_run *run, char *digits, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    struct agt_journal *journal = run->journal;

    if (journal && agt_replay_draw(&journal->replay, digits, size))
        return;
    (void)!getrandom(digits, size - 1, 0);
    for (size_t i = 0; i < size - 1; i++)
        digits[i] = hex[digits[i] & 15];
    digits[size - 1] = '\0';
    if (journal && agt_record_add_draw(digits, &journal->input) < 0)
        cr_log_error("journal: no memory for what was drawn run=%s", run->id);
}

void agt_journal_note(struct agt_run *run, const char *warning)
{
    if (agt_record_add_note(warning, &run->journal->input) < 0)
        cr_log_error("journal: no memory for a warning run=%s", run->id);
}

void agt_journal_hold(struct agt_run *run, struct agt_call *call)
{
    struct agt_call **link = &run->journal->held;

    while (*link)
        link = &(*link)->next_held;
    call->next_held = NULL;
    *link = call;
}

bool agt_journal_drop(struct agt_run *run, struct agt_call *call)
{
    struct agt_call **link = run->journal ? &run->journal->held : NULL;

    while (link && *link && *link != call)
        link = &(*link)->next_held;
    if (!link || !*link)
        return false;
    *link = call->next_held;
    call->next_held = NULL;
    return true;
}

void agt_journal_drop_all(struct agt_run *run)
{
    while (run->journal && run->journal->held) {
        struct agt_call *call = run->journal->held;

        (void)agt_journal_drop(run, call);
        if (run->call == call)
            run->call = NULL;
        run->calls_in_flight--;
        (void)agt_call_free(call);
    }
}

/* What ends the run from outside of its turns, when nothing is left to be repeated. */
static void heed_stops(struct agt_run *run)
{
    if (run->journal->replay.is_on)
        return;
    /* The journal may end within a turn, or have nothing to repeat. */
    if (run->damaged && !run->has_ended && run->stop == AGT_STOP_NONE)
        agt_replay_give_up(run);
    if (run->wants_cancel)
        agt_run_stop(run, AGT_STOP_CANCEL);
}

static void start_held(struct agt_run *run)
{
    struct agt_call *call;

    while ((call = run->journal->held) != NULL) {
        (void)agt_journal_drop(run, call);
        agt_call_go(call); /* its end comes as a mail, even when it cannot be started */
    }
}

void agt_journal_settle(struct agt_run *run)
{
    struct agt_journal *journal = run->journal;

    if (!journal || journal->is_lost)
        return;
    if (journal->replay.is_on)
        agt_replay_step(run, &journal->replay, &journal->held);
    if (journal->is_lost)
        return; /* half a turn is none */
    heed_stops(run);
    if (journal->unwritten)
        agt_journal_write(run);
    if (!journal->replay.is_on && journal->durable_seq == run->seq && !run->is_suspended)
        start_held(run);
}
