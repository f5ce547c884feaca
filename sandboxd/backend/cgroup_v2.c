/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/msg.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#define LEAF "crisol-main"
#define MOVE_ROUNDS 64

static int v2_limit_cpu(const struct sbx_cgroup *group, uint64_t millicores, struct cr_err *err)
{
    uint64_t quota;
    uint64_t period;
    char wanted[64];
    char seen[64];
    int r;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_CPU) < 0)
        return 0;
    sbx_cgroup_bandwidth(millicores, &quota, &period);
    (void)snprintf(wanted, sizeof(wanted), "%" PRIu64 " %" PRIu64 "\n", quota, period);
    r = sbx_cgroup_put_text(group, SBX_CGROUP_FILE_CPU_LIMIT, wanted);
    if (r == 0)
        r = sbx_cgroup_read_file(group, SBX_CGROUP_FILE_CPU_LIMIT, seen, sizeof(seen));
    if (r < 0)
        return cr_err_sys(err, -r, "write control file 'cpu.max'");
    if (strcmp(wanted, seen) != 0)
        return cr_err_set(err, EIO, "control file 'cpu.max' does not keep what was written");
    return 0;
}

/* cgroup-v2.rst, "cpu.max": a text without a period leaves it as it is. */
static int v2_widen(const struct sbx_cgroup *group)
{
    char quota[32];

    (void)snprintf(quota, sizeof(quota), "%" PRIu64, SBX_CGROUP_WIDE_US);
    return sbx_cgroup_put_text(group, SBX_CGROUP_FILE_CPU_LIMIT, quota);
}

static int limit_memory(const struct sbx_cgroup *group, uint64_t bytes, struct cr_err *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int r = sbx_cgroup_put(group, SBX_CGROUP_FILE_MEMORY_LIMIT, bytes / page * page, err);

    if (r == 0 && group->host->has_swap)
        r = sbx_cgroup_put(group, SBX_CGROUP_FILE_SWAP_LIMIT, 0, err);
    return r < 0 ? r : sbx_cgroup_put(group, SBX_CGROUP_FILE_OOM_GROUP, 1, err);
}

static int v2_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                    struct cr_err *err)
{
    int r = 0;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY) >= 0)
        r = limit_memory(group, limits->value[SBX_LIMIT_MEMORY], err);
    /* One more for sandbox-init, which is no process of the program. */
    if (r == 0 && sbx_cgroup_fd(group, SBX_CONTROLLER_PIDS) >= 0)
        r = sbx_cgroup_put(group, SBX_CGROUP_FILE_PROCESSES_LIMIT,
                           limits->value[SBX_LIMIT_PROCESSES] + 1, err);
    return r;
}

/* A change of memory.events wakes EPOLLPRI; the first read arms it. */
static int v2_arm(struct sbx_cgroup *group, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(group->fds[0], "memory.events", O_RDONLY | O_CLOEXEC);
    char text[512];

    if (fd < 0 || pread(fd, text, sizeof(text), 0) < 0)
        return cr_err_sys(err, errno, "open memory.events");
    group->event_fd = cr_take_fd(&fd);
    return 0;
}

static int v2_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    return sbx_cgroup_count(group, SBX_CGROUP_FILE_CPU_STAT, "usage_usec", ret_us);
}

/* Read through event_fd where it is open, which also arms the next notice. */
static int v2_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    char text[512];
    ssize_t n;

    if (group->event_fd < 0)
        return sbx_cgroup_count_or_none(group, SBX_CGROUP_FILE_MEMORY_EVENTS, "oom_kill",
                                        ret_count);
    n = pread(group->event_fd, text, sizeof(text) - 1, 0);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    return sbx_cgroup_find_key(text, "oom_kill", ret_count);
}

static int v2_memory_bytes(const struct sbx_cgroup *group, uint64_t *ret_bytes)
{
    return sbx_cgroup_count(group, SBX_CGROUP_FILE_MEMORY_USAGE, NULL, ret_bytes);
}

static int v2_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                    struct cr_err *err)
{
    char stat[4096];
    uint64_t value = 0;
    int r = sbx_cgroup_read_file(group, SBX_CGROUP_FILE_CPU_STAT, stat, sizeof(stat));

    if (r == 0)
        r = sbx_cgroup_find_key(stat, "usage_usec", &ret_usage->cpu_total_us);
    if (r < 0)
        return cr_err_sys(err, -r, "read cpu.stat");
    r = v2_oom_kills(group, &ret_usage->oom_kills);
    if (r < 0)
        return cr_err_sys(err, -r, "read memory.events");
    r = sbx_cgroup_count_or_none(group, SBX_CGROUP_FILE_PROCESS_EVENTS, "max",
                                 &ret_usage->process_limit_hits);
    if (r < 0)
        return cr_err_sys(err, -r, "read pids.events");
    /* What old kernels lack stays 0: memory.peak came with 5.19, pids.peak with 6.5. */
    (void)sbx_cgroup_find_key(stat, "user_usec", &ret_usage->cpu_user_us);
    (void)sbx_cgroup_find_key(stat, "system_usec", &ret_usage->cpu_system_us);
    (void)sbx_cgroup_find_key(stat, "throttled_usec", &ret_usage->cpu_throttled_us);
    (void)sbx_cgroup_count(group, SBX_CGROUP_FILE_MEMORY_PEAK, NULL, &ret_usage->memory_peak_bytes);
    if (sbx_cgroup_count(group, SBX_CGROUP_FILE_PROCESSES_PEAK, NULL, &value) == 0 && value > 0)
        ret_usage->processes_peak = value - 1; /* without sandbox-init */
    return 0;
}

/* From the start of the file: reading on where the last read stopped does not arm it again. */
static int v2_hear(const struct sbx_cgroup *group)
{
    uint64_t count;

    return v2_oom_kills(group, &count);
}

static int v2_kill(const struct sbx_cgroup *group)
{
    return sbx_cgroup_write(group->fds[0], "cgroup.kill", "1");
}

static bool v2_is_frozen(const struct sbx_cgroup *group)
{
    uint64_t value = 0;

    return sbx_cgroup_count(group, SBX_CGROUP_FILE_FROZEN, "frozen", &value) == 0 && value == 1;
}

int sbx_cgroup_v2_enable(int fd, const struct sbx_cgroup_host *host, struct cr_err *err)
{
    const char *wanted =
        host->hierarchy[SBX_CONTROLLER_CPU] < 0 ? "+memory +pids" : "+memory +pids +cpu";
    int r = sbx_cgroup_write(fd, "cgroup.subtree_control", wanted);

    if (r < 0)
        return cr_err_sys(err, -r, "turn on '%s' in cgroup.subtree_control", wanted);
    return 0;
}

/* Moves every process of `from` into the leaf. Returns how many are left at least, or -errno. */
static int move_round(int from, int leaf)
{
    char text[16384];
    char *save = NULL;
    int r = sbx_cgroup_read_members(from, text, sizeof(text));
    int left = r;

    if (r < 0)
        return r;
    for (const char *pid = strtok_r(text, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
        r = sbx_cgroup_write(leaf, "cgroup.procs", pid);
        left += r < 0 && r != -ESRCH; /* ESRCH: it ended meanwhile */
    }
    return left;
}

int sbx_cgroup_v2_leave_leaf(struct sbx_cgroup_host *host, struct cr_err *err)
{
    CR_AUTO_CLOSE int parent = -1;
    struct stat own;
    struct stat leaf;

    if (fstatat(host->own_fds[0], "../" LEAF, &leaf, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstat(host->own_fds[0], &own) < 0 || own.st_ino != leaf.st_ino)
        return 0;
    parent = openat(host->own_fds[0], "..", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (parent < 0)
        return cr_err_sys(err, errno, "open the parent of control group '" LEAF "'");
    cr_close_fd(&host->own_fds[0]);
    host->own_fds[0] = cr_take_fd(&parent);
    return 0;
}

int sbx_cgroup_v2_delegate(struct sbx_cgroup_host *host, struct cr_err *err)
{
    CR_AUTO_CLOSE int leaf = -1;
    int left = 1;
    int r;

    if (sbx_cgroup_v2_enable(host->own_fds[0], host, NULL) == 0)
        return 0;
    if (mkdirat(host->own_fds[0], LEAF, 0755) < 0 && errno != EEXIST)
        return cr_err_sys(err, errno, "make control group '" LEAF "'");
    leaf = openat(host->own_fds[0], LEAF, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (leaf < 0)
        return cr_err_sys(err, errno, "open control group '" LEAF "'");
    /* Others may fork while we move them, so one round is not always enough. */
    for (int round = 0; left > 0 && round < MOVE_ROUNDS; round++)
        left = move_round(host->own_fds[0], leaf);
    cr_log_info("moved the processes of our control group into a leaf name=" LEAF);
    r = sbx_cgroup_v2_enable(host->own_fds[0], host, err);
    if (r < 0)
        return cr_err_wrap(err, "this control group is not delegated: start sandboxd as a systemd "
                                "unit with Delegate=yes");
    return 0;
}

const struct sbx_cgroup_ops sbx_cgroup_v2 = {
    .version = 2,
    .entry = "cgroup.procs",
    .weight = 100,
    .files =
        {
            [SBX_CGROUP_FILE_CPU_STAT] = {SBX_CONTROLLER_CPUACCT, "cpu.stat", false},
            [SBX_CGROUP_FILE_CPU_LIMIT] = {SBX_CONTROLLER_CPU, "cpu.max", true},
            [SBX_CGROUP_FILE_CPU_WEIGHT] = {SBX_CONTROLLER_CPU, "cpu.weight", true},
            [SBX_CGROUP_FILE_MEMORY_PEAK] = {SBX_CONTROLLER_MEMORY, "memory.peak", false},
            [SBX_CGROUP_FILE_MEMORY_EVENTS] = {SBX_CONTROLLER_MEMORY, "memory.events", false},
            [SBX_CGROUP_FILE_MEMORY_USAGE] = {SBX_CONTROLLER_MEMORY, "memory.current", false},
            [SBX_CGROUP_FILE_MEMORY_LIMIT] = {SBX_CONTROLLER_MEMORY, "memory.max", true},
            [SBX_CGROUP_FILE_SWAP_LIMIT] = {SBX_CONTROLLER_MEMORY, "memory.swap.max", true},
            [SBX_CGROUP_FILE_OOM_GROUP] = {SBX_CONTROLLER_MEMORY, "memory.oom.group", true},
            [SBX_CGROUP_FILE_PROCESSES] = {SBX_CONTROLLER_PIDS, "pids.current", false},
            [SBX_CGROUP_FILE_PROCESSES_PEAK] = {SBX_CONTROLLER_PIDS, "pids.peak", false},
            [SBX_CGROUP_FILE_PROCESS_EVENTS] = {SBX_CONTROLLER_PIDS, "pids.events", false},
            [SBX_CGROUP_FILE_PROCESSES_LIMIT] = {SBX_CONTROLLER_PIDS, "pids.max", true},
            [SBX_CGROUP_FILE_FREEZE] = {SBX_CONTROLLER_FREEZER, "cgroup.freeze", true},
            [SBX_CGROUP_FILE_FROZEN] = {SBX_CONTROLLER_FREEZER, "cgroup.events", false},
        },
    .limit = v2_limit,
    .limit_cpu = v2_limit_cpu,
    .widen = v2_widen,
    .arm = v2_arm,
    .usage = v2_usage,
    .cpu_us = v2_cpu_us,
    .oom_kills = v2_oom_kills,
    .hear = v2_hear,
    .memory_bytes = v2_memory_bytes,
    .kill = v2_kill,
    .freeze_words = {"0", "1"},
    .is_frozen = v2_is_frozen,
};
