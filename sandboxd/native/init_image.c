/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/init_image.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/err.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define NAME "sandbox-init"
#define SIZE_MAX_BYTES (16 << 20)
#define MOUNT_SIZE "16m"

static int make_mount(struct cr_err *err)
{
    CR_AUTO_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int fd;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", MOUNT_SIZE, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return cr_err_sys(err, errno, "open a tmpfs for " NAME " (Linux 5.12 or later is needed)");
    fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? cr_err_sys(err, errno, "mount the tmpfs for " NAME) : fd;
}

static int copy(int from, int mount_fd, const char *path, struct cr_err *err)
{
    CR_AUTO_CLOSE int to = openat(mount_fd, NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
    struct stat stat;

    if (fstat(from, &stat) < 0 || !S_ISREG(stat.st_mode) || stat.st_size > SIZE_MAX_BYTES)
        return cr_err_set(err, EINVAL, "'%s' is no program of a usual size", path);
    if (to < 0)
        return cr_err_sys(err, errno, "make the copy of '%s'", path);
    for (off_t left = stat.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);

        if (n <= 0)
            return cr_err_sys(err, n < 0 ? errno : EIO, "copy '%s'", path);
        left -= n;
    }
    return fchmod(to, 0555) < 0 ? cr_err_sys(err, errno, "let everybody execute " NAME) : 0;
}

int sbx_init_image_load(const char *path, int *ret_fd, struct cr_err *err)
{
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    CR_AUTO_CLOSE int from = -1;
    CR_AUTO_CLOSE int mount_fd = -1;
    char beside[PATH_MAX];
    int fd;
    int r = path ? 0 : cr_beside_find(NAME, beside, err);

    if (r < 0)
        return r;
    path = path ? path : beside;
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return cr_err_sys(err, errno, "open '%s', the first process of every box", path);
    mount_fd = make_mount(err);
    if (mount_fd < 0)
        return mount_fd;
    r = copy(from, mount_fd, path, err);
    if (r < 0)
        return r;
    if (mount_setattr(mount_fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) < 0)
        return cr_err_sys(err, errno, "make the tmpfs for " NAME " read-only");
    fd = openat(mount_fd, NAME, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return cr_err_sys(err, errno, "open the copy of '%s'", path);
    *ret_fd = fd;
    return 0;
}
