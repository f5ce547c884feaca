/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct cr_err;

/*
 * Takes from the calling process, and from every thread it will start, what
 * the front never needs, so that a front that has been taken over can do no
 * more than speak on the sockets it has: no execution of programs, no change
 * of any file (Landlock), no outgoing connection, and no system call for
 * namespaces, mounts, tracing, keys, modules or io_uring (seccomp: EPERM).
 *
 * Call once, after the privileges are dropped and before any thread starts.
 * *ret_has_landlock tells whether this kernel has Landlock; without it the
 * seccomp filter still stands. Returns 0 or -errno.
 */
int sbx_confine(bool *ret_has_landlock, struct cr_err *err);
