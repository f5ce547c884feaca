/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast does output reach a client that takes all of it? The service has
 * to allow --bytes of output. Prints one JSON object.
 */
#include "common/clock.h"
#include "tests/bench/execute.h"
#include "tests/bench/options.h"
#include "tests/bench/question.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    char size[32];
    const char *const command[] = {"/usr/bin/head", "-c", size, "/dev/zero", NULL};
    const struct bench_question question = {
        .name = "stream", .runtime = "shell", .command = command, .answer = ""};
    struct bench_samples samples;
    struct bench_request request;
    int r = bench_samples_init(&samples, options->samples);

    (void)snprintf(size, sizeof(size), "%" PRIu64, options->bytes);
    bench_request_fill(&question, &request);
    request.limits.cpu_millicores = (uint32_t)options->millicores;
    request.limits.output_bytes = options->bytes;
    for (size_t i = 0; r == 0 && i < options->samples; i++) {
        struct bench_answer answer;

        r = bench_ask(channel, &question, &request.request, &answer);
        if (r == 0 && answer.output_bytes != options->bytes) {
            (void)fprintf(stderr, "bench: %" PRIu64 " of %" PRIu64 " bytes came\n",
                          answer.output_bytes, options->bytes);
            r = -EPROTO;
        }
        if (r == 0)
            bench_samples_add(&samples, answer.result_ns - answer.first_output_ns);
    }
    if (r == 0) {
        (void)printf("{\"bench\":\"stream\",\"bytes\":%" PRIu64 ",\"series\":{", options->bytes);
        bench_samples_print("sandbox", &samples);
        (void)printf("}}\n");
    }
    bench_samples_done(&samples);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Throughput of output over Execute.", measure);
}
