/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/graph/journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_call;
struct agt_event;
struct agt_run;
struct agt_store;

/*
 * What the journal of a run is made of, for journal.c (what waits to become
 * visible, and which calls wait for it) and journal_write.c (the turns on their
 * way to the store). Nothing else includes this.
 */

/* An event that is not visible yet. */
struct agt_pending {
    struct agt_pending *next;
    struct agt_event *event; /* a reference */
    uint8_t *input;          /* owned; NULL: none, or the batch has it */
    size_t input_size;
    uint32_t dropped; /* deltas lost right before it */
};

struct agt_journal {
    struct agt_store *store;   /* borrowed */
    uint64_t fence;            /* of this process' hold on the run */
    bool is_new;               /* the spec is still to be written */
    bool is_lost;              /* what is emitted will never be durable */
    struct agt_pending *first; /* in order; those before `unwritten` are on their way */
    struct agt_pending *last;
    struct agt_pending *unwritten; /* NULL: all are on their way */
    size_t delta_bytes;
    uint32_t dropped; /* deltas lost behind the last pending event */
    uint32_t written_seq;
    uint32_t durable_seq;
    uint32_t turns;        /* on their way to the store and back */
    struct cr_buf input;   /* of the next state event */
    struct agt_call *held; /* in the order in which they were made */
    struct agt_replay replay;
};

/* Gives what is not on its way yet to the store, as one turn. */
void agt_journal_write(struct agt_run *run);

/* Makes visible what is durable, and the deltas behind it. */
void agt_journal_publish(struct agt_run *run);
