/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/capacity.h"

#include "common/auto.h"
#include "sandboxd/backend/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/sysinfo.h>

#define DEPTH_MAX 64
#define RESERVE 8       /* one part in so many */
#define MILLICORES 1000 /* of a core */
/* More than a kernel takes (MAX_BW of kernel/sched/sched.h), so that no product overflows. */
#define QUOTA_MAX_US (UINT64_C(1) << 44)

/* The number at `text`; false for "max", "-1" and everything that is none. */
static bool parse_number(const char *text, char **ret_end, uint64_t *ret_value)
{
    errno = 0;
    *ret_value = strtoull(text, ret_end, 10);
    return *text >= '0' && *text <= '9' && errno == 0;
}

static bool read_number(int fd, const char *name, uint64_t *ret_value)
{
    char text[64];
    char *end;

    return sbx_cgroup_read(fd, name, text, sizeof(text)) >= 0 &&
           parse_number(text, &end, ret_value);
}

/* Quota and period of one group; false: no limit. */
static bool read_quota(int fd, uint32_t version, uint64_t *ret_quota, uint64_t *ret_period)
{
    char text[64];
    char *end;

    if (version != 2)
        return read_number(fd, "cpu.cfs_quota_us", ret_quota) &&
               read_number(fd, "cpu.cfs_period_us", ret_period) && *ret_period > 0;
    return sbx_cgroup_read(fd, "cpu.max", text, sizeof(text)) >= 0 &&
           parse_number(text, &end, ret_quota) && *end == ' ' &&
           parse_number(end + 1, &end, ret_period) && *ret_period > 0;
}

/* The folder over `fd`, which is closed. The caller stops where it is no control group any more. */
static void go_up(int *fd)
{
    int parent = openat(*fd, "..", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    cr_close_fd(fd);
    *fd = parent;
}

static bool is_group(int fd)
{
    return fd >= 0 && faccessat(fd, "cgroup.procs", F_OK, 0) == 0;
}

uint64_t sbx_capacity_memory(int group_fd, uint32_t version, uint64_t machine_bytes)
{
    const char *name = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    CR_AUTO_CLOSE int fd = openat(group_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    uint64_t least = machine_bytes;

    for (int i = 0; i < DEPTH_MAX && is_group(fd); i++, go_up(&fd)) {
        uint64_t limit;

        if (read_number(fd, name, &limit) && limit < least)
            least = limit;
    }
    return least;
}

uint32_t sbx_capacity_millicores(int group_fd, uint32_t version)
{
    CR_AUTO_CLOSE int fd = openat(group_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < DEPTH_MAX && is_group(fd); i++, go_up(&fd)) {
        uint64_t quota;
        uint64_t period;

        if (read_quota(fd, version, &quota, &period) && quota < QUOTA_MAX_US &&
            quota * MILLICORES / period < least)
            least = quota * MILLICORES / period;
    }
    if (least > UINT32_MAX)
        return SBX_CAPACITY_NO_QUOTA;
    return least > 0 ? (uint32_t)least : 1;
}

/* A quota is rounded up to whole cores: threads beyond it would only wait for each other. */
static uint32_t cores_of(uint32_t millicores, uint32_t machine_cores)
{
    const uint32_t cores = millicores / MILLICORES + (millicores % MILLICORES > 0);

    return cores < machine_cores ? cores : machine_cores;
}

void sbx_capacity_machine(struct sbx_capacity *ret_capacity)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct sysinfo info = {0};

    (void)sysinfo(&info);
    ret_capacity->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    ret_capacity->cores = cores > 0 ? (uint32_t)cores : 1;
    ret_capacity->millicores = SBX_CAPACITY_NO_QUOTA;
}

void sbx_capacity_read(const struct sbx_cgroup_host *cgroups, struct sbx_capacity *ret_capacity)
{
    const int memory = cgroups->hierarchy[SBX_CONTROLLER_MEMORY];
    const int cpu = cgroups->hierarchy[SBX_CONTROLLER_CPU];
    const uint32_t version = cgroups->ops->version;

    sbx_capacity_machine(ret_capacity);
    if (memory >= 0)
        ret_capacity->memory_bytes =
            sbx_capacity_memory(cgroups->own_fds[memory], version, ret_capacity->memory_bytes);
    if (cpu >= 0)
        ret_capacity->millicores = sbx_capacity_millicores(cgroups->own_fds[cpu], version);
    ret_capacity->cores = cores_of(ret_capacity->millicores, ret_capacity->cores);
}

uint64_t sbx_capacity_for_runs(uint64_t memory_bytes)
{
    return memory_bytes - memory_bytes / RESERVE;
}
