/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/cgroup.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/read_all.h"
#include "sandboxd/backend/cgroup_paths.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/wire/msg.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#define DIRECTORY_FLAGS (O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
#define PROC_TEXT_MAX (4U << 20)
#define LOCK_ATTEMPTS 200
#define LOCK_PAUSE_MS 5
#define BEHIND_PART 16U /* of the standard weight, for a group that fell behind */
#define FROZEN_ONE "frozen"

const char *const sbx_controller_names[SBX_CONTROLLER_COUNT] = {
    [SBX_CONTROLLER_MEMORY] = "memory",   [SBX_CONTROLLER_CPU] = "cpu",
    [SBX_CONTROLLER_CPUACCT] = "cpuacct", [SBX_CONTROLLER_PIDS] = "pids",
    [SBX_CONTROLLER_FREEZER] = "freezer",
};

int sbx_cgroup_read_proc(const char *path, struct cr_buf *buf, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : cr_read_all(fd, buf);

    return r < 0 ? cr_err_sys(err, -r, "read %s", path) : 0;
}

int sbx_cgroup_open_path(const char *cgroups, const char *mounts, const char *controller)
{
    char own[PATH_MAX];
    char directory[PATH_MAX];
    int r = sbx_cgroup_own_path(cgroups, controller, own, sizeof(own));
    int fd;

    if (r < 0)
        return r;
    r = sbx_cgroup_directory(mounts, controller, own, directory, sizeof(directory));
    if (r < 0)
        return r;
    fd = openat(AT_FDCWD, directory, DIRECTORY_FLAGS);
    return fd < 0 ? -errno : fd;
}

/* v1 mounts may join controllers ("cpu,cpuacct"): the same folder is one hierarchy. */
static int find_same(const struct sbx_cgroup_host *host, int fd)
{
    struct stat wanted;
    struct stat seen;

    if (fstat(fd, &wanted) < 0)
        return -1;
    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        if (fstat(host->own_fds[i], &seen) == 0 && seen.st_dev == wanted.st_dev &&
            seen.st_ino == wanted.st_ino)
            return (int)i;
    }
    return -1;
}

static void find_v1(struct sbx_cgroup_host *host, const char *cgroups, const char *mounts)
{
    host->ops = &sbx_cgroup_v1;
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        int fd = sbx_cgroup_open_path(cgroups, mounts, sbx_controller_names[i]);
        int same;

        if (fd < 0)
            continue;
        same = find_same(host, fd);
        if (same >= 0) {
            (void)close(fd);
            host->hierarchy[i] = same;
            continue;
        }
        host->hierarchy[i] = (int)host->hierarchy_count;
        host->own_fds[host->hierarchy_count++] = fd;
    }
}

static bool has_controller(const char *list, const char *name)
{
    size_t size = strlen(name);

    for (const char *at = list; *at;) {
        size_t length = strcspn(at, " \n");

        if (length == size && memcmp(at, name, size) == 0)
            return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

/* v2 counts when the controllers we need are there; a hybrid host keeps them on v1. */
static bool find_v2(struct sbx_cgroup_host *host, const char *cgroups, const char *mounts)
{
    char controllers[512] = "";
    int fd = sbx_cgroup_open_path(cgroups, mounts, NULL);

    if (fd < 0)
        return false;
    if (sbx_cgroup_read(fd, "cgroup.controllers", controllers, sizeof(controllers)) < 0 ||
        !has_controller(controllers, "memory") || !has_controller(controllers, "pids")) {
        (void)close(fd);
        return false;
    }
    host->ops = &sbx_cgroup_v2;
    host->own_fds[0] = fd;
    host->hierarchy_count = 1;
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        host->hierarchy[i] = 0;
    if (!has_controller(controllers, "cpu"))
        host->hierarchy[SBX_CONTROLLER_CPU] = -1;
    return true;
}

void sbx_cgroup_host_init(struct sbx_cgroup_host *host, const struct sbx_cgroup_ops *ops)
{
    *host = (struct sbx_cgroup_host){.ops = ops};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        host->own_fds[i] = -1;
        host->base_fds[i] = -1;
        host->hierarchy[i] = -1;
    }
}

int sbx_cgroup_host_find(struct sbx_cgroup_host *host, struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf cgroups = {0};
    CR_AUTO_BUF struct cr_buf mounts = {0};
    int r;

    sbx_cgroup_host_init(host, NULL);
    cr_buf_init(&cgroups, PROC_TEXT_MAX);
    cr_buf_init(&mounts, PROC_TEXT_MAX);
    r = sbx_cgroup_read_proc("/proc/self/cgroup", &cgroups, err);
    if (r < 0)
        return r;
    r = sbx_cgroup_read_proc("/proc/self/mountinfo", &mounts, err);
    if (r < 0)
        return r;
    (void)snprintf(host->base_name, sizeof(host->base_name), "crisol-native-%d", getpid());
    if (find_v2(host, cr_buf_str(&cgroups), cr_buf_str(&mounts)))
        return sbx_cgroup_v2_leave_leaf(host, err);
    find_v1(host, cr_buf_str(&cgroups), cr_buf_str(&mounts));
    return 0;
}

/*
 * One attempt to make and lock our folder. -EAGAIN: a neighbour that starts
 * at this moment took it for an orphan, between our mkdir and our lock.
 */
static int try_base(struct sbx_cgroup_host *host, uint32_t i, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    struct stat ours;
    struct stat there;

    if (mkdirat(host->own_fds[i], host->base_name, 0755) < 0 && errno != EEXIST)
        return cr_err_sys(err, errno, "make control group '%s' below our own", host->base_name);
    fd = openat(host->own_fds[i], host->base_name, DIRECTORY_FLAGS);
    if (fd < 0 && errno != ENOENT)
        return cr_err_sys(err, errno, "open control group '%s'", host->base_name);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &ours) < 0 ||
        fstatat(host->own_fds[i], host->base_name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
        ours.st_ino != there.st_ino)
        return -EAGAIN;
    host->base_fds[i] = cr_take_fd(&fd);
    return 0;
}

static int open_base(struct sbx_cgroup_host *host, uint32_t i, struct cr_err *err)
{
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        int r = try_base(host, i, err);

        if (r != -EAGAIN)
            return r;
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return cr_err_set(err, EBUSY, "control group '%s' is locked by another process",
                      host->base_name);
}

/* One of its own is the last that was found, see find_v1(). */
bool sbx_cgroup_is_freezer_alone(const struct sbx_cgroup_host *host, uint32_t i)
{
    return host->ops->version == 1 && i + 1 == host->hierarchy_count &&
           host->hierarchy[SBX_CONTROLLER_FREEZER] == (int)i &&
           host->hierarchy[SBX_CONTROLLER_PIDS] != (int)i &&
           host->hierarchy[SBX_CONTROLLER_CPUACCT] != (int)i &&
           host->hierarchy[SBX_CONTROLLER_CPU] != (int)i &&
           host->hierarchy[SBX_CONTROLLER_MEMORY] != (int)i;
}

/* The kernel has the file since Linux 5.2; whoever stands in for it, or gave us the group, may have
 * left it out. */
static void look_for_freezer(struct sbx_cgroup_host *host, int fd)
{
    const char *name = host->ops->files[SBX_CGROUP_FILE_FREEZE].name;

    if (faccessat(fd, name, W_OK, 0) == 0)
        return;
    cr_log_warn("groups cannot be frozen here, going on without file=%s error=%s", name,
                strerrordesc_np(errno));
    host->hierarchy[SBX_CONTROLLER_FREEZER] = -1;
}

/* As where it is not mounted: whoever gives groups away may have left it out. */
static void open_freezer(struct sbx_cgroup_host *host, uint32_t i)
{
    struct cr_err err = CR_ERR_INIT;

    if (open_base(host, i, &err) == 0)
        return;
    cr_log_warn("groups cannot be frozen here, going on without error=\"%s\"", err.text);
    cr_close_fd(&host->own_fds[i]);
    host->hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    host->hierarchy_count--;
}

int sbx_cgroup_host_open(struct sbx_cgroup_host *host, struct cr_err *err)
{
    int memory = host->hierarchy[SBX_CONTROLLER_MEMORY];
    int r = 0;

    if (host->ops->version == 2)
        r = sbx_cgroup_v2_delegate(host, err);
    for (uint32_t i = 0; r == 0 && i < host->hierarchy_count; i++) {
        if (sbx_cgroup_is_freezer_alone(host, i))
            open_freezer(host, i);
        else
            r = open_base(host, i, err);
    }
    if (r < 0)
        return r;
    if (host->ops->version == 2) {
        host->has_swap = faccessat(host->base_fds[0], "memory.swap.max", W_OK, 0) == 0;
        look_for_freezer(host, host->base_fds[0]);
        return sbx_cgroup_v2_enable(host->base_fds[0], host, err);
    }
    if (sbx_cgroup_can_freeze(host))
        sbx_cgroup_keep_frozen_one(host, host->base_fds[host->hierarchy[SBX_CONTROLLER_FREEZER]]);
    host->has_swap = memory >= 0 &&
                     faccessat(host->base_fds[memory], "memory.memsw.limit_in_bytes", W_OK, 0) == 0;
    return 0;
}

void sbx_cgroup_host_close(struct sbx_cgroup_host *host)
{
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        cr_close_fd(&host->own_fds[i]);
        cr_close_fd(&host->base_fds[i]);
    }
    host->hierarchy_count = 0;
}

static void group_name(uint32_t number, char name[static 16])
{
    (void)snprintf(name, 16, "box-%" PRIu32, number);
}

int sbx_cgroup_make(const struct sbx_cgroup_host *host, uint32_t number, struct cr_err *err)
{
    char name[16];

    group_name(number, name);
    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        if (mkdirat(host->base_fds[i], name, 0755) < 0)
            return cr_err_sys(err, errno, "make control group '%s'", name);
    }
    return 0;
}

int sbx_cgroup_remove(const struct sbx_cgroup_host *host, uint32_t number)
{
    char name[16];
    int result = 0;

    group_name(number, name);
    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        if (unlinkat(host->base_fds[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            result = -errno;
    }
    return result;
}

int sbx_cgroup_open(const struct sbx_cgroup_host *host, uint32_t number,
                    struct sbx_cgroup *ret_group, struct cr_err *err)
{
    struct sbx_cgroup group = {.host = host, .number = number, .event_fd = -1};
    char name[16];

    group_name(number, name);
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        group.fds[i] = -1;
    if (host->ops->look_ns > 0) {
        group.watch = calloc(1, sizeof(*group.watch));
        if (!group.watch)
            return cr_err_set(err, ENOMEM, "out of memory for a group");
    }
    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        group.fds[i] = openat(host->base_fds[i], name, DIRECTORY_FLAGS);
        if (group.fds[i] < 0) {
            int errnum = errno;

            sbx_cgroup_close(&group);
            return cr_err_sys(err, errnum, "open control group '%s'", name);
        }
    }
    *ret_group = group;
    return 0;
}

void sbx_cgroup_close(struct sbx_cgroup *group)
{
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        cr_close_fd(&group->fds[i]);
    cr_close_fd(&group->event_fd);
    free(group->watch);
    group->watch = NULL;
    for (int i = 0; group->has_files && i < SBX_CGROUP_FILE_COUNT; i++)
        cr_close_fd(&group->file_fds[i]);
    for (int i = 0; group->has_files && i < SBX_CONTROLLER_COUNT; i++)
        cr_close_fd(&group->entry_fds[i]);
    group->has_files = false;
}

int sbx_cgroup_fd(const struct sbx_cgroup *group, enum sbx_controller controller)
{
    int hierarchy = group->host->hierarchy[controller];

    return hierarchy < 0 ? -1 : group->fds[hierarchy];
}

int sbx_cgroup_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                     struct cr_err *err)
{
    return group->host->ops->limit(group, limits, err);
}

int sbx_cgroup_limit_cpu(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                         struct cr_err *err)
{
    return group->host->ops->limit_cpu(group, limits->value[SBX_LIMIT_CPU_MILLICORES], err);
}

void sbx_cgroup_fall_behind(struct sbx_cgroup *group)
{
    const uint64_t weight = group->host->ops->weight / BEHIND_PART;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_CPU) < 0 || group->is_behind)
        return;
    group->is_behind = sbx_cgroup_put(group, SBX_CGROUP_FILE_CPU_WEIGHT, weight, NULL) == 0;
}

int sbx_cgroup_catch_up(struct sbx_cgroup *group)
{
    const struct sbx_cgroup_ops *ops = group->host->ops;
    int r =
        group->is_behind ? sbx_cgroup_put(group, SBX_CGROUP_FILE_CPU_WEIGHT, ops->weight, NULL) : 0;

    if (r == 0)
        group->is_behind = false;
    return r;
}

void sbx_cgroup_hurry(struct sbx_cgroup *group)
{
    const struct sbx_cgroup_ops *ops = group->host->ops;

    if (sbx_cgroup_fd(group, SBX_CONTROLLER_CPU) < 0)
        return;
    if (ops->widen)
        (void)ops->widen(group);
    (void)sbx_cgroup_catch_up(group);
}

int sbx_cgroup_arm(struct sbx_cgroup *group, struct cr_err *err)
{
    if (sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY) < 0)
        return 0;
    return group->host->ops->arm(group, err);
}

void sbx_cgroup_forget_peak(const struct sbx_cgroup *group)
{
    (void)sbx_cgroup_put_text(group, SBX_CGROUP_FILE_MEMORY_PEAK, "0");
    (void)sbx_cgroup_put_text(group, SBX_CGROUP_FILE_MEMORY_PEAK_ALONE, "0");
}

bool sbx_cgroup_can_freeze(const struct sbx_cgroup_host *host)
{
    return host->hierarchy[SBX_CONTROLLER_FREEZER] >= 0 && host->ops->is_frozen;
}

int sbx_cgroup_freeze(const struct sbx_cgroup *group, bool is_frozen)
{
    return sbx_cgroup_can_freeze(group->host)
               ? sbx_cgroup_put_text(group, SBX_CGROUP_FILE_FREEZE,
                                     group->host->ops->freeze_words[is_frozen])
               : -EOPNOTSUPP;
}

bool sbx_cgroup_is_frozen(const struct sbx_cgroup *group)
{
    return sbx_cgroup_can_freeze(group->host) && group->host->ops->is_frozen(group);
}

void sbx_cgroup_keep_frozen_one(const struct sbx_cgroup_host *host, int folder_fd)
{
    CR_AUTO_CLOSE int fd = -1;

    if (host->ops->version != 1 || !sbx_cgroup_can_freeze(host) ||
        (mkdirat(folder_fd, FROZEN_ONE, 0755) < 0 && errno != EEXIST))
        return;
    fd = openat(folder_fd, FROZEN_ONE, DIRECTORY_FLAGS);
    if (fd >= 0)
        (void)sbx_cgroup_write(fd, host->ops->files[SBX_CGROUP_FILE_FREEZE].name,
                               host->ops->freeze_words[1]);
}

int sbx_cgroup_hear(const struct sbx_cgroup *group)
{
    const struct sbx_cgroup_ops *ops = group->host->ops;

    return ops->hear ? ops->hear(group) : 0;
}

int sbx_cgroup_clone_fd(const struct sbx_cgroup *group)
{
    return group->host->ops->version == 2 ? group->fds[0] : -1;
}

int sbx_cgroup_renew(struct sbx_cgroup *group)
{
    const struct sbx_cgroup_ops *ops = group->host->ops;
    int r = ops->renew ? ops->renew(group) : -EOPNOTSUPP;

    return r == 0 ? sbx_cgroup_catch_up(group) : r;
}

int sbx_cgroup_kill(const struct sbx_cgroup *group)
{
    const struct sbx_cgroup_ops *ops = group->host->ops;

    return ops->kill ? ops->kill(group) : -EOPNOTSUPP;
}

int sbx_cgroup_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                     struct cr_err *err)
{
    *ret_usage = (struct sbx_cgroup_usage){0};
    return group->host->ops->usage(group, ret_usage, err);
}

int sbx_cgroup_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us)
{
    return group->host->ops->cpu_us(group, ret_us);
}

int sbx_cgroup_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count)
{
    return group->host->ops->oom_kills(group, ret_count);
}

bool sbx_cgroup_is_alone(const struct sbx_cgroup *group)
{
    uint64_t count = 0;

    return sbx_cgroup_count(group, SBX_CGROUP_FILE_PROCESSES, NULL, &count) == 0 && count <= 1;
}

int sbx_cgroup_memory_bytes(const struct sbx_cgroup *group, uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    if (sbx_cgroup_fd(group, SBX_CONTROLLER_MEMORY) < 0)
        return 0;
    return group->host->ops->memory_bytes(group, ret_bytes);
}
