/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct sbx_cgroup_host;

/*
 * What this service may use of the host: the machine, less what the control
 * groups of the own path and above it allow. A container's or a unit's limit
 * is what counts, not what the machine has.
 */
struct sbx_capacity {
    uint64_t memory_bytes;
    uint32_t cores; /* processors, or the quota rounded up where that is fewer; at least 1 */
    uint32_t
        millicores; /* the tightest quota, rounded down, at least 1; or SBX_CAPACITY_NO_QUOTA */
};

#define SBX_CAPACITY_NO_QUOTA UINT32_MAX

void sbx_capacity_read(const struct sbx_cgroup_host *cgroups, struct sbx_capacity *ret_capacity);

/* All of the machine: where somebody else's groups hold the runs. */
void sbx_capacity_machine(struct sbx_capacity *ret_capacity);

/* What all runs together may be promised: an eighth stays with the service and the page cache. */
uint64_t sbx_capacity_for_runs(uint64_t memory_bytes);

/* The two halves of the above, for one control group and those over it; pure but for their files.
 */
uint64_t sbx_capacity_memory(int group_fd, uint32_t version, uint64_t machine_bytes);
uint32_t sbx_capacity_millicores(int group_fd, uint32_t version);
