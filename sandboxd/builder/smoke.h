/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

struct cr_err;

/* How the smoke test of a build is run. Strings are borrowed; NULL: sandboxd's default. */
struct sbx_smoke {
    const struct sbx_runtime *runtime;
    const char *state_dir; /* where the runtime is registered, and nothing else */
    const char *accept_gaps;
};

/*
 * Starts a sandboxd of its own on a socket in `state_dir`, which no other
 * caller finds, and runs the smoke test of the runtime there, as any caller
 * would; without one, asks the runtime for its version. Must not be called
 * behind rpc_init(). Returns 0 or -errno; the error says what came instead.
 */
int sbx_smoke_run(const struct sbx_smoke *smoke, struct cr_err *err);
