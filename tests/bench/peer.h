/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/bench/samples.h"

#include <stdint.h>

struct bench_question;

#define BENCH_PEERS_MAX 8
#define BENCH_WORDS_MAX 64

/*
 * Another way to run the question: a command that does it from start to end, or "unix:/path" of a
 * fork server, which has done its start-up ahead (fork_server.py).
 */
struct bench_peer {
    char name[32];
    char *text; /* the command, cut into words */
    char *argv[BENCH_WORDS_MAX];
    char *number_word; /* the word with "{n}": each call gets a number of its own there */
    struct bench_samples samples;
};

/*
 * "NAME=WORD WORD …"; no word holds a blank. Room for `most` samples.
 * Returns 0 or -errno, with a line on stderr.
 */
int bench_peer_parse(const char *text, size_t most, struct bench_peer *ret_peer);
void bench_peer_done(struct bench_peer *peer);

/*
 * Runs it once, in `folder` (NULL: here): the time from before the start until it was reaped and
 * its output was read. Returns that, or -errno with a line on stderr when exit code or output are
 * not right.
 */
int64_t bench_peer_run(const struct bench_peer *peer, const struct bench_question *question,
                       const char *folder, uint32_t number);
