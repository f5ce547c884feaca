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

int sbx_cgroup_get(int fd, const char *name, uint64_t *ret_value)
{
    char text[64] = "";
    int r = sbx_cgroup_read(fd, name, text, sizeof(text));

    return r < 0 ? r : parse_number(text, ret_value);
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

int sbx_cgroup_put(int fd, const char *name, uint64_t value, bool is_checked, struct cr_err *err)
{
    CR_AUTO_CLOSE int file =
        openat(fd, name, (is_checked ? O_RDWR : O_WRONLY) | O_CLOEXEC | O_NOFOLLOW);
    char text[32];
    uint64_t seen = 0;
    ssize_t size = snprintf(text, sizeof(text), "%" PRIu64, value);
    int r;

    if (file < 0 || pwrite(file, text, (size_t)size, 0) != size)
        return cr_err_sys(err, errno, "write %" PRIu64 " to control file '%s'", value, name);
    if (!is_checked)
        return 0;
    r = read_anew(file, text, sizeof(text));
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

void sbx_cgroup_bandwidth(uint64_t millicores, uint64_t *ret_quota_us, uint64_t *ret_period_us)
{
    /* 1,000 us is the kernel's least quota: ten thousandths of a core in the usual period. */
    uint64_t period = millicores < 10 ? 1000000 : 100000;

    *ret_period_us = period;
    *ret_quota_us = period / 1000 * millicores;
}

static int open_counter(const struct sbx_cgroup *group, enum sbx_cgroup_counter counter)
{
    const struct sbx_cgroup_counter_file *file = &group->host->ops->counters[counter];
    int fd = file->name ? sbx_cgroup_fd(group, file->controller) : -1;

    if (counter == SBX_CGROUP_COUNTER_MEMORY_PEAK_ALONE && group->host->has_swap)
        return -EOPNOTSUPP; /* nobody asks */
    if (fd < 0)
        return -EOPNOTSUPP;
    fd = openat(fd, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

void sbx_cgroup_open_counters(struct sbx_cgroup *group)
{
    for (int i = 0; i < SBX_CGROUP_COUNTER_COUNT; i++) {
        int fd = open_counter(group, (enum sbx_cgroup_counter)i);

        group->counter_fds[i] = fd < 0 ? -1 : fd;
    }
    group->has_counters = true;
}

int sbx_cgroup_read_counter(const struct sbx_cgroup *group, enum sbx_cgroup_counter counter,
                            char *ret_text, size_t size)
{
    int fd = group->has_counters ? group->counter_fds[counter] : -1;
    int r;

    if (fd >= 0)
        return read_anew(fd, ret_text, size);
    fd = open_counter(group, counter);
    if (fd < 0)
        return fd;
    r = read_anew(fd, ret_text, size);
    (void)close(fd);
    return r;
}

int sbx_cgroup_count(const struct sbx_cgroup *group, enum sbx_cgroup_counter counter,
                     const char *key, uint64_t *ret_value)
{
    char text[4096];
    int r = sbx_cgroup_read_counter(group, counter, text, sizeof(text));

    if (r < 0)
        return r;
    return key ? sbx_cgroup_find_key(text, key, ret_value) : parse_number(text, ret_value);
}

int sbx_cgroup_count_or_none(const struct sbx_cgroup *group, enum sbx_cgroup_counter counter,
                             const char *key, uint64_t *ret_value)
{
    int r = sbx_cgroup_count(group, counter, key, ret_value);

    if (r == -EOPNOTSUPP)
        *ret_value = 0;
    return r == -EOPNOTSUPP ? 0 : r;
}
