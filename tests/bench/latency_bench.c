/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does one run take? From the request of Execute to its result at
 * the client, and in turn with it, in one process run, the same by each peer.
 * Every sample's verdict, exit code and output are asserted. Prints one JSON
 * object.
 */
#include "common/clock.h"
#include "tests/bench/execute.h"
#include "tests/bench/options.h"
#include "tests/bench/peer.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODES 8
#define REST_DEADLINE_NS (60 * CR_NS_PER_S)
#define ASK_AGAIN_NS (20 * CR_NS_PER_MS)

static const char *const stage_names[BENCH_STAGE_COUNT] = {
    [BENCH_STAGE_QUEUE] = "queue",
    [BENCH_STAGE_PREPARE] = "prepare",
    [BENCH_STAGE_RUN] = "run",
    [BENCH_STAGE_KILL] = "kill",
};

struct measuring {
    const struct bench_options *options;
    const struct bench_question *question;
    struct rpc_channel *channel;
    struct bench_request request;
    struct bench_samples sandbox;
    struct bench_samples stages[BENCH_STAGE_COUNT]; /* of it */
    struct bench_peer peers[BENCH_PEERS_MAX];
    size_t peer_count;
    uint32_t number;
    size_t modes[MODES]; /* how the programs came to be: enum StartMode */
};

static int parse_peers(struct measuring *measuring)
{
    char *save = NULL;
    int r = 0;

    if (!measuring->options->peers)
        return 0;
    for (char *text = strtok_r(measuring->options->peers, ",", &save); r == 0 && text;
         text = strtok_r(NULL, ",", &save)) {
        if (measuring->peer_count == BENCH_PEERS_MAX)
            return -E2BIG;
        r = bench_peer_parse(text, measuring->options->samples,
                             &measuring->peers[measuring->peer_count]);
        measuring->peer_count += r == 0;
    }
    return r;
}

/* Leaves the machine alone before a sample of the sparse shape. */
static void pause_before(const struct measuring *measuring)
{
    if (bench_is_sparse(measuring->options) || bench_is_rested(measuring->options))
        bench_wait_until(cr_clock_mono_ns() + BENCH_SPARSE_NS);
}

/* Before one of the sandbox also until the pool is full, in the shape that says so. */
static int rest(const struct measuring *measuring)
{
    int64_t deadline_ns = cr_clock_mono_ns() + REST_DEADLINE_NS;

    while (bench_is_rested(measuring->options) && !bench_is_pool_full(measuring->channel)) {
        if (cr_clock_mono_ns() > deadline_ns)
            return -ETIMEDOUT;
        bench_wait_until(cr_clock_mono_ns() + ASK_AGAIN_NS);
    }
    pause_before(measuring);
    return 0;
}

static int sample(struct measuring *measuring, bool is_counted)
{
    struct bench_answer answer;
    int r = rest(measuring);

    if (r < 0)
        return r;
    r = bench_ask(measuring->channel, measuring->question, &measuring->request.request, &answer);
    if (r < 0)
        return r;
    if (is_counted) {
        bench_samples_add(&measuring->sandbox, answer.result_ns - answer.sent_ns);
        measuring->sandbox.pool_hits += answer.is_pool_hit;
        measuring->modes[answer.start_mode % MODES]++;
        for (size_t i = 0; i < BENCH_STAGE_COUNT; i++)
            bench_samples_add(&measuring->stages[i], (int64_t)answer.stage_us[i] * CR_NS_PER_US);
    }
    for (size_t i = 0; i < measuring->peer_count; i++) {
        struct bench_peer *peer = &measuring->peers[i];
        int64_t ns;

        pause_before(measuring);
        ns = bench_peer_run(peer, measuring->question, measuring->options->peer_folder,
                            measuring->number++);
        if (ns < 0)
            return (int)ns;
        if (is_counted)
            bench_samples_add(&peer->samples, ns);
    }
    return 0;
}

static void print(struct measuring *measuring)
{
    (void)printf("{\"bench\":\"latency\",\"question\":\"%s\",\"shape\":\"%s\",\"modes\":[",
                 measuring->question->name, measuring->options->shape);
    for (size_t i = 0; i < MODES; i++)
        (void)printf("%s%zu", i > 0 ? "," : "", measuring->modes[i]);
    (void)printf("],\"series\":{");
    bench_samples_print("sandbox", &measuring->sandbox);
    for (size_t i = 0; i < measuring->peer_count; i++) {
        (void)putchar(',');
        bench_samples_print(measuring->peers[i].name, &measuring->peers[i].samples);
    }
    (void)printf("},\"stages\":{");
    for (size_t i = 0; i < BENCH_STAGE_COUNT; i++) {
        if (i > 0)
            (void)putchar(',');
        bench_samples_print(stage_names[i], &measuring->stages[i]);
    }
    (void)printf("}}\n");
}

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct measuring measuring = {
        .options = options, .question = bench_question_find(options->question), .channel = channel};
    int r = measuring.question ? parse_peers(&measuring) : -EINVAL;

    if (r == 0)
        r = bench_samples_init(&measuring.sandbox, options->samples);
    for (size_t i = 0; r == 0 && i < BENCH_STAGE_COUNT; i++)
        r = bench_samples_init(&measuring.stages[i], options->samples);
    if (r == 0) {
        bench_request_fill(measuring.question, &measuring.request);
        bench_request_apply(measuring.question, options, &measuring.request);
    }
    for (size_t i = 0; r == 0 && i < options->warm_up + options->samples; i++)
        r = sample(&measuring, i >= options->warm_up);
    if (r == 0)
        print(&measuring);
    bench_samples_done(&measuring.sandbox);
    for (size_t i = 0; i < BENCH_STAGE_COUNT; i++)
        bench_samples_done(&measuring.stages[i]);
    for (size_t i = 0; i < measuring.peer_count; i++)
        bench_peer_done(&measuring.peers[i]);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Latency of one run over Execute, and of peers.", measure);
}
