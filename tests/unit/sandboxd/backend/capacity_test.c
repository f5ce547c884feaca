/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/capacity.h"
#include "sandboxd/backend/cgroup.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <string.h>

#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Two control groups, one in the other, in a folder that is none. */
struct tree {
    char path[64];
    int outer;
    int inner;
};

static int open_group(int parent, const char *name)
{
    assert_int_equal(mkdirat(parent, name, 0700), 0);
    return openat(parent, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
}

static void write_file(int fd, const char *name, const char *text)
{
    CR_AUTO_CLOSE int file = openat(fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(write(file, text, strlen(text)), strlen(text));
}

static int make_tree(void **state)
{
    static struct tree tree;
    CR_AUTO_CLOSE int root = -1;

    tree = (struct tree){.path = ""};
    test_folder_make(tree.path, sizeof(tree.path));
    root = open(tree.path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    write_file(root, "memory.max", "1\n"); /* no group, so it does not count */
    write_file(root, "memory.limit_in_bytes", "1\n");
    tree.outer = open_group(root, "outer");
    tree.inner = open_group(tree.outer, "inner");
    write_file(tree.outer, "cgroup.procs", "");
    write_file(tree.inner, "cgroup.procs", "");
    *state = &tree;
    return 0;
}

static int remove_tree(void **state)
{
    struct tree *tree = *state;

    (void)close(tree->outer);
    (void)close(tree->inner);
    return test_remove_tree(tree->path);
}

static void memory_is_the_least_of_all_groups_above(void **state)
{
    struct tree *tree = *state;
    const int fds = test_count_fds();

    assert_int_equal(sbx_capacity_memory(tree->inner, 2, 8 * GIB), 8 * GIB);
    write_file(tree->inner, "memory.max", "max\n");
    assert_int_equal(sbx_capacity_memory(tree->inner, 2, 8 * GIB), 8 * GIB);
    write_file(tree->outer, "memory.max", "536870912\n");
    assert_int_equal(sbx_capacity_memory(tree->inner, 2, 8 * GIB), 512 * MIB);
    write_file(tree->inner, "memory.max", "268435456\n");
    assert_int_equal(sbx_capacity_memory(tree->inner, 2, 8 * GIB), 256 * MIB);

    write_file(tree->inner, "memory.limit_in_bytes", "9223372036854771712\n"); /* v1: none */
    assert_int_equal(sbx_capacity_memory(tree->inner, 1, 8 * GIB), 8 * GIB);
    write_file(tree->outer, "memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(sbx_capacity_memory(tree->inner, 1, 8 * GIB), GIB);
    assert_int_equal(test_count_fds(), fds);
}

static void the_tightest_quota_counts_in_thousandths_of_a_core(void **state)
{
    struct tree *tree = *state;

    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), SBX_CAPACITY_NO_QUOTA);
    write_file(tree->inner, "cpu.max", "max 100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), SBX_CAPACITY_NO_QUOTA);
    write_file(tree->outer, "cpu.max", "250000 100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), 2500);
    write_file(tree->inner, "cpu.max", "66666 100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), 666);
    write_file(tree->inner, "cpu.max", "1 100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), 1);

    write_file(tree->inner, "cpu.cfs_quota_us", "-1\n");
    write_file(tree->inner, "cpu.cfs_period_us", "100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 1), SBX_CAPACITY_NO_QUOTA);
    write_file(tree->inner, "cpu.cfs_quota_us", "200000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 1), 2000);
}

static struct sbx_capacity capacity_of(const struct tree *tree)
{
    struct sbx_cgroup_host host = {.ops = &sbx_cgroup_v2};
    struct sbx_capacity capacity;

    host.hierarchy[SBX_CONTROLLER_MEMORY] = -1;
    host.hierarchy[SBX_CONTROLLER_CPU] = 0;
    host.own_fds[0] = tree->inner;
    sbx_capacity_read(&host, &capacity);
    return capacity;
}

static void cores_are_the_quota_rounded_up(void **state)
{
    const struct tree *tree = *state;
    struct sbx_capacity machine;

    sbx_capacity_machine(&machine);
    assert_true(machine.cores > 0);
    assert_int_equal(machine.millicores, SBX_CAPACITY_NO_QUOTA);
    assert_int_equal(capacity_of(tree).cores, machine.cores);
    write_file(tree->inner, "cpu.max", "100100 100000\n");
    assert_int_equal(capacity_of(tree).cores, machine.cores < 2 ? 1 : 2);
    write_file(tree->inner, "cpu.max", "1000 100000\n");
    assert_int_equal(capacity_of(tree).cores, 1);
    assert_int_equal(capacity_of(tree).millicores, 10);
}

static void numbers_that_are_none_are_no_limit(void **state)
{
    struct tree *tree = *state;
    static const char *const bad[] = {"", "\n", "-5\n", "x", "99999999999999999999999\n"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        write_file(tree->inner, "memory.max", bad[i]);
        write_file(tree->inner, "cpu.max", bad[i]);
        assert_int_equal(sbx_capacity_memory(tree->inner, 2, GIB), GIB);
        assert_int_equal(sbx_capacity_millicores(tree->inner, 2), SBX_CAPACITY_NO_QUOTA);
    }
    write_file(tree->inner, "cpu.max", "5 0\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), SBX_CAPACITY_NO_QUOTA);
    write_file(tree->inner, "cpu.max", "18446744073709551615 100000\n");
    assert_int_equal(sbx_capacity_millicores(tree->inner, 2), SBX_CAPACITY_NO_QUOTA);
}

static void runs_get_all_but_an_eighth(void **state)
{
    (void)state;
    assert_int_equal(sbx_capacity_for_runs(GIB), 896 * MIB);
    assert_int_equal(sbx_capacity_for_runs(0), 0);
}

#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(memory_is_the_least_of_all_groups_above),
        TREE_TEST(the_tightest_quota_counts_in_thousandths_of_a_core),
        TREE_TEST(cores_are_the_quota_rounded_up),
        TREE_TEST(numbers_that_are_none_are_no_limit),
        cmocka_unit_test(runs_get_all_but_an_eighth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
