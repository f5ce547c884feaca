/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/needs.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/capacity.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/cell.h"
#include "sandboxd/native/host.h"
#include "sandboxd/native/init_image.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/probe.h"
#include "sandboxd/native/rootfs.h"
#include "sandboxd/native/sweep.h"
#include "sandboxd/native/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

/* mount_setattr(2), for read-only binds without a moment in which they are not. */
#define KERNEL_MAJOR 5U
#define KERNEL_MINOR 12U

#define UNUSED_3(a, b, c) ((void)(a), (void)(b), (void)(c))

static int meet_root(const struct sbx_native_settings *settings, struct sbx_native *native,
                     uint32_t argument, struct cr_err *err)
{
    UNUSED_3(settings, native, argument);
    return sbx_host_check_root(err);
}

static int meet_capability(const struct sbx_native_settings *settings, struct sbx_native *native,
                           uint32_t argument, struct cr_err *err)
{
    UNUSED_3(settings, native, argument);
    return sbx_host_check_capability(argument, err);
}

static int meet_kernel(const struct sbx_native_settings *settings, struct sbx_native *native,
                       uint32_t argument, struct cr_err *err)
{
    struct utsname name;
    unsigned int major = 0;
    unsigned int minor = 0;

    UNUSED_3(settings, native, argument);
    // NOLINTNEXTLINE(cert-err34-c): a name without numbers leaves 0.0, which is refused
    if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2 ||
        major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
        return cr_err_set(err, ENOSYS, "this kernel is %u.%u: Linux %u.%u or later is needed",
                          major, minor, KERNEL_MAJOR, KERNEL_MINOR);
    return 0;
}

static int meet_openat2(const struct sbx_native_settings *settings, struct sbx_native *native,
                        uint32_t argument, struct cr_err *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    CR_AUTO_CLOSE int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

    UNUSED_3(settings, native, argument);
    return fd < 0 ? cr_err_sys(err, errno,
                               "openat2 is needed to collect files (a container's own "
                               "seccomp profile may refuse it)")
                  : 0;
}

static int meet_pidfd(const struct sbx_native_settings *settings, struct sbx_native *native,
                      uint32_t argument, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = pidfd_open(getpid(), 0);

    UNUSED_3(settings, native, argument);
    return fd < 0 ? cr_err_sys(err, errno,
                               "pidfd_open is needed to end a box (a container's own "
                               "seccomp profile may refuse it)")
                  : 0;
}

/* Arguments of no size are EINVAL where the call exists. */
static int meet_clone3(const struct sbx_native_settings *settings, struct sbx_native *native,
                       uint32_t argument, struct cr_err *err)
{
    UNUSED_3(settings, native, argument);
    if (syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL)
        return cr_err_sys(err, errno,
                          "clone3 is needed to make a box (a container's own seccomp "
                          "profile may refuse it)");
    return 0;
}

static int meet_seccomp(const struct sbx_native_settings *settings, struct sbx_native *native,
                        uint32_t argument, struct cr_err *err)
{
    const uint32_t action = SECCOMP_RET_KILL_PROCESS;

    UNUSED_3(settings, native, argument);
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
        return cr_err_sys(err, errno,
                          "seccomp filters are needed (kernel option "
                          "CONFIG_SECCOMP_FILTER)");
    return 0;
}

/* An ordinary user has those that somebody gave it (on version 2), or none. */
static int open_cgroups(struct sbx_native *native, uint32_t *swept, struct cr_err *err)
{
    struct sbx_cgroup_host *host = &native->base.cgroups;
    int r = sbx_cgroup_host_find(host, err);

    if (r == 0)
        r = sbx_sweep_predecessors(host, swept, err);
    if (r == 0)
        r = sbx_cgroup_host_open(host, err);
    if (r == 0 || !native->is_rootless)
        return r;
    cr_log_info("no control groups for this user, looking at processes instead why=\"%s\"",
                err->text);
    *err = (struct cr_err)CR_ERR_INIT;
    sbx_cgroup_host_watch(host);
    return 0;
}

static int meet_cgroups(const struct sbx_native_settings *settings, struct sbx_native *native,
                        uint32_t argument, struct cr_err *err)
{
    uint32_t swept = 0;
    int r = sbx_gaps_check_names(settings->accept_gaps, err);

    (void)argument;
    if (r == 0)
        r = open_cgroups(native, &swept, err);
    if (r < 0)
        return r;
    native->base.counts[SBX_COUNT_SWEPT] = swept;
    sbx_capacity_read(&native->base.cgroups, &native->capacity);
    sbx_backend_share_memory(&native->base, sbx_capacity_for_runs(native->capacity.memory_bytes));
    sbx_backend_share_cpu(&native->base, native->capacity.millicores);
    sbx_host_judge(&native->base.cgroups, native->base.controls);
    if (native->is_rootless)
        sbx_host_judge_rootless(&native->base.cgroups, native->own_ids > 0, native->base.controls);
    sbx_sessions_judge(&native->base);
    native->base.is_inferring = native->base.cgroups.ops->look_ns > 0;
    sbx_native_weaken(native);
    return 0;
}

static int meet_control(const struct sbx_native_settings *settings, struct sbx_native *native,
                        uint32_t argument, struct cr_err *err)
{
    if (native->base.weakened == argument)
        return 0;
    return native->is_rootless
               ? sbx_gaps_check_rootless(native->base.controls, argument, settings->accept_gaps,
                                         err)
               : sbx_gaps_check(native->base.controls, argument, settings->accept_gaps, err);
}

static int meet_limits(const struct sbx_native_settings *settings, struct sbx_native *native,
                       uint32_t argument, struct cr_err *err)
{
    (void)settings;
    (void)argument;
    return sbx_probe_group(native, err);
}

static int meet_filter(const struct sbx_native_settings *settings, struct sbx_native *native,
                       uint32_t argument, struct cr_err *err)
{
    int r = sbx_seccomp_build(&native->seccomp_fd, err);

    (void)settings;
    (void)argument;
    return r == 0 ? sbx_weaken_filter(&native->base, &native->seccomp_fd, err) : r;
}

/* Without root: two ids, which no other box has, or the one that all of them have. */
static int make_rootless_place(struct sbx_native *native, uint32_t place, struct cr_err *err)
{
    const uint32_t first = sbx_place_rootless_id(native, place);
    const struct sbx_userns_range ranges[] = {
        {.inside = 0, .outside = first, .count = 1},
        {.inside = SBX_USERNS_PROGRAM_ID, .outside = first + 1, .count = 1}};
    static const struct sbx_userns_range only_id = {
        .inside = SBX_USERNS_PROGRAM_ID, .outside = 0, .count = 1};
    int *fd = &native->places[place].userns_fd;

    return native->own_ids > 0 ? sbx_userns_make_ranges(ranges, CR_ARRAY_SIZE(ranges), fd, err)
                               : sbx_userns_make_ranges(&only_id, 1, fd, err);
}

static int make_places(struct sbx_native *native, uint32_t count, struct cr_err *err)
{
    /* The first of them is the front's. */
    if (native->own_ids > 0 && native->own_ids <= count * SBX_PLACE_ROOTLESS_IDS)
        return cr_err_set(err, ERANGE,
                          "/etc/subuid and /etc/subgid give this user %" PRIu32
                          " ids, and so many slots and sandboxes need %" PRIu32
                          ": give him more, or lower --slots and --sandboxes",
                          native->own_ids, count * SBX_PLACE_ROOTLESS_IDS + 1);
    for (uint32_t i = 0; i < count; i++) {
        int r = native->is_rootless ? make_rootless_place(native, i, err)
                                    : sbx_userns_make(native->uid_base + i * SBX_USERNS_RANGE,
                                                      &native->places[i].userns_fd, err);

        if (r < 0)
            return r;
        native->place_count = i + 1;
    }
    return 0;
}

static int meet_slots(const struct sbx_native_settings *settings, struct sbx_native *native,
                      uint32_t argument, struct cr_err *err)
{
    uint32_t count;

    (void)argument;
    count = sbx_host_slots(settings->slots, native->capacity.cores, native->capacity.memory_bytes,
                           SBX_SLOTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        sbx_run_init(&native->runs[i], i);
        sbx_backend_add_slot(&native->base, &native->runs[i].job);
    }
    count += native->pool.slot_count + native->base.sessions.most + SBX_USERNS_SPARE;
    sbx_templates_prepare(native, count);
    return make_places(native, count, err);
}

/* With fewer, what the front sends along with a run would not arrive, which ends the backend. */
static int meet_files(const struct sbx_native_settings *settings, struct sbx_native *native,
                      uint32_t argument, struct cr_err *err)
{
    const uint64_t count =
        sbx_host_files(&native->base.cgroups, native->base.slot_count, native->place_count,
                       native->place_count + SBX_GROUPS_SPARE);
    struct rlimit files;

    (void)settings;
    (void)argument;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return cr_err_sys(err, errno, "read the limit of open files");
    if (files.rlim_max < count)
        return cr_err_set(err, EMFILE,
                          "%" PRIu32
                          " runs at one time, with the boxes that wait and the sandboxes "
                          "that live on, need %" PRIu64 " open files, and %llu is the most here: "
                          "raise the hard limit (ulimit -Hn, or LimitNOFILE of the unit), or lower "
                          "slots, pool or sandboxes",
                          native->base.slot_count, count, (unsigned long long)files.rlim_max);
    return 0;
}

static int meet_init(const struct sbx_native_settings *settings, struct sbx_native *native,
                     uint32_t argument, struct cr_err *err)
{
    (void)argument;
    return sbx_init_image_load(settings->init_path, &native->init_fd, err);
}

static int meet_rootfs(const struct sbx_native_settings *settings, struct sbx_native *native,
                       uint32_t argument, struct cr_err *err)
{
    (void)argument;
    if (sbx_rootfs_enter(settings->rootfs, native->base.weakened, err) == 0)
        return 0;
    return settings->rootfs && *settings->rootfs ? cr_err_wrap(err, "--rootfs") : err->code;
}

/* Before the next, behind which nothing of the host can be opened. */
static int meet_roots(const struct sbx_native_settings *settings, struct sbx_native *native,
                      uint32_t argument, struct cr_err *err)
{
    (void)argument;
    return sbx_roots_open(settings->roots, &native->roots, err);
}

static int meet_spawner(const struct sbx_native_settings *settings, struct sbx_native *native,
                        uint32_t argument, struct cr_err *err)
{
    (void)settings;
    (void)argument;
    return sbx_groups_start_spawner(native, err);
}

static int meet_box(const struct sbx_native_settings *settings, struct sbx_native *native,
                    uint32_t argument, struct cr_err *err)
{
    static const char *const argv[] = {"/usr/bin/true", NULL};

    (void)settings;
    (void)argument;
    return sbx_probe(native, argv, err);
}

#define NEED(text, function)                                                                       \
    {                                                                                              \
        .name = (text), .meet = (function), .control = SBX_NEED_NO_CONTROL                         \
    }
#define BASIS(text, function)                                                                      \
    {                                                                                              \
        .name = (text), .meet = (function), .control = SBX_NEED_NO_CONTROL, .is_basis = true       \
    }
#define FREE(text, function)                                                                       \
    {                                                                                              \
        .name = (text), .meet = (function), .control = SBX_NEED_NO_CONTROL, .is_free = true        \
    }
#define CAPABILITY(index)                                                                          \
    {                                                                                              \
        .name = "capability", .meet = meet_capability, .argument = (index),                        \
        .control = SBX_NEED_NO_CONTROL, .is_basis = true, .is_free = true,                         \
        .argument_is_capability = true                                                             \
    }
#define CONTROL(text, number)                                                                      \
    {                                                                                              \
        .name = (text), .meet = meet_control, .argument = (number), .control = (number)            \
    }

/* The keeper's and the loop's descriptors aside, this is the start. */
const struct sbx_need sbx_needs[] = {
    BASIS("root", meet_root),
    CAPABILITY(0),
    CAPABILITY(1),
    CAPABILITY(2),
    CAPABILITY(3),
    CAPABILITY(4),
    CAPABILITY(5),
    CAPABILITY(6),
    CAPABILITY(7),
    FREE("kernel version", meet_kernel),
    FREE("openat2", meet_openat2),
    FREE("pidfd", meet_pidfd),
    FREE("clone3", meet_clone3),
    FREE("seccomp", meet_seccomp),
    BASIS("control groups: a folder of our own", meet_cgroups),
    CONTROL("control groups: memory", SBX_CONTROL_MEMORY),
    CONTROL("control groups: memory and swap together", SBX_CONTROL_SWAP),
    CONTROL("control groups: cpu", SBX_CONTROL_CPU),
    CONTROL("control groups: cpu time", SBX_CONTROL_CPU_TIME),
    CONTROL("control groups: pids", SBX_CONTROL_PIDS),
    CONTROL("control groups: freezer", SBX_CONTROL_WALL_TIME),
    CONTROL("user ids of their own for the boxes", SBX_CONTROL_USER),
    CONTROL("a user that owns what is read-only", SBX_CONTROL_ROOTFS),
    NEED("control groups: limits, written and read back", meet_limits),
    BASIS("seccomp program", meet_filter),
    BASIS("user namespaces", meet_slots),
    BASIS("open files for so many runs", meet_files),
    BASIS("sandbox-init on a tmpfs", meet_init),
    BASIS("root file systems of runtimes", meet_roots),
    BASIS("root file system", meet_rootfs),
    BASIS("spawner of the boxes", meet_spawner),
    BASIS("a whole box, tried", meet_box),
    {.name = NULL},
};

int sbx_needs_meet(const struct sbx_native_settings *settings, struct sbx_native *native,
                   struct cr_err *err)
{
    int r = 0;

    for (const struct sbx_need *need = sbx_needs; r == 0 && need->name; need++)
        r = need->meet(settings, native, need->argument, err);
    return r;
}
