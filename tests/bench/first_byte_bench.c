/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does output take from the program's write to the client? Each
 * program prints the monotonic clock once, which is the same in a box as
 * outside of it. Prints one JSON object.
 */
#include "common/clock.h"
#include "tests/bench/execute.h"
#include "tests/bench/options.h"
#include "tests/bench/question.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The nap lets the start of the run be over before the byte. */
static const struct bench_question clock_question = {
    .name = "clock",
    .runtime = "python",
    .code = "import os, time\n"
            "time.sleep(0.02)\n"
            "os.write(1, b'%d end' % time.monotonic_ns())\n",
    .answer = " end",
};

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct bench_samples samples;
    struct bench_request request;
    int r = bench_samples_init(&samples, options->samples);

    bench_request_fill(&clock_question, &request);
    request.limits.cpu_millicores = (uint32_t)options->millicores;
    for (size_t i = 0; r == 0 && i < options->warm_up + options->samples; i++) {
        struct bench_answer answer;

        r = bench_ask(channel, &clock_question, &request.request, &answer);
        if (r == 0 && i >= options->warm_up)
            bench_samples_add(&samples, answer.first_output_ns - strtoll(answer.output, NULL, 10));
    }
    if (r == 0) {
        (void)printf("{\"bench\":\"first_byte\",\"series\":{");
        bench_samples_print("sandbox", &samples);
        (void)printf("}}\n");
    }
    bench_samples_done(&samples);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "From a program's write to the client.", measure);
}
