/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/cgroup_watched.h"

#include "common/auto.h"
#include "sandboxd/wire/msg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMBERS_MAX 1024U /* more than any limit of processes */
#define PATH_SIZE 64

/* ---- reading /proc ---- */

int sbx_watch_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system)
{
    /* The name may hold anything, a ')' too; behind the last are fields 3 and on (proc(5)). */
    const char *at = strrchr(text, ')');
    unsigned long long utime;
    unsigned long long stime;
    long long cutime;
    long long cstime;
    int n;

    if (!at)
        return -EPROTO;
    // NOLINTNEXTLINE(cert-err34-c): numbers of the kernel
    n = sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &utime,
               &stime, &cutime, &cstime);
    if (n != 4 || cutime < 0 || cstime < 0)
        return -EPROTO;
    *ret_user = utime + (unsigned long long)cutime;
    *ret_system = stime + (unsigned long long)cstime;
    return 0;
}

static uint64_t find_kib(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t sbx_watch_parse_rollup(const char *text)
{
    return (find_kib(text, "\nPss:") + find_kib(text, "\nSwapPss:")) << 10;
}

/* The processes of a box, found so far. */
struct members {
    pid_t pids[MEMBERS_MAX];
    size_t count;
};

static void add_children(const char *path, struct members *members)
{
    char text[8192];
    char *at = text;

    if (sbx_cgroup_read(AT_FDCWD, path, text, sizeof(text)) < 0)
        return;
    while (members->count < MEMBERS_MAX) {
        char *end;
        long pid = strtol(at, &end, 10);

        if (end == at || pid <= 0)
            return;
        members->pids[members->count++] = (pid_t)pid;
        at = end;
    }
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): this process has one thread
}

/* Children are listed by the thread that made them. Returns how many threads there are. */
static uint64_t add_children_of(pid_t pid, struct members *members)
{
    char path[PATH_SIZE];
    uint64_t threads = 0;
    DIR *dir;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cr_close_fd(&fd);
        return 0;
    }
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        if (entry->d_name[0] == '.' || threads == MEMBERS_MAX)
            continue;
        threads++;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", pid, entry->d_name);
        add_children(path, members);
    }
    (void)closedir(dir);
    return threads;
}

/* What is the sum over all of them, at one look. */
struct sum {
    uint64_t user_ticks;
    uint64_t system_ticks;
    uint64_t memory_bytes;
    uint64_t threads;
};

static void add_process(pid_t pid, struct sum *sum)
{
    char path[PATH_SIZE];
    char text[2048];
    uint64_t user = 0;
    uint64_t system = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (sbx_cgroup_read(AT_FDCWD, path, text, sizeof(text)) == 0 &&
        sbx_watch_parse_stat(text, &user, &system) == 0) {
        sum->user_ticks += user;
        sum->system_ticks += system;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    if (sbx_cgroup_read(AT_FDCWD, path, text, sizeof(text)) == 0)
        sum->memory_bytes += sbx_watch_parse_rollup(text);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t microseconds(uint64_t ticks)
{
    return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* Counters never go down: a process that nobody waited for takes its CPU time along. */
static void keep(struct sbx_watch *watch, const struct sum *sum)
{
    struct sbx_cgroup_usage *seen = &watch->seen;

    seen->cpu_user_us = most(seen->cpu_user_us, microseconds(sum->user_ticks));
    seen->cpu_system_us = most(seen->cpu_system_us, microseconds(sum->system_ticks));
    seen->cpu_total_us = most(seen->cpu_total_us, seen->cpu_user_us + seen->cpu_system_us);
    seen->memory_peak_bytes = most(seen->memory_peak_bytes, sum->memory_bytes);
    seen->processes_peak = most(seen->processes_peak, sum->threads > 0 ? sum->threads - 1 : 0);
    if (watch->memory_limit_bytes > 0 && sum->memory_bytes > watch->memory_limit_bytes)
        seen->oom_kills = 1;
    /* Nobody tells of a fork that was refused; but where all are there, the next one is. */
    if (watch->process_limit > 0 && sum->threads >= watch->process_limit)
        seen->process_limit_hits = 1;
}

static void look(struct sbx_watch *watch)
{
    struct members members = {.pids = {watch->pid}, .count = watch->pid > 0};
    struct sum sum = {0};

    for (size_t i = 0; i < members.count; i++) {
        sum.threads += add_children_of(members.pids[i], &members);
        add_process(members.pids[i], &sum);
    }
    keep(watch, &sum);
}

/* ---- the group ---- */

static int watched_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                         struct cr_err *err)
{
    (void)err;
    group->watch->memory_limit_bytes =
        group->host->is_memory_unseen ? 0 : limits->value[SBX_LIMIT_MEMORY];
    group->watch->process_limit =
        group->host->is_pids_unseen ? 0 : limits->value[SBX_LIMIT_PROCESSES] + 1;
    return 0;
}

static int watched_limit_cpu(const struct sbx_cgroup *group, uint64_t millicores,
                             struct cr_err *err)
{
    (void)group;
    (void)millicores;
    (void)err;
    return 0; /* nobody can: the control is a gap */
}

static int watched_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                         struct cr_err *err)
{
    (void)err;
    look(group->watch);
    *ret_usage = group->watch->seen;
    return 0;
}

static int watched_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    *ret_us = group->watch->seen.cpu_total_us; /* looked at with the memory, right before */
    return 0;
}

static int watched_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    look(group->watch);
    *ret_count = group->watch->seen.oom_kills;
    return 0;
}

static const struct sbx_cgroup_ops watched = {
    .version = 0,
    .look_ns = SBX_WATCHED_NS,
    .limit = watched_limit,
    .limit_cpu = watched_limit_cpu,
    .usage = watched_usage,
    .cpu_us = watched_cpu_us,
    .oom_kills = watched_oom_kills,
};

void sbx_cgroup_host_watch(struct sbx_cgroup_host *host)
{
    sbx_cgroup_host_close(host);
    sbx_cgroup_host_init(host, &watched);
}

void sbx_cgroup_watch(const struct sbx_cgroup *group, pid_t pid)
{
    if (group->watch)
        *group->watch = (struct sbx_watch){
            .pid = pid,
            .memory_limit_bytes = group->watch->memory_limit_bytes,
            .process_limit = group->watch->process_limit,
        };
}

void sbx_cgroup_watch_end(const struct sbx_cgroup *group, uint64_t user_us, uint64_t system_us)
{
    struct sbx_watch *watch = group->watch;

    if (!watch)
        return;
    watch->pid = 0; /* may be somebody else's soon */
    watch->seen.cpu_user_us = most(watch->seen.cpu_user_us, user_us);
    watch->seen.cpu_system_us = most(watch->seen.cpu_system_us, system_us);
    watch->seen.cpu_total_us =
        most(watch->seen.cpu_total_us, watch->seen.cpu_user_us + watch->seen.cpu_system_us);
}
