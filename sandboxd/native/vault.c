/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/vault.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include <sys/mount.h>

#define PLACE "/workspace" /* a folder of every root file system of boxes */

static int mount_proc(void)
{
    CR_AUTO_CLOSE int fs = fsopen("proc", FSOPEN_CLOEXEC);
    int fd;

    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Whose process namespace belongs to somebody else, mounts none, and has that of rootfs.c. */
static int open_proc(void)
{
    int fd = mount_proc();

    if (fd != -EPERM)
        return fd;
    fd = openat(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* The mount namespace that we are in. */
static int open_own(const struct sbx_vault *vault)
{
    int fd = openat(vault->proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int sbx_vault_open(struct sbx_vault *vault, struct cr_err *err)
{
    vault->proc_fd = open_proc();
    if (vault->proc_fd < 0)
        return cr_err_sys(err, -vault->proc_fd, "mount /proc for the backend");
    vault->home_fd = open_own(vault);
    if (vault->home_fd < 0)
        return cr_err_sys(err, -vault->home_fd, "open our own mount namespace");
    return 0;
}

void sbx_vault_close(struct sbx_vault *vault)
{
    cr_close_fd(&vault->proc_fd);
    cr_close_fd(&vault->home_fd);
}

/* Anywhere else no box may be made. */
static void go_home(const struct sbx_vault *vault)
{
    if (setns(vault->home_fd, CLONE_NEWNS) == 0)
        return;
    cr_log_error("cannot go back to our own mount namespace, ending");
    abort();
}

int sbx_vault_put(const struct sbx_vault *vault, int mount_fd, int *ret_space_fd,
                  struct cr_err *err)
{
    CR_AUTO_CLOSE int space_fd = -1;
    int error = 0;

    if (unshare(CLONE_NEWNS) < 0)
        return cr_err_sys(err, errno, "make a mount namespace for a workspace");
    space_fd = open_own(vault);
    if (space_fd < 0)
        error = -space_fd;
    else if (move_mount(mount_fd, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        error = errno;
    go_home(vault);
    if (error != 0)
        return cr_err_sys(err, error, "keep the workspace of a session");
    *ret_space_fd = cr_take_fd(&space_fd);
    return 0;
}

int sbx_vault_copy(const struct sbx_vault *vault, int space_fd, int mount_fd, int *ret_fd,
                   struct cr_err *err)
{
    int error = 0;
    int fd;

    if (setns(space_fd, CLONE_NEWNS) < 0)
        return cr_err_sys(err, errno, "enter the mount namespace of a workspace");
    fd = open_tree(mount_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (fd < 0)
        error = errno;
    go_home(vault);
    if (fd < 0)
        return cr_err_sys(err, error, "copy the mount of a workspace");
    *ret_fd = fd;
    return 0;
}
