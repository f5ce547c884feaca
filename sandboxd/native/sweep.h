/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;
struct sbx_cgroup_host;

/*
 * Cleaning up after a backend that is gone. Mounts, network and process
 * namespaces go with the processes, so killing what is in the control groups
 * and removing them is all there is to do.
 */

/*
 * Kills and removes everything in the folders that predecessors left below
 * our own path: those that nobody holds a lock on. Waits for the processes to
 * be gone, up to a deadline per folder: -EBUSY. One that is another user's is
 * -EACCES, -EPERM or -EROFS, and the text says what to do; below the freezer,
 * which limits nothing, it stays. Before our own is made.
 * *ret_count is the number of folders.
 */
int sbx_sweep_predecessors(const struct sbx_cgroup_host *host, uint32_t *ret_count,
                           struct cr_err *err);

/* The same for our own folder, at the end. */
int sbx_sweep_own(const struct sbx_cgroup_host *host, struct cr_err *err);
