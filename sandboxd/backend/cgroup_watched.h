/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"

#include <stdint.h>

#include <sys/types.h>

struct cr_err;

#define SBX_WATCHED_NS INT64_C(10000000)

/*
 * Groups where there are no control groups, as for an ordinary user: the
 * processes of a box are looked at in /proc, every SBX_WATCHED_NS, from its
 * pid 1 down. What happens between two looks is not seen, and nothing is held
 * back: who has too much is found and killed.
 */
struct sbx_watch {
    pid_t pid; /* of sandbox-init; 0: none yet */
    uint64_t memory_limit_bytes;
    uint64_t process_limit; /* sandbox-init counted */
    struct sbx_cgroup_usage seen;
};

/* For a process without control groups; instead of sbx_cgroup_host_find(). The version is 0. */
void sbx_cgroup_host_watch(struct sbx_cgroup_host *host);

/* Whose processes the group counts from now on. Nothing to do where the kernel counts. */
void sbx_cgroup_watch(const struct sbx_cgroup *group, pid_t pid);

/* At its end, from wait4(2): sandbox-init with all that it reaped, which is exact. Likewise. */
void sbx_cgroup_watch_end(const struct sbx_cgroup *group, uint64_t user_us, uint64_t system_us);

/*
 * Pure: what /proc/PID/stat tells of CPU time, reaped children included, in
 * clock ticks. Returns 0 or -EPROTO.
 */
int sbx_watch_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system);

/* Pure: Pss and SwapPss of /proc/PID/smaps_rollup, in bytes; 0 for what is not there. */
uint64_t sbx_watch_parse_rollup(const char *text);
