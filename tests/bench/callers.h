/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "tests/bench/execute.h"
#include "tests/bench/samples.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_question;

#define BENCH_CALLERS_MAX 1024

/*
 * Callers that send the next request when the answer to the last one came.
 * All of it but `must_stop` belongs to the loop's thread until
 * bench_callers_stop() has returned.
 */
struct bench_callers {
    struct rpc_channel *channel; /* borrowed */
    struct rpc_loop *loop;
    const struct bench_question *question; /* NULL: any answer is right */
    struct bench_samples samples;
    atomic_bool must_stop;
    uint64_t done;
    uint64_t refused; /* RESOURCE_EXHAUSTED: tried again at once */
    uint64_t wrong;

    struct bench_caller {
        struct bench_callers *all;
        const Crisol__Sandbox__V1__ExecuteRequest *request; /* borrowed */
        struct bench_answer answer;
    } list[BENCH_CALLERS_MAX];
};

/*
 * Starts `count` callers; caller i sends requests[i % request_count]. Returns
 * 0 or -errno.
 */
int bench_callers_start(struct bench_callers *callers,
                        const Crisol__Sandbox__V1__ExecuteRequest *const *requests,
                        size_t request_count, uint32_t count);

/* Breaks off what is under way, uncounted, and waits until nobody calls. */
void bench_callers_stop(struct bench_callers *callers);
