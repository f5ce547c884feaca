/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/run.h"

/*
 * Who runs now, who waits, who is refused. Belongs to the stream thread.
 */
struct sbx_admission {
    const struct sbx_run_host *host; /* borrowed */
    struct sbx_queue queue;
    struct sbx_execution *runs; /* in flight */
    uint32_t run_count;
    uint32_t slots;        /* of the backend; 0: there is none */
    uint64_t memory_bytes; /* that the memory limits of all runs together may reach; 0: any sum */
    uint64_t memory_taken; /* by those in flight */
    uint64_t memory_kept;  /* by sandboxes that live on, in a run or not */
    bool is_draining;
    uint64_t last_run;  /* number given last */
    int64_t average_us; /* of a run, for hints when to come again */
};

void sbx_admission_init(struct sbx_admission *admission, const struct sbx_run_host *host,
                        size_t queue_length);

/* Starts it, lets it wait, or refuses it. */
void sbx_admission_submit(struct sbx_admission *admission, struct sbx_execution *execution);

/* Starts as many waiting runs as there are free slots. */
void sbx_admission_fill(struct sbx_admission *admission);

/* A waiting run is cancelled: nothing was started, nothing is left. */
void sbx_admission_cancel(struct sbx_admission *admission, struct sbx_execution *execution);

/* The slots are gone: runs in flight are lost, waiting ones refused. */
void sbx_admission_lose(struct sbx_admission *admission);

/* No new runs from now on. */
void sbx_admission_drain(struct sbx_admission *admission);

/* A run has ended: gives its slot back. Safe for one that was never started. */
void sbx_admission_ended(struct sbx_admission *admission, struct sbx_execution *execution);

/* NULL when there is no run of this number. */
struct sbx_execution *sbx_admission_find(const struct sbx_admission *admission, uint64_t run);
