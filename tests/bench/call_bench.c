/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does a call take that runs nothing? GetCapabilities, from its
 * request to its answer: the part of each run that is gRPC, its guard and the
 * way there and back. Prints one JSON object.
 */
#include "common/clock.h"
#include "tests/bench/execute.h"
#include "tests/bench/options.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <stdio.h>

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct bench_samples samples;
    int r = bench_samples_init(&samples, options->samples);

    for (size_t i = 0; r == 0 && i < options->warm_up + options->samples; i++) {
        int64_t begin_ns;

        if (bench_is_sparse(options))
            bench_wait_until(cr_clock_mono_ns() + BENCH_SPARSE_NS);
        begin_ns = cr_clock_mono_ns();
        r = bench_call_nothing(channel);
        if (r == 0 && i >= options->warm_up)
            bench_samples_add(&samples, cr_clock_mono_ns() - begin_ns);
    }
    if (r == 0) {
        (void)printf("{\"bench\":\"call\",\"shape\":\"%s\",\"series\":{", options->shape);
        bench_samples_print("nothing", &samples);
        (void)printf("}}\n");
    }
    bench_samples_done(&samples);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Latency of a call that runs nothing.", measure);
}
