/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;

/*
 * Writes Prometheus' text format, version 0.0.4, family by family. Errors
 * stick: after the first nothing more is written, and cr_metrics_end() tells.
 * Names and labels are ours and of a bounded number; values of labels are
 * escaped all the same.
 */
struct cr_metrics {
    struct cr_buf *buf; /* borrowed */
    const char *family; /* borrowed */
    int error;          /* 0 or the first negative errno */
};

struct cr_metrics_label {
    const char *name; /* NULL: none */
    const char *value;
};

#define CR_METRICS_LABELS_MAX 4

/* "max_iterations" for MAX_ITERATIONS: the name of one of our enums as the value of a label, cut to
 * `size` with its NUL. */
void cr_metrics_lower(const char *name, char *text, size_t size);

void cr_metrics_begin(struct cr_metrics *metrics, struct cr_buf *buf);

/* Returns 0, or as cr_buf_add(). */
int cr_metrics_end(const struct cr_metrics *metrics);

/* `type` is "counter", "gauge" or "histogram". What follows belongs to the family. */
void cr_metrics_family(struct cr_metrics *metrics, const char *name, const char *type,
                       const char *help);

/* `labels` has up to CR_METRICS_LABELS_MAX, the rest without a name; NULL: none. */
void cr_metrics_count(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                      uint64_t value);
void cr_metrics_value(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                      double value);

/* Durations by upper bounds. Any thread notes, any thread reads. Zeroed memory is an empty one. */
#define CR_HISTOGRAM_BOUNDS 15

struct cr_histogram {
    atomic_uint_fast64_t counts[CR_HISTOGRAM_BOUNDS + 1]; /* the last: beyond every bound */
    atomic_uint_fast64_t sum_us;
};

void cr_histogram_note(struct cr_histogram *histogram, uint64_t duration_us);

/* Behind its cr_metrics_family(); `labels` as for a count, with room for one more. */
void cr_metrics_histogram(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                          const struct cr_histogram *histogram);

/*
 * What Prometheus' own client libraries tell about the calling process, under
 * their names: process_cpu_seconds_total, process_resident_memory_bytes,
 * process_open_fds and so on, from proc(5); what cannot be read is left out.
 * `started_ms`: since 1970.
 */
void cr_metrics_process(struct cr_metrics *metrics, int64_t started_ms);
