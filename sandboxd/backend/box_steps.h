/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The steps by which a process that was just cloned becomes pid 1 of a box,
 * shared by every way to start one. Async-signal-safe, in the order of this
 * file. Each returns 0 or -errno.
 */

/* The flags of clone3(2) that make a box, but for its network. */
uint64_t sbx_box_namespaces(void);

/* SIGKILL when the parent ends. A change of ids clears it: call it again behind one. */
int sbx_box_die_with_parent(void);

/*
 * Enters control groups by their entries (sbx_cgroup_entries(), borrowed), which
 * become the root of what the box sees of them. The caller has one thread.
 */
int sbx_box_enter_groups(const int *fds, size_t count);

/* In a process of its own making: a network namespace with its loopback up. */
int sbx_box_make_network(void);

/* Enters a network that was made so ahead (borrowed); -1: makes one. */
int sbx_box_enter_network(int net_fd);

/* Sets the name of the machine that the box sees. */
int sbx_box_name_machine(void);

/* Of the caller's own process namespace. */
int sbx_box_mount_proc(void);

/*
 * The folders of a workspace (sbx_workspace_make(), borrowed) on /workspace,
 * /tmp and /dev/shm; the working folder becomes /workspace.
 */
int sbx_box_mount_workspace(int workspace_fd);

/*
 * A terminal of its own instance of devpts, which hangs nowhere: nobody can open either end
 * anew. Master and slave go to ret_fds.
 */
int sbx_box_make_terminal(uint16_t columns, uint16_t rows, int ret_fds[2]);

/* Behind everything else when CPU or memory is short. Best effort. */
void sbx_box_lose_priority(void);

/*
 * Signals that wait, and POSIX timers, of a box together. The kernel counts
 * them for the user of the host who made the user namespace as well
 * (inc_rlimit_get_ucounts() in kernel/ucount.c), so that one box without a
 * limit of its own could take all that root may have: then no process of root
 * makes a timer, or queues a signal, until the box is gone.
 */
#define SBX_BOX_SIGNALS 1024U

/* The resource limits of a program. */
int sbx_box_make_limits(const struct sbx_limits *limits);

/* Enters the user namespace of the slot, as its user 0. */
int sbx_box_enter_identity(int userns_fd);

/*
 * The same where the user namespace has one id, the program's: sandbox-init
 * has it too, with the capabilities of that namespace, which the program does
 * not have. Nobody can change groups there.
 */
int sbx_box_enter_one_id(int userns_fd);

/* What resource limits can do for control groups that are not there. `has_one_id`: sandbox-init has
 * the program's user. */
int sbx_box_make_rootless_limits(const struct sbx_limits *limits, bool has_one_id);

/*
 * In whom sandbox-init is about to be executed: puts fds[i] at i, up to `last`,
 * which is the binary and alone closes itself. `spare` is a number above all of
 * them; `fds` is written to.
 */
int sbx_box_place_fds(int *fds, int last, int spare);

/* Reports on the control socket that the step of `stage` failed, and ends. */
_Noreturn void sbx_box_fail(int control_fd, enum sbx_stage stage, int error);

/* `r` is what the step of `stage` returned: fails when it is negative. */
void sbx_box_check(int control_fd, enum sbx_stage stage, int r);
