/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_cgroup_host;

/*
 * What this host can enforce. A control that it cannot is a gap: the backend
 * then refuses to start unless the operator accepted it by name.
 */

int sbx_host_check_root(struct cr_err *err);

/* The capabilities that building a box takes, by index; the name of one past the last is NULL. */
const char *sbx_host_capability_name(uint32_t index);
int sbx_host_check_capability(uint32_t index, struct cr_err *err);

/* Judges every control by what was found in the control groups. Pure. */
void sbx_host_judge(const struct sbx_cgroup_host *cgroups, uint8_t ret_controls[SBX_CONTROL_COUNT]);

/*
 * Behind the above: what an ordinary user loses against root. Without control
 * groups, what is only looked at is PARTIAL; without ids of their own so are
 * the users of the boxes, and input files that are read-only. Pure.
 */
void sbx_host_judge_rootless(const struct sbx_cgroup_host *cgroups, bool has_own_ids,
                             uint8_t controls[SBX_CONTROL_COUNT]);

/* How many users, and as many groups, from 1 on our own user namespace has; 0: none, or not known.
 */
uint32_t sbx_host_own_ids(void);

/* Pure: the same of one map, as /proc/self/uid_map shows it (user_namespaces(7)). */
uint32_t sbx_host_parse_ids(const char *text);

/*
 * How many files the backend needs to have open at one time, for `slots` runs,
 * `places` of boxes and `groups` control groups, each of which keeps what is
 * used of it open. Measured with version 1, 2 slots, 31 places and 33 groups:
 * 1,050 at rest, and 5 more for each run. Pure.
 */
uint64_t sbx_host_files(const struct sbx_cgroup_host *cgroups, uint32_t slots, uint32_t places,
                        uint32_t groups);

/* Runs at one time: as asked, or one per core, at least two, as far as memory goes. Pure. */
uint32_t sbx_host_slots(uint64_t asked, long cores, uint64_t memory_bytes, uint32_t most);
