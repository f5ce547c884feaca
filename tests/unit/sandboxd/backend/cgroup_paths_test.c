/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/cgroup_paths.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static const char hybrid[] = "9:name=systemd:/\n"
                             "8:pids:/jobs/one\n"
                             "4:memory:/api/15:36\n"
                             "2:cpu,cpuacct:/\n"
                             "0::/unified/own\n";

static const char mounts[] =
    "25 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
    "30 25 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    "31 25 0:28 / /sys/fs/cgroup/memory rw shared:10 master:2 - cgroup cgroup rw,memory\n"
    "32 25 0:29 /jobs /sys/fs/cgroup/pids\\040x rw - cgroup cgroup rw,pids\n"
    "33 25 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "garbage line\n"
    "34 25 0:31 /elsewhere /mnt/freezer rw - cgroup cgroup rw,freezer\n";

static void the_own_path_is_found_by_controller(void **state)
{
    static const struct {
        const char *controller;
        const char *path; /* NULL: not there */
    } cases[] = {
        {"pids", "/jobs/one"},  {"memory", "/api/15:36"}, {"cpu", "/"}, {"cpuacct", "/"},
        {NULL, "/unified/own"}, {"cpuset", NULL},         {"cp", NULL}, {"systemd", NULL},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        char path[64] = "";
        int r = sbx_cgroup_own_path(hybrid, cases[i].controller, path, sizeof(path));

        assert_int_equal(r, cases[i].path ? 0 : -ENOENT);
        assert_string_equal(path, cases[i].path ? cases[i].path : "");
    }
}

static void the_folder_is_mount_point_and_path(void **state)
{
    static const struct {
        const char *controller;
        const char *own;
        const char *folder; /* NULL: not there */
    } cases[] = {
        {"memory", "/", "/sys/fs/cgroup/memory"},
        {"memory", "/api/1", "/sys/fs/cgroup/memory/api/1"},
        {"cpuacct", "/", "/sys/fs/cgroup/cpu,cpuacct"},
        {NULL, "/a.slice/b", "/sys/fs/cgroup/unified/a.slice/b"},
        {"pids", "/jobs", "/sys/fs/cgroup/pids x"}, /* a container: the mount shows a part */
        {"pids", "/jobs/one", "/sys/fs/cgroup/pids x/one"},
        {"pids", "/jobsone", NULL},
        {"freezer", "/", NULL},
        {"hugetlb", "/", NULL},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        char folder[64] = "";
        int r =
            sbx_cgroup_directory(mounts, cases[i].controller, cases[i].own, folder, sizeof(folder));

        assert_int_equal(r, cases[i].folder ? 0 : -ENOENT);
        assert_string_equal(folder, cases[i].folder ? cases[i].folder : "");
    }
}

static void texts_that_do_not_fit_are_refused(void **state)
{
    char path[8];

    (void)state;
    assert_int_equal(sbx_cgroup_own_path(hybrid, "pids", path, sizeof(path)), -ENAMETOOLONG);
    assert_int_equal(sbx_cgroup_directory(mounts, "memory", "/", path, sizeof(path)),
                     -ENAMETOOLONG);
}

static void any_text_is_survived(void **state)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        ":",
                                        "::",
                                        "a:b",
                                        "1:pids",
                                        " - ",
                                        "x - cgroup",
                                        "1 2 3 - cgroup a rw,pids",
                                        "\\1 - cgroup2 a b"};
    char path[64];

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(texts); i++) {
        assert_int_equal(sbx_cgroup_own_path(texts[i], "pids", path, sizeof(path)), -ENOENT);
        assert_int_equal(sbx_cgroup_directory(texts[i], "pids", "/", path, sizeof(path)), -ENOENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_path_is_found_by_controller),
        cmocka_unit_test(the_folder_is_mount_point_and_path),
        cmocka_unit_test(texts_that_do_not_fit_are_refused),
        cmocka_unit_test(any_text_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
