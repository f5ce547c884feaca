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

/* Root and the capabilities that building a box takes; the error names the first that is missing.
 */
int sbx_host_check_privileges(struct cr_err *err);

/* Judges every control by what was found in the control groups. Pure. */
void sbx_host_judge(const struct sbx_cgroup_host *cgroups, uint8_t ret_controls[SBX_CONTROL_COUNT]);

/*
 * Refuses gaps that are not in `accepted` (comma-separated names; NULL: none)
 * and names that are no control. Pure.
 */
int sbx_host_check_gaps(const uint8_t controls[SBX_CONTROL_COUNT], const char *accepted,
                        struct cr_err *err);

/* Runs at one time: as asked, or one per core, at least two, as far as memory goes. Pure. */
uint32_t sbx_host_slots(uint64_t asked, long cores, uint64_t memory_bytes, uint32_t most);
