/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/box_child.h"

#include "common/auto.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/syscall.h>

#define FIRST_FREE_FD 64 /* above every number below */

/* Of sandbox-init, behind those of boxctl.h. */
enum {
    FD_BINARY = SBX_INIT_FD_SLAVE + 1,
    FD_USERNS,
    FD_COUNT,
};

/* While it waits to be told whose box it is. */
enum {
    SHELL_CONTROL = 3,
    SHELL_BINARY,
    SHELL_SECCOMP,
    SHELL_NET,
    SHELL_GROUP, /* its entries */
    SHELL_COUNT = SHELL_GROUP + SBX_CONTROLLER_COUNT,
};

/*
 * Puts `count` fds at the numbers from `first` on and closes what lies behind.
 * All of them go up before: a source may have the number of another's target.
 * Those that are -1 stay closed.
 */
static int arrange(int *fds, int first, int count, int first_cloexec)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD)) < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++) {
        int flags = first + i >= first_cloexec ? O_CLOEXEC : 0;

        if (fds[i] < 0)
            (void)close(first + i);
        else if (dup3(fds[i], first + i, flags) < 0)
            return -errno;
    }
    return close_range((unsigned int)(first + count), ~0U, 0) < 0 ? -errno : 0;
}

/*
 * A box may wait for long. An fd of another box, or of the front, that it held
 * meanwhile would hide the end of that one.
 */
static int keep_own_fds(const struct sbx_box_shell *shell, int control_fd)
{
    int fds[SHELL_COUNT - SHELL_CONTROL] = {control_fd, shell->init_fd, shell->seccomp_fd,
                                            shell->net_fd};

    for (size_t i = SHELL_GROUP - SHELL_CONTROL; i < CR_ARRAY_SIZE(fds); i++)
        fds[i] = -1;
    (void)sbx_cgroup_entries(shell->group, fds + SHELL_GROUP - SHELL_CONTROL);
    return arrange(fds, SHELL_CONTROL, SHELL_COUNT - SHELL_CONTROL, SHELL_CONTROL);
}

/* On v2 it was cloned into its group. */
static int enter_groups(const struct sbx_cgroup *group)
{
    static const int entries[SBX_CONTROLLER_COUNT] = {SHELL_GROUP, SHELL_GROUP + 1, SHELL_GROUP + 2,
                                                      SHELL_GROUP + 3};
    size_t count = sbx_cgroup_clone_fd(group) < 0 ? group->host->hierarchy_count : 0;

    return sbx_box_enter_groups(entries, count);
}

_Static_assert(SBX_CONTROLLER_COUNT == 4, "an entry for each hierarchy");

/* What is the same for every box. */
static void build_shell(const struct sbx_box_shell *shell, int control_fd)
{
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    sbx_box_check(control_fd, SBX_STAGE_CLONE, sbx_box_die_with_parent());
    sbx_box_check(control_fd, SBX_STAGE_CLONE, keep_own_fds(shell, control_fd));
    control_fd = SHELL_CONTROL;
    sbx_box_check(control_fd, SBX_STAGE_CGROUP, enter_groups(shell->group));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE,
                  shell->net_fd >= 0 ? sbx_box_join_namespaces(SHELL_NET, shell->weakened)
                                     : sbx_box_make_namespaces(shell->weakened));
    sbx_box_check(control_fd, SBX_STAGE_MOUNT, sbx_box_mount_proc(shell->weakened));
    sbx_box_lose_priority();
}

static void await_order(struct sbx_box_order *ret_order, int fds[SBX_BOX_ORDER_FDS])
{
    int r =
        sbx_fds_receive(SHELL_CONTROL, ret_order, sizeof(*ret_order), fds, SBX_BOX_ORDER_FDS, 0);

    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (r == -EPIPE)
        _exit(0); /* nobody needs it */
    if (r >= 0 && r != SBX_BOX_ORDER_FDS - (ret_order->has_root ? 0 : 1))
        r = -EPROTO;
    sbx_box_check(SHELL_CONTROL, SBX_STAGE_INIT, r);
}

/*
 * Those of boxctl.h. The two that only this file needs follow, low as well,
 * because RLIMIT_NOFILE comes next; exec closes them.
 */
static int place_fds(const int order_fds[SBX_BOX_ORDER_FDS], const int terminal[2])
{
    int fds[FD_COUNT] = {
        [0] = order_fds[SBX_BOX_ORDER_STDIO],
        [1] = order_fds[SBX_BOX_ORDER_STDIO + 1],
        [2] = order_fds[SBX_BOX_ORDER_STDIO + 2],
        [SBX_INIT_FD_CONTROL] = SHELL_CONTROL,
        [SBX_INIT_FD_PAYLOAD] = order_fds[SBX_BOX_ORDER_PAYLOAD],
        [SBX_INIT_FD_SECCOMP] = SHELL_SECCOMP,
        [SBX_INIT_FD_MASTER] = terminal[0],
        [SBX_INIT_FD_SLAVE] = terminal[1],
        [FD_BINARY] = SHELL_BINARY,
        [FD_USERNS] = order_fds[SBX_BOX_ORDER_USERNS],
    };

    return arrange(fds, 0, FD_COUNT, FD_BINARY);
}

/* In place of the copy of the backend's own, with the /proc that is in it. */
static int enter_root(int root_fd, uint32_t weakened)
{
    if (setns(root_fd, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    return sbx_box_mount_proc(weakened);
}

_Static_assert((int)SHELL_CONTROL == (int)SBX_INIT_FD_CONTROL, "failures are told on one number");

__attribute__((noreturn)) void sbx_box_child(const struct sbx_box_shell *shell, int control_fd)
{
    char name[] = "sandbox-init";
    char modes[SBX_BOX_MODE_COUNT][sizeof(SBX_INIT_TERMINAL_ARGUMENT)] = {
        [SBX_BOX_AHEAD] = SBX_INIT_WAIT_ARGUMENT,
        [SBX_BOX_CELLS] = SBX_INIT_CELLS_ARGUMENT,
        [SBX_BOX_FILES] = SBX_INIT_FILES_ARGUMENT,
        [SBX_BOX_TERMINAL] = SBX_INIT_TERMINAL_ARGUMENT,
    };
    char *argv[] = {name, NULL, NULL};
    char *const environment[] = {NULL};
    int fds[SBX_BOX_ORDER_FDS];
    int terminal[2] = {-1, -1};
    struct sbx_box_order order;

    build_shell(shell, control_fd);
    await_order(&order, fds);
    control_fd = SHELL_CONTROL;
    if (order.has_root)
        sbx_box_check(control_fd, SBX_STAGE_MOUNT,
                      enter_root(fds[SBX_BOX_ORDER_ROOT], shell->weakened));
    sbx_box_check(control_fd, SBX_STAGE_MOUNT,
                  sbx_box_mount_workspace(fds[SBX_BOX_ORDER_WORKSPACE]));
    if (order.mode == SBX_BOX_TERMINAL)
        sbx_box_check(control_fd, SBX_STAGE_MOUNT,
                      sbx_box_make_terminal(order.columns, order.rows, terminal));
    sbx_box_check(control_fd, SBX_STAGE_INIT, place_fds(fds, terminal));
    sbx_box_check(control_fd, SBX_STAGE_LIMITS,
                  sbx_box_make_limits(&order.limits, shell->weakened));
    if (order.is_rootless)
        sbx_box_check(control_fd, SBX_STAGE_LIMITS, sbx_box_make_rootless_limits(&order.limits));
    sbx_box_check(control_fd, SBX_STAGE_IDENTITY,
                  order.is_rootless ? sbx_box_enter_one_id(FD_USERNS)
                                    : sbx_box_enter_identity(FD_USERNS));
    argv[1] = order.mode == SBX_BOX_RUN ? NULL : modes[order.mode];
    (void)syscall(SYS_execveat, FD_BINARY, "", argv, environment, AT_EMPTY_PATH);
    sbx_box_fail(control_fd, SBX_STAGE_INIT, -errno);
}
