/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

/* What pid 1 of a box waits for while its program runs. */
struct sbx_reaper {
    pid_t leader;
    int signal_fd;   /* SIGCHLD */
    int listener_fd; /* of the program's filter; -1: there is none, or nobody has it any more */
    bool has_socket; /* somebody made one, or nobody would have told */
};

#define SBX_REAP_MORE_MAX 4U

/* Blocks SIGCHLD. Returns 0 or -errno. */
int sbx_reaper_init(struct sbx_reaper *reaper, pid_t leader, int listener_fd);

/*
 * Waits, reaping whoever ends and telling of forbidden calls, until the leader has ended (true,
 * with its status), or until something is up with one of `more`, at most SBX_REAP_MORE_MAX (false).
 */
bool sbx_reaper_wait(struct sbx_reaper *reaper, struct pollfd *more, size_t count, int *ret_status);
