/* SPDX-License-Identifier: Apache-2.0 */

/* A program in a box, looked at from the host. */
#include "common/auto.h"
#include "sandboxd/selftest/outside.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"
#include "sandboxd/supervisor/rootless.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_CAPABILITY "0000000000000000"
#define BOX_BYTES_MAX (2UL << 20) /* of memory, that a box itself may be charged for */

enum how {
    BY_STATUS,
    BY_UID,
    BY_NAMESPACE,
    BY_RLIMIT,
    BY_CGROUP,
    BY_MOUNT,
    BY_SPACE,
    BY_REACH,
    BY_DESCRIPTORS,
    BY_INIT_USER,
};

static const struct outside {
    const char *id;
    const char *name;
    uint32_t control;
    enum how how;
    const char *what; /* key, kind, limit, path or mount point */
    const char *expected;
} outsides[] = {
    {"E19", "host-sees-own-user", SBX_CONTROL_USER, BY_UID, NULL, "own range"},
    {"E19", "host-sees-no-groups", SBX_CONTROL_USER, BY_STATUS, "Groups", "none"},
    {"E19", "host-sees-user-namespace", SBX_CONTROL_USER, BY_NAMESPACE, "user", "own"},
    {"E24", "init-is-another-user", SBX_CONTROL_USER, BY_INIT_USER, NULL, "another user"},
    {"E53", "host-sees-no-new-privs", SBX_CONTROL_NO_NEW_PRIVS, BY_STATUS, "NoNewPrivs", "1"},
    {"E53", "host-sees-seccomp", SBX_CONTROL_SECCOMP, BY_STATUS, "Seccomp", "2"},
    {"E17", "host-sees-inheritable", SBX_CONTROL_CAPABILITIES, BY_STATUS, "CapInh", NO_CAPABILITY},
    {"E17", "host-sees-permitted", SBX_CONTROL_CAPABILITIES, BY_STATUS, "CapPrm", NO_CAPABILITY},
    {"E17", "host-sees-effective", SBX_CONTROL_CAPABILITIES, BY_STATUS, "CapEff", NO_CAPABILITY},
    {"E17", "host-sees-bounding", SBX_CONTROL_CAPABILITIES, BY_STATUS, "CapBnd", NO_CAPABILITY},
    {"E17", "host-sees-ambient", SBX_CONTROL_CAPABILITIES, BY_STATUS, "CapAmb", NO_CAPABILITY},
    {"L10", "host-sees-network-namespace", SBX_CONTROL_NETWORK, BY_NAMESPACE, "net", "own"},
    {"R10", "host-sees-ipc-namespace", SBX_CONTROL_IPC, BY_NAMESPACE, "ipc", "own"},
    {"L09", "host-sees-pid-namespace", SBX_CONTROL_PROC, BY_NAMESPACE, "pid", "own"},
    {"E13", "host-sees-mount-namespace", SBX_CONTROL_ROOTFS, BY_NAMESPACE, "mnt", "own"},
    {"L09", "host-sees-uts-namespace", SBX_CONTROL_PROC, BY_NAMESPACE, "uts", "own"},
    {"E32", "host-sees-cgroup-namespace", SBX_CONTROL_PROC, BY_NAMESPACE, "cgroup", "own"},
    {"R17", "open-files-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max open files", "1024"},
    {"R14", "file-size-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max file size", "67108864"},
    {"R34", "core-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max core file size", "0"},
    {"R13", "stack-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max stack size", "8388608"},
    {"R12", "locked-memory-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max locked memory", "65536"},
    {"R10", "message-queue-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max msgqueue size", "0"},
    {"R19", "pending-signals-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max pending signals", "1024"},
    {"E60", "nice-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max nice priority", "0"},
    {"E60", "real-time-limit", SBX_CONTROL_RLIMITS, BY_RLIMIT, "Max realtime priority", "0"},
    {"R05", "memory-limit-in-force", SBX_CONTROL_MEMORY, BY_CGROUP, "memory", "134217728"},
    {"R05", "swap-limit-in-force", SBX_CONTROL_SWAP, BY_CGROUP, "swap", "134217728"},
    {"R20", "cpu-quota-in-force", SBX_CONTROL_CPU, BY_CGROUP, "cpu", "50000 100000"},
    {"R01", "process-limit-in-force", SBX_CONTROL_PIDS, BY_CGROUP, "pids", "65"},
    {"E13", "root-mount", SBX_CONTROL_ROOTFS, BY_MOUNT, "/", "ro,nosuid,noexec"},
    {"E13", "usr-mount", SBX_CONTROL_ROOTFS, BY_MOUNT, "/usr", "ro,nosuid,nodev"},
    {"E51", "workspace-mount", SBX_CONTROL_TMPFS, BY_MOUNT, "/workspace", "nosuid,nodev"},
    {"E51", "tmp-mount", SBX_CONTROL_TMPFS, BY_MOUNT, "/tmp", "nosuid,nodev,noexec"},
    {"E51", "shm-mount", SBX_CONTROL_TMPFS, BY_MOUNT, "/dev/shm", "nosuid,nodev,noexec"},
    {"E26", "proc-mount", SBX_CONTROL_PROC, BY_MOUNT, "/proc",
     "nosuid,nodev,noexec,hidepid=invisible,subset=pid"},
    {"E28", "host-sees-no-keys", SBX_CONTROL_PROC, BY_REACH, "/proc/keys", "out of reach"},
    {"E28", "host-sees-no-kcore", SBX_CONTROL_PROC, BY_REACH, "/proc/kcore", "out of reach"},
    {"L06", "host-sees-no-kallsyms", SBX_CONTROL_PROC, BY_REACH, "/proc/kallsyms", "out of reach"},
    {"L07", "host-sees-no-config", SBX_CONTROL_PROC, BY_REACH, "/proc/config.gz", "out of reach"},
    {"L07", "host-sees-no-cpuinfo", SBX_CONTROL_PROC, BY_REACH, "/proc/cpuinfo", "out of reach"},
    {"L07", "host-sees-no-meminfo", SBX_CONTROL_PROC, BY_REACH, "/proc/meminfo", "out of reach"},
    {"E33", "host-sees-no-sys", SBX_CONTROL_PROC, BY_REACH, "/sys", "out of reach"},
    {"E28", "host-sees-no-timers", SBX_CONTROL_PROC, BY_REACH, "/proc/timer_list", "out of reach"},
    {"E33", "host-sees-no-firmware", SBX_CONTROL_PROC, BY_REACH, "/sys/firmware", "out of reach"},
    {"R07", "workspace-size", SBX_CONTROL_TMPFS, BY_SPACE, "/workspace",
     "67108864 bytes, 4100 inodes"},
    {"R07", "tmp-size", SBX_CONTROL_TMPFS, BY_SPACE, "/tmp", "67108864 bytes, 4100 inodes"},
    {"R07", "shm-size", SBX_CONTROL_TMPFS, BY_SPACE, "/dev/shm", "67108864 bytes, 4100 inodes"},
    {"E55", "host-sees-three-descriptors", SBX_CONTROL_IPC, BY_DESCRIPTORS, NULL, "3"},
};

static size_t count_outsides(void)
{
    return CR_ARRAY_SIZE(outsides);
}

static void describe(size_t index, struct sbx_item *ret_item)
{
    *ret_item = (struct sbx_item){
        .id = outsides[index].id, .name = outsides[index].name, .control = outsides[index].control};
    (void)snprintf(ret_item->expected, sizeof(ret_item->expected), "%s", outsides[index].expected);
}

/* "own range" when all four ids are one of the stack's own; without root, a user beside the one
 * that started it and the front's. */
static void look_at_uid(const struct sbx_tester *tester, const struct sbx_view *view,
                        char *ret_seen, size_t size)
{
    const bool is_rootless = tester->stack->is_rootless;
    const uint32_t base = is_rootless ? SBX_ROOTLESS_FRONT_ID + 1 : tester->stack->uid_base;
    const uint32_t count = is_rootless ? UINT32_MAX - base : SBX_STACK_IDS;
    char *at = ret_seen;

    sbx_view_status(view, "Uid", ret_seen, size);
    for (int i = 0; i < 4; i++) {
        const unsigned long uid = strtoul(at, &at, 10);

        if (uid < base || uid - base >= (unsigned long)count)
            return;
    }
    (void)snprintf(ret_seen, size, "own range");
}

/* What the box itself is charged for comes on top of what its program may have. */
static void look_at_group(const struct sbx_tester *tester, const struct sbx_view *view,
                          const struct outside *outside, char *ret_seen, size_t size)
{
    unsigned long expected = strtoul(outside->expected, NULL, 10);
    unsigned long seen;

    sbx_view_cgroup(view, outside->what, ret_seen, size);
    if (tester->stack->is_rootless && strcmp(ret_seen, "?") == 0)
        (void)snprintf(ret_seen, size, "no limit"); /* of the one group that all are in */
    seen = strtoul(ret_seen, NULL, 10);
    if (outside->control != SBX_CONTROL_MEMORY && outside->control != SBX_CONTROL_SWAP)
        return;
    if (expected > 0 && seen >= expected && seen - expected <= BOX_BYTES_MAX)
        (void)snprintf(ret_seen, size, "%s", outside->expected);
}

static void look(const struct sbx_tester *tester, const struct sbx_view *view,
                 const struct outside *outside, char *ret_seen, size_t size)
{
    switch (outside->how) {
    case BY_STATUS:
        sbx_view_status(view, outside->what, ret_seen, size);
        break;
    case BY_UID:
        look_at_uid(tester, view, ret_seen, size);
        break;
    case BY_NAMESPACE:
        sbx_view_namespace(view, outside->what, ret_seen, size);
        break;
    case BY_RLIMIT:
        sbx_view_rlimit(view, outside->what, ret_seen, size);
        break;
    case BY_CGROUP:
        look_at_group(tester, view, outside, ret_seen, size);
        break;
    case BY_MOUNT:
        sbx_view_mount(view, outside->what, outside->expected, ret_seen, size);
        break;
    case BY_SPACE:
        sbx_view_space(view, outside->what, ret_seen, size);
        break;
    case BY_REACH:
        sbx_view_reach(view, outside->what, ret_seen, size);
        break;
    case BY_DESCRIPTORS:
        sbx_view_descriptors(view, ret_seen, size);
        break;
    case BY_INIT_USER:
        sbx_view_init_user(view, ret_seen, size);
        break;
    }
}

static void look_at_all(struct sbx_tester *tester, const struct sbx_view *view, size_t first)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(outsides); i++) {
        char seen[96];

        if (!sbx_tester_wants(tester, outsides[i].control))
            continue;
        look(tester, view, &outsides[i], seen, sizeof(seen));
        if (strcmp(seen, "?") == 0)
            sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "cannot be seen from here");
        else
            sbx_tester_compare(tester, first + i, seen);
    }
}

static bool is_wanted(const struct sbx_tester *tester)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(outsides); i++) {
        if (sbx_tester_wants(tester, outsides[i].control))
            return true;
    }
    return false;
}

static void run_outsides(struct sbx_tester *tester, size_t first)
{
    static const struct sbx_spec spec = {.behaviour = "wait-to-be-seen"};
    struct sbx_background box;
    struct sbx_view view;

    if (!is_wanted(tester))
        return;
    if (sbx_background_start(tester, &spec, &box) < 0) {
        for (size_t i = 0; i < CR_ARRAY_SIZE(outsides); i++)
            sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "the program did not start");
        return;
    }
    if (sbx_view_find("wait-to-be-seen", tester->stack->token, &view) == 0) {
        look_at_all(tester, &view, first);
    } else {
        for (size_t i = 0; i < CR_ARRAY_SIZE(outsides); i++)
            sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "the program is not to be found");
    }
    sbx_background_stop(&box);
}

const struct sbx_group sbx_group_outside = {count_outsides, describe, run_outsides};
