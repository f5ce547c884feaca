/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup_host;
struct sbx_docker_box;
struct sbx_limits;

/*
 * Finds the container of a box on this host: its pid 1, its control groups and
 * its writable folders, from outside and while only sandbox-init is in it. Fills in
 * pid, pidfd, group, has_group and folder_fds; what was opened stays the box's
 * on failure too. An engine whose processes are not ours (another machine,
 * another pid namespace) is -EOPNOTSUPP.
 */
int sbx_place_open(const struct sbx_cgroup_host *cgroups, pid_t pid, struct sbx_docker_box *box,
                   struct cr_err *err);

/* Compares the resource limits of such a pid 1, which all its children get, with those of a run;
 * -EIO names the first that differs. */
int sbx_place_check_limits(const struct sbx_docker_box *box, const struct sbx_limits *limits,
                           struct cr_err *err);
