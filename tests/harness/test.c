/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/test.h"

#include <dirent.h>

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
