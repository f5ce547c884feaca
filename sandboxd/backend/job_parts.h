/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/job.h"

/* Between job.c and job_end.c, the two halves of a run. */

/* Goes to another state, which the table must allow; the other timers stop. */
void sbx_job_move(struct sbx_job *job, enum sbx_job_state to, int64_t deadline_ns);

/* The front or the collector took too long. */
void sbx_job_on_drain_time(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns);

/* Nobody waits for the answer any more. */
void sbx_job_abandon_drain(struct sbx_backend *backend, struct sbx_job *job);
