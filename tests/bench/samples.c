/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/samples.h"

#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int bench_samples_init(struct bench_samples *samples, size_t most)
{
    *samples = (struct bench_samples){.ns = calloc(most, sizeof(*samples->ns)), .most = most};
    return samples->ns ? 0 : -ENOMEM;
}

void bench_samples_done(struct bench_samples *samples)
{
    free(samples->ns);
    *samples = (struct bench_samples){0};
}

void bench_samples_add(struct bench_samples *samples, int64_t ns)
{
    if (samples->count < samples->most)
        samples->ns[samples->count++] = ns;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static double at_us(const struct bench_samples *samples, size_t index)
{
    return samples->count == 0 ? 0 : (double)samples->ns[index] / (double)CR_NS_PER_US;
}

void bench_samples_print(const char *name, struct bench_samples *samples)
{
    size_t last = samples->count > 0 ? samples->count - 1 : 0;

    qsort(samples->ns, samples->count, sizeof(*samples->ns), compare);
    (void)printf("\"%s\":{\"count\":%zu,\"min_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                 "\"max_us\":%.1f,\"pool_hits\":%zu}",
                 name, samples->count, at_us(samples, 0), at_us(samples, last / 2),
                 at_us(samples, last * 99 / 100), at_us(samples, last), samples->pool_hits);
}

void bench_wait_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / CR_NS_PER_S, .tv_nsec = at_ns % CR_NS_PER_S};

    int r;

    do {
        r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    } while (r == EINTR);
}
