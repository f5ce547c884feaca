/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <sys/resource.h>
#include <sys/types.h>

struct sock_filter;

/*
 * How a child of a backend gives up what it has before it touches what a
 * program has made: in this order, and each returns 0 or -errno. System calls
 * only, so that all may be called behind fork().
 */

/* No signal is as the backend had it, and a pipe that nobody reads any more is an error (EPIPE). */
int sbx_disarm_signals(void);

struct sbx_disarm_limit {
    __rlimit_resource_t resource;
    rlim_t value; /* soft and hard */
};

/* No core files, and these limits. */
int sbx_disarm_limit(const struct sbx_disarm_limit *limits, size_t count);

/* Every privilege, for good; and from here on nobody traces this process, which dies with
 * `parent`, its maker. */
int sbx_disarm_drop(uid_t uid, gid_t gid, pid_t parent);

/* What the rest of this process calls: begins with SBX_BPF_HEAD, and ends with a return. */
int sbx_disarm_filter(struct sock_filter *code, size_t count);
