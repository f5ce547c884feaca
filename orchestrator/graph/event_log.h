/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"

/*
 * The events of one run, in order. State events stay for the life of the log;
 * deltas stay in a bounded ring, the oldest are forgotten, and all of them once
 * the run has ended and nobody watches it. Reference counted: a watch may
 * outlive the run. One writer, any number of readers.
 */
struct agt_event_log;

#define AGT_LOG_DELTAS_MAX 512
#define AGT_LOG_DELTA_BYTES_MAX 262144U

/* Packs a RunEvent. NULL when memory is gone. `seq` is that of the message. */
struct agt_event *agt_event_new(const Crisol__Agent__V1__RunEvent *message, bool is_state,
                                bool is_last);

/* `run_id` is copied. NULL when memory is gone. */
struct agt_event_log *agt_event_log_new(const char *run_id);
struct agt_event_log *agt_event_log_ref(struct agt_event_log *log);
struct agt_event_log *agt_event_log_unref(struct agt_event_log *log); /* NULL is allowed */

/*
 * Appends and wakes the readers; takes the event. A state event's seq is one
 * more than that of the state event before. Returns 0 or -ENOMEM; then the
 * event is gone and its seq is free again. After an event with is_last
 * nothing may be added.
 */
int agt_event_log_add(struct agt_event_log *log, struct agt_event *take_event);

/* Counts deltas that were lost before they got here, so that readers see a Gap. */
void agt_event_log_skip(struct agt_event_log *log, uint32_t deltas);

/* Ends the log without a last event, for when there was no memory for it. Safe to repeat. */
void agt_event_log_end(struct agt_event_log *log);

/* See agt_watch_new(). */
int agt_event_log_watch(struct agt_event_log *log, uint32_t from_seq, void (*notify)(void *user),
                        void *user, struct agt_watch **ret_watch);

/* See agt_run_has_ended(), agt_run_last_event() and agt_run_bytes(). */
bool agt_event_log_is_ended(struct agt_event_log *log);
struct agt_event *agt_event_log_last(struct agt_event_log *log);

/* A reference to the newest state event; NULL: there is none. */
struct agt_event *agt_event_log_newest(struct agt_event_log *log);
size_t agt_event_log_bytes(struct agt_event_log *log);
