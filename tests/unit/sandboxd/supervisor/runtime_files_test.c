/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/runtimes/bundle.h"
#include "sandboxd/supervisor/runtime_files.h"
#include "tests/harness/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#define LUA "name = lua\ndescription = Lua\nargv = /usr/bin/lua\n"

struct folder {
    char path[40];
    int fd;
    int fds; /* that were open before */
};

static int make_folder(void **state)
{
    static struct folder folder;

    folder.fds = test_count_fds();
    test_folder_make(folder.path, sizeof(folder.path));
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &folder;
    return folder.fd < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    DIR *dir = fdopendir(folder->fd); /* takes it */

    if (!dir)
        return -1;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this stream
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    return rmdir(folder->path) == 0 && test_count_fds() == folder->fds ? 0 : -1;
}

static void write_file(const struct folder *folder, const char *name, const char *text)
{
    CR_AUTO_CLOSE int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void must_refuse(const struct folder *folder, int code, const char *text)
{
    struct cr_err err = CR_ERR_INIT;
    char begin[64];

    (void)snprintf(begin, sizeof(begin), "--runtimes-dir '%s': ", folder->path);
    assert_int_equal(sbx_runtime_files_open(folder->path, NULL, &err), code);
    assert_int_equal(strncmp(err.text, begin, strlen(begin)), 0);
    if (strncmp(err.text + strlen(begin), text, strlen(text)) != 0)
        fail_msg("'%s' has not '%s…'", err.text, text);
}

/* Files can be root's only when root makes them. */
static void skip_without_root(void)
{
    if (geteuid() != 0)
        skip();
}

static void files_of_the_folder_become_a_bundle(void **state)
{
    const struct folder *folder = *state;
    struct sbx_runtime_table table;
    char data[4096];
    CR_AUTO_CLOSE int fd = -1;
    ssize_t size;

    skip_without_root();
    write_file(folder, "lua.runtime", LUA);
    write_file(folder, "awk.runtime", "name = awk\ndescription = d\nargv = /usr/bin/awk\n");
    write_file(folder, "lua.runtime.bak", "is no runtime file");

    fd = sbx_runtime_files_open(folder->path, NULL, NULL);

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    size = pread(fd, data, sizeof(data), 0);
    assert_true(size > 0);
    sbx_runtime_table_init(&table);
    assert_int_equal(sbx_bundle_read(data, (size_t)size, &table, NULL), 0);
    assert_int_equal(table.count, 13);
    sbx_runtime_table_done(&table);
}

static void files_that_are_wrong_are_named_with_their_line(void **state)
{
    const struct folder *folder = *state;

    skip_without_root();
    write_file(folder, "a.runtime", LUA);
    write_file(folder, "b.runtime", LUA "\ncolour = red\n");
    must_refuse(folder, -EINVAL, "b.runtime:5: 'colour' is no key");
    write_file(folder, "b.runtime", LUA);
    must_refuse(folder, -EINVAL, "b.runtime:1: name: there is a runtime 'lua' already");
}

static void files_that_others_could_change_are_refused(void **state)
{
    const struct folder *folder = *state;

    skip_without_root();
    write_file(folder, "a.runtime", LUA);
    assert_int_equal(fchmodat(folder->fd, "a.runtime", 0664, 0), 0);
    must_refuse(folder, -EPERM, "a.runtime: others than root can write it: chmod go-w it");
    assert_int_equal(fchmodat(folder->fd, "a.runtime", 0644, 0), 0);
    assert_int_equal(fchownat(folder->fd, "a.runtime", 1000, 0, 0), 0);
    must_refuse(folder, -EPERM, "a.runtime: belongs to user 1000: chown root it");
    assert_int_equal(fchownat(folder->fd, "a.runtime", 0, 0, 0), 0);
    assert_int_equal(fchmod(folder->fd, 0777), 0);
    must_refuse(folder, -EPERM, "the folder: others than root can write it");
    assert_int_equal(fchmod(folder->fd, 0700), 0);
    assert_int_equal(fchown(folder->fd, 1000, (gid_t)-1), 0);
    must_refuse(folder, -EPERM, "the folder: belongs to user 1000");
    assert_int_equal(fchown(folder->fd, 0, (gid_t)-1), 0);
}

static void files_of_other_kinds_are_refused(void **state)
{
    static char large[SBX_RUNTIME_FILE_MAX + 2];
    const struct folder *folder = *state;

    skip_without_root();
    assert_int_equal(symlinkat("/etc/shadow", folder->fd, "a.runtime"), 0);
    must_refuse(folder, -ELOOP, "a.runtime: is a symbolic link: copy the file here");
    assert_int_equal(unlinkat(folder->fd, "a.runtime", 0), 0);
    assert_int_equal(mkfifoat(folder->fd, "a.runtime", 0600), 0);
    must_refuse(folder, -EINVAL, "a.runtime: is no regular file");
    assert_int_equal(unlinkat(folder->fd, "a.runtime", 0), 0);
    write_file(folder, "a b.runtime", LUA);
    must_refuse(folder, -EINVAL, "a file has a name that is too long or has other characters");
    assert_int_equal(unlinkat(folder->fd, "a b.runtime", 0), 0);
    memset(large, '#', sizeof(large) - 1);
    write_file(folder, "a.runtime", large);
    must_refuse(folder, -EFBIG, "a.runtime: is larger than the maximum of 16384 bytes");
}

static void files_are_not_looked_for_where_there_is_no_folder(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(sbx_runtime_files_open("/nowhere", NULL, &err), -ENOENT);
    assert_int_equal(sbx_runtime_files_open("/etc/passwd", NULL, &err), -ENOTDIR);
}

#define FOLDER_TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(files_of_the_folder_become_a_bundle),
        FOLDER_TEST(files_that_are_wrong_are_named_with_their_line),
        FOLDER_TEST(files_that_others_could_change_are_refused),
        FOLDER_TEST(files_of_other_kinds_are_refused),
        cmocka_unit_test(files_are_not_looked_for_where_there_is_no_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
