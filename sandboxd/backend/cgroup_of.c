/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/cgroup_paths.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROC_TEXT_MAX (4U << 20)

/* The root of all groups has neither file, whatever the kernel can do. */
static bool tells_of_freezer(const struct sbx_cgroup_host *host)
{
    const struct sbx_cgroup_file_name *files = host->ops->files;
    const int fd = host->own_fds[0];

    return faccessat(fd, files[SBX_CGROUP_FILE_FREEZE].name, F_OK, 0) == 0 ||
           faccessat(fd, files[SBX_CGROUP_FILE_FROZEN].name, F_OK, 0) < 0;
}

void sbx_cgroup_host_observe(struct sbx_cgroup_host *host)
{
    int memory = host->hierarchy[SBX_CONTROLLER_MEMORY];

    host->has_swap =
        memory >= 0 && host->ops->version == 1 &&
        faccessat(host->own_fds[memory], "memory.memsw.max_usage_in_bytes", R_OK, 0) == 0;
    if (host->ops->version == 2 && !tells_of_freezer(host))
        host->hierarchy[SBX_CONTROLLER_FREEZER] = -1;
}

/* Opens the hierarchy of one controller, unless a joined one has it already. */
static int open_hierarchy(const struct sbx_cgroup_host *host, enum sbx_controller controller,
                          const char *cgroups, const char *mounts, const char *name,
                          struct sbx_cgroup *group)
{
    const char *key = host->ops->version == 2 ? NULL : sbx_controller_names[controller];
    int hierarchy = host->hierarchy[controller];
    char path[PATH_MAX];
    int r;

    if (hierarchy < 0 || group->fds[hierarchy] >= 0)
        return 0;
    r = sbx_cgroup_own_path(cgroups, key, path, sizeof(path));
    if (r < 0)
        return r;
    if (!strstr(path, name))
        return -ESRCH;
    group->fds[hierarchy] = sbx_cgroup_open_path(cgroups, mounts, key);
    return group->fds[hierarchy] < 0 ? group->fds[hierarchy] : 0;
}

/* No limit: without it nobody can be frozen, and that is all. */
static bool is_needed(const struct sbx_cgroup_host *host, enum sbx_controller controller)
{
    return controller != SBX_CONTROLLER_FREEZER || host->ops->version == 2;
}

int sbx_cgroup_open_of(const struct sbx_cgroup_host *host, pid_t pid, const char *name,
                       struct sbx_cgroup *ret_group, struct cr_err *err)
{
    struct sbx_cgroup group = {.host = host, .event_fd = -1};
    CR_AUTO_BUF struct cr_buf cgroups = {0};
    CR_AUTO_BUF struct cr_buf mounts = {0};
    char path[64];
    int r;

    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        group.fds[i] = -1;
    cr_buf_init(&cgroups, PROC_TEXT_MAX);
    cr_buf_init(&mounts, PROC_TEXT_MAX);
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    r = sbx_cgroup_read_proc(path, &cgroups, err);
    if (r == 0)
        r = sbx_cgroup_read_proc("/proc/self/mountinfo", &mounts, err);
    if (r < 0)
        return r;
    for (int i = 0; r == 0 && i < SBX_CONTROLLER_COUNT; i++) {
        r = open_hierarchy(host, (enum sbx_controller)i, cr_buf_str(&cgroups), cr_buf_str(&mounts),
                           name, &group);
        if (r < 0 && !is_needed(host, (enum sbx_controller)i))
            r = 0;
    }
    if (r < 0) {
        sbx_cgroup_close(&group);
        return cr_err_sys(err, -r, "find the control groups of process %d", (int)pid);
    }
    *ret_group = group;
    return 0;
}
