/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Confines the front (common/confine.h): it reads files, speaks on the sockets
 * it was started with, and changes, executes, opens and connects to nothing.
 *
 * Call once, after the privileges are dropped and before any thread starts.
 * *ret_landlock_abi is 0 when this kernel has no Landlock; the seccomp filter
 * still stands then. Returns 0 or -errno.
 */
int sbx_confine(int *ret_landlock_abi, struct cr_err *err);
