/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

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

/* Refuses names in `accepted` (comma-separated; NULL: none) that are no control. Pure. */
int sbx_host_check_accepted(const char *accepted, struct cr_err *err);

/* Refuses `control` when it is a gap that is not in `accepted`; the error says the fix. Pure. */
int sbx_host_check_gap(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
                       const char *accepted, struct cr_err *err);

/* Both of the above, for all controls. Pure. */
int sbx_host_check_gaps(const uint8_t controls[SBX_CONTROL_COUNT], const char *accepted,
                        struct cr_err *err);

/* Runs at one time: as asked, or one per core, at least two, as far as memory goes. Pure. */
uint32_t sbx_host_slots(uint64_t asked, long cores, uint64_t memory_bytes, uint32_t most);
