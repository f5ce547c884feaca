/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/options.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "tests/bench/execute.h"

#include <stdio.h>
#include <string.h>

#define NUMBER(name, member, least, most, standard, text)                                          \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_UINT, .offset = offsetof(struct bench_options, member), \
        .min = (least), .max = (most), .fallback = (standard), .help = (text)                      \
    }
#define TEXT(name, member, standard, list, text)                                                   \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_STRING,                                                 \
        .offset = offsetof(struct bench_options, member), .fallback = (standard),                  \
        .is_list = (list), .help = (text)                                                          \
    }

static const struct cr_setting table[] = {
    TEXT("address", address, NULL, false, "Where sandboxd serves, e.g. unix:/path."),
    TEXT("question", question, "true", false, "What to run: true, python, pytest or work."),
    TEXT("shape", shape, "back-to-back", false,
         "back-to-back; sparse: one each 50 ms; rested: when the pool is full; agent: in-flight, "
         "back-to-back, or rested: half a second after each."),
    TEXT("task", task, NULL, false, "What the agent is asked for."),
    TEXT("peer", peers, NULL, true,
         "NAME=COMMAND that does the same, or NAME=unix:/path of a fork server. Repeatable."),
    TEXT("peer-folder", peer_folder, NULL, false, "Working folder of the peers."),
    NUMBER("samples", samples, 1, 1000000, "300", "How many."),
    NUMBER("warm-up", warm_up, 0, 10000, "20", "How many before that, not counted."),
    NUMBER("callers", callers, 1, 1024, "2", "Calls at one time."),
    NUMBER("seconds", seconds, 1, 3600, "5", "How long."),
    NUMBER("bytes", bytes, 1, UINT32_MAX, "268435456", "How much to stream."),
    NUMBER("wall-ms", wall_ms, 0, 600000, "0",
           "Wall and CPU time limit of a run; 0: the defaults."),
    NUMBER("work-ms", work_ms, 0, 600000, "0", "CPU time that the question work takes."),
    NUMBER("millicores", millicores, 0, 64000, "0", "CPU limit of a run; 0: the default."),
};

bool bench_is_sparse(const struct bench_options *options)
{
    return strcmp(options->shape, "sparse") == 0;
}

bool bench_is_rested(const struct bench_options *options)
{
    return strcmp(options->shape, "rested") == 0;
}

int bench_main(int argc, char **argv, const char *description,
               int (*measure)(const struct bench_options *options, struct rpc_channel *channel))
{
    struct bench_options options = {0};
    struct rpc_channel *channel = NULL;
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("bench", CR_LOG_WARN, CR_LOG_TEXT);
    r = cr_config_load(table, CR_ARRAY_SIZE(table), "bench", description, argc, argv, &options,
                       &err);
    if (r == 0 && !options.address)
        r = cr_err_set(&err, EINVAL, "--address: is missing");
    if (r != 0) {
        if (r < 0)
            (void)fprintf(stderr, "bench: %s\n", err.text);
        cr_config_done(table, CR_ARRAY_SIZE(table), &options);
        return r < 0 ? 2 : 0;
    }
    rpc_init();
    r = bench_connect(options.address, &channel);
    if (r == 0)
        r = measure(&options, channel);
    (void)rpc_channel_free(channel);
    rpc_fini();
    cr_config_done(table, CR_ARRAY_SIZE(table), &options);
    return r < 0 ? 1 : 0;
}
