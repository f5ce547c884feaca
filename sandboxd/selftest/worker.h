/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/*
 * A process that starts a stack, attacks it and stops it. One for each stack,
 * because gRPC must not be forked: this process never speaks it.
 */
struct sbx_worker {
    pid_t pid;
    int outcome_fd; /* struct sbx_outcome, one after the other; ends with it */
    int64_t deadline_ns;
};

/*
 * `socket` (borrowed for the call): a path for the stack; `weakened`: the
 * control to leave out, or SBX_NO_CONTROL; `only`: see struct sbx_tester.
 */
int sbx_worker_start(const char *socket, uint32_t weakened, uint32_t only,
                     struct sbx_worker *ret_worker, struct cr_err *err);

/* Reaps it, killed or at its end, and closes the fd. The stack of a killed one ends by itself. */
void sbx_worker_end(struct sbx_worker *worker, bool must_kill);
