/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>

/* What a box may leave behind in its group: pages of the kernel that are given back later. */
#define RESIDUE_BYTES (UINT64_C(512) << 10)

static int limit_memory(const struct sbx_cgroup *group, uint64_t bytes, struct cr_err *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char text[32];
    int r;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY) < 0)
        return 0;
    bytes = bytes / page * page; /* what the kernel keeps */
    if (!group->host->has_swap)
        return sbx_cgroup_put(group, SBX_CGROUP_FILE_MEMORY_LIMIT, bytes, err);
    /* The sum may never be below the part, or the write is refused: then it is raised first. */
    r = sbx_cgroup_put(group, SBX_CGROUP_FILE_MEMORY_LIMIT, bytes, NULL);
    if (r < 0) {
        (void)snprintf(text, sizeof(text), "%" PRIu64, bytes);
        (void)sbx_cgroup_put_text(group, SBX_CGROUP_FILE_SWAP_LIMIT, text);
        r = sbx_cgroup_put(group, SBX_CGROUP_FILE_MEMORY_LIMIT, bytes, err);
    }
    return r < 0 ? r : sbx_cgroup_put(group, SBX_CGROUP_FILE_SWAP_LIMIT, bytes, err);
}

/* The kernel forgets what a group owes with each write, so a quota is always written. */
static int v1_limit_cpu(const struct sbx_cgroup *group, uint64_t millicores, struct cr_err *err)
{
    uint64_t quota;
    uint64_t period;
    uint64_t now = 0;
    int r = 0;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_CPU) < 0)
        return 0;
    sbx_cgroup_bandwidth(millicores, &quota, &period);
    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_CPU_PERIOD, NULL, &now) < 0 || now != period)
        r = sbx_cgroup_put(group, SBX_CGROUP_FILE_CPU_PERIOD, period, err);
    return r < 0 ? r : sbx_cgroup_put(group, SBX_CGROUP_FILE_CPU_LIMIT, quota, err);
}

static int v1_widen(const struct sbx_cgroup *group)
{
    char quota[32];
    int r;

    (void)snprintf(quota, sizeof(quota), "%" PRIu64, SBX_CGROUP_WIDE_US);
    r = sbx_cgroup_put_text(group, SBX_CGROUP_FILE_CPU_LIMIT, quota);
    /* A group above ours has a share itself, and no part of it may be wider. */
    return r == -EINVAL ? sbx_cgroup_put_text(group, SBX_CGROUP_FILE_CPU_LIMIT, "-1") : r;
}

static int v1_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                    struct cr_err *err)
{
    int r = limit_memory(group, limits->value[SBX_LIMIT_MEMORY], err);

    /* One more for sandbox-init, which is no process of the program. */
    if (r == 0 && sbx_cgroup_fd(group, SBX_CONTROLLER_PIDS) >= 0)
        r = sbx_cgroup_put(group, SBX_CGROUP_FILE_PROCESSES_LIMIT,
                           limits->value[SBX_LIMIT_PROCESSES] + 1, err);
    return r;
}

/* memory.rst (v1), "OOM Control": "<event_fd> <fd of memory.oom_control>". */
static int v1_arm(struct sbx_cgroup *group, struct cr_err *err)
{
    int fd = sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY);
    CR_AUTO_CLOSE int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CR_AUTO_CLOSE int oom_fd = openat(fd, "memory.oom_control", O_RDONLY | O_CLOEXEC);
    char text[32];
    int r;

    if (event_fd < 0 || oom_fd < 0)
        return cr_err_sys(err, errno, "open the OOM event of a control group");
    (void)snprintf(text, sizeof(text), "%d %d", event_fd, oom_fd);
    r = sbx_cgroup_write(fd, "cgroup.event_control", text);
    if (r < 0)
        return cr_err_sys(err, -r, "ask for the OOM event of a control group");
    group->event_fd = cr_take_fd(&event_fd);
    return 0;
}

static int v1_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    uint64_t ns = 0;
    int r = sbx_cgroup_count_or_none(group, SBX_CGROUP_FILE_CPU, NULL, &ns);

    if (r == 0)
        *ret_us = ns / (uint64_t)CR_NS_PER_US;
    return r;
}

static int v1_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    /* failcnt does not tell: it stays 0 on current kernels although the killer struck. */
    return sbx_cgroup_count_or_none(group, SBX_CGROUP_FILE_MEMORY_EVENTS, "oom_kill", ret_count);
}

/* Reading resets an eventfd. */
static int v1_hear(const struct sbx_cgroup *group)
{
    uint64_t count;

    return read(group->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN ? -errno : 0;
}

static int v1_memory_bytes(const struct sbx_cgroup *group, uint64_t *ret_bytes)
{
    return sbx_cgroup_count(group, SBX_CGROUP_FILE_MEMORY_USAGE, NULL, ret_bytes);
}

/* What old kernels lack stays 0. */
static void read_optional(const struct sbx_cgroup *group, struct sbx_cgroup_usage *usage)
{
    uint64_t value = 0;

    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_CPU_STAT, "throttled_time", &value) == 0)
        usage->cpu_throttled_us = value / (uint64_t)CR_NS_PER_US;
    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_CPU_USER, NULL, &value) == 0)
        usage->cpu_user_us = value / (uint64_t)CR_NS_PER_US;
    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_CPU_SYSTEM, NULL, &value) == 0)
        usage->cpu_system_us = value / (uint64_t)CR_NS_PER_US;
    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_PROCESSES_PEAK, NULL, &value) == 0)
        usage->processes_peak = value > 0 ? value - 1 : 0; /* without sandbox-init */
}

static enum sbx_cgroup_file peak_file(const struct sbx_cgroup *group)
{
    return group->host->has_swap ? SBX_CGROUP_FILE_MEMORY_PEAK : SBX_CGROUP_FILE_MEMORY_PEAK_ALONE;
}

static int v1_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                    struct cr_err *err)
{
    int r = v1_cpu_us(group, &ret_usage->cpu_total_us);

    if (r < 0)
        return cr_err_sys(err, -r, "read cpuacct.usage");
    r = v1_oom_kills(group, &ret_usage->oom_kills);
    if (r < 0)
        return cr_err_sys(err, -r, "read memory.oom_control");
    r = sbx_cgroup_count_or_none(group, peak_file(group), NULL, &ret_usage->memory_peak_bytes);
    if (r < 0)
        return cr_err_sys(err, -r, "read the peak of the memory");
    r = sbx_cgroup_count_or_none(group, SBX_CGROUP_FILE_PROCESS_EVENTS, "max",
                                 &ret_usage->process_limit_hits);
    if (r < 0)
        return cr_err_sys(err, -r, "read pids.events");
    read_optional(group, ret_usage);
    return 0;
}

/* v1 has no cgroup.kill; killing pid 1 of the box ends its pid namespace. */
static int v1_kill(const struct sbx_cgroup *group)
{
    (void)group;
    return -EOPNOTSUPP;
}

/* True when the number, of a file that this kernel has, is not more. */
static bool is_at_most(const struct sbx_cgroup *group, enum sbx_cgroup_file file, const char *key,
                       uint64_t most)
{
    uint64_t value = 0;
    int r = sbx_cgroup_count(group, file, key, &value);

    return r == -EOPNOTSUPP || (r == 0 && value <= most);
}

/*
 * The peak of the processes cannot be written. But every run has one, besides
 * sandbox-init: a peak of two says nothing of the run before.
 */
static bool is_like_new(const struct sbx_cgroup *group)
{
    return is_at_most(group, SBX_CGROUP_FILE_PROCESSES, NULL, 0) &&
           is_at_most(group, SBX_CGROUP_FILE_PROCESSES_PEAK, NULL, 2) &&
           is_at_most(group, SBX_CGROUP_FILE_PROCESS_EVENTS, "max", 0) &&
           is_at_most(group, SBX_CGROUP_FILE_MEMORY_EVENTS, "oom_kill", 0) &&
           is_at_most(group, SBX_CGROUP_FILE_MEMORY_USAGE, NULL, RESIDUE_BYTES);
}

static int v1_renew(const struct sbx_cgroup *group)
{
    int r = is_like_new(group) ? 0 : -EBUSY;

    if (r == 0 && sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY) >= 0)
        r = sbx_cgroup_put_text(group, peak_file(group), "0");
    return r < 0 || sbx_cgroup_fd(group, SBX_CONTROLLER_CPU) < 0 ? r : v1_widen(group);
}

/* FREEZING: somebody has yet to come to a halt. */
static bool v1_is_frozen(const struct sbx_cgroup *group)
{
    char state[32];

    return sbx_cgroup_read_file(group, SBX_CGROUP_FILE_FREEZE, state, sizeof(state)) == 0 &&
           strcmp(state, "FROZEN\n") == 0;
}

const struct sbx_cgroup_ops sbx_cgroup_v1 = {
    .version = 1,
    /*
     * Not cgroup.procs, which moves a whole process: for that the kernel keeps everybody on the
     * machine from forking and ending until those that are about to have done so, which programs
     * that fork a lot make long. A thread that moves itself waits for nobody (since Linux 5.5,
     * cgroup_procs_write_start() in kernel/cgroup/cgroup.c).
     */
    .entry = "tasks",
    .weight = 1024,
    .files =
        {
            [SBX_CGROUP_FILE_CPU] = {SBX_CONTROLLER_CPUACCT, "cpuacct.usage", false},
            [SBX_CGROUP_FILE_CPU_USER] = {SBX_CONTROLLER_CPUACCT, "cpuacct.usage_user", false},
            [SBX_CGROUP_FILE_CPU_SYSTEM] = {SBX_CONTROLLER_CPUACCT, "cpuacct.usage_sys", false},
            [SBX_CGROUP_FILE_CPU_STAT] = {SBX_CONTROLLER_CPU, "cpu.stat", false},
            [SBX_CGROUP_FILE_CPU_LIMIT] = {SBX_CONTROLLER_CPU, "cpu.cfs_quota_us", true},
            [SBX_CGROUP_FILE_CPU_PERIOD] = {SBX_CONTROLLER_CPU, "cpu.cfs_period_us", true},
            [SBX_CGROUP_FILE_CPU_WEIGHT] = {SBX_CONTROLLER_CPU, "cpu.shares", true},
            [SBX_CGROUP_FILE_MEMORY_PEAK] = {SBX_CONTROLLER_MEMORY,
                                             "memory.memsw.max_usage_in_bytes", true},
            [SBX_CGROUP_FILE_MEMORY_PEAK_ALONE] = {SBX_CONTROLLER_MEMORY,
                                                   "memory.max_usage_in_bytes", true},
            [SBX_CGROUP_FILE_MEMORY_EVENTS] = {SBX_CONTROLLER_MEMORY, "memory.oom_control", false},
            [SBX_CGROUP_FILE_MEMORY_USAGE] = {SBX_CONTROLLER_MEMORY, "memory.usage_in_bytes",
                                              false},
            [SBX_CGROUP_FILE_MEMORY_LIMIT] = {SBX_CONTROLLER_MEMORY, "memory.limit_in_bytes", true},
            [SBX_CGROUP_FILE_SWAP_LIMIT] = {SBX_CONTROLLER_MEMORY, "memory.memsw.limit_in_bytes",
                                            true},
            [SBX_CGROUP_FILE_PROCESSES] = {SBX_CONTROLLER_PIDS, "pids.current", false},
            [SBX_CGROUP_FILE_PROCESSES_PEAK] = {SBX_CONTROLLER_PIDS, "pids.peak", false},
            [SBX_CGROUP_FILE_PROCESS_EVENTS] = {SBX_CONTROLLER_PIDS, "pids.events", false},
            [SBX_CGROUP_FILE_PROCESSES_LIMIT] = {SBX_CONTROLLER_PIDS, "pids.max", true},
            [SBX_CGROUP_FILE_FREEZE] = {SBX_CONTROLLER_FREEZER, "freezer.state", true},
        },
    .limit = v1_limit,
    .limit_cpu = v1_limit_cpu,
    .widen = v1_widen,
    .arm = v1_arm,
    .usage = v1_usage,
    .cpu_us = v1_cpu_us,
    .oom_kills = v1_oom_kills,
    .hear = v1_hear,
    .memory_bytes = v1_memory_bytes,
    .kill = v1_kill,
    .renew = v1_renew,
    .freeze_words = {"THAWED", "FROZEN"},
    .is_frozen = v1_is_frozen,
};
