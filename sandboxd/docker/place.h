/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup_host;
struct sbx_docker_run;

/*
 * Finds the container of a run on this host: its pid 1, its control groups and
 * its writable folders, from outside and while only sandbox-init is in it. Fills in
 * box_pidfd, group, has_group and folder_fds; what was opened stays the run's
 * on failure too. An engine whose processes are not ours (another machine,
 * another pid namespace) is -EOPNOTSUPP.
 */
int sbx_place_open(const struct sbx_cgroup_host *cgroups, pid_t pid, struct sbx_docker_run *run,
                   struct cr_err *err);
