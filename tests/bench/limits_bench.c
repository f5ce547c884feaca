/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How exact are the limits? How long after the wall limit SIGKILL was sent
 * and the result was at the client, how far the CPU time at the kill was from
 * the limit, and whether output ends at exactly its limit. Prints one JSON
 * object. --callers of other runs that burn CPU make the machine a loaded one.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/bench/callers.h"
#include "tests/bench/options.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WALL_MS 100U
#define CPU_MS 100U
#define OUTPUT_BYTES 100000U

struct series {
    struct bench_samples kill;   /* SIGKILL behind the wall limit */
    struct bench_samples result; /* the result behind the wall limit */
    struct bench_samples cpu;    /* CPU time at the kill from the limit */
};

static int expect(const struct bench_answer *answer, uint32_t verdict)
{
    if (answer->verdict == verdict)
        return 0;
    (void)fprintf(stderr, "bench: verdict %" PRIu32 " instead of %" PRIu32 "\n", answer->verdict,
                  verdict);
    return -EPROTO;
}

static int sample_wall(struct rpc_channel *channel, struct series *series)
{
    static const char *const command[] = {"/usr/bin/sleep", "20", NULL};
    const struct bench_question question = {.runtime = "shell", .command = command};
    struct bench_request request;
    struct bench_answer answer;
    int r;

    bench_request_fill(&question, &request);
    request.limits.wall_time_ms = WALL_MS;
    r = bench_execute(channel, &request.request, &answer);
    if (r == 0)
        r = expect(&answer, CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_WALL_TIME_LIMIT);
    if (r == 0) {
        bench_samples_add(&series->kill,
                          (int64_t)answer.wall_us * CR_NS_PER_US - WALL_MS * CR_NS_PER_MS);
        bench_samples_add(&series->result,
                          answer.result_ns - answer.started_ns - WALL_MS * CR_NS_PER_MS);
    }
    return r;
}

static int sample_cpu(struct rpc_channel *channel, struct series *series)
{
    const struct bench_question question = {.runtime = "shell", .code = "while :; do :; done\n"};
    struct bench_request request;
    struct bench_answer answer;
    int r;

    bench_request_fill(&question, &request);
    request.limits.cpu_time_ms = CPU_MS;
    request.limits.cpu_millicores = 1000;
    r = bench_execute(channel, &request.request, &answer);
    if (r == 0)
        r = expect(&answer, CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_CPU_TIME_LIMIT);
    if (r == 0)
        bench_samples_add(&series->cpu,
                          llabs((int64_t)answer.cpu_us * CR_NS_PER_US - CPU_MS * CR_NS_PER_MS));
    return r;
}

static int sample_output(struct rpc_channel *channel)
{
    static const char *const command[] = {"/usr/bin/yes", NULL};
    const struct bench_question question = {.runtime = "shell", .command = command};
    struct bench_request request;
    struct bench_answer answer;
    int r;

    bench_request_fill(&question, &request);
    request.limits.output_bytes = OUTPUT_BYTES;
    r = bench_execute(channel, &request.request, &answer);
    if (r == 0)
        r = expect(&answer, CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OUTPUT_LIMIT);
    if (r == 0 && answer.output_bytes != OUTPUT_BYTES) {
        (void)fprintf(stderr, "bench: %" PRIu64 " bytes of output at a limit of %u\n",
                      answer.output_bytes, OUTPUT_BYTES);
        r = -EPROTO;
    }
    return r;
}

static int sample_all(const struct bench_options *options, struct rpc_channel *channel,
                      struct series *series)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < options->samples; i++) {
        r = sample_wall(channel, series);
        if (r == 0)
            r = sample_cpu(channel, series);
        if (r == 0)
            r = sample_output(channel);
    }
    return r;
}

static void print(const struct bench_options *options, struct series *series)
{
    (void)printf("{\"bench\":\"limits\",\"load\":%" PRIu64 ",\"output_exact\":true,\"series\":{",
                 options->callers - 1);
    bench_samples_print("kill_after_wall", &series->kill);
    (void)putchar(',');
    bench_samples_print("result_after_wall", &series->result);
    (void)putchar(',');
    bench_samples_print("cpu_from_limit", &series->cpu);
    (void)printf("}}\n");
}

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    static struct bench_callers load; /* large, and there is one */
    const struct bench_question busy = {.runtime = "shell", .code = "while :; do :; done\n"};
    struct series series = {0};
    struct bench_request request;
    const Crisol__Sandbox__V1__ExecuteRequest *const list[] = {&request.request};
    int r = bench_samples_init(&series.kill, options->samples);

    if (r == 0)
        r = bench_samples_init(&series.result, options->samples);
    if (r == 0)
        r = bench_samples_init(&series.cpu, options->samples);
    bench_request_fill(&busy, &request);
    request.limits.wall_time_ms = 2000;
    load.channel = channel;
    /* One caller is this one. */
    if (r == 0 && options->callers > 1)
        r = bench_callers_start(&load, list, 1, (uint32_t)options->callers - 1);
    if (r == 0)
        r = sample_all(options, channel, &series);
    if (load.loop)
        bench_callers_stop(&load);
    if (r == 0)
        print(options, &series);
    bench_samples_done(&series.kill);
    bench_samples_done(&series.result);
    bench_samples_done(&series.cpu);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "How exact limits are.", measure);
}
