/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_channel;

/* What every program here takes; each uses what it needs. */
struct bench_options {
    char *address;
    char *question;
    char *shape;       /* "sparse", "rested", "back-to-back"; of the agent also "in-flight" */
    char *task;        /* for the agent */
    char *peers;       /* comma-separated, for bench_peer_parse() */
    char *peer_folder; /* where peers run; NULL: here */
    uint64_t samples;
    uint64_t warm_up;
    uint64_t callers;
    uint64_t seconds;
    uint64_t bytes;
    uint64_t wall_ms;    /* limit of wall clock and of CPU time; 0: the defaults of the service */
    uint64_t work_ms;    /* of the question "work" */
    uint64_t millicores; /* 0: the default of the service */
};

/*
 * Loads the flags, starts gRPC, connects, runs `measure`, and releases
 * everything. Returns what main() returns.
 */
int bench_main(int argc, char **argv, const char *description,
               int (*measure)(const struct bench_options *options, struct rpc_channel *channel));

/* True for "sparse", a request each BENCH_SPARSE_NS. */
bool bench_is_sparse(const struct bench_options *options);

/* True for "rested", a request when the pool is full again and BENCH_SPARSE_NS have passed. */
bool bench_is_rested(const struct bench_options *options);

#define BENCH_SPARSE_NS (50 * CR_NS_PER_MS)
