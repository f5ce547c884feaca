/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/template/preload.h"
#include "sandboxd/wire/boxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define FIRST_SPARE_FD 400
#define FD_BINARY (SBX_INIT_FD_ADOPTED + 1)

/* The program has its own by now; what is set here is what it gets at GO. */
static int place_fds(int control_fd, int channel_fd)
{
    int null_fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    int fds[FD_BINARY + 1] = {
        [0] = null_fd,
        [1] = null_fd,
        [2] = null_fd,
        [SBX_INIT_FD_CONTROL] = control_fd,
        [SBX_INIT_FD_PAYLOAD] = null_fd,
        [SBX_INIT_FD_SECCOMP] = SBX_TEMPLATE_FD_SECCOMP,
        [SBX_INIT_FD_ADOPTED] = channel_fd,
        [FD_BINARY] = SBX_TEMPLATE_FD_INIT,
    };
    int r = sbx_box_place_fds(fds, FD_BINARY, FIRST_SPARE_FD);

    if (r == 0 && close_range(FD_BINARY + 1, ~0U, 0) < 0)
        r = -errno;
    return r;
}

_Noreturn static void become_init(const struct sbx_limits *limits, int control_fd, int channel_fd)
{
    char name[] = "sandbox-init";
    char adopt[] = SBX_INIT_ADOPT_ARGUMENT;
    char *const argv[] = {name, adopt, NULL};
    char *const environment[] = {NULL};

    sbx_box_check(control_fd, SBX_STAGE_INIT, place_fds(control_fd, channel_fd));
    control_fd = SBX_INIT_FD_CONTROL;
    sbx_box_check(control_fd, SBX_STAGE_LIMITS, sbx_box_make_limits(limits));
    (void)syscall(SYS_execveat, FD_BINARY, "", argv, environment, AT_EMPTY_PATH);
    sbx_box_fail(control_fd, SBX_STAGE_INIT, -errno);
}

/* Pid 1 of the box. Returns in the program only, with its end of the channel. */
static int be_box(const struct sbx_template_msg *msg, const int *fds, size_t count)
{
    const int control_fd = fds[0];
    int pair[2];
    pid_t pid;

    sbx_box_check(control_fd, SBX_STAGE_CLONE, sbx_box_die_with_parent());
    sbx_box_check(
        control_fd, SBX_STAGE_CGROUP,
        sbx_box_enter_groups(fds + SBX_TEMPLATE_BOX_FDS_MIN, count - SBX_TEMPLATE_BOX_FDS_MIN));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE, sbx_box_enter_network(-1));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE, sbx_box_name_machine());
    sbx_box_check(control_fd, SBX_STAGE_MOUNT, sbx_box_mount_proc());
    sbx_box_check(control_fd, SBX_STAGE_MOUNT, sbx_box_mount_workspace(fds[1]));
    sbx_box_lose_priority();
    sbx_box_check(control_fd, SBX_STAGE_IDENTITY,
                  sbx_box_enter_identity(SBX_TEMPLATE_FD_USERNS + (int)msg->place));
    sbx_box_check(control_fd, SBX_STAGE_CLONE, sbx_leader_use_up_pid());
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        sbx_box_fail(control_fd, SBX_STAGE_CLONE, -errno);
    pid = fork(); /* the libc's: locks, robust list and thread id of the interpreter stay right */
    if (pid < 0)
        sbx_box_fail(control_fd, SBX_STAGE_CLONE, -errno);
    if (pid == 0) {
        (void)close(pair[0]);
        (void)close(control_fd); /* with it a program could say how it ended */
        return pair[1];
    }
    (void)close(pair[1]);
    become_init(&msg->limits, control_fd, pair[0]);
}

pid_t sbx_preload_spawn(const struct sbx_template_msg *msg, const int *fds, size_t count,
                        int *ret_pidfd, int *ret_channel_fd)
{
    uint64_t tid_address = 0;
    int pidfd = -1;
    /*
     * CLONE_PARENT: the backend waits for its boxes, and they go on when this
     * template ends. The kernel keeps the libc's copy of the thread id right.
     */
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_PARENT | sbx_box_namespaces() | CLONE_CHILD_SETTID |
                 CLONE_CHILD_CLEARTID,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
    };
    long pid;

    if (prctl(PR_GET_TID_ADDRESS, &tid_address, 0, 0, 0) < 0)
        return -errno;
    args.child_tid = tid_address;
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        *ret_channel_fd = be_box(msg, fds, count);
        return 0;
    }
    *ret_pidfd = pidfd;
    return (pid_t)pid;
}
