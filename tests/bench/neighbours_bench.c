/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What do hostile neighbours cost? `true`, one each 50 ms, first on a quiet
 * service, then while --callers other runs fork, allocate, burn CPU, flood
 * their output and fill their workspace, each restarted when it was killed.
 * Prints one JSON object.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/bench/callers.h"
#include "tests/bench/options.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const struct bench_question attacks[] = {
    {.runtime = "shell", .code = "f() { f | f & }; f; while :; do :; done\n"},
    {.runtime = "python", .code = "x = []\nwhile True:\n    x.append(bytearray(1 << 20))\n"},
    {.runtime = "shell", .code = "while :; do :; done\n"},
    {.runtime = "shell", .code = "yes\n"},
    {.runtime = "shell",
     .code = "while :; do dd if=/dev/zero of=big bs=1M 2>/dev/null; rm -f big; done\n"},
};

static int sample_all(const struct bench_options *options, struct rpc_channel *channel,
                      struct bench_samples *samples)
{
    const struct bench_question *question = bench_question_find("true");
    struct bench_request request;
    int64_t next_ns = cr_clock_mono_ns();
    int r = 0;

    bench_request_fill(question, &request);
    for (size_t i = 0; r == 0 && i < options->warm_up + options->samples; i++) {
        struct bench_answer answer;

        next_ns += BENCH_SPARSE_NS;
        bench_wait_until(next_ns);
        r = bench_ask(channel, question, &request.request, &answer);
        if (r == 0 && i >= options->warm_up) {
            bench_samples_add(samples, answer.result_ns - answer.sent_ns);
            samples->pool_hits += answer.is_pool_hit;
        }
    }
    return r;
}

static int attack(const struct bench_options *options, struct rpc_channel *channel,
                  struct bench_samples *samples)
{
    static struct bench_callers callers; /* large, and there is one */
    struct bench_request requests[CR_ARRAY_SIZE(attacks)];
    const Crisol__Sandbox__V1__ExecuteRequest *list[CR_ARRAY_SIZE(attacks)];
    int r;

    for (size_t i = 0; i < CR_ARRAY_SIZE(attacks); i++) {
        bench_request_fill(&attacks[i], &requests[i]);
        requests[i].limits.wall_time_ms = 2000;
        list[i] = &requests[i].request;
    }
    callers.channel = channel;
    r = bench_callers_start(&callers, list, CR_ARRAY_SIZE(attacks), (uint32_t)options->callers);
    if (r == 0)
        r = sample_all(options, channel, samples);
    bench_callers_stop(&callers);
    return r < 0 ? r : callers.wrong > 0 ? -EPROTO : 0;
}

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct bench_samples quiet;
    struct bench_samples attacked = {0};
    int r = bench_samples_init(&quiet, options->samples);

    if (r == 0)
        r = bench_samples_init(&attacked, options->samples);
    if (r == 0)
        r = sample_all(options, channel, &quiet);
    if (r == 0)
        r = attack(options, channel, &attacked);
    if (r == 0) {
        (void)printf("{\"bench\":\"neighbours\",\"attackers\":%" PRIu64 ",\"series\":{",
                     options->callers);
        bench_samples_print("quiet", &quiet);
        (void)putchar(',');
        bench_samples_print("attacked", &attacked);
        (void)printf("}}\n");
    }
    bench_samples_done(&quiet);
    bench_samples_done(&attacked);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Latency under hostile neighbours.", measure);
}
