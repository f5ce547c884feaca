/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_backend;

#define SBX_PROBE_OUTPUT_MAX 64U

/* How a run of our own ended. */
struct sbx_probe {
    bool is_ok;    /* verdict OK */
    bool gave_way; /* refused or cancelled for somebody else, or by the end of the backend */
    const char *verdict;
    const char *stage;
    int stage_errno;
    enum rpc_code refusal;             /* RPC_OK unless it was refused */
    char output[SBX_PROBE_OUTPUT_MAX]; /* first line of standard output */
};

/* How long the end is waited for, and what is to be done meanwhile, at least once in
 * CR_TURN_MS. */
struct sbx_probe_wait {
    int deadline_ms;
    void (*on_turn)(void *user); /* NULL: nothing */
    void *user;
};

/*
 * Runs one command through the backend, like any caller would, and waits for
 * its end. `argv` is NULL-terminated, its first item absolute. `gives_way`: as
 * of sbx_execution_give_way(). Blocks until the deadline at most, then cancels.
 * Returns 0, -ETIMEDOUT or another -errno.
 */
int sbx_probe_run(struct sbx_backend *backend, uint32_t runtime, const char *const *argv,
                  bool gives_way, const struct sbx_probe_wait *wait, struct sbx_probe *ret_probe);
