/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct cr_err;

/*
 * Reads the COLLECT files of a payload out of a workspace, in a child of its
 * own that has the given ids, no capability and a filter of a few system
 * calls. To be started when everything in the box is dead.
 *
 * `workspace_fd` is the folder /workspace, `payload_fd` the sealed payload,
 * `out_fd` a pipe (or socket) that gets what sandboxd/wire/payload.h says
 * about struct sbx_collect_header; all three stay the caller's. The
 * child ends by itself: exit code 0, or 1 when the payload is malformed or
 * nobody reads. Its work is bounded by the payload; a reader that never reads
 * blocks it, so the caller keeps a deadline and kills it.
 *
 * On success *ret_pid is a child for the caller to wait for.
 */
int sbx_collector_start(int workspace_fd, int payload_fd, int out_fd, uid_t uid, gid_t gid,
                        pid_t *ret_pid, struct cr_err *err);
