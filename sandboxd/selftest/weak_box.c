/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The steps of a box that sandbox-init-weak, the init that the self-test alone
 * starts, can leave out: one of them, which its environment names, so that its
 * probes can be seen to fail. The linker puts these in the place of the steps
 * of backend/box_steps.h; sandbox-init itself has no way to leave anything out.
 */
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/wire/boxspawn.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mount.h>

#define MORE_THAN_ANY (UINT64_C(1) << 40)

static bool is_left_out(enum sbx_control control)
{
    const char *name = secure_getenv(SBX_INIT_LEAVE_OUT);

    return name && strcmp(name, sbx_control_name(control)) == 0;
}

uint64_t __real_sbx_box_namespaces(void);
uint64_t __wrap_sbx_box_namespaces(void);
int __real_sbx_box_enter_network(int net_fd);
int __wrap_sbx_box_enter_network(int net_fd);
int __real_sbx_box_mount_proc(void);
int __wrap_sbx_box_mount_proc(void);
int __real_sbx_box_make_limits(const struct sbx_limits *limits);
int __wrap_sbx_box_make_limits(const struct sbx_limits *limits);
int __real_sbx_box_make_rootless_limits(const struct sbx_limits *limits, bool has_one_id);
int __wrap_sbx_box_make_rootless_limits(const struct sbx_limits *limits, bool has_one_id);

uint64_t __wrap_sbx_box_namespaces(void)
{
    const uint64_t all = __real_sbx_box_namespaces();

    return is_left_out(SBX_CONTROL_IPC) ? all & ~(uint64_t)CLONE_NEWIPC : all;
}

int __wrap_sbx_box_enter_network(int net_fd)
{
    return is_left_out(SBX_CONTROL_NETWORK) ? 0 : __real_sbx_box_enter_network(net_fd);
}

/* With all processes of the box, and with what tells of the machine. */
int __wrap_sbx_box_mount_proc(void)
{
    if (!is_left_out(SBX_CONTROL_PROC))
        return __real_sbx_box_mount_proc();
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

int __wrap_sbx_box_make_limits(const struct sbx_limits *limits)
{
    return is_left_out(SBX_CONTROL_RLIMITS) ? 0 : __real_sbx_box_make_limits(limits);
}

/* Where they stand in for control groups. */
int __wrap_sbx_box_make_rootless_limits(const struct sbx_limits *limits, bool has_one_id)
{
    struct sbx_limits weak = *limits;

    if (is_left_out(SBX_CONTROL_MEMORY))
        weak.value[SBX_LIMIT_MEMORY] = MORE_THAN_ANY;
    if (is_left_out(SBX_CONTROL_PIDS))
        weak.value[SBX_LIMIT_PROCESSES] = MORE_THAN_ANY;
    return __real_sbx_box_make_rootless_limits(&weak, has_one_id);
}
