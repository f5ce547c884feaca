/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name

static const char restart_reason[] =
    "The service was restarted while the model answered; the call before may be charged, too.";

bool agt_replay_knows_event(const Crisol__Agent__V1__RunEvent *event)
{
    return event->event_case != EVENT(_NOT_SET);
}

static bool knows_record(const Crisol__Journal__V1__CallRecord *record)
{
    bool knows = record->base.n_unknown_fields == 0;

    for (size_t i = 0; knows && i < record->n_more_calls; i++)
        knows = record->more_calls[i]->base.n_unknown_fields == 0;
    return knows;
}

bool agt_replay_knows_records(const Crisol__Journal__V1__CallRecords *records)
{
    bool knows = records->base.n_unknown_fields == 0;

    for (size_t i = 0; knows && i < records->n_records; i++)
        knows = knows_record(records->records[i]);
    return knows;
}

static int add_records(struct agt_replay *replay, const void *packed, size_t size)
{
    Crisol__Journal__V1__CallRecords *unpacked =
        crisol__journal__v1__call_records__unpack(NULL, size, packed);
    struct agt_recorded *records;

    if (!unpacked)
        return -EBADMSG;
    if (!agt_replay_knows_records(unpacked)) {
        crisol__journal__v1__call_records__free_unpacked(unpacked, NULL);
        return -EPROTO;
    }
    records = reallocarray(replay->records, replay->record_count + unpacked->n_records + 1,
                           sizeof(*records));
    if (!records) {
        crisol__journal__v1__call_records__free_unpacked(unpacked, NULL);
        return -ENOMEM;
    }
    replay->records = records;
    for (size_t i = 0; i < unpacked->n_records; i++)
        records[replay->record_count++] =
            (struct agt_recorded){i == 0 ? unpacked : NULL, unpacked->records[i]};
    if (unpacked->n_records == 0)
        crisol__journal__v1__call_records__free_unpacked(unpacked, NULL);
    return 0;
}

int agt_replay_add(struct agt_replay *replay, const struct agt_store_event *event)
{
    Crisol__Agent__V1__RunEvent **events = reallocarray(replay->events, replay->event_count + 1,
                                                        sizeof(Crisol__Agent__V1__RunEvent *));

    if (!events)
        return -ENOMEM;
    replay->events = events;
    events[replay->event_count] =
        crisol__agent__v1__run_event__unpack(NULL, event->size, event->payload);
    if (!events[replay->event_count])
        return -EBADMSG;
    replay->event_count++;
    if (!agt_replay_knows_event(events[replay->event_count - 1]))
        return -EPROTO;
    replay->is_on = true;
    return event->input ? add_records(replay, event->input, event->input_size) : 0;
}

void agt_replay_done(struct agt_replay *replay)
{
    for (size_t i = 0; i < replay->event_count; i++)
        crisol__agent__v1__run_event__free_unpacked(replay->events[i], NULL);
    for (size_t i = 0; i < replay->record_count; i++)
        crisol__journal__v1__call_records__free_unpacked(replay->records[i].unpacked, NULL);
    free(replay->events);
    free(replay->records);
    *replay = (struct agt_replay){.watch = replay->watch};
}

/* A call that was in flight when the process died is made again, once per restart. */
static void book_restart(struct agt_run *run)
{
    agt_list_add(&run->warnings, "%s", restart_reason);
    run->usage.calls++;
    run->usage.retries++;
}

/* What calls tell while they go on: no recorded end brings it forth again. */
static void skip_told(struct agt_run *run, const struct agt_replay *replay)
{
    while (run->seq < replay->event_count) {
        const Crisol__Agent__V1__RunEvent *event = replay->events[run->seq];

        if (event->event_case != EVENT(MODEL_RETRY) && event->event_case != EVENT(SANDBOX_STARTED))
            return;
        if (event->event_case == EVENT(MODEL_RETRY) &&
            strcmp(event->model_retry->reason, restart_reason) == 0)
            book_restart(run);
        run->seq++;
    }
}

bool agt_replay_is_over(const struct agt_run *run, struct agt_replay *replay)
{
    if (run->seq < replay->event_count || replay->next_record < replay->record_count)
        return false;
    replay->is_on = false;
    agt_replay_done(replay);
    return true;
}

void agt_replay_tell(const struct agt_run *run, const struct agt_replay *replay, const char *format,
                     ...)
{
    char text[CR_ERR_TEXT_MAX];
    va_list args;

    if (!replay->watch)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    replay->watch->on_difference(replay->watch->user, run->seq + 1, text);
}

/* All that a restart needs: the same kind of event at the same place. */
static bool is_alike(const Crisol__Agent__V1__RunEvent *event,
                     const Crisol__Agent__V1__RunEvent *stored)
{
    if (event->event_case != stored->event_case || event->node != stored->node ||
        event->iteration != stored->iteration)
        return false;
    return event->event_case != EVENT(EDGE_TAKEN) ||
           strcmp(event->edge_taken->outcome, stored->edge_taken->outcome) == 0;
}

bool agt_replay_check(struct agt_run *run, struct agt_replay *replay,
                      const struct agt_event *packed)
{
    Crisol__Agent__V1__RunEvent *event;
    Crisol__Agent__V1__RunEvent *stored;
    struct cr_err err = CR_ERR_INIT;
    bool is_same;

    skip_told(run, replay);
    if (run->seq >= replay->event_count)
        return false;
    stored = replay->events[run->seq];
    event = crisol__agent__v1__run_event__unpack(NULL, packed->size, packed->packed);
    if (!event) { /* no memory, which says nothing about what is stored */
        agt_journal_lose(run);
        return true;
    }
    is_same = is_alike(event, stored);
    if (!is_same)
        agt_replay_tell(run, replay, "another event, or at another place, than in the journal");
    else if (replay->watch && agt_replay_compare(event, stored, &err) < 0) {
        agt_replay_tell(run, replay, "%s", err.text);
        is_same = false;
    }
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    return is_same;
}

bool agt_replay_draw(struct agt_replay *replay, char *digits, size_t size)
{
    const Crisol__Journal__V1__CallRecord *record;

    if (!replay->is_on || replay->next_record == replay->record_count)
        return false;
    record = replay->records[replay->next_record].record;
    if (strcmp(record->key, AGT_RECORD_DRAW) != 0 || strlen(record->text) != size - 1)
        return false;
    memcpy(digits, record->text, size);
    replay->next_record++;
    return true;
}

static struct agt_call *find_held(struct agt_call *held, const char *key)
{
    while (held && strcmp(held->key, key) != 0)
        held = held->next_held;
    return held;
}

/* What the call asks is what was asked; old journals do not know. */
static bool is_as_asked(const struct agt_run *run, const struct agt_replay *replay,
                        const struct agt_call *call, const Crisol__Journal__V1__CallRecord *record)
{
    char digest[AGT_RECEIPT_DIGEST_SIZE];

    if (!replay->watch || record->request_sha256[0] == '\0')
        return true;
    agt_record_digest(call, digest);
    if (strcmp(digest, record->request_sha256) == 0)
        return true;
    agt_replay_tell(run, replay, "%s '%s' is not what was asked then",
                    call->model ? "the prompt of call" : "the request to the sandbox", call->key);
    return false;
}

void agt_replay_give_up(struct agt_run *run)
{
    agt_journal_diverge(run);
    agt_run_end_pause(run);
    if (!run->call)
        agt_run_drive(run); /* which waits for checks */
}

/* The clocks let other checks wait, or begin, than they did then. False when the end does not fit
 * yet. */
static bool demand(struct agt_run *run, struct agt_replay *replay, const char *key)
{
    enum agt_demand is_for = agt_checks_demand(run, key);

    replay->next_record += is_for == AGT_DEMAND_UNWANTED;
    return is_for != AGT_DEMAND_UNKNOWN;
}

/* A call whose end there is no memory for: with half an end the run would go another way. */
static void leave_at(struct agt_run *run, struct agt_call *call)
{
    cr_log_error("journal: no memory for a recorded call, leaving the run run=%s call=%s", run->id,
                 call->key);
    call->model_end = AGT_MODEL_CANCELLED;
    agt_journal_lose(run);
    agt_run_on_call_end(run, call);
}

/* The end of the next recorded call. False when it does not fit yet. */
static bool feed(struct agt_run *run, struct agt_replay *replay, struct agt_call **held)
{
    const Crisol__Journal__V1__CallRecord *record;
    struct agt_call *call;
    int r;

    if (replay->next_record == replay->record_count)
        return false;
    record = replay->records[replay->next_record].record;
    if (strcmp(record->key, AGT_RECORD_NOTE) == 0) {
        agt_list_add(&run->warnings, "%s", record->text);
        replay->next_record++;
        return true;
    }
    call = find_held(*held, record->key);
    if (!call)
        return demand(run, replay, record->key);
    if (!is_as_asked(run, replay, call, record)) {
        agt_replay_give_up(run);
        return false;
    }
    replay->next_record++;
    (void)agt_journal_drop(run, call);
    r = agt_record_restore(call, record);
    if (r == -ENOMEM) {
        leave_at(run, call);
        return false;
    }
    if (r < 0)
        cr_log_error("journal: a recorded call cannot be read run=%s call=%s", run->id, call->key);
    agt_run_on_call_end(run, call);
    return true;
}

/* Who took the run up then, does so again. */
static bool take_up(struct agt_run *run, const struct agt_replay *replay)
{
    if (!agt_run_is_paused(run) || run->seq >= replay->event_count ||
        replay->events[run->seq]->event_case != EVENT(RESUMED))
        return false;
    agt_run_take_up(run, replay->events[run->seq]->resumed);
    return true;
}

/* Nobody waits for a wait that is over. */
static bool pass_wait(struct agt_run *run)
{
    if (run->retry_at_ns == 0)
        return false;
    run->retry_at_ns = cr_clock_mono_ns();
    agt_run_on_time(run, run->retry_at_ns);
    return true;
}

/* The end of a call that was cancelled before it began comes as a mail. */
static bool has_ends_to_come(const struct agt_run *run, const struct agt_call *held)
{
    uint32_t waiting = 0;

    for (; held; held = held->next_held)
        waiting++;
    return run->calls_in_flight > waiting;
}

/* Nothing will move it; where nobody watches, and it is not to end in any case, the deadline of the
 * run will. */
static bool is_stuck(const struct agt_run *run, const struct agt_replay *replay,
                     const struct agt_call *held)
{
    return replay->is_on && (replay->watch || run->damaged) && !run->has_ended &&
           agt_checks_due_ns(run->checks) == INT64_MAX && !has_ends_to_come(run, held);
}

static void emit_restart(struct agt_run *run)
{
    Crisol__Agent__V1__ModelRetry retry = CRISOL__AGENT__V1__MODEL_RETRY__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char reason[sizeof(restart_reason)];

    memcpy(reason, restart_reason, sizeof(reason));
    retry.reason = reason;
    retry.attempt = 2;
    retry.is_restart = true;
    event.event_case = EVENT(MODEL_RETRY);
    event.model_retry = &retry;
    agt_run_emit(run, &event);
    book_restart(run);
}

/* All that is stored has been repeated: what waits now was in flight, or about to be. */
static void go_on(struct agt_run *run, struct agt_replay *replay, const struct agt_call *held)
{
    uint32_t sandbox_calls = 0;
    char warning[160];
    bool has_model_call = false;

    replay->is_on = false;
    agt_replay_done(replay);
    for (; held; held = held->next_held) {
        has_model_call |= held->model != NULL;
        sandbox_calls += held->model == NULL;
    }
    if (has_model_call)
        emit_restart(run);
    if (sandbox_calls > 0) {
        (void)snprintf(warning, sizeof(warning),
                       "The service was restarted; attempt %d was run in the sandbox again "
                       "(executions repeated: %u).",
                       run->iteration, sandbox_calls);
        agt_list_add(&run->warnings, "%s", warning);
        agt_journal_note(run, warning);
    }
    /* Whoever only repeats it takes nothing up that waits for a person. */
    if (run->wants_cancel || (replay->watch && agt_run_is_paused(run)))
        agt_run_stop(run, AGT_STOP_CANCEL);
    cr_log_info("run resumed run=%s seq=%u node=%s", run->id, run->seq, agt_node_name(run->node));
}

void agt_replay_step(struct agt_run *run, struct agt_replay *replay, struct agt_call **held)
{
    while (replay->is_on && !run->has_ended) {
        skip_told(run, replay);
        if (run->seq >= replay->event_count && replay->next_record == replay->record_count) {
            if (run->damaged)
                agt_replay_give_up(run);
            else
                go_on(run, replay, *held);
            return;
        }
        if (take_up(run, replay))
            continue;
        if (feed(run, replay, held) || pass_wait(run))
            continue;
        if (is_stuck(run, replay, *held)) {
            agt_replay_tell(run, replay, "the run waits for what the journal does not have");
            agt_replay_give_up(run);
        }
        return; /* a timer of the node, or an end that does not fit: agt_run_on_time() */
    }
}
