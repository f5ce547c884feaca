/* SPDX-License-Identifier: Apache-2.0 */

/* Control groups of v1 and v2, on ordinary files in a folder of the test. */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/msg.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static const struct sbx_limits limits = {{
    [SBX_LIMIT_MEMORY] = (64U << 20) + 5, /* the kernel keeps whole pages */
    [SBX_LIMIT_PROCESSES] = 10,
    [SBX_LIMIT_CPU_MILLICORES] = 250,
}};

struct folder {
    char path[32];
    int fd;
    struct sbx_cgroup_host host;
    struct sbx_cgroup group;
};

static void put(const struct folder *folder, const char *name, const char *text)
{
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void expect_text(const struct folder *folder, const char *name, const char *text)
{
    char seen[64];

    assert_int_equal(sbx_cgroup_read(folder->fd, name, seen, sizeof(seen)), 0);
    assert_string_equal(seen, text);
}

/* One folder plays all hierarchies. */
static void open_folder(struct folder *folder, const struct sbx_cgroup_ops *ops)
{
    *folder = (struct folder){.path = "/tmp/cgroup-test-XXXXXX"};
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
    folder->host = (struct sbx_cgroup_host){.ops = ops, .hierarchy_count = 1, .has_swap = true};
    folder->group = (struct sbx_cgroup){.host = &folder->host, .event_fd = -1};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        folder->group.fds[i] = i == 0 ? folder->fd : -1;
}

static void close_folder(struct folder *folder, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        (void)unlinkat(folder->fd, names[i], 0);
    sbx_cgroup_close(&folder->group);
    assert_int_equal(rmdir(folder->path), 0);
}

static const char *const v1_files[] = {"memory.limit_in_bytes",
                                       "memory.memsw.limit_in_bytes",
                                       "memory.memsw.max_usage_in_bytes",
                                       "memory.oom_control",
                                       "cpu.cfs_period_us",
                                       "cpu.cfs_quota_us",
                                       "cpu.stat",
                                       "cpuacct.usage",
                                       "cpuacct.usage_user",
                                       "cpuacct.usage_sys",
                                       "pids.max",
                                       "pids.events",
                                       "pids.peak",
                                       "cgroup.procs",
                                       NULL};

static void open_v1(struct folder *folder)
{
    open_folder(folder, &sbx_cgroup_v1);
    for (size_t i = 0; v1_files[i]; i++)
        put(folder, v1_files[i], "0\n");
    put(folder, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    put(folder, "memory.memsw.max_usage_in_bytes", "123456\n");
    put(folder, "cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 7000000\n");
    put(folder, "cpuacct.usage", "5000000\n");
    put(folder, "cpuacct.usage_user", "3000000\n");
    put(folder, "cpuacct.usage_sys", "2000000\n");
    put(folder, "pids.events", "max 6\n");
    put(folder, "pids.peak", "12\n");
    /* A file keeps what was behind a shorter text; control files do not. */
    for (size_t i = 0; i < 2; i++)
        put(folder, v1_files[i], "");
    put(folder, "cpu.cfs_period_us", "");
    put(folder, "cpu.cfs_quota_us", "");
    put(folder, "pids.max", "");
}

static void v1_limits_are_written(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(sbx_cgroup_limit(&folder.group, &limits, &err), 0);
    expect_text(&folder, "cpu.cfs_quota_us", "");
    assert_int_equal(sbx_cgroup_limit_cpu(&folder.group, &limits, &err), 0);

    expect_text(&folder, "memory.limit_in_bytes", "67108864");
    expect_text(&folder, "memory.memsw.limit_in_bytes", "67108864");
    expect_text(&folder, "cpu.cfs_period_us", "100000");
    expect_text(&folder, "cpu.cfs_quota_us", "25000");
    expect_text(&folder, "pids.max", "11"); /* and sandbox-init */
    close_folder(&folder, v1_files);
}

static void v1_counters_are_read(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);

    assert_int_equal(usage.cpu_total_us, 5000);
    assert_int_equal(usage.cpu_user_us, 3000);
    assert_int_equal(usage.cpu_system_us, 2000);
    assert_int_equal(usage.cpu_throttled_us, 7000);
    assert_int_equal(usage.memory_peak_bytes, 123456);
    assert_int_equal(usage.oom_kills, 2);
    assert_int_equal(usage.processes_peak, 11);
    assert_int_equal(usage.process_limit_hits, 6);
    close_folder(&folder, v1_files);
}

static void counters_that_were_opened_are_read_anew_each_time(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(sbx_cgroup_open_files(&folder.group, &err), 0);
    assert_false(sbx_cgroup_is_alone(&folder.group)); /* there is no pids.current */
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);
    put(&folder, "cpuacct.usage", "9000000\n");
    put(&folder, "pids.events", "max 7\n");
    put(&folder, "pids.current", "2\n");
    assert_false(sbx_cgroup_is_alone(&folder.group));
    put(&folder, "pids.current", "1\n");
    assert_true(sbx_cgroup_is_alone(&folder.group));
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);

    assert_int_equal(usage.cpu_total_us, 9000);
    assert_int_equal(usage.process_limit_hits, 7);
    assert_int_equal(unlinkat(folder.fd, "pids.current", 0), 0);
    close_folder(&folder, v1_files);
}

/* A group whose box has left nothing. */
static void open_used(struct folder *folder)
{
    open_v1(folder);
    put(folder, "memory.oom_control", "oom_kill 0\n");
    put(folder, "memory.usage_in_bytes", "524288\n");
    put(folder, "pids.events", "max 0\n");
    put(folder, "pids.peak", "2\n");
    put(folder, "pids.current", "0\n");
    put(folder, "cpu.shares", "");
    put(folder, "memory.memsw.max_usage_in_bytes", "");
}

static const char *const used_files[] = {"memory.usage_in_bytes", "pids.current", "cpu.shares",
                                         NULL};

static void close_used(struct folder *folder)
{
    for (size_t i = 0; used_files[i]; i++)
        (void)unlinkat(folder->fd, used_files[i], 0);
    close_folder(folder, v1_files);
}

static void v1_groups_without_a_trace_are_renewed(void **state)
{
    struct folder folder;

    (void)state;
    open_used(&folder);

    assert_int_equal(sbx_cgroup_renew(&folder.group), 0);

    expect_text(&folder, "memory.memsw.max_usage_in_bytes", "0");
    expect_text(&folder, "cpu.cfs_quota_us", "4294967296");
    expect_text(&folder, "cpu.shares", "");
    close_used(&folder);
}

static void v1_groups_that_fell_behind_are_renewed(void **state)
{
    struct folder folder;

    (void)state;
    open_used(&folder);

    sbx_cgroup_fall_behind(&folder.group);
    assert_true(folder.group.is_behind);
    expect_text(&folder, "cpu.shares", "64");
    assert_int_equal(sbx_cgroup_renew(&folder.group), 0);
    assert_false(folder.group.is_behind);
    expect_text(&folder, "cpu.shares", "1024");
    close_used(&folder);
}

static void v1_groups_with_a_trace_are_not_renewed(void **state)
{
    static const char *const traces[][2] = {
        {"pids.current", "1\n"},
        {"pids.peak", "3\n"},
        {"pids.events", "max 1\n"},
        {"memory.oom_control", "oom_kill 1\n"},
        {"memory.usage_in_bytes", "524289\n"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(traces); i++) {
        struct folder folder;

        open_used(&folder);
        put(&folder, traces[i][0], traces[i][1]);
        assert_int_equal(sbx_cgroup_renew(&folder.group), -EBUSY);
        expect_text(&folder, "memory.memsw.max_usage_in_bytes", "");
        close_used(&folder);
    }
}

static void a_missing_counter_is_an_error(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(unlinkat(folder.fd, "memory.oom_control", 0), 0);

    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), -ENOENT);
    assert_non_null(strstr(err.text, "memory.oom_control"));
    close_folder(&folder, v1_files);
}

static const char *const v2_files[] = {
    "memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak",
    "pids.max",   "pids.events",     "pids.peak",        "cpu.max",       "cpu.stat",
    NULL};

static void open_v2(struct folder *folder)
{
    open_folder(folder, &sbx_cgroup_v2);
    for (size_t i = 0; v2_files[i]; i++)
        put(folder, v2_files[i], "");
    put(folder, "memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 1\n");
    put(folder, "memory.peak", "4096\n");
    put(folder, "pids.events", "max 3\n");
    put(folder, "pids.peak", "5\n");
    put(folder, "cpu.stat",
        "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 1\nthrottled_usec 77\n");
}

static void v2_limits_are_written(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v2(&folder);
    assert_int_equal(sbx_cgroup_limit(&folder.group, &limits, &err), 0);
    expect_text(&folder, "cpu.max", "");
    assert_int_equal(sbx_cgroup_limit_cpu(&folder.group, &limits, &err), 0);

    expect_text(&folder, "memory.max", "67108864");
    expect_text(&folder, "memory.swap.max", "0");
    expect_text(&folder, "memory.oom.group", "1");
    expect_text(&folder, "pids.max", "11");
    expect_text(&folder, "cpu.max", "25000 100000\n");
    close_folder(&folder, v2_files);
}

static void v2_counters_are_read(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v2(&folder);
    assert_int_equal(sbx_cgroup_arm(&folder.group, &err), 0);
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);

    assert_int_equal(usage.cpu_total_us, 900);
    assert_int_equal(usage.cpu_user_us, 500);
    assert_int_equal(usage.cpu_system_us, 400);
    assert_int_equal(usage.cpu_throttled_us, 77);
    assert_int_equal(usage.memory_peak_bytes, 4096);
    assert_int_equal(usage.oom_kills, 1);
    assert_int_equal(usage.processes_peak, 4);
    assert_int_equal(usage.process_limit_hits, 3);
    close_folder(&folder, v2_files);
}

/* ---- freezing ---- */

/* What the kernel says is written by hand here: `frozen` is the file that tells. */
static void a_group_is_frozen_when_the_kernel_says_so(void **state)
{
    static const struct {
        const struct sbx_cgroup_ops *ops;
        const char *file;
        const char *on;
        const char *off;
        const char *frozen;
        const char *not_yet;
        const char *is_so;
    } rows[] = {
        {&sbx_cgroup_v1, "freezer.state", "FROZEN", "THAWED", "freezer.state", "FREEZING\n",
         "FROZEN\n"},
        {&sbx_cgroup_v2, "cgroup.freeze", "1", "0", "cgroup.events", "populated 1\nfrozen 0\n",
         "populated 1\nfrozen 1\n"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        const char *const names[] = {rows[i].file, rows[i].frozen, NULL};
        struct folder folder;

        open_folder(&folder, rows[i].ops);
        assert_int_equal(sbx_cgroup_freeze(&folder.group, true), -ENOENT);
        put(&folder, rows[i].file, "");
        assert_int_equal(sbx_cgroup_freeze(&folder.group, true), 0);
        expect_text(&folder, rows[i].file, rows[i].on);
        put(&folder, rows[i].frozen, rows[i].not_yet);
        assert_false(sbx_cgroup_is_frozen(&folder.group));
        put(&folder, rows[i].frozen, rows[i].is_so);
        assert_true(sbx_cgroup_is_frozen(&folder.group));
        put(&folder, rows[i].file, "");
        assert_int_equal(sbx_cgroup_freeze(&folder.group, false), 0);
        expect_text(&folder, rows[i].file, rows[i].off);
        close_folder(&folder, names);
    }
}

static void a_host_without_a_freezer_says_so(void **state)
{
    static const char *const names[] = {"freezer.state", NULL};
    struct folder folder;

    (void)state;
    open_folder(&folder, &sbx_cgroup_v1);
    assert_true(sbx_cgroup_can_freeze(&folder.host));
    folder.host.hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    put(&folder, "freezer.state", "FROZEN\n");
    assert_false(sbx_cgroup_can_freeze(&folder.host));
    assert_int_equal(sbx_cgroup_freeze(&folder.group, true), -EOPNOTSUPP);
    assert_false(sbx_cgroup_is_frozen(&folder.group));
    sbx_cgroup_keep_frozen_one(&folder.host, folder.fd);
    close_folder(&folder, names); /* nothing else is in it */
}

/* Two hierarchies of version 1, the second of which was not given to us: none can be made in a
 * folder that is gone. */
static int open_two(struct sbx_cgroup_host *host, enum sbx_controller second, bool is_joined)
{
    char first_path[] = "/tmp/cgroup-test-XXXXXX";
    char second_path[] = "/tmp/cgroup-test-XXXXXX";
    struct cr_err err = CR_ERR_INIT;
    int r;

    sbx_cgroup_host_init(host, &sbx_cgroup_v1);
    (void)snprintf(host->base_name, sizeof(host->base_name), "base");
    assert_non_null(mkdtemp(first_path));
    assert_non_null(mkdtemp(second_path));
    host->own_fds[0] = open(first_path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    host->own_fds[1] = open(second_path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_int_equal(rmdir(second_path), 0);
    host->hierarchy_count = 2;
    host->hierarchy[SBX_CONTROLLER_MEMORY] = 0;
    host->hierarchy[second] = 1;
    if (is_joined)
        host->hierarchy[SBX_CONTROLLER_PIDS] = 1;

    r = sbx_cgroup_host_open(host, &err);

    assert_int_equal(unlinkat(host->own_fds[0], "base", AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(first_path), 0);
    return r;
}

static void a_freezer_of_somebody_else_is_none(void **state)
{
    struct sbx_cgroup_host host;

    (void)state;
    assert_int_equal(open_two(&host, SBX_CONTROLLER_FREEZER, false), 0);
    assert_false(sbx_cgroup_can_freeze(&host));
    assert_int_equal(host.hierarchy_count, 1);
    assert_int_equal(host.own_fds[1], -1);
    sbx_cgroup_host_close(&host);

    assert_int_equal(open_two(&host, SBX_CONTROLLER_FREEZER, true), -ENOENT);
    sbx_cgroup_host_close(&host);
    assert_int_equal(open_two(&host, SBX_CONTROLLER_CPU, false), -ENOENT);
    sbx_cgroup_host_close(&host);
}

/* ---- a folder of control groups that was given to us, as systemd gives it to a user ---- */

#define BASE "crisol-native-1"

struct delegated {
    struct folder folder; /* our own group */
    struct folder base;   /* BASE in it; the kernel would fill it with these files */
};

static void open_delegated(struct delegated *delegated, bool with_swap, bool with_cpu)
{
    struct folder *folder = &delegated->folder;
    struct folder *base = &delegated->base;

    open_folder(folder, &sbx_cgroup_v2);
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        folder->host.own_fds[i] = -1;
        folder->host.base_fds[i] = -1;
    }
    folder->host.own_fds[0] = dup(folder->fd);
    folder->host.hierarchy[SBX_CONTROLLER_CPU] = with_cpu ? 0 : -1;
    (void)snprintf(folder->host.base_name, sizeof(folder->host.base_name), BASE);
    put(folder, "cgroup.subtree_control", "");
    assert_int_equal(mkdirat(folder->fd, BASE, 0700), 0);
    *base = (struct folder){.fd = openat(folder->fd, BASE, O_DIRECTORY | O_RDONLY | O_CLOEXEC)};
    put(base, "cgroup.subtree_control", "");
    if (with_swap)
        put(base, "memory.swap.max", "max\n");
}

static void close_delegated(struct delegated *delegated)
{
    static const char *const names[] = {"cgroup.subtree_control", "cgroup.procs", NULL};

    (void)unlinkat(delegated->base.fd, "cgroup.subtree_control", 0);
    (void)unlinkat(delegated->base.fd, "memory.swap.max", 0);
    assert_int_equal(close(delegated->base.fd), 0);
    (void)unlinkat(delegated->folder.fd, BASE, AT_REMOVEDIR);
    (void)unlinkat(delegated->folder.fd, "crisol-main", AT_REMOVEDIR);
    sbx_cgroup_host_close(&delegated->folder.host);
    close_folder(&delegated->folder, names);
}

static void a_delegated_group_is_used_below_itself(void **state)
{
    static const struct {
        bool with_swap;
        bool with_cpu;
        const char *enabled;
    } rows[] = {{true, true, "+memory +pids +cpu"}, {false, false, "+memory +pids"}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct sbx_cgroup group;
        struct delegated delegated;
        const struct sbx_cgroup_host *host = &delegated.folder.host;

        open_delegated(&delegated, rows[i].with_swap, rows[i].with_cpu);
        assert_int_equal(sbx_cgroup_host_open(&delegated.folder.host, &err), 0);
        expect_text(&delegated.folder, "cgroup.subtree_control", rows[i].enabled);
        expect_text(&delegated.base, "cgroup.subtree_control", rows[i].enabled);
        assert_int_equal(host->has_swap, rows[i].with_swap);
        assert_int_equal(sbx_cgroup_make(host, 3, &err), 0);
        assert_int_equal(sbx_cgroup_open(host, 3, &group, &err), 0);
        assert_int_equal(sbx_cgroup_clone_fd(&group), group.fds[0]); /* boxes are born in it */
        sbx_cgroup_close(&group);
        assert_int_equal(sbx_cgroup_remove(host, 3), 0);
        close_delegated(&delegated);
    }
}

/* Without the right to turn controllers on below it: nobody gave it to us. */
static void a_group_that_is_not_delegated_says_how_to_get_one(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct delegated delegated;

    (void)state;
    open_delegated(&delegated, true, true);
    put(&delegated.folder, "cgroup.procs", "");
    assert_int_equal(unlinkat(delegated.folder.fd, "cgroup.subtree_control", 0), 0);
    assert_int_equal(sbx_cgroup_host_open(&delegated.folder.host, &err), -ENOENT);
    assert_non_null(strstr(err.text, "Delegate=yes"));
    close_delegated(&delegated);
}

/* A successor starts where its predecessor moved everybody to. */
static void the_leaf_of_a_predecessor_is_left(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct delegated delegated;
    struct stat own;
    struct stat seen;

    (void)state;
    open_delegated(&delegated, true, true);
    assert_int_equal(mkdirat(delegated.folder.fd, "crisol-main", 0700), 0);
    assert_int_equal(close(delegated.folder.host.own_fds[0]), 0);
    delegated.folder.host.own_fds[0] =
        openat(delegated.folder.fd, "crisol-main", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) { /* once there is nothing left to leave */
        assert_int_equal(sbx_cgroup_v2_leave_leaf(&delegated.folder.host, &err), 0);
        assert_int_equal(fstat(delegated.folder.fd, &own), 0);
        assert_int_equal(fstat(delegated.folder.host.own_fds[0], &seen), 0);
        assert_int_equal(seen.st_ino, own.st_ino);
    }
    close_delegated(&delegated);
}

static void a_value_that_does_not_stick_is_an_error(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct folder folder;

    (void)state;
    open_v1(&folder);
    put(&folder, "pids.max", "999999"); /* longer than what is written: the rest stays */

    assert_int_equal(sbx_cgroup_put(&folder.group, SBX_CGROUP_FILE_PROCESSES_LIMIT, 11, &err),
                     -EIO);
    assert_string_equal(err.text, "control file 'pids.max' says 119999 after 11 was written");
    assert_int_equal(unlinkat(folder.fd, "pids.max", 0), 0);
    assert_int_equal(sbx_cgroup_put(&folder.group, SBX_CGROUP_FILE_PROCESSES_LIMIT, 11, &err),
                     -ENOENT);
    close_folder(&folder, v1_files);
}

static void keys_are_found_whole(void **state)
{
    uint64_t value = 0;

    (void)state;
    assert_int_equal(sbx_cgroup_find_key("oom 3\noom_kill 4\n", "oom_kill", &value), 0);
    assert_int_equal(value, 4);
    assert_int_equal(sbx_cgroup_find_key("oom 3\noom_kill 4", "oom", &value), 0);
    assert_int_equal(value, 3);
    assert_int_equal(sbx_cgroup_find_key("oom_kill 4\n", "oom", &value), -ENOENT);
    assert_int_equal(sbx_cgroup_find_key("", "oom", &value), -ENOENT);
    assert_int_equal(sbx_cgroup_find_key("max max\n", "max", &value), -EINVAL);
    assert_int_equal(sbx_cgroup_find_key("max 1 2\n", "max", &value), -EINVAL);
}

static void bandwidth_respects_the_least_quota(void **state)
{
    static const uint64_t cases[][3] = {
        {500, 50000, 100000}, {1000, 100000, 100000}, {4000, 400000, 100000},
        {10, 1000, 100000},   {9, 9000, 1000000},     {1, 1000, 1000000},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        uint64_t quota;
        uint64_t period;

        sbx_cgroup_bandwidth(cases[i][0], &quota, &period);
        assert_int_equal(quota, cases[i][1]);
        assert_int_equal(period, cases[i][2]);
    }
}

/* Half a number would be that of a process that is not in the group. */
static void members_that_do_not_fit_are_left_out_whole(void **state)
{
    struct folder folder;
    char seen[16];

    (void)state;
    open_folder(&folder, &sbx_cgroup_v2);
    put(&folder, "cgroup.procs", "12\n345\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 0);
    assert_string_equal(seen, "12\n345\n");
    put(&folder, "cgroup.procs", "12\n345\n67890\n123456\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 1);
    assert_string_equal(seen, "12\n345\n67890\n");
    put(&folder, "cgroup.procs", "12345678901234567890\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 1);
    assert_string_equal(seen, "");
    put(&folder, "cgroup.procs", "");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 0);
    assert_string_equal(seen, "");
    close_folder(&folder, (const char *[]){"cgroup.procs", NULL});
}

static void no_fd_is_left_open(void **state)
{
    int before = test_count_fds();

    v1_counters_are_read(state);
    v2_counters_are_read(state);
    a_missing_counter_is_an_error(state);
    a_delegated_group_is_used_below_itself(state);
    the_leaf_of_a_predecessor_is_left(state);
    assert_int_equal(test_count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_limits_are_written),
        cmocka_unit_test(v1_counters_are_read),
        cmocka_unit_test(counters_that_were_opened_are_read_anew_each_time),
        cmocka_unit_test(v1_groups_without_a_trace_are_renewed),
        cmocka_unit_test(v1_groups_that_fell_behind_are_renewed),
        cmocka_unit_test(v1_groups_with_a_trace_are_not_renewed),
        cmocka_unit_test(a_missing_counter_is_an_error),
        cmocka_unit_test(v2_limits_are_written),
        cmocka_unit_test(v2_counters_are_read),
        cmocka_unit_test(a_group_is_frozen_when_the_kernel_says_so),
        cmocka_unit_test(a_host_without_a_freezer_says_so),
        cmocka_unit_test(a_freezer_of_somebody_else_is_none),
        cmocka_unit_test(a_delegated_group_is_used_below_itself),
        cmocka_unit_test(a_group_that_is_not_delegated_says_how_to_get_one),
        cmocka_unit_test(the_leaf_of_a_predecessor_is_left),
        cmocka_unit_test(a_value_that_does_not_stick_is_an_error),
        cmocka_unit_test(keys_are_found_whole),
        cmocka_unit_test(bandwidth_respects_the_least_quota),
        cmocka_unit_test(members_that_do_not_fit_are_left_out_whole),
        cmocka_unit_test(no_fd_is_left_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
