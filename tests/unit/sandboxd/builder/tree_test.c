/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/builder/tree.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

/* A folder "a" and a folder "b" in a folder of their own. */
struct folders {
    char path[40];
    int fd;
    int a;
    int b;
};

static int open_folder(int parent_fd, const char *name)
{
    return mkdirat(parent_fd, name, 0755) < 0 ? -1
                                              : openat(parent_fd, name, O_RDONLY | O_DIRECTORY);
}

static int make_folders(void **state)
{
    static struct folders folders;

    test_folder_make(folders.path, sizeof(folders.path));
    folders.fd = open(folders.path, O_RDONLY | O_DIRECTORY);
    folders.a = open_folder(folders.fd, "a");
    folders.b = open_folder(folders.fd, "b");
    *state = &folders;
    return folders.b < 0 ? -1 : 0;
}

static int remove_folders(void **state)
{
    struct folders *folders = *state;
    int r = sbx_tree_remove(folders->fd, "a") + sbx_tree_remove(folders->fd, "b") +
            sbx_tree_remove(folders->fd, "outside");

    (void)close(folders->a);
    (void)close(folders->b);
    (void)close(folders->fd);
    return r == 0 && rmdir(folders->path) == 0 ? 0 : -1;
}

static void write_file(int folder_fd, const char *name, const char *text)
{
    CR_AUTO_CLOSE int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool is_there(int folder_fd, const char *name)
{
    return faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void fill(int fd)
{
    assert_int_equal(mkdirat(fd, "usr", 0755), 0);
    write_file(fd, "usr/one", "1");
    write_file(fd, "usr/two", "2");
    assert_int_equal(symlinkat("one", fd, "usr/link"), 0);
}

static void digest(int fd, char ret_digest[SBX_ROOT_DIGEST_SIZE])
{
    assert_int_equal(sbx_tree_digest(fd, ret_digest, NULL), 0);
    assert_true(sbx_root_digest_is_valid(ret_digest));
}

static void must_differ(const struct folders *folders)
{
    char a[SBX_ROOT_DIGEST_SIZE];
    char b[SBX_ROOT_DIGEST_SIZE];

    digest(folders->a, a);
    digest(folders->b, b);
    assert_string_not_equal(a, b);
}

static void digest_sees_contents_names_modes_and_links(void **state)
{
    const struct folders *folders = *state;
    char a[SBX_ROOT_DIGEST_SIZE];
    char b[SBX_ROOT_DIGEST_SIZE];

    fill(folders->a);
    fill(folders->b);
    digest(folders->a, a);
    digest(folders->b, b);
    assert_string_equal(a, b);
    assert_int_equal(sbx_tree_bytes(folders->a), 2);

    write_file(folders->b, "usr/one", "3");
    must_differ(folders);
    write_file(folders->b, "usr/one", "1");
    assert_int_equal(fchmodat(folders->b, "usr/one", 0755, 0), 0);
    must_differ(folders);
    assert_int_equal(fchmodat(folders->b, "usr/one", 0644, 0), 0);
    assert_int_equal(renameat(folders->b, "usr/one", folders->b, "one"), 0); /* up a folder */
    must_differ(folders);
    assert_int_equal(renameat(folders->b, "one", folders->b, "usr/one"), 0);
    assert_int_equal(unlinkat(folders->b, "usr/link", 0), 0);
    assert_int_equal(symlinkat("two", folders->b, "usr/link"), 0);
    must_differ(folders);
}

static void clean_leaves_what_a_sandbox_may_have(void **state)
{
    const struct folders *folders = *state;
    struct stat info;

    if (geteuid() != 0)
        skip();
    fill(folders->a);
    assert_int_equal(mkdirat(folders->a, "var", 0755), 0);
    write_file(folders->a, "var/cache", "x");
    write_file(folders->a, "usr/su", "x");
    assert_int_equal(fchmodat(folders->a, "usr/su", 06777, 0), 0);
    assert_int_equal(fchownat(folders->a, "usr/su", 1000, 1000, 0), 0);
    assert_int_equal(mkfifoat(folders->a, "usr/pipe", 0644), 0);
    write_file(folders->fd, "outside", "x");
    assert_int_equal(fchmodat(folders->fd, "outside", 04777, 0), 0);
    assert_int_equal(symlinkat("../../outside", folders->a, "usr/out"), 0);

    assert_int_equal(sbx_tree_clean(folders->a, NULL), 0);
    assert_false(is_there(folders->a, "var"));
    assert_false(is_there(folders->a, "usr/pipe"));
    assert_true(is_there(folders->a, "usr/out"));
    assert_int_equal(fstatat(folders->a, "usr/su", &info, 0), 0);
    assert_int_equal(info.st_mode & 07777U, 0755);
    assert_int_equal(info.st_uid, 0);
    assert_int_equal(fstatat(folders->fd, "outside", &info, 0), 0);
    assert_int_equal(info.st_mode & 07777U, 04777); /* no link was followed */
}

static void layers_replace_hide_and_merge(void **state)
{
    const struct folders *folders = *state;

    fill(folders->a);
    assert_int_equal(mkdirat(folders->a, "opt", 0755), 0);
    write_file(folders->a, "opt/old", "x");
    assert_int_equal(mkdirat(folders->b, "usr", 0700), 0);
    write_file(folders->b, "usr/.wh.one", "");
    write_file(folders->b, "usr/three", "3");
    assert_int_equal(mkdirat(folders->b, "usr/two", 0755), 0); /* a folder where a file was */
    assert_int_equal(mkdirat(folders->b, "opt", 0755), 0);
    write_file(folders->b, "opt/.wh..wh..opq", "");
    write_file(folders->b, "opt/new", "x");

    assert_int_equal(sbx_tree_lay_over(folders->a, folders->b), 0);
    assert_false(is_there(folders->a, "usr/one"));
    assert_false(is_there(folders->a, "usr/.wh.one"));
    assert_true(is_there(folders->a, "usr/three"));
    assert_true(is_there(folders->a, "usr/link"));
    assert_int_equal(unlinkat(folders->a, "usr/two", AT_REMOVEDIR), 0);
    assert_false(is_there(folders->a, "opt/old"));
    assert_true(is_there(folders->a, "opt/new"));
}

/* A lower layer made a folder a link to the outside; an upper one writes through it. */
static void layers_do_not_leave_the_tree(void **state)
{
    const struct folders *folders = *state;

    assert_int_equal(mkdirat(folders->fd, "outside", 0755), 0);
    write_file(folders->fd, "outside/mine", "x");
    assert_int_equal(symlinkat("../outside", folders->a, "etc"), 0);
    assert_int_equal(mkdirat(folders->b, "etc", 0755), 0);
    write_file(folders->b, "etc/.wh..wh..opq", "");
    write_file(folders->b, "etc/theirs", "x");
    assert_int_equal(sbx_tree_lay_over(folders->a, folders->b), 0);
    assert_true(is_there(folders->fd, "outside/mine"));
    assert_false(is_there(folders->fd, "outside/theirs"));
    assert_true(is_there(folders->a, "etc/theirs"));

    write_file(folders->b, ".wh...", "");
    assert_int_equal(sbx_tree_lay_over(folders->a, folders->b), -EINVAL);
    assert_true(is_there(folders->fd, "outside/mine"));
}

/* One that is refused for its depth has to go, too. */
static void what_is_too_deep_to_be_walked_is_removed(void **state)
{
    const struct folders *folders = *state;
    char unused[SBX_ROOT_DIGEST_SIZE];
    int fd = dup(folders->a);

    for (int i = 0; i < 200; i++) {
        int below;

        write_file(fd, "file", "x");
        assert_int_equal(mkdirat(fd, "lifted-0", 0755), 0); /* names that are taken, and none */
        assert_int_equal(mkdirat(fd, "deeper", 0755), 0);   /* that are links */
        assert_int_equal(symlinkat("..", fd, "up"), 0);
        below = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
        assert_true(below >= 0);
        assert_int_equal(close(fd), 0);
        fd = below;
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(sbx_tree_digest(folders->a, unused, NULL), -ELOOP);
    assert_int_equal(sbx_tree_remove(folders->fd, "a"), 0);
    assert_false(is_there(folders->fd, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(digest_sees_contents_names_modes_and_links, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(clean_leaves_what_a_sandbox_may_have, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(layers_replace_hide_and_merge, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(layers_do_not_leave_the_tree, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(what_is_too_deep_to_be_walked_is_removed, make_folders,
                                        remove_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
