/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/* What the exit code of a collector says, with WIFEXITED. */
enum sbx_collector_exit {
    SBX_COLLECTOR_DONE = 0,
    SBX_COLLECTOR_FAILED = 1,    /* the payload is malformed, or nobody reads */
    SBX_COLLECTOR_SIZE_SEEN = 2, /* done, and a file has the size that was asked about */
};

/*
 * Reads the COLLECT files of a payload out of a workspace, in a child of its
 * own that has `id` for user and group, no capability and a filter of a few system
 * calls. To be started when everything in the box is dead.
 *
 * `workspace_fd` is the folder /workspace, `payload_fd` the sealed payload,
 * `out_fd` a pipe (or socket) that gets what sandboxd/wire/payload.h says
 * about struct sbx_collect_header; all three stay the caller's. The
 * child ends by itself with one of the codes above. `size`: not 0: looks for
 * a file of exactly that size when it is done. Its work is bounded by the payload; a reader that
 * never reads blocks it, so the caller keeps a deadline and kills it.
 *
 * On success *ret_pid is a child for the caller to wait for.
 */
int sbx_collector_start(int workspace_fd, int payload_fd, int out_fd, uid_t id, uint64_t size,
                        pid_t *ret_pid, struct cr_err *err);
