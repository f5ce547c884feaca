/* SPDX-License-Identifier: Apache-2.0 */

/* Control groups of v1 and v2, on ordinary files in a folder of the test. */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/wire/msg.h"
#include "tests/unit/sandboxd/backend/cgroup_folder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct sbx_limits limits = {{
    [SBX_LIMIT_MEMORY] = (64U << 20) + 5, /* the kernel keeps whole pages */
    [SBX_LIMIT_PROCESSES] = 10,
    [SBX_LIMIT_CPU_MILLICORES] = 250,
}};

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
                                       "tasks",
                                       NULL};

static void open_v1(struct cgroup_folder *folder)
{
    cgroup_folder_open(folder, &sbx_cgroup_v1);
    for (size_t i = 0; v1_files[i]; i++)
        cgroup_folder_put(folder, v1_files[i], "0\n");
    cgroup_folder_put(folder, "memory.oom_control",
                      "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    cgroup_folder_put(folder, "memory.memsw.max_usage_in_bytes", "123456\n");
    cgroup_folder_put(folder, "cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 7000000\n");
    cgroup_folder_put(folder, "cpuacct.usage", "5000000\n");
    cgroup_folder_put(folder, "cpuacct.usage_user", "3000000\n");
    cgroup_folder_put(folder, "cpuacct.usage_sys", "2000000\n");
    cgroup_folder_put(folder, "pids.events", "max 6\n");
    cgroup_folder_put(folder, "pids.peak", "12\n");
    /* A file keeps what was behind a shorter text; control files do not. */
    for (size_t i = 0; i < 2; i++)
        cgroup_folder_put(folder, v1_files[i], "");
    cgroup_folder_put(folder, "cpu.cfs_period_us", "");
    cgroup_folder_put(folder, "cpu.cfs_quota_us", "");
    cgroup_folder_put(folder, "pids.max", "");
}

static void v1_limits_are_written(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(sbx_cgroup_limit(&folder.group, &limits, &err), 0);
    cgroup_folder_expect(&folder, "cpu.cfs_quota_us", "");
    assert_int_equal(sbx_cgroup_limit_cpu(&folder.group, &limits, &err), 0);

    cgroup_folder_expect(&folder, "memory.limit_in_bytes", "67108864");
    cgroup_folder_expect(&folder, "memory.memsw.limit_in_bytes", "67108864");
    cgroup_folder_expect(&folder, "cpu.cfs_period_us", "100000");
    cgroup_folder_expect(&folder, "cpu.cfs_quota_us", "25000");
    cgroup_folder_expect(&folder, "pids.max", "11"); /* and sandbox-init */
    cgroup_folder_close(&folder, v1_files);
}

static void v1_counters_are_read(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

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
    cgroup_folder_close(&folder, v1_files);
}

static void counters_that_were_opened_are_read_anew_each_time(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(sbx_cgroup_open_files(&folder.group, &err), 0);
    assert_false(sbx_cgroup_is_alone(&folder.group)); /* there is no pids.current */
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);
    cgroup_folder_put(&folder, "cpuacct.usage", "9000000\n");
    cgroup_folder_put(&folder, "pids.events", "max 7\n");
    cgroup_folder_put(&folder, "pids.current", "2\n");
    assert_false(sbx_cgroup_is_alone(&folder.group));
    cgroup_folder_put(&folder, "pids.current", "1\n");
    assert_true(sbx_cgroup_is_alone(&folder.group));
    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), 0);

    assert_int_equal(usage.cpu_total_us, 9000);
    assert_int_equal(usage.process_limit_hits, 7);
    assert_int_equal(unlinkat(folder.fd, "pids.current", 0), 0);
    cgroup_folder_close(&folder, v1_files);
}

/* A group whose box has left nothing. */
static void open_used(struct cgroup_folder *folder)
{
    open_v1(folder);
    cgroup_folder_put(folder, "memory.oom_control", "oom_kill 0\n");
    cgroup_folder_put(folder, "memory.usage_in_bytes", "524288\n");
    cgroup_folder_put(folder, "pids.events", "max 0\n");
    cgroup_folder_put(folder, "pids.peak", "2\n");
    cgroup_folder_put(folder, "pids.current", "0\n");
    cgroup_folder_put(folder, "cpu.shares", "");
    cgroup_folder_put(folder, "memory.memsw.max_usage_in_bytes", "");
}

static const char *const used_files[] = {"memory.usage_in_bytes", "pids.current", "cpu.shares",
                                         NULL};

static void close_used(struct cgroup_folder *folder)
{
    for (size_t i = 0; used_files[i]; i++)
        (void)unlinkat(folder->fd, used_files[i], 0);
    cgroup_folder_close(folder, v1_files);
}

static void v1_groups_without_a_trace_are_renewed(void **state)
{
    struct cgroup_folder folder;

    (void)state;
    open_used(&folder);

    assert_int_equal(sbx_cgroup_renew(&folder.group), 0);

    cgroup_folder_expect(&folder, "memory.memsw.max_usage_in_bytes", "0");
    cgroup_folder_expect(&folder, "cpu.cfs_quota_us", "4294967296");
    cgroup_folder_expect(&folder, "cpu.shares", "");
    close_used(&folder);
}

static void v1_groups_that_fell_behind_are_renewed(void **state)
{
    struct cgroup_folder folder;

    (void)state;
    open_used(&folder);

    sbx_cgroup_fall_behind(&folder.group);
    assert_true(folder.group.is_behind);
    cgroup_folder_expect(&folder, "cpu.shares", "64");
    assert_int_equal(sbx_cgroup_renew(&folder.group), 0);
    assert_false(folder.group.is_behind);
    cgroup_folder_expect(&folder, "cpu.shares", "1024");
    close_used(&folder);
}

static void v1_groups_that_are_killed_hurry(void **state)
{
    struct cgroup_folder folder;

    (void)state;
    open_used(&folder);

    sbx_cgroup_hurry(&folder.group);
    cgroup_folder_expect(&folder, "cpu.cfs_quota_us", "4294967296");
    cgroup_folder_expect(&folder, "cpu.shares", ""); /* it was not behind */

    sbx_cgroup_fall_behind(&folder.group);
    sbx_cgroup_hurry(&folder.group);
    cgroup_folder_expect(&folder, "cpu.shares", "1024");
    assert_false(folder.group.is_behind);
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
        struct cgroup_folder folder;

        open_used(&folder);
        cgroup_folder_put(&folder, traces[i][0], traces[i][1]);
        assert_int_equal(sbx_cgroup_renew(&folder.group), -EBUSY);
        cgroup_folder_expect(&folder, "memory.memsw.max_usage_in_bytes", "");
        close_used(&folder);
    }
}

static void a_missing_counter_is_an_error(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

    (void)state;
    open_v1(&folder);
    assert_int_equal(unlinkat(folder.fd, "memory.oom_control", 0), 0);

    assert_int_equal(sbx_cgroup_usage(&folder.group, &usage, &err), -ENOENT);
    assert_non_null(strstr(err.text, "memory.oom_control"));
    cgroup_folder_close(&folder, v1_files);
}

static const char *const v2_files[] = {
    "memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak",
    "pids.max",   "pids.events",     "pids.peak",        "cpu.max",       "cpu.stat",
    NULL};

static void open_v2(struct cgroup_folder *folder)
{
    cgroup_folder_open(folder, &sbx_cgroup_v2);
    for (size_t i = 0; v2_files[i]; i++)
        cgroup_folder_put(folder, v2_files[i], "");
    cgroup_folder_put(folder, "memory.events",
                      "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 1\n");
    cgroup_folder_put(folder, "memory.peak", "4096\n");
    cgroup_folder_put(folder, "pids.events", "max 3\n");
    cgroup_folder_put(folder, "pids.peak", "5\n");
    cgroup_folder_put(
        folder, "cpu.stat",
        "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 1\nthrottled_usec 77\n");
}

static void v2_limits_are_written(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

    (void)state;
    open_v2(&folder);
    assert_int_equal(sbx_cgroup_limit(&folder.group, &limits, &err), 0);
    cgroup_folder_expect(&folder, "cpu.max", "");
    assert_int_equal(sbx_cgroup_limit_cpu(&folder.group, &limits, &err), 0);

    cgroup_folder_expect(&folder, "memory.max", "67108864");
    cgroup_folder_expect(&folder, "memory.swap.max", "0");
    cgroup_folder_expect(&folder, "memory.oom.group", "1");
    cgroup_folder_expect(&folder, "pids.max", "11");
    cgroup_folder_expect(&folder, "cpu.max", "25000 100000\n");
    cgroup_folder_close(&folder, v2_files);
}

static void v2_groups_that_are_killed_hurry(void **state)
{
    struct cgroup_folder folder;

    (void)state;
    open_v2(&folder);
    sbx_cgroup_hurry(&folder.group);
    cgroup_folder_expect(&folder, "cpu.max", "4294967296");
    cgroup_folder_close(&folder, v2_files);
}

static void v2_counters_are_read(void **state)
{
    struct sbx_cgroup_usage usage;
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

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
    cgroup_folder_close(&folder, v2_files);
}

static void a_value_that_does_not_stick_is_an_error(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct cgroup_folder folder;

    (void)state;
    open_v1(&folder);
    cgroup_folder_put(&folder, "pids.max",
                      "999999"); /* longer than what is written: the rest stays */

    assert_int_equal(sbx_cgroup_put(&folder.group, SBX_CGROUP_FILE_PROCESSES_LIMIT, 11, &err),
                     -EIO);
    assert_string_equal(err.text, "control file 'pids.max' says 119999 after 11 was written");
    assert_int_equal(unlinkat(folder.fd, "pids.max", 0), 0);
    assert_int_equal(sbx_cgroup_put(&folder.group, SBX_CGROUP_FILE_PROCESSES_LIMIT, 11, &err),
                     -ENOENT);
    cgroup_folder_close(&folder, v1_files);
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
    struct cgroup_folder folder;
    char seen[16];

    (void)state;
    cgroup_folder_open(&folder, &sbx_cgroup_v2);
    cgroup_folder_put(&folder, "cgroup.procs", "12\n345\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 0);
    assert_string_equal(seen, "12\n345\n");
    cgroup_folder_put(&folder, "cgroup.procs", "12\n345\n67890\n123456\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 1);
    assert_string_equal(seen, "12\n345\n67890\n");
    cgroup_folder_put(&folder, "cgroup.procs", "12345678901234567890\n");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 1);
    assert_string_equal(seen, "");
    cgroup_folder_put(&folder, "cgroup.procs", "");
    assert_int_equal(sbx_cgroup_read_members(folder.fd, seen, sizeof(seen)), 0);
    assert_string_equal(seen, "");
    cgroup_folder_close(&folder, (const char *[]){"cgroup.procs", NULL});
}

static void no_fd_is_left_open(void **state)
{
    int before = test_count_fds();

    v1_counters_are_read(state);
    v2_counters_are_read(state);
    a_missing_counter_is_an_error(state);
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
        cmocka_unit_test(v1_groups_that_are_killed_hurry),
        cmocka_unit_test(v1_groups_with_a_trace_are_not_renewed),
        cmocka_unit_test(a_missing_counter_is_an_error),
        cmocka_unit_test(v2_limits_are_written),
        cmocka_unit_test(v2_groups_that_are_killed_hurry),
        cmocka_unit_test(v2_counters_are_read),
        cmocka_unit_test(a_value_that_does_not_stick_is_an_error),
        cmocka_unit_test(keys_are_found_whole),
        cmocka_unit_test(bandwidth_respects_the_least_quota),
        cmocka_unit_test(members_that_do_not_fit_are_left_out_whole),
        cmocka_unit_test(no_fd_is_left_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
