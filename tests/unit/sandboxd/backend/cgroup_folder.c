/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sandboxd/backend/cgroup_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cgroup_folder_open(struct cgroup_folder *folder, const struct sbx_cgroup_ops *ops)
{
    *folder = (struct cgroup_folder){.path = ""};
    test_folder_make(folder->path, sizeof(folder->path));
    folder->fd = open(folder->path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
    folder->host = (struct sbx_cgroup_host){.ops = ops, .hierarchy_count = 1, .has_swap = true};
    folder->group = (struct sbx_cgroup){.host = &folder->host, .event_fd = -1};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        folder->group.fds[i] = i == 0 ? folder->fd : -1;
}

void cgroup_folder_close(struct cgroup_folder *folder, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        (void)unlinkat(folder->fd, names[i], 0);
    sbx_cgroup_close(&folder->group);
    assert_int_equal(rmdir(folder->path), 0);
}

void cgroup_folder_put(const struct cgroup_folder *folder, const char *name, const char *text)
{
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

void cgroup_folder_expect(const struct cgroup_folder *folder, const char *name, const char *text)
{
    char seen[64];

    assert_int_equal(sbx_cgroup_read(folder->fd, name, seen, sizeof(seen)), 0);
    assert_string_equal(seen, text);
}
