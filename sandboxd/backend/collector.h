/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/* What the exit code of a collector says, with WIFEXITED. */
enum sbx_collector_exit {
    SBX_COLLECTOR_DONE = 0,
    SBX_COLLECTOR_FAILED = 1,    /* the payload is malformed, or nobody reads */
    SBX_COLLECTOR_SIZE_SEEN = 2, /* done, and a file has the size that was asked about */
};

#define SBX_COLLECTOR_PLACES 3

/* All descriptors are borrowed. */
struct sbx_collector_plan {
    int workspace_fd;                 /* the folder /workspace */
    int payload_fd;                   /* sealed */
    int out_fd;                       /* a pipe or socket */
    uid_t id;                         /* user and group of the child */
    uint64_t size;                    /* of a file to look for; 0: none */
    int places[SBX_COLLECTOR_PLACES]; /* where to look for it: all that the box could write */
    size_t place_count;
};

/*
 * Reads the COLLECT files of a payload out of a workspace, in a child of its
 * own that has an unprivileged user, no capability and a filter of a few system
 * calls. To be started when everything in the box is dead.
 *
 * The pipe gets what sandboxd/wire/payload.h says about struct
 * sbx_collect_header. When that is done the child looks for a regular file of
 * exactly `size` bytes in the places, following no link and entering no other
 * mount, and ends by itself with one of the codes above. Its work is bounded
 * by the payload; a reader that never reads blocks it, so the caller keeps a
 * deadline and kills it.
 *
 * On success *ret_pid is a child for the caller to wait for.
 */
int sbx_collector_start(const struct sbx_collector_plan *plan, pid_t *ret_pid, struct cr_err *err);
