/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"

#include <semaphore.h>

/*
 * Reads a run to its end, waiting for each event, and keeps them all. Fails
 * the test when nothing comes for ten seconds, or when a state event's number
 * is not one more than that of the one before.
 */
struct run_reader {
    Crisol__Agent__V1__RunEvent **events;
    size_t count;
    const Crisol__Agent__V1__RunResult *result; /* of the last event */
};

/* Takes the run's reference. */
void run_reader_read(struct run_reader *reader, struct agt_run *take_run);

/*
 * The same, of a run that a script of the doubles holds until `gate` is posted,
 * which this does when it reads: so it is told of every delta. Of a run that
 * has ended nobody is.
 */
void run_reader_read_all(struct run_reader *reader, struct agt_run *take_run, sem_t *gate);
void run_reader_done(struct run_reader *reader);

/* How many events of a kind there are, and the n-th of them (NULL: none). */
size_t run_reader_count(const struct run_reader *reader,
                        Crisol__Agent__V1__RunEvent__EventCase event_case);
const Crisol__Agent__V1__RunEvent *
run_reader_find(const struct run_reader *reader, Crisol__Agent__V1__RunEvent__EventCase event_case,
                size_t index);

/* Waits until the run has had an event of this kind. Keeps the caller's reference. */
void run_reader_wait_for(struct agt_run *run, Crisol__Agent__V1__RunEvent__EventCase event_case);
