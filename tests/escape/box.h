/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/integration/sandboxd/native_client.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Runs sbprobe in boxes of a real sandboxd-native. The judge sits outside:
 * verdicts, counters, pipes and the host's /proc, not what the probe says
 * about itself. Everything asserts.
 */

/* Group set-up and tear-down: one backend for all tests of a binary. */
int escape_start(void **state);
int escape_stop(void **state);

/* Tear-down of each test: the next run works, and nothing of the last one is left. */
int escape_check_next(void **state);

extern struct native_client escape_client;

/* One file to collect and a limit to change; zero fields mean none. */
struct escape_spec {
    const char *behaviour;            /* argv[1] of sbprobe */
    const char *argument;             /* argv[2]; NULL: none */
    const char *const *collect;       /* NULL-terminated; NULL: none */
    uint64_t limits[SBX_LIMIT_COUNT]; /* 0: the default */
};

/* Runs to its end; the caller calls native_run_done(). */
void escape_run(const struct escape_spec *spec, struct native_run *ret_run);

/* Sends only. */
void escape_send(const struct escape_spec *spec, struct native_run *ret_run);

/* Path of sbprobe on the host. */
const char *escape_probe_path(void);

/* "expected" or fails with the whole result. */
void escape_assert_verdict(const struct native_run *run, enum sbx_verdict expected);
