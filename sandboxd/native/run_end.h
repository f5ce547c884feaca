/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/native/run.h"

#include <stdint.h>

struct sbx_native;

/* The second half of a run: measuring, collecting, the answer. Used by run.c only. */

/* Goes to another state, which the table must allow; the other timers stop. */
void sbx_run_move(struct sbx_run *run, enum sbx_run_state to, int64_t deadline_ns);

/* Everything in the box is dead. A run that was started goes on to DRAINING, others end. */
void sbx_run_on_empty(struct sbx_native *native, struct sbx_run *run);

/* The front or the collector took too long. */
void sbx_run_on_drain_time(struct sbx_native *native, struct sbx_run *run, int64_t now_ns);

/* Nobody waits for the answer any more. */
void sbx_run_abandon_drain(struct sbx_native *native, struct sbx_run *run);

/* Sends RESULT and frees the slot. */
void sbx_run_finish(struct sbx_native *native, struct sbx_run *run);
