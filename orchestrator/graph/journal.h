/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_call;
struct agt_event;
struct agt_mail;
struct agt_run;
struct cr_err;

/*
 * Internal to orchestrator/graph: what makes a run durable. Engine's thread,
 * unless a function says something else.
 *
 * The events of one turn of the engine (one mail or timer) become durable
 * together, and visible only then; calls that the turn has made start only
 * then. So the journal always ends where the run waits: for a call, or for
 * time to pass.
 *
 * After a restart the run goes through the graph again from its beginning,
 * with the recorded ends in place of calls. What it emits must be what the
 * journal holds; where the journal ends, it goes on.
 */
struct agt_journal;

/*
 * Of what is stored, in RunSpec.format: a higher one is a newer program's and is left alone, for a
 * program that knows it. So is what has a field, or an event, that this program does not know. A
 * run keeps the format that it began with.
 *   1  the first
 *   2  keys of checks have numbers (RunSpec.has_numbered_checks, which some of 1 have), and names
 *      in what they run have nothing that is the same in each run
 *   3  the test that must fail is in the tests of the task, too
 */
#define AGT_JOURNAL_FORMAT 3

/*
 * Makes the run durable, with a journal that holds its spec already or, new,
 * writes it first. `fence` is the store's for this run.
 */
int agt_journal_new(struct agt_run *run, struct agt_store *store, bool is_new, uint64_t fence);
struct agt_journal *agt_journal_free(struct agt_journal *journal); /* NULL is allowed */

/* Before the run goes on: the next of its events. Its payload is in the run's log already. As
 * agt_replay_add(). */
int agt_journal_add_stored(struct agt_journal *journal, const struct agt_store_event *event);

/* A packed crisol.journal.v1.RunSpec, to free(); NULL: out of memory. Any thread. */
uint8_t *agt_journal_pack_spec(const struct agt_run *run, size_t *ret_size);

/* ---- run.c, while the run goes on ---- */

/* Takes an event that the run has emitted. True when run->seq has to count it. Without memory for a
 * state event the run is left (agt_journal_lose()). */
bool agt_journal_emit(struct agt_run *run, struct agt_event *take_event);

/* Deltas were lost before they got here: readers see a Gap in their place. Any run. */
void agt_journal_skip(struct agt_run *run, uint32_t deltas);

/* A call has ended: its end becomes durable with the next state event. */
void agt_journal_record(struct agt_run *run, const struct agt_call *call);

/* A call that waits until everything before it is durable. */
void agt_journal_hold(struct agt_run *run, struct agt_call *call);

/* Takes it out again; false when it is not held. */
bool agt_journal_drop(struct agt_run *run, struct agt_call *call);

/* Random hexadecimal digits; when the run is repeated, the same as before. Any run. */
void agt_journal_draw(struct agt_run *run, char *digits, size_t size);

/* A warning of the run, which a later restart has to know of. */
void agt_journal_note(struct agt_run *run, const char *warning);

/* Frees the calls that are held: the run has ended, or is left. */
void agt_journal_drop_all(struct agt_run *run);

/* The run cannot be repeated: ends its current node with FAILED. */
void agt_journal_diverge(struct agt_run *run);

/* At the end of every turn: writes what it emitted, starts what may start, repeats what is stored.
 */
void agt_journal_settle(struct agt_run *run);

/* What a turn emitted has become durable, or (error) never will. */
void agt_journal_on_durable(struct agt_run *run, const struct agt_mail *mail);

/* What the run emits will never be durable: leaves it. */
void agt_journal_lose(struct agt_run *run);

/* Of this process' hold on the run, as agt_journal_new() was told; NULL is allowed. */
uint64_t agt_journal_fence(const struct agt_journal *journal);

/* Nothing waits to become durable. */
bool agt_journal_is_idle(const struct agt_journal *journal);

/* What the run emits will never be durable: another process has it, or the store was closed. NULL
 * is allowed. */
bool agt_journal_is_lost(const struct agt_journal *journal);

/* The run goes through what is stored. */
bool agt_journal_is_replaying(const struct agt_run *run);

/* ---- replay.c ---- */

/* One recorded end. */
struct agt_recorded {
    void *unpacked; /* crisol.journal.v1.CallRecords that it is in; owned by the first of them */
    void *record;   /* crisol.journal.v1.CallRecord; borrowed */
};

/* What is stored of a run, and how far it has been repeated. */
struct agt_replay {
    Crisol__Agent__V1__RunEvent **events; /* owned */
    size_t event_count;
    struct agt_recorded *records; /* owned */
    size_t record_count;
    size_t next_record;
    bool is_on;
    const struct agt_replay_watch *watch; /* NULL: as much has to be the same as a restart needs.
                                             Borrowed: outlives the engine */
};

struct agt_replay_watch;

/* From now on everything has to be the same, and what is not is told (engine.h). */
void agt_journal_watch(struct agt_journal *journal, const struct agt_replay_watch *watch);

/*
 * compare.c: nothing is different between what was emitted and what is stored,
 * but what a clock has measured. Says in `err` what is.
 */
int agt_replay_compare(Crisol__Agent__V1__RunEvent *emitted, Crisol__Agent__V1__RunEvent *stored,
                       struct cr_err *err);

/* False: something is in it that this program does not know and would leave out. */
bool agt_replay_knows_event(const Crisol__Agent__V1__RunEvent *event);
bool agt_replay_knows_records(const Crisol__Journal__V1__CallRecords *records);

/* -EPROTO: a newer program wrote it. */
int agt_replay_add(struct agt_replay *replay, const struct agt_store_event *event);
void agt_replay_done(struct agt_replay *replay);

/*
 * The journal ends before the turn does that goes on: from here on the run is live. False when
 * something is left to be repeated.
 */
bool agt_replay_is_over(const struct agt_run *run, struct agt_replay *replay);

/* The run has emitted this; false when the journal holds something else. Without memory to compare
 * them the run is left. */
bool agt_replay_check(struct agt_run *run, struct agt_replay *replay,
                      const struct agt_event *event);

/* Tells of a difference, when somebody wants to know. */
void agt_replay_tell(const struct agt_run *run, const struct agt_replay *replay, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* Brings a run that cannot be repeated to its end, which comes when its calls have. */
void agt_replay_give_up(struct agt_run *run);

/* Feeds recorded ends for as long as they fit. Ends the replay when all is repeated. */
void agt_replay_step(struct agt_run *run, struct agt_replay *replay, struct agt_call **held);

/* What was drawn at this point; false when nothing is stored of it. */
bool agt_replay_draw(struct agt_replay *replay, char *digits, size_t size);

/* Appends a packed CallRecords with what was drawn. Returns as cr_buf_add(). */
int agt_record_add_draw(const char *digits, struct cr_buf *buf);

/* Appends a packed CallRecords with the end of this call. Returns as cr_buf_add(). */
int agt_record_add(const struct agt_call *call, struct cr_buf *buf);

/* Appends one with a warning that no call brings forth again. Returns as cr_buf_add(). */
int agt_record_add_note(const char *warning, struct cr_buf *buf);

/* The keys of what is no call. */
#define AGT_RECORD_DRAW "draw"
#define AGT_RECORD_NOTE "note"

/* Of what was asked. */
void agt_record_digest(const struct agt_call *call, char digest[AGT_RECEIPT_DIGEST_SIZE]);

/* Gives the call a recorded end. `record` is a crisol.journal.v1.CallRecord. */
int agt_record_restore(struct agt_call *call, const void *record);
