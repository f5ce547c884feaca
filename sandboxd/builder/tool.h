/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_room;

/*
 * Programs of the host that a build uses: mmdebstrap, tar, pip inside the new
 * root. Each runs in a session of its own, so that all of it can be killed, and
 * in a mount namespace of its own, so that nothing of it stays mounted.
 */
struct sbx_tool {
    const char *const *argv; /* NULL-terminated; the first is an absolute path */
    const char *folder;      /* where it works, and, but for `is_free`, all that it may write to */
    bool is_free;            /* it sees the host as it is: what makes a root mounts things */
    bool is_inside;          /* `folder` is its root */
    int output_fd;           /* standard output and error; borrowed */
    int64_t deadline_ns;     /* CLOCK_MONOTONIC */
    const struct sbx_room *room; /* what it may take of the file system of `folder`; borrowed */
    uint64_t memory_bytes;       /* addresses of each of its processes; 0: any number */
};

/*
 * Runs it to its end. Returns 0 when it exits with 0, -EIO when not,
 * -ETIMEDOUT past the deadline, -EFBIG when it takes more room than it has,
 * -EINTR when we are told to stop (a signal of sbx_tool_block_signals()); then
 * all of its session is killed.
 */
int sbx_tool_run(const struct sbx_tool *tool, struct cr_err *err);

/* SIGINT, SIGTERM and SIGHUP end the tool that runs, and whoever waits here cleans up. Once. */
int sbx_tool_block_signals(struct cr_err *err);

/* True when one of them came. The descriptor (borrowed) is readable then. */
bool sbx_tool_is_told_to_stop(void);
int sbx_tool_stop_fd(void);
