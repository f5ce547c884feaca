/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many runs in a second, with so many callers at one time, each of which
 * asks again at once? Every answer is asserted. Prints one JSON object.
 */
#include "common/clock.h"
#include "tests/bench/callers.h"
#include "tests/bench/options.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define SAMPLES_MAX 1000000

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    static struct bench_callers callers; /* large, and there is one */
    struct bench_request request;
    const Crisol__Sandbox__V1__ExecuteRequest *const list[] = {&request.request};
    int64_t begin_ns = cr_clock_mono_ns();
    double seconds;
    int r;

    callers.channel = channel;
    callers.question = bench_question_find(options->question);
    r = callers.question ? bench_samples_init(&callers.samples, SAMPLES_MAX) : -EINVAL;
    if (r < 0)
        return r;
    bench_request_fill(callers.question, &request);
    request.limits.cpu_millicores = (uint32_t)options->millicores;
    r = bench_callers_start(&callers, list, 1, (uint32_t)options->callers);
    bench_wait_until(begin_ns + (int64_t)options->seconds * CR_NS_PER_S);
    seconds = (double)(cr_clock_mono_ns() - begin_ns) / (double)CR_NS_PER_S;
    bench_callers_stop(&callers);
    (void)printf("{\"bench\":\"throughput\",\"question\":\"%s\",\"callers\":%" PRIu64
                 ",\"runs\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"wrong\":%" PRIu64
                 ",\"per_second\":%.1f,\"series\":{",
                 options->question, options->callers, callers.done, callers.refused, callers.wrong,
                 (double)callers.done / seconds);
    bench_samples_print("sandbox", &callers.samples);
    (void)printf("}}\n");
    bench_samples_done(&callers.samples);
    return r < 0 ? r : callers.wrong > 0 ? -EPROTO : 0;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Runs per second over Execute.", measure);
}
