/* SPDX-License-Identifier: Apache-2.0 */

/* What of the control groups of a host is ours, on ordinary files in folders of the test. */
#include "common/auto.h"
#include "common/err.h"
#include "tests/unit/sandboxd/backend/cgroup_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

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
        struct cgroup_folder folder;

        cgroup_folder_open(&folder, rows[i].ops);
        assert_int_equal(sbx_cgroup_freeze(&folder.group, true), -ENOENT);
        cgroup_folder_put(&folder, rows[i].file, "");
        assert_int_equal(sbx_cgroup_freeze(&folder.group, true), 0);
        cgroup_folder_expect(&folder, rows[i].file, rows[i].on);
        cgroup_folder_put(&folder, rows[i].frozen, rows[i].not_yet);
        assert_false(sbx_cgroup_is_frozen(&folder.group));
        cgroup_folder_put(&folder, rows[i].frozen, rows[i].is_so);
        assert_true(sbx_cgroup_is_frozen(&folder.group));
        cgroup_folder_put(&folder, rows[i].file, "");
        assert_int_equal(sbx_cgroup_freeze(&folder.group, false), 0);
        cgroup_folder_expect(&folder, rows[i].file, rows[i].off);
        cgroup_folder_close(&folder, names);
    }
}

static void a_host_without_a_freezer_says_so(void **state)
{
    static const char *const names[] = {"freezer.state", NULL};
    struct cgroup_folder folder;

    (void)state;
    cgroup_folder_open(&folder, &sbx_cgroup_v1);
    assert_true(sbx_cgroup_can_freeze(&folder.host));
    folder.host.hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    cgroup_folder_put(&folder, "freezer.state", "FROZEN\n");
    assert_false(sbx_cgroup_can_freeze(&folder.host));
    assert_int_equal(sbx_cgroup_freeze(&folder.group, true), -EOPNOTSUPP);
    assert_false(sbx_cgroup_is_frozen(&folder.group));
    sbx_cgroup_keep_frozen_one(&folder.host, folder.fd);
    cgroup_folder_close(&folder, names); /* nothing else is in it */
}

/* Two hierarchies of version 1, the second of which was not given to us: none can be made in a
 * folder that is gone. */
static int open_two(struct sbx_cgroup_host *host, enum sbx_controller second, bool is_joined)
{
    char first_path[TEST_PATH_SIZE];
    char second_path[TEST_PATH_SIZE];
    struct cr_err err = CR_ERR_INIT;
    int r;

    sbx_cgroup_host_init(host, &sbx_cgroup_v1);
    (void)snprintf(host->base_name, sizeof(host->base_name), "base");
    test_folder_make(first_path, sizeof(first_path));
    test_folder_make(second_path, sizeof(second_path));
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
    struct cgroup_folder folder; /* our own group */
    struct cgroup_folder base;   /* BASE in it; the kernel would fill it with these files */
};

static void open_delegated(struct delegated *delegated, bool with_swap, bool with_cpu)
{
    struct cgroup_folder *folder = &delegated->folder;
    struct cgroup_folder *base = &delegated->base;

    cgroup_folder_open(folder, &sbx_cgroup_v2);
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        folder->host.own_fds[i] = -1;
        folder->host.base_fds[i] = -1;
    }
    folder->host.own_fds[0] = dup(folder->fd);
    folder->host.hierarchy[SBX_CONTROLLER_CPU] = with_cpu ? 0 : -1;
    (void)snprintf(folder->host.base_name, sizeof(folder->host.base_name), BASE);
    cgroup_folder_put(folder, "cgroup.subtree_control", "");
    assert_int_equal(mkdirat(folder->fd, BASE, 0700), 0);
    *base =
        (struct cgroup_folder){.fd = openat(folder->fd, BASE, O_DIRECTORY | O_RDONLY | O_CLOEXEC)};
    cgroup_folder_put(base, "cgroup.subtree_control", "");
    if (with_swap)
        cgroup_folder_put(base, "memory.swap.max", "max\n");
}

static void close_delegated(struct delegated *delegated)
{
    static const char *const names[] = {"cgroup.subtree_control", "cgroup.procs", NULL};

    (void)unlinkat(delegated->base.fd, "cgroup.subtree_control", 0);
    (void)unlinkat(delegated->base.fd, "memory.swap.max", 0);
    (void)unlinkat(delegated->base.fd, "cgroup.freeze", 0);
    assert_int_equal(close(delegated->base.fd), 0);
    (void)unlinkat(delegated->folder.fd, BASE, AT_REMOVEDIR);
    (void)unlinkat(delegated->folder.fd, "crisol-main", AT_REMOVEDIR);
    sbx_cgroup_host_close(&delegated->folder.host);
    cgroup_folder_close(&delegated->folder, names);
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
        cgroup_folder_expect(&delegated.folder, "cgroup.subtree_control", rows[i].enabled);
        cgroup_folder_expect(&delegated.base, "cgroup.subtree_control", rows[i].enabled);
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
    cgroup_folder_put(&delegated.folder, "cgroup.procs", "");
    assert_int_equal(unlinkat(delegated.folder.fd, "cgroup.subtree_control", 0), 0);
    assert_int_equal(sbx_cgroup_host_open(&delegated.folder.host, &err), -ENOENT);
    assert_non_null(strstr(err.text, "Delegate=yes"));
    close_delegated(&delegated);
}

/* Version 2 is asked, too: not each that looks like it can freeze. */
static void a_delegated_group_is_asked_whether_it_can_be_frozen(void **state)
{
    (void)state;
    for (int can_freeze = 0; can_freeze < 2; can_freeze++) {
        struct cr_err err = CR_ERR_INIT;
        struct delegated delegated;

        open_delegated(&delegated, true, true);
        if (can_freeze)
            cgroup_folder_put(&delegated.base, "cgroup.freeze", "0\n");
        assert_int_equal(sbx_cgroup_host_open(&delegated.folder.host, &err), 0);
        assert_int_equal(sbx_cgroup_can_freeze(&delegated.folder.host), can_freeze);
        close_delegated(&delegated);
    }
}

/* Whoever freezes groups of others asks its own; the root of all has neither file. */
static void one_who_observes_asks_its_own_group(void **state)
{
    static const struct {
        const char *const names[3];
        bool can_freeze;
    } rows[] = {
        {{NULL}, true},
        {{"cgroup.events", NULL}, false},
        {{"cgroup.events", "cgroup.freeze", NULL}, true},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct cgroup_folder folder;

        cgroup_folder_open(&folder, &sbx_cgroup_v2);
        folder.host.own_fds[0] = folder.fd;
        for (size_t j = 0; rows[i].names[j]; j++)
            cgroup_folder_put(&folder, rows[i].names[j], "");
        sbx_cgroup_host_observe(&folder.host);
        assert_int_equal(sbx_cgroup_can_freeze(&folder.host), rows[i].can_freeze);
        cgroup_folder_close(&folder, rows[i].names);
    }
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

static void no_fd_is_left_open(void **state)
{
    int before = test_count_fds();

    a_delegated_group_is_used_below_itself(state);
    the_leaf_of_a_predecessor_is_left(state);
    assert_int_equal(test_count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_frozen_when_the_kernel_says_so),
        cmocka_unit_test(a_host_without_a_freezer_says_so),
        cmocka_unit_test(a_freezer_of_somebody_else_is_none),
        cmocka_unit_test(a_delegated_group_is_used_below_itself),
        cmocka_unit_test(a_group_that_is_not_delegated_says_how_to_get_one),
        cmocka_unit_test(a_delegated_group_is_asked_whether_it_can_be_frozen),
        cmocka_unit_test(one_who_observes_asks_its_own_group),
        cmocka_unit_test(the_leaf_of_a_predecessor_is_left),
        cmocka_unit_test(no_fd_is_left_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
