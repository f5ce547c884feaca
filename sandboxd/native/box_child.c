/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/box_child.h"

#include "common/auto.h"
#include "common/signals.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/native/box.h"
#include "sandboxd/wire/boxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <sys/syscall.h>

#define FIRST_FREE_FD 64 /* above every number below */

enum {
    FD_BINARY = SBX_INIT_FD_SECCOMP + 1,
    FD_USERNS,
    FD_COUNT,
};

static int enter_group(const struct sbx_box_plan *plan)
{
    int r = sbx_cgroup_attach_self(plan->group);

    if (r < 0)
        return r;
    /* After the attach: the group of this moment becomes the root of what the box sees. */
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/*
 * Puts the fds of boxctl.h into place. All sources go up first: a source may
 * have the number of another's target. The two that only this file needs
 * follow, low as well, because RLIMIT_NOFILE comes next; exec closes them.
 */
static int place_fds(const struct sbx_box_plan *plan, int control_fd)
{
    int fds[FD_COUNT] = {
        [0] = plan->stdio_fds[0],
        [1] = plan->stdio_fds[1],
        [2] = plan->stdio_fds[2],
        [SBX_INIT_FD_CONTROL] = control_fd,
        [SBX_INIT_FD_PAYLOAD] = plan->payload_fd,
        [SBX_INIT_FD_SECCOMP] = plan->seccomp_fd,
        [FD_BINARY] = plan->init_fd,
        [FD_USERNS] = plan->userns_fd,
    };

    for (int i = 0; i < FD_COUNT; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < FD_COUNT; i++) {
        if (dup3(fds[i], i, i >= FD_BINARY ? O_CLOEXEC : 0) < 0)
            return -errno;
    }
    return close_range(FD_COUNT, ~0U, 0) < 0 ? -errno : 0;
}

__attribute__((noreturn)) void sbx_box_child(const struct sbx_box_plan *plan, int control_fd)
{
    char name[] = "sandbox-init";
    char wait[] = SBX_INIT_WAIT_ARGUMENT;
    char *const argv[] = {name, plan->is_ahead ? wait : NULL, NULL};
    char *const environment[] = {NULL};

    sbx_box_check(control_fd, SBX_STAGE_CLONE, sbx_box_die_with_parent());
    sbx_box_check(control_fd, SBX_STAGE_CLONE, cr_signals_reset());
    sbx_box_check(control_fd, SBX_STAGE_CGROUP, enter_group(plan));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE,
                  plan->net_fd >= 0 ? sbx_box_join_namespaces(plan->net_fd, plan->weakened)
                                    : sbx_box_make_namespaces(plan->weakened));
    sbx_box_check(control_fd, SBX_STAGE_MOUNT,
                  sbx_box_make_mounts(plan->workspace_fd, plan->weakened));
    sbx_box_lose_priority();
    sbx_box_check(control_fd, SBX_STAGE_INIT, place_fds(plan, control_fd));
    control_fd = SBX_INIT_FD_CONTROL;
    sbx_box_check(control_fd, SBX_STAGE_LIMITS, sbx_box_make_limits(plan->limits, plan->weakened));
    sbx_box_check(control_fd, SBX_STAGE_IDENTITY, sbx_box_enter_identity(FD_USERNS));
    (void)syscall(SYS_execveat, FD_BINARY, "", argv, environment, AT_EMPTY_PATH);
    sbx_box_fail(control_fd, SBX_STAGE_INIT, -errno);
}
