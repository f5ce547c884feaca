/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/box.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/native/spawner.h"
#include "sandboxd/wire/boxspawn.h"
#include "sandboxd/wire/fds.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

/* The root folder and "w", "t", "s" are ours, not the program's. */
#define OWN_INODES 4U

static int configure_number(int fs, const char *key, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0);
}

static int make_folders(int fd, uid_t owner)
{
    static const struct {
        const char *name;
        mode_t mode;
    } folders[] = {{"w", 0755}, {"t", 01777}, {"s", 01777}};

    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++) {
        /* The mode goes separately: mkdirat takes the umask off and has no sticky bit. */
        if (mkdirat(fd, folders[i].name, 0700) < 0 ||
            fchmodat(fd, folders[i].name, folders[i].mode, 0) < 0)
            return -errno;
    }
    return fchownat(fd, "w", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int sbx_workspace_make(uint64_t bytes, uint64_t inodes, uid_t owner, int *ret_fd,
                       struct cr_err *err)
{
    CR_AUTO_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    CR_AUTO_CLOSE int fd = -1;
    int r;

    if (fs < 0)
        return cr_err_sys(err, errno, "open a tmpfs (Linux 5.12 or later is needed)");
    if (configure_number(fs, "size", bytes) < 0 ||
        configure_number(fs, "nr_inodes", inodes + OWN_INODES) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return cr_err_sys(err, errno, "configure the tmpfs of a run");
    fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return cr_err_sys(err, errno, "mount the tmpfs of a run");
    r = make_folders(fd, owner);
    if (r < 0)
        return cr_err_sys(err, -r, "make the folders of a run");
    *ret_fd = cr_take_fd(&fd);
    return 0;
}

int sbx_workspace_usage(int fd, uint64_t *ret_bytes, uint64_t *ret_inodes, bool *ret_is_full)
{
    struct statfs stat;
    uint64_t used_inodes;

    if (fstatfs(fd, &stat) < 0)
        return -errno;
    used_inodes = stat.f_files - stat.f_ffree;
    *ret_bytes = (stat.f_blocks - stat.f_bfree) * (uint64_t)stat.f_bsize;
    *ret_inodes = used_inodes > OWN_INODES ? used_inodes - OWN_INODES : 0;
    *ret_is_full = stat.f_bfree == 0 || stat.f_ffree == 0;
    return 0;
}

int sbx_box_begin(const struct sbx_box_shell *shell, struct sbx_box *ret_box, struct cr_err *err)
{
    CR_AUTO_CLOSE int control_fd = -1;
    CR_AUTO_CLOSE int child_fd = -1;
    CR_AUTO_CLOSE int pidfd = -1;
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "open the control socket of a box");
    control_fd = pair[0];
    child_fd = pair[1];
    /* Only our end: sandbox-init reads its own blocking. */
    if (fcntl(control_fd, F_SETFL, O_NONBLOCK) < 0)
        return cr_err_sys(err, errno, "open the control socket of a box");
    pid = sbx_spawner_fork(shell->spawner, child_fd, shell->group, shell->net_fd, err);
    if (pid < 0)
        return pid;
    pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        int errnum = errno;

        (void)kill(pid, SIGKILL); /* a child of ours that nobody has waited for */
        (void)waitpid(pid, NULL, 0);
        return cr_err_sys(err, errnum, "open the pidfd of a box");
    }
    sbx_cgroup_watch(shell->group, pid);
    *ret_box = (struct sbx_box){
        .pid = pid, .pidfd = cr_take_fd(&pidfd), .control_fd = cr_take_fd(&control_fd)};
    return 0;
}

int sbx_box_finish(const struct sbx_box *box, const struct sbx_box_plan *plan, struct cr_err *err)
{
    const struct sbx_box_order order = {.limits = *plan->limits,
                                        .mode = (uint32_t)plan->mode,
                                        .is_watched = plan->is_watched,
                                        .has_one_id = plan->has_one_id,
                                        .columns = plan->columns,
                                        .rows = plan->rows,
                                        .has_root = plan->root_fd >= 0};
    const uint32_t count = sbx_box_order_fds(&order);
    int fds[SBX_BOX_ORDER_FDS] = {
        [SBX_BOX_ORDER_USERNS] = plan->userns_fd,
        [SBX_BOX_ORDER_WORKSPACE] = plan->workspace_fd,
        [SBX_BOX_ORDER_PAYLOAD] = plan->payload_fd,
        [SBX_BOX_ORDER_STDIO] = plan->stdio_fds[0],
        [SBX_BOX_ORDER_STDIO + 1] = plan->stdio_fds[1],
        [SBX_BOX_ORDER_STDIO + 2] = plan->stdio_fds[2],
    };
    int r;

    if (order.has_root)
        fds[count - 1] = plan->root_fd;
    r = sbx_fds_send(box->control_fd, &order, sizeof(order), fds, count);
    /* Dead: what it said before that is still to be read, and its end is seen as any other. */
    return r < 0 && r != -EPIPE ? cr_err_sys(err, -r, "tell a box what it is for") : 0;
}

bool sbx_box_is_dead(const struct sbx_box *box)
{
    struct pollfd end = {.fd = box->pidfd, .events = POLLIN};

    return box->pidfd >= 0 && poll(&end, 1, 0) == 1;
}

void sbx_box_kill(const struct sbx_box *box)
{
    if (box->pidfd >= 0)
        (void)pidfd_send_signal(box->pidfd, SIGKILL, NULL, 0);
}

static uint64_t to_us(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

void sbx_box_reap(struct sbx_box *box)
{
    struct rusage usage = {.ru_utime = {0}};
    siginfo_t info;

    /* The raw call: glibc's does not tell what was used. */
    if (box->pidfd >= 0)
        (void)syscall(SYS_waitid, P_PIDFD, box->pidfd, &info, WEXITED, &usage);
    box->user_us = to_us(&usage.ru_utime);
    box->system_us = to_us(&usage.ru_stime);
    cr_close_fd(&box->pidfd);
    cr_close_fd(&box->control_fd);
    box->pid = -1;
}
