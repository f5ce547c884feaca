/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Control files: what is written to and read from the folder of a group. */

int sbx_cgroup_write(int fd, const char *name, const char *text)
{
    CR_AUTO_CLOSE int file = openat(fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t size = strlen(text);
    ssize_t n;

    if (file < 0)
        return -errno;
    n = write(file, text, size);
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EIO;
}

int sbx_cgroup_read(int fd, const char *name, char *ret_text, size_t size)
{
    CR_AUTO_CLOSE int file = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t used = 0;

    if (file < 0)
        return -errno;
    while (used < size - 1) {
        ssize_t n = read(file, ret_text + used, size - 1 - used);

        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    ret_text[used] = '\0';
    return 0;
}

int sbx_cgroup_read_members(int fd, char *ret_text, size_t size)
{
    int r = sbx_cgroup_read(fd, "cgroup.procs", ret_text, size);
    char *end;

    if (r < 0 || strlen(ret_text) < size - 1)
        return r;
    end = strrchr(ret_text, '\n');
    *(end ? end + 1 : ret_text) = '\0';
    return 1;
}

static int parse_number(const char *text, uint64_t *ret_value)
{
    char *end = NULL;
    uint64_t value;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || (*end != '\n' && *end != '\0'))
        return -EINVAL;
    *ret_value = value;
    return 0;
}

int sbx_cgroup_find_key(const char *text, const char *key, uint64_t *ret_value)
{
    size_t size = strlen(key);

    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");

        if (length > size && memcmp(at, key, size) == 0 && at[size] == ' ')
            return parse_number(at + size + 1, ret_value);
        at += length + (at[length] == '\n');
    }
    return -ENOENT;
}

/* From the start: the kernel then makes the text anew, and all of it that fits. */
static int read_anew(int fd, char *ret_text, size_t size)
{
    ssize_t n = pread(fd, ret_text, size - 1, 0);

    ret_text[n > 0 ? n : 0] = '\0';
    return n < 0 ? -errno : 0;
}

void sbx_cgroup_bandwidth(uint64_t millicores, uint64_t *ret_quota_us, uint64_t *ret_period_us)
{
    /* 1,000 us is the kernel's least quota: ten thousandths of a core in the usual period. */
    uint64_t period = millicores < 10 ? 1000000 : 100000;

    *ret_period_us = period;
    *ret_quota_us = period / 1000 * millicores;
}

static int open_file(const struct sbx_cgroup *group, enum sbx_cgroup_file file)
{
    const struct sbx_cgroup_file_name *found = &group->host->ops->files[file];
    int fd = found->name ? sbx_cgroup_fd(group, found->controller) : -1;

    if (file == SBX_CGROUP_FILE_MEMORY_PEAK_ALONE && group->host->has_swap)
        return -EOPNOTSUPP; /* nobody asks */
    if (fd < 0)
        return -EOPNOTSUPP;
    if (found->is_written) {
        int writable = openat(fd, found->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

        if (writable >= 0 || (errno != EROFS && errno != EACCES))
            return writable < 0 ? -errno : writable;
    }
    fd = openat(fd, found->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

static int open_entries(struct sbx_cgroup *group, struct cr_err *err)
{
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        group->entry_fds[i] = -1;
    for (uint32_t i = 0; i < group->host->hierarchy_count; i++) {
        group->entry_fds[i] =
            openat(group->fds[i], group->host->ops->entry, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (group->entry_fds[i] < 0)
            return cr_err_sys(err, errno, "open %s of a group", group->host->ops->entry);
    }
    return 0;
}

int sbx_cgroup_open_files(struct sbx_cgroup *group, struct cr_err *err)
{
    for (int i = 0; i < SBX_CGROUP_FILE_COUNT; i++) {
        int fd = open_file(group, (enum sbx_cgroup_file)i);

        group->file_fds[i] = fd < 0 ? -1 : fd;
    }
    group->has_files = true;
    return open_entries(group, err);
}

/* The file, opened if it is not; give_file() closes it then. */
static int take_file(const struct sbx_cgroup *group, enum sbx_cgroup_file file)
{
    if (group->has_files && group->file_fds[file] >= 0)
        return group->file_fds[file];
    return open_file(group, file);
}

static void give_file(const struct sbx_cgroup *group, enum sbx_cgroup_file file, int fd)
{
    if (fd >= 0 && (!group->has_files || group->file_fds[file] != fd))
        (void)close(fd);
}

static int write_anew(int fd, const char *text)
{
    ssize_t n = pwrite(fd, text, strlen(text), 0);

    if (n < 0)
        return errno == EBADF ? -EROFS : -errno; /* see open_file() */
    return (size_t)n == strlen(text) ? 0 : -EIO;
}

int sbx_cgroup_put_text(const struct sbx_cgroup *group, enum sbx_cgroup_file file, const char *text)
{
    int fd = take_file(group, file);
    int r = fd < 0 ? fd : write_anew(fd, text);

    give_file(group, file, fd);
    return r;
}

static int put_number(int fd, const char *name, uint64_t value, struct cr_err *err)
{
    char text[32];
    uint64_t seen = 0;
    int r;

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    r = write_anew(fd, text);
    if (r < 0)
        return cr_err_sys(err, -r, "write %" PRIu64 " to control file '%s'", value, name);
    r = read_anew(fd, text, sizeof(text));
    if (r == 0)
        r = parse_number(text, &seen);
    if (r < 0)
        return cr_err_sys(err, -r, "read control file '%s' back", name);
    if (seen != value)
        return cr_err_set(err, EIO,
                          "control file '%s' says %" PRIu64 " after %" PRIu64 " was written", name,
                          seen, value);
    return 0;
}

int sbx_cgroup_put(const struct sbx_cgroup *group, enum sbx_cgroup_file file, uint64_t value,
                   struct cr_err *err)
{
    const char *name = group->host->ops->files[file].name;
    int fd = take_file(group, file);
    int r = fd < 0 ? cr_err_sys(err, -fd, "open control file '%s'", name)
                   : put_number(fd, name, value, err);

    give_file(group, file, fd);
    return r;
}

int sbx_cgroup_read_file(const struct sbx_cgroup *group, enum sbx_cgroup_file file, char *ret_text,
                         size_t size)
{
    int fd = take_file(group, file);
    int r = fd < 0 ? fd : read_anew(fd, ret_text, size);

    give_file(group, file, fd);
    return r;
}

int sbx_cgroup_count(const struct sbx_cgroup *group, enum sbx_cgroup_file file, const char *key,
                     uint64_t *ret_value)
{
    char text[4096];
    int r = sbx_cgroup_read_file(group, file, text, sizeof(text));

    if (r < 0)
        return r;
    return key ? sbx_cgroup_find_key(text, key, ret_value) : parse_number(text, ret_value);
}

int sbx_cgroup_count_or_none(const struct sbx_cgroup *group, enum sbx_cgroup_file file,
                             const char *key, uint64_t *ret_value)
{
    int r = sbx_cgroup_count(group, file, key, ret_value);

    if (r == -EOPNOTSUPP)
        *ret_value = 0;
    return r == -EOPNOTSUPP ? 0 : r;
}

size_t sbx_cgroup_entries(const struct sbx_cgroup *group, int ret_fds[SBX_CONTROLLER_COUNT])
{
    const uint32_t count = group->has_files ? group->host->hierarchy_count : 0;

    for (uint32_t i = 0; i < count; i++)
        ret_fds[i] = group->entry_fds[i];
    return count;
}
