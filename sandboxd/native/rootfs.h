/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;

/*
 * Moves the calling process into a mount namespace of its own that holds
 * nothing but the root file system of the boxes: read-only, own device nodes,
 * own /etc, the host's /usr without /usr/local and /usr/src. Every box is a
 * copy of it, so that a box needs neither pivot_root nor umount.
 *
 * Afterwards the caller sees no file of the host any more but through fds
 * that it holds. There is no /proc: boxes mount their own.
 * `weakened`: see backend/weaken.h.
 */
int sbx_rootfs_enter(uint32_t weakened, struct cr_err *err);
