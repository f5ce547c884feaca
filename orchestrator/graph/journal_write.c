/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "common/unconst.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal_parts.h"
#include "orchestrator/graph/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one turn gives to the store. */
struct turn {
    struct agt_store_batch batch; /* first */
    struct agt_engine *engine;    /* borrowed: it waits for every batch */
    struct agt_mail *mail;        /* made ahead, so that the answer cannot be lost */
    uint8_t *spec;                /* owned; NULL: none */
    char *key;                    /* owned; NULL: none */
    struct agt_event **held;      /* references */
    struct agt_store_event events[];
};

static void free_turn(struct turn *turn)
{
    for (size_t i = 0; i < turn->batch.event_count; i++) {
        (void)agt_event_unref(turn->held[i]);
        free(cr_unconst(turn->events[i].input));
    }
    (void)agt_mail_free(turn->mail);
    free(turn->held);
    free(turn->spec);
    free(turn->key);
    free(turn);
}

/* The store's thread. */
static void on_done(struct agt_store_batch *batch, int error)
{
    struct turn *turn = (struct turn *)(void *)batch;
    struct agt_mail *mail = cr_take_ptr(&turn->mail);

    mail->error = error;
    if (error == -EEXIST) { /* nobody reads it before the run is left */
        (void)memccpy(mail->run->twin_id, batch->other_id, '\0', sizeof(mail->run->twin_id));
        mail->run->is_twin_same = batch->is_same_spec;
    }
    agt_engine_post(turn->engine, mail);
    free_turn(turn);
}

/* The data is what is returned. */
static uint8_t *pack(const ProtobufCMessage *message, ProtobufCBinaryData *ret_data)
{
    ret_data->len = protobuf_c_message_get_packed_size(message);
    ret_data->data = malloc(ret_data->len + 1);
    if (ret_data->data)
        (void)protobuf_c_message_pack(message, ret_data->data);
    return ret_data->data;
}

uint8_t *agt_journal_pack_spec(const struct agt_run *run, size_t *ret_size)
{
    Crisol__Journal__V1__RunSpec spec = CRISOL__JOURNAL__V1__RUN_SPEC__INIT;
    CR_AUTO_FREE uint8_t *limits = NULL;
    CR_AUTO_FREE uint8_t *terms = NULL;
    uint8_t *packed;

    spec.format = run->format;
    spec.caller = run->caller;
    spec.idempotency_key = run->key;
    spec.task = run->task;
    spec.max_iterations = run->iterations_asked;
    spec.model = run->model;
    spec.verify = run->verify_asked;
    spec.interrupts = run->interrupts;
    spec.model_requested = run->model_requested;
    spec.has_price = run->has_price;
    spec.input_price = run->input_price;
    spec.output_price = run->output_price;
    spec.stall_same_code = run->stall_rules.same_code;
    spec.stall_same_failure = run->stall_rules.same_failure;
    spec.has_numbered_checks = run->has_numbered_checks;
    spec.hints = run->hints.items;
    spec.n_hints = run->hints.count;
    if (run->limits) {
        spec.has_sandbox_limits = true;
        limits = pack(&run->limits->base, &spec.sandbox_limits);
        if (!limits)
            return NULL;
    }
    if (run->terms) {
        terms = pack(&run->terms->base, &spec.terms);
        if (!terms)
            return NULL;
    }
    *ret_size = crisol__journal__v1__run_spec__get_packed_size(&spec);
    packed = malloc(*ret_size + 1);
    if (packed)
        (void)crisol__journal__v1__run_spec__pack(&spec, packed);
    return packed;
}

static size_t count_states(const struct agt_journal *journal)
{
    size_t count = 0;

    for (const struct agt_pending *pending = journal->unwritten; pending; pending = pending->next)
        count += pending->event->is_state;
    return count;
}

static void take_states(struct agt_journal *journal, struct turn *turn)
{
    for (struct agt_pending *pending = journal->unwritten; pending; pending = pending->next) {
        size_t i = turn->batch.event_count;

        if (!pending->event->is_state)
            continue;
        turn->held[i] = agt_event_ref(pending->event);
        turn->events[i] = (struct agt_store_event){
            .seq = pending->event->seq,
            .payload = pending->event->packed,
            .size = pending->event->size,
            .input = cr_take_ptr(&pending->input),
            .input_size = pending->input_size,
        };
        turn->batch.is_end = pending->event->is_last;
        turn->batch.event_count++;
    }
    journal->unwritten = NULL;
}

/* Keys are their callers' own. False: no memory. */
static bool add_key(struct turn *turn, const struct agt_run *run)
{
    if (!run->key[0])
        return true;
    if (asprintf(&turn->key, "%s\n%s", run->caller, run->key) < 0)
        turn->key = NULL;
    return turn->key;
}

static struct turn *new_turn(struct agt_run *run, size_t count)
{
    struct turn *turn = calloc(1, sizeof(*turn) + count * sizeof(turn->events[0]));

    if (!turn)
        return NULL;
    turn->engine = run->engine;
    turn->held = calloc(count, sizeof(struct agt_event *));
    turn->mail = agt_mail_new(AGT_MAIL_DURABLE, run, NULL, 0);
    if (run->journal->is_new)
        turn->spec = agt_journal_pack_spec(run, &turn->batch.spec_size);
    if (turn->held && turn->mail && (!run->journal->is_new || (turn->spec && add_key(turn, run))))
        return turn;
    free_turn(turn);
    return NULL;
}

void agt_journal_write(struct agt_run *run)
{
    struct agt_journal *journal = run->journal;
    size_t count = count_states(journal);
    struct turn *turn;

    if (count == 0) {
        journal->unwritten = NULL; /* deltas follow the events that are on their way */
        agt_journal_publish(run);
        return;
    }
    turn = new_turn(run, count);
    if (!turn && run->has_ended)
        agt_journal_lose(run); /* no turn follows */
    if (!turn)
        return; /* with the next turn, or the next heartbeat */
    memcpy(turn->batch.run_id, run->id, sizeof(turn->batch.run_id));
    turn->batch.fence = journal->fence;
    turn->batch.spec = turn->spec;
    turn->batch.key = turn->key;
    turn->batch.events = turn->events;
    turn->batch.on_done = on_done;
    take_states(journal, turn);
    journal->is_new = false;
    journal->turns++;
    journal->written_seq = turn->events[count - 1].seq;
    turn->mail->offset = journal->written_seq;
    journal->store->ops->append(journal->store, &turn->batch);
}

void agt_journal_on_durable(struct agt_run *run, const struct agt_mail *mail)
{
    struct agt_journal *journal = run->journal;

    journal->turns--;
    if (mail->error == 0) {
        journal->durable_seq = (uint32_t)mail->offset;
        agt_journal_publish(run);
        return;
    }
    if (mail->error == -EEXIST)
        cr_log_info("journal: another process has started the run of this key, leaving this one "
                    "run=%s other=%s",
                    run->id, run->twin_id);
    else if (!journal->is_lost)
        cr_log_error("journal: the run cannot be written and is left run=%s errno=%d", run->id,
                     -mail->error);
    agt_journal_lose(run);
}
