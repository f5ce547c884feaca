/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_target;

/*
 * A process that starts a stack, attacks it and stops it. One for each stack,
 * because gRPC must not be forked: this process never speaks it.
 */
struct sbx_worker {
    pid_t pid;
    int outcome_fd; /* struct sbx_outcome, one after the other; ends with it */
    int64_t deadline_ns;
};

/* What a worker has to do. */
struct sbx_task {
    const struct sbx_target *target; /* borrowed for the call */
    const char *socket;              /* a path for its stack; borrowed for the call */
    uint32_t weakened;               /* the control to leave out, or SBX_NO_CONTROL */
    uint32_t only;                   /* see struct sbx_tester */
};

int sbx_worker_start(const struct sbx_task *task, struct sbx_worker *ret_worker,
                     struct cr_err *err);

/*
 * Reaps it, killed or at its end, and closes the fd. The stack of a killed one
 * ends by itself. Returns 0, or -EIO when it did not end well.
 */
int sbx_worker_end(struct sbx_worker *worker, bool must_kill);
