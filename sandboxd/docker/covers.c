/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/covers.h"

#include <stddef.h>

// clang-format off
#define PROC \
    "/proc/acpi", "/proc/asound", "/proc/buddyinfo", "/proc/cgroups", "/proc/cmdline", \
    "/proc/config.gz", "/proc/consoles", "/proc/cpuinfo", "/proc/crypto", \
    "/proc/devices", "/proc/diskstats", "/proc/driver", "/proc/interrupts", \
    "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", \
    "/proc/keys", "/proc/kmsg", "/proc/latency_stats", "/proc/loadavg", "/proc/locks", \
    "/proc/meminfo", "/proc/misc", "/proc/modules", "/proc/mtrr", "/proc/pagetypeinfo", \
    "/proc/partitions", "/proc/pressure", "/proc/sched_debug", "/proc/schedstat", \
    "/proc/scsi", "/proc/slabinfo", "/proc/softirqs", "/proc/stat", "/proc/swaps", \
    "/proc/sysvipc", "/proc/timer_list", "/proc/timer_stats", "/proc/tty", \
    "/proc/uptime", "/proc/version", "/proc/vmallocinfo", "/proc/vmstat", \
    "/proc/zoneinfo"
// clang-format on

static const char *const covered[] = {PROC, "/sys", NULL};

static const char *const covered_but_groups[] = {
    PROC,          "/sys/block",   "/sys/bus",      "/sys/class",
    "/sys/dev",    "/sys/devices", "/sys/firmware", "/sys/hypervisor",
    "/sys/kernel", "/sys/module",  "/sys/power",    NULL,
};

const char *const *sbx_covered_paths(bool has_groups)
{
    return has_groups ? covered_but_groups : covered;
}

const char *const sbx_read_only_paths[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL,
};
