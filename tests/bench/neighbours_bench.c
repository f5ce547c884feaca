/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What do hostile neighbours cost? `true`, one each 50 ms, first on a quiet
 * service, then while --callers other runs fork, allocate, burn CPU, flood
 * their output and fill their workspace, each restarted when it was killed.
 * Each is followed by the bare program, which waits for the same processors
 * without a service. Prints one JSON object.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/bench/callers.h"
#include "tests/bench/options.h"
#include "tests/bench/peer.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define PROGRAM "/usr/bin/true"

static const struct bench_question attacks[] = {
    {.runtime = "shell", .code = "f() { f | f & }; f; while :; do :; done\n"},
    {.runtime = "python", .code = "x = []\nwhile True:\n    x.append(bytearray(1 << 20))\n"},
    {.runtime = "shell", .code = "while :; do :; done\n"},
    {.runtime = "shell", .code = "yes\n"},
    {.runtime = "shell",
     .code = "while :; do dd if=/dev/zero of=big bs=1M 2>/dev/null; rm -f big; done\n"},
};

/* Of the sandbox, and of the program without one. */
struct pair {
    struct bench_samples sandbox;
    struct bench_peer bare;
};

static int pair_init(struct pair *pair, const char *bare, size_t samples)
{
    int r = bench_samples_init(&pair->sandbox, samples);

    return r < 0 ? r : bench_peer_parse(bare, samples, &pair->bare);
}

static void pair_done(struct pair *pair)
{
    bench_samples_done(&pair->sandbox);
    bench_peer_done(&pair->bare);
}

static int sample_bare(struct bench_peer *peer, const struct bench_question *question,
                       bool is_counted)
{
    int64_t ns = bench_peer_run(peer, question, NULL, 0);

    if (ns >= 0 && is_counted)
        bench_samples_add(&peer->samples, ns);
    return ns < 0 ? (int)ns : 0;
}

static int sample_all(const struct bench_options *options, struct rpc_channel *channel,
                      struct pair *pair)
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
            bench_samples_add(&pair->sandbox, answer.result_ns - answer.sent_ns);
            pair->sandbox.pool_hits += answer.is_pool_hit;
        }
        if (r == 0)
            r = sample_bare(&pair->bare, question, i >= options->warm_up);
    }
    return r;
}

static int attack(const struct bench_options *options, struct rpc_channel *channel,
                  struct pair *pair)
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
        r = sample_all(options, channel, pair);
    bench_callers_stop(&callers);
    return r < 0 ? r : callers.wrong > 0 ? -EPROTO : 0;
}

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct pair quiet = {0};
    struct pair attacked = {0};
    int r = pair_init(&quiet, "bare quiet=" PROGRAM, options->samples);

    if (r == 0)
        r = pair_init(&attacked, "bare attacked=" PROGRAM, options->samples);
    if (r == 0)
        r = sample_all(options, channel, &quiet);
    if (r == 0)
        r = attack(options, channel, &attacked);
    if (r == 0) {
        (void)printf("{\"bench\":\"neighbours\",\"attackers\":%" PRIu64 ",\"series\":{",
                     options->callers);
        bench_samples_print("quiet", &quiet.sandbox);
        (void)putchar(',');
        bench_samples_print("attacked", &attacked.sandbox);
        (void)putchar(',');
        bench_samples_print(quiet.bare.name, &quiet.bare.samples);
        (void)putchar(',');
        bench_samples_print(attacked.bare.name, &attacked.bare.samples);
        (void)printf("}}\n");
    }
    pair_done(&quiet);
    pair_done(&attacked);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Latency under hostile neighbours.", measure);
}
