/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/native/host.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

static void a_full_host_enforces_everything(void **state)
{
    struct sbx_cgroup_host cgroups = {.has_swap = true};
    uint8_t controls[SBX_CONTROL_COUNT];

    (void)state;
    sbx_host_judge(&cgroups, controls);
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++)
        assert_int_equal(controls[i], SBX_ENFORCED);
    assert_int_equal(sbx_gaps_check_all(controls, NULL, NULL), 0);
}

static void an_ordinary_user_accepts_each_loss_by_name(void **state)
{
    struct sbx_cgroup_host cgroups = {0};
    uint8_t controls[SBX_CONTROL_COUNT];
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    sbx_cgroup_host_watch(&cgroups);
    sbx_host_judge(&cgroups, controls);
    sbx_host_judge_rootless(&cgroups, false, controls);
    assert_int_equal(controls[SBX_CONTROL_CPU], SBX_GAP);
    assert_int_equal(controls[SBX_CONTROL_MEMORY], SBX_PARTIAL);
    assert_int_equal(controls[SBX_CONTROL_SECCOMP], SBX_ENFORCED);
    assert_int_equal(sbx_gaps_check_rootless(controls, SBX_CONTROL_USER, "cpu", &err), -ENOTSUP);
    assert_non_null(
        strstr(err.text, "--accept-gap=memory,swap,cpu,pids,user,cpu_time,rootfs accepts"));
    assert_int_equal(sbx_gaps_check_rootless(controls, SBX_CONTROL_USER, "cpu,user", NULL), 0);
    assert_int_equal(sbx_gaps_check_rootless(controls, SBX_CONTROL_SECCOMP, NULL, NULL), 0);
}

static void with_ids_of_their_own_boxes_lose_less(void **state)
{
    struct sbx_cgroup_host cgroups = {0};
    uint8_t controls[SBX_CONTROL_COUNT];

    (void)state;
    sbx_cgroup_host_watch(&cgroups);
    sbx_host_judge(&cgroups, controls);
    sbx_host_judge_rootless(&cgroups, true, controls);
    assert_int_equal(controls[SBX_CONTROL_USER], SBX_ENFORCED);
    assert_int_equal(controls[SBX_CONTROL_MEMORY], SBX_PARTIAL);
}

/* A control group of version 2 that somebody gave to this user: what it counts is lost no more. */
static void delegated_groups_give_back_what_they_count(void **state)
{
    struct sbx_cgroup_host cgroups = {.ops = &sbx_cgroup_v2, .has_swap = true};
    uint8_t controls[SBX_CONTROL_COUNT];

    (void)state;
    cgroups.hierarchy[SBX_CONTROLLER_CPU] = -1; /* systemd does not give it to users by default */
    sbx_host_judge(&cgroups, controls);
    sbx_host_judge_rootless(&cgroups, true, controls);
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++)
        assert_int_equal(controls[i], i == SBX_CONTROL_CPU ? SBX_GAP : SBX_ENFORCED);
}

static void ids_beside_the_own_one_are_counted(void **state)
{
    static const struct {
        const char *map;
        uint32_t count;
    } maps[] = {
        {"         0       1000          1\n         1     100000      65536\n", 65536},
        {"         0       1000          1\n", 0},
        {"         0          0 4294967295\n", 0},
        {"         1     100000         10\n         0       1000          1\n", 10},
        {"", 0},
        {"nothing\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(maps); i++)
        assert_int_equal(sbx_host_parse_ids(maps[i].map), maps[i].count);
}

static void each_missing_piece_is_a_gap_with_a_name(void **state)
{
    static const struct {
        int controller;
        enum sbx_control control;
        const char *name;
    } cases[] = {
        {SBX_CONTROLLER_MEMORY, SBX_CONTROL_MEMORY, "memory"},
        {SBX_CONTROLLER_CPU, SBX_CONTROL_CPU, "cpu"},
        {SBX_CONTROLLER_CPUACCT, SBX_CONTROL_CPU_TIME, "cpu_time"},
        {SBX_CONTROLLER_PIDS, SBX_CONTROL_PIDS, "pids"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct sbx_cgroup_host cgroups = {.has_swap = true};
        uint8_t controls[SBX_CONTROL_COUNT];
        struct cr_err err = CR_ERR_INIT;
        char flag[64];

        cgroups.hierarchy[cases[i].controller] = -1;
        sbx_host_judge(&cgroups, controls);
        assert_int_equal(controls[cases[i].control], SBX_GAP);
        assert_int_equal(sbx_gaps_check_all(controls, NULL, &err), -ENOTSUP);
        (void)snprintf(flag, sizeof(flag), "--accept-gap=%s", cases[i].name);
        assert_non_null(strstr(err.text, flag));
        assert_int_equal(
            sbx_gaps_check_all(controls, "network,memory,swap,cpu,cpu_time,pids", &err), 0);
    }
}

static void swap_accounting_is_a_control_of_its_own(void **state)
{
    struct sbx_cgroup_host cgroups = {.has_swap = false};
    uint8_t controls[SBX_CONTROL_COUNT];
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    sbx_host_judge(&cgroups, controls);
    assert_int_equal(controls[SBX_CONTROL_SWAP], SBX_GAP);
    assert_int_equal(controls[SBX_CONTROL_MEMORY], SBX_ENFORCED);
    assert_int_equal(sbx_gaps_check_all(controls, "memory", &err), -ENOTSUP);
    assert_int_equal(sbx_gaps_check_all(controls, "swap", &err), 0);
}

static void an_unknown_control_cannot_be_accepted(void **state)
{
    static const char *const lists[] = {"swap,mem", ",", "SWAP", "swap, memory"};
    uint8_t controls[SBX_CONTROL_COUNT];
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    memset(controls, SBX_ENFORCED, sizeof(controls));
    assert_int_equal(sbx_gaps_check_all(controls, "everything", &err), -EINVAL);
    assert_string_equal(err.text, "--accept-gap: 'everything' is no control");
    for (size_t i = 0; i < CR_ARRAY_SIZE(lists); i++)
        assert_int_equal(sbx_gaps_check_all(controls, lists[i], &err), -EINVAL);
}

static void slots_follow_cores_and_memory(void **state)
{
    static const struct {
        uint64_t asked;
        long cores;
        uint64_t memory;
        uint32_t slots;
    } cases[] = {
        {0, 1, 16 * GIB, 2}, {0, 2, 16 * GIB, 2}, {0, 8, 16 * GIB, 8},
        {0, 8, 1 * GIB, 4},  {0, 8, GIB / 8, 1},  {0, 500, 999 * GIB, 64},
        {5, 2, GIB, 5},      {99, 2, GIB, 64},    {0, -1, 16 * GIB, 2},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++)
        assert_int_equal(sbx_host_slots(cases[i].asked, cases[i].cores, cases[i].memory, 64),
                         cases[i].slots);
}

/* With the kernel's own hard limit every slot can be had; with 1,024 files not even two on v1. */
static void open_files_are_counted_for_all_groups(void **state)
{
    struct sbx_cgroup_host cgroups;
    uint64_t few;

    (void)state;
    sbx_cgroup_host_init(&cgroups, &sbx_cgroup_v1);
    cgroups.hierarchy_count = SBX_CONTROLLER_COUNT;
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        cgroups.hierarchy[i] = i;
    few = sbx_host_files(&cgroups, 2, 31, 33);
    assert_in_range(few, 1050 + 2 * 5 + 1, 1300);
    assert_in_range(sbx_host_files(&cgroups, 64, 93, 95), 3000, 4096);
    assert_in_range(sbx_host_files(&cgroups, 64, 150, 152), 4500, 6000);

    /* What is not there is not open: folder, entry and state of each group. */
    cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    cgroups.hierarchy_count--;
    assert_int_equal(sbx_host_files(&cgroups, 2, 31, 33), few - UINT64_C(3) * 33);
    sbx_cgroup_host_watch(&cgroups);
    assert_in_range(sbx_host_files(&cgroups, 2, 31, 33), 100, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_host_enforces_everything),
        cmocka_unit_test(an_ordinary_user_accepts_each_loss_by_name),
        cmocka_unit_test(with_ids_of_their_own_boxes_lose_less),
        cmocka_unit_test(delegated_groups_give_back_what_they_count),
        cmocka_unit_test(ids_beside_the_own_one_are_counted),
        cmocka_unit_test(each_missing_piece_is_a_gap_with_a_name),
        cmocka_unit_test(swap_accounting_is_a_control_of_its_own),
        cmocka_unit_test(an_unknown_control_cannot_be_accepted),
        cmocka_unit_test(slots_follow_cores_and_memory),
        cmocka_unit_test(open_files_are_counted_for_all_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
