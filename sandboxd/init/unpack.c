/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/unpack.h"

#include "common/auto.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FILE_MODE_DEFAULT 0644U
#define FOLDER_MODE 0755U
/* Owned by the user 0 and the group of the program: it may add files, but not remove or rename
 * those of others (sticky). */
#define FOLDER_MODE_SHARED 01775U

int sbx_unpack_has_read_only(struct sbx_payload_reader reader)
{
    struct sbx_payload_item item;
    bool found = false;
    int r;

    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        if (item.record.kind == SBX_PAYLOAD_FILE &&
            (item.record.flags & SBX_PAYLOAD_FILE_READ_ONLY) != 0)
            found = true;
    }
    return r < 0 ? r : found;
}

/* glibc 2.36 has no wrapper. */
static int open_beneath(int dir_fd, const char *name, unsigned int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = flags | O_CLOEXEC | O_NOFOLLOW,
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

    /* gVisor has it only since late. One component of a checked path leads nowhere else either. */
    if (fd < 0 && errno == ENOSYS)
        fd = openat(dir_fd, name, (int)flags | O_CLOEXEC | O_NOFOLLOW, mode);
    return fd < 0 ? -errno : (int)fd;
}

/* Makes the folder when it is missing and returns an fd for it. */
static int enter_folder(int parent_fd, const char *name, enum sbx_unpack_pass pass)
{
    CR_AUTO_CLOSE int fd = -1;
    bool is_new;

    is_new = mkdirat(parent_fd, name, FOLDER_MODE) == 0;
    if (!is_new && errno != EEXIST)
        return -errno;
    fd = open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    if (is_new && fchmod(fd, pass == SBX_UNPACK_READ_ONLY ? FOLDER_MODE_SHARED : FOLDER_MODE) < 0)
        return -errno;
    return cr_take_fd(&fd);
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, data, size);

        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

static int write_file(int folder_fd, const char *name, const struct sbx_payload_item *item)
{
    CR_AUTO_CLOSE int fd = -1;
    mode_t mode = item->record.mode ? item->record.mode : FILE_MODE_DEFAULT;
    int r;

    if (item->record.flags & SBX_PAYLOAD_FILE_READ_ONLY)
        mode = (mode & 0555U) | 0444U;
    /* A link goes, not what it leads to. */
    if ((item->record.flags & SBX_PAYLOAD_FILE_REPLACE) && unlinkat(folder_fd, name, 0) < 0 &&
        errno != ENOENT)
        return -errno;
    fd = open_beneath(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return fd;
    r = write_all(fd, item->data, (size_t)item->record.data_size);
    if (r < 0)
        return r;
    return fchmod(fd, mode) < 0 ? -errno : 0; /* exact, whatever the umask */
}

/* One component after the other, each checked by the kernel. */
static int unpack_file(int workspace_fd, const struct sbx_payload_item *item,
                       enum sbx_unpack_pass pass)
{
    CR_AUTO_CLOSE int folder_fd = -1;
    char path[SBX_PAYLOAD_NAME_MAX + 1];
    char *name = path;

    memcpy(path, item->name, item->record.name_size);
    path[item->record.name_size] = 0;
    for (char *slash = strchr(name, '/'); slash; slash = strchr(name, '/')) {
        int next_fd;

        *slash = 0;
        next_fd = enter_folder(folder_fd >= 0 ? folder_fd : workspace_fd, name, pass);
        if (next_fd < 0)
            return next_fd;
        cr_close_fd(&folder_fd);
        folder_fd = next_fd;
        name = slash + 1;
    }
    return write_file(folder_fd >= 0 ? folder_fd : workspace_fd, name, item);
}

int sbx_unpack_files(struct sbx_payload_reader reader, int workspace_fd, enum sbx_unpack_pass pass)
{
    struct sbx_payload_item item;
    int r;

    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        const bool is_read_only = (item.record.flags & SBX_PAYLOAD_FILE_READ_ONLY) != 0;

        if (item.record.kind != SBX_PAYLOAD_FILE || is_read_only != (pass == SBX_UNPACK_READ_ONLY))
            continue;
        r = unpack_file(workspace_fd, &item, pass);
        if (r < 0)
            return r;
    }
    return r;
}
