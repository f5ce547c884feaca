/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;

/*
 * Whether the folder `folder` of an operator can be a root file system: it is
 * there, is root's and writable by root only, and has a folder usr. Returns a
 * descriptor of it (O_PATH), or a negative errno; the error never names the
 * path; who calls says what it is of.
 */
int sbx_rootfs_open(const char *folder, struct cr_err *err);

/*
 * Moves the calling process into a mount namespace of its own that holds
 * nothing but the root file system of the boxes: read-only, own device nodes,
 * own /etc, the host's /usr without /usr/local and /usr/src; or, where
 * `folder` is neither NULL nor empty, usr, opt and the library folders of that
 * folder, whole, and what its etc has beside our own files. Links in it are
 * followed inside it only. Every box is a copy of it, so that a box needs
 * neither pivot_root nor umount.
 *
 * Afterwards the caller sees no file of the host any more but through fds
 * that it holds. There is no /proc: boxes mount their own.
 * `weakened`: see backend/weaken.h.
 */
int sbx_rootfs_enter(const char *folder, uint32_t weakened, struct cr_err *err);
