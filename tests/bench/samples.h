/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Durations of one kind in nanoseconds; as many as were asked for. */
struct bench_samples {
    int64_t *ns;
    size_t count;
    size_t most;
    size_t pool_hits; /* of them: sandboxes that came from a pool */
};

/* Returns 0 or -ENOMEM. */
int bench_samples_init(struct bench_samples *samples, size_t most);
void bench_samples_done(struct bench_samples *samples);

/* One that does not fit any more is dropped. */
void bench_samples_add(struct bench_samples *samples, int64_t ns);

/*
 * Prints `"NAME":{"count":…,"min_us":…,"p50_us":…,"p99_us":…,"max_us":…,"pool_hits":…}` on
 * stdout and sorts the samples.
 */
void bench_samples_print(const char *name, struct bench_samples *samples);

/* Waits until `at_ns`; at once when that has passed. */
void bench_wait_until(int64_t at_ns);
