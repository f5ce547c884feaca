/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/cgroup.h"

#include <errno.h>

/*
 * A group that nobody here can look into: what somebody else told of it. It
 * cannot be written, and says nothing by itself.
 */

static int told_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                      struct cr_err *err)
{
    (void)group;
    (void)limits;
    (void)err;
    return -EOPNOTSUPP;
}

static int told_limit_cpu(const struct sbx_cgroup *group, uint64_t millicores, struct cr_err *err)
{
    (void)group;
    (void)millicores;
    (void)err;
    return -EOPNOTSUPP;
}

static int told_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                      struct cr_err *err)
{
    (void)err;
    *ret_usage = *group->told;
    return 0;
}

static int told_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    *ret_us = group->told->cpu_total_us;
    return 0;
}

static int told_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    *ret_count = group->told->oom_kills;
    return 0;
}

static const struct sbx_cgroup_ops sbx_cgroup_told = {
    .version = 0,
    .limit = told_limit,
    .limit_cpu = told_limit_cpu,
    .usage = told_usage,
    .cpu_us = told_cpu_us,
    .oom_kills = told_oom_kills,
};

void sbx_cgroup_host_be_told(struct sbx_cgroup_host *host)
{
    sbx_cgroup_host_init(host, &sbx_cgroup_told);
}

void sbx_cgroup_open_told(const struct sbx_cgroup_host *host, const struct sbx_cgroup_usage *told,
                          struct sbx_cgroup *ret_group)
{
    *ret_group = (struct sbx_cgroup){.host = host, .told = told, .event_fd = -1};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        ret_group->fds[i] = -1;
}
