/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/wait.h>

#define SLOWNESS_MAX 100

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

unsigned int test_slowness(void)
{
    const char *text = getenv("CRISOL_SLOW_HOST"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    unsigned long value = text ? strtoul(text, NULL, 10) : 1;

    assert_in_range(value, 1, SLOWNESS_MAX);
    return (unsigned int)value;
}
