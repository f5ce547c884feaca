/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/builder/build.h"
#include "sandboxd/builder/room.h"
#include "sandboxd/builder/tool.h"
#include "sandboxd/builder/tree.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#define BUILD_MS 30000

static const struct sbx_room all_room = {.most_bytes = UINT64_MAX};

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    CR_AUTO_CLOSE int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void make_folder(const char *folder, const char *name)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_link(const char *folder, const char *target, const char *name)
{
    char from[PATH_MAX];
    char to[PATH_MAX];

    (void)snprintf(from, sizeof(from), "%s/%s", folder, target);
    (void)snprintf(to, sizeof(to), "%s/%s", folder, name);
    assert_int_equal(symlink(from, to), 0);
}

/* Its etc is a link to where the files of the host are: what pip needs for its time goes nowhere
 * but into the tree, and nothing is taken away elsewhere. */
static void build_follows_no_link_out_of_the_tree(void **state)
{
    static const char *const none[] = {NULL};
    static const struct sbx_runtime runtime = {
        .recipe = {.packages = none, .folder = "tree", .requirements = "requirements"}};
    char folder[TEST_PATH_SIZE];
    char root[PATH_MAX];
    char path[PATH_MAX];
    struct sbx_build build = {
        .runtime = &runtime, .source_folder = folder, .folder = folder, .room = &all_room};
    struct cr_err err = CR_ERR_INIT;
    CR_AUTO_CLOSE int output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct stat info;

    (void)state;
    test_folder_make(folder, sizeof(folder));
    make_folder(folder, "tree");
    make_folder(folder, "tree/tmp");
    make_folder(folder, "outside");
    make_link(folder, "outside", "tree/etc");
    write_file(folder, "requirements", "nothing\n");
    write_file(folder, "outside/resolv.conf", "the host's\n");
    (void)snprintf(root, sizeof(root), "%s/root", folder);
    build.root = root;
    build.output_fd = output_fd;
    build.deadline_ns = cr_clock_mono_ns() + BUILD_MS * CR_NS_PER_MS;

    assert_true(sbx_build_root(&build, &err) < 0); /* there is no pip */

    (void)snprintf(path, sizeof(path), "%s/outside/resolv.conf", folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, strlen("the host's\n"));
    (void)snprintf(path, sizeof(path), "%s/outside/hosts", folder);
    assert_int_equal(stat(path, &info), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build_follows_no_link_out_of_the_tree),
    };

    if (geteuid() != 0)
        return 77;
    if (sbx_tool_block_signals(NULL) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
