/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct cr_err;

/*
 * Gives up every privilege of the calling (single-threaded) process for good:
 * bounding set, supplementary groups, ids, ambient and all other capability
 * sets, then no_new_privs. `uid` may be 0: then the process is the user 0
 * without any capability.
 *
 * A process that holds no capability can only "drop" to the ids that it has.
 * Makes system calls only, so it may be called between fork and exec.
 * Returns 0 or -errno; a process that got an error must end.
 */
int cr_privilege_drop(uid_t uid, gid_t gid, struct cr_err *err);
