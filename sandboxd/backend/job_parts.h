/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/clock.h"
#include "sandboxd/backend/job.h"

/* Between job.c (its states and what is said of it), job_limits.c (what it may use up) and
 * job_end.c (what it leaves). */

/* A box that was killed has so long; then we say that it hangs, and go on waiting. */
#define SBX_JOB_KILL_DEADLINE_NS (10 * CR_NS_PER_S)

/* Goes to another state, which the table must allow; the other timers stop. */
void sbx_job_move(struct sbx_job *job, enum sbx_job_state to, int64_t deadline_ns);

/* PREPARING ▶ RUNNING: the wall time counts from `go_ns`, and the counters are looked at. */
void sbx_job_start_clocks(const struct sbx_backend *backend, struct sbx_job *job, int64_t go_ns);

/*
 * Looks at the three limits that end a running program, in the order that
 * decides ties. The event is stored before the kill is sent.
 */
void sbx_job_check_limits(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns);

/* The front or the collector took too long. */
void sbx_job_on_drain_time(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns);

/* Nobody waits for the answer any more. */
void sbx_job_abandon_drain(struct sbx_backend *backend, struct sbx_job *job);
