/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/metrics.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>

struct sbx_execution;

#define SBX_METER_VERDICTS 64U /* more than any number of enum sbx_verdict; the last: others */
#define SBX_METER_REASONS 8U   /* see meter.c */

/*
 * What is counted of runs, for the metrics. The stream thread notes, any
 * thread writes. Labels are verdicts, reasons, stages and runtimes of our own
 * tables: nothing of a caller gets into one. Zeroed memory is an empty one.
 */
struct sbx_meter {
    atomic_uint_fast64_t verdicts[SBX_METER_VERDICTS];
    atomic_uint_fast64_t runtimes[SBX_RUNTIMES_MAX];
    atomic_uint_fast64_t refusals[SBX_METER_REASONS];
    atomic_uint_fast64_t failed_stages[SBX_STAGE_COUNT];
    atomic_uint_fast64_t pool[SBX_START_MODE_COUNT]
                             [2]; /* by mode: made for the run, from the pool */
    atomic_uint_fast64_t output_bytes[2];
    atomic_uint_fast64_t truncated[2];
    atomic_uint_fast64_t starts; /* of the backend */
    atomic_uint_fast64_t losses;
    atomic_uint_fast64_t counts[SBX_COUNT_COUNT]; /* what the backend said last */
    struct cr_histogram queue_time;
    struct cr_histogram start_time;
    struct cr_histogram run_time;
};

/* What is now, beside what was counted. */
struct sbx_meter_now {
    bool is_up;
    struct sbx_msg_hello hello; /* of the backend that is or was last */
    struct sbx_backend_load load;
    uint32_t pool_ready;
    size_t queue_capacity;
};

/* A run has ended or was refused. */
void sbx_meter_note(struct sbx_meter *meter, const struct sbx_execution *execution);

/* The backend came, was lost, spoke of itself. */
void sbx_meter_started(struct sbx_meter *meter);
void sbx_meter_lost(struct sbx_meter *meter);
void sbx_meter_set_counts(struct sbx_meter *meter, const struct sbx_msg_counts *counts);

/* Every family sandboxd_…, in Prometheus' text format. */
void sbx_meter_write(const struct sbx_meter *meter, const struct sbx_meter_now *now,
                     struct cr_metrics *metrics);
