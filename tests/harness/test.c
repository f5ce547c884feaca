/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#define SLOWNESS_MAX 100

/* What all folders of this process are in. */
static struct {
    char path[TEST_PATH_SIZE];
    pid_t owner; /* 0: there is none yet */
    unsigned int count;
} root;

int test_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    assert_int_equal(closedir(dir), 0);
    return count - 1; /* the one of opendir */
}

int test_remove_tree(const char *path)
{
    const pid_t pid = fork();
    int status;

    if (pid == 0) {
        (void)execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

/* A child of the process that made it leaves it alone. */
static void remove_root(void)
{
    if (root.owner == getpid() && rmdir(root.path) < 0)
        (void)test_remove_tree(root.path);
}

static void make_root(void)
{
    (void)snprintf(root.path, sizeof(root.path), "/tmp/crisol-test-XXXXXX");
    assert_non_null(mkdtemp(root.path));
    root.owner = getpid();
    assert_int_equal(atexit(remove_root), 0);
    assert_int_equal(chmod(root.path, 0711), 0); /* some tests look into theirs as another user */
}

void test_folder_make(char *path, size_t size)
{
    if (root.owner != getpid())
        make_root();
    assert_true(snprintf(path, size, "%s/%u", root.path, root.count++) < (int)size);
    assert_int_equal(mkdir(path, 0700), 0);
}

int test_file_make(char *path, size_t size)
{
    char folder[TEST_PATH_SIZE];
    int fd;

    test_folder_make(folder, sizeof(folder));
    assert_true(snprintf(path, size, "%s/f", folder) < (int)size);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

unsigned int test_slowness(void)
{
    const char *text = getenv("CRISOL_SLOW_HOST"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    unsigned long value = text ? strtoul(text, NULL, 10) : 1;

    assert_in_range(value, 1, SLOWNESS_MAX);
    return (unsigned int)value;
}
