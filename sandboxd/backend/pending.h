/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include <sys/types.h>

/*
 * Whether a SIGKILL is on its way to a process and has not arrived: it is
 * frozen on control groups v1, and is heard when it goes on.
 */

/* Pure: what /proc/PID/status says of it. Returns 0, or -EPROTO when that says nothing. */
int sbx_pending_parse(const char *text, bool *ret_is_killed);

/* Below the folder `proc_fd` of a proc file system, with AT_FDCWD of /proc. False also of a process
 * that is gone. */
bool sbx_pending_has_kill(int proc_fd, pid_t pid);
