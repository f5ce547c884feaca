/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/host.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/capability.h>

/* A slot costs its memory limit and something for pages of the kernel. */
#define SLOT_MEMORY_BYTES (UINT64_C(256) << 20)

/* Open files; see sbx_host_files(). */
#define FILES_OF_BACKEND 64
#define FILES_OF_SLOT 8
#define FILES_OF_PLACE 3 /* its user namespace; a workspace or the ends of a box that waits */

static const struct {
    cap_value_t value;
    const char *name;
    const char *why;
} needs[] = {
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "to make namespaces and mounts"},
    {CAP_NET_ADMIN, "CAP_NET_ADMIN", "to bring up the loopback of a box"},
    {CAP_MKNOD, "CAP_MKNOD", "to make /dev/null and its like for the boxes"},
    {CAP_SETUID, "CAP_SETUID", "to map user ids"},
    {CAP_SETGID, "CAP_SETGID", "to map group ids"},
    {CAP_CHOWN, "CAP_CHOWN", "to give a workspace to its user"},
    {CAP_KILL, "CAP_KILL", "to kill programs of other users"},
    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "to open files of a workspace"},
};

/* What each missing piece of control groups costs. */
static const struct {
    enum sbx_controller controller;
    enum sbx_control control;
} controllers[] = {
    {SBX_CONTROLLER_MEMORY, SBX_CONTROL_MEMORY}, {SBX_CONTROLLER_MEMORY, SBX_CONTROL_SWAP},
    {SBX_CONTROLLER_CPU, SBX_CONTROL_CPU},       {SBX_CONTROLLER_CPUACCT, SBX_CONTROL_CPU_TIME},
    {SBX_CONTROLLER_PIDS, SBX_CONTROL_PIDS},
};

int sbx_host_check_root(struct cr_err *err)
{
    return geteuid() == 0
               ? 0
               : cr_err_set(err, EPERM, "sandboxd-native must be started as root (try sudo)");
}

const char *sbx_host_capability_name(uint32_t index)
{
    return index < CR_ARRAY_SIZE(needs) ? needs[index].name : NULL;
}

int sbx_host_check_capability(uint32_t index, struct cr_err *err)
{
    cap_flag_value_t is_set = CAP_CLEAR;
    cap_t caps = cap_get_proc();

    if (!caps)
        return cr_err_sys(err, errno, "read our own capabilities");
    (void)cap_get_flag(caps, needs[index].value, CAP_EFFECTIVE, &is_set);
    (void)cap_free(caps);
    if (is_set == CAP_SET)
        return 0;
    return cr_err_set(err, EPERM, "%s is missing %s: grant it to the service or container",
                      needs[index].name, needs[index].why);
}

void sbx_host_judge(const struct sbx_cgroup_host *cgroups, uint8_t ret_controls[SBX_CONTROL_COUNT])
{
    memset(ret_controls, SBX_ENFORCED, SBX_CONTROL_COUNT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(controllers); i++) {
        if (cgroups->hierarchy[controllers[i].controller] < 0)
            ret_controls[controllers[i].control] = SBX_GAP;
    }
    if (!cgroups->has_swap)
        ret_controls[SBX_CONTROL_SWAP] = SBX_GAP;
}

void sbx_host_judge_rootless(const struct sbx_cgroup_host *cgroups, bool has_own_ids,
                             uint8_t controls[SBX_CONTROL_COUNT])
{
    static const enum sbx_control looked_at[] = {SBX_CONTROL_MEMORY, SBX_CONTROL_SWAP,
                                                 SBX_CONTROL_CPU_TIME, SBX_CONTROL_PIDS};

    if (!has_own_ids) {
        controls[SBX_CONTROL_USER] = SBX_PARTIAL;
        controls[SBX_CONTROL_ROOTFS] = SBX_PARTIAL; /* input files that are read-only */
    }
    for (size_t i = 0; cgroups->ops->look_ns > 0 && i < CR_ARRAY_SIZE(looked_at); i++)
        controls[looked_at[i]] = SBX_PARTIAL;
}

uint32_t sbx_host_parse_ids(const char *text)
{
    while (*text) {
        const size_t size = strcspn(text, "\n");
        unsigned int inside;
        unsigned int outside;
        unsigned int count;

        // NOLINTNEXTLINE(cert-err34-c): numbers of the kernel
        if (sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 1)
            return count;
        text += size + (text[size] == '\n');
    }
    return 0;
}

static uint32_t count_ids(const char *path)
{
    char text[1024];

    return sbx_cgroup_read(AT_FDCWD, path, text, sizeof(text)) < 0 ? 0 : sbx_host_parse_ids(text);
}

uint32_t sbx_host_own_ids(void)
{
    const uint32_t users = count_ids("/proc/self/uid_map");
    const uint32_t groups = count_ids("/proc/self/gid_map");

    return users < groups ? users : groups;
}

uint64_t sbx_host_files(const struct sbx_cgroup_host *cgroups, uint32_t slots, uint32_t places,
                        uint32_t groups)
{
    /* Its event and its network, then folder and entry in each hierarchy. */
    uint64_t of_group = 2 + UINT64_C(2) * cgroups->hierarchy_count;

    for (size_t i = 0; i < SBX_CGROUP_FILE_COUNT; i++)
        of_group += cgroups->ops->files[i].name &&
                    cgroups->hierarchy[cgroups->ops->files[i].controller] >= 0;
    return FILES_OF_BACKEND + FILES_OF_SLOT * (uint64_t)slots + FILES_OF_PLACE * (uint64_t)places +
           of_group * groups;
}

uint32_t sbx_host_slots(uint64_t asked, long cores, uint64_t memory_bytes, uint32_t most)
{
    uint64_t slots = asked;
    uint64_t fit = memory_bytes / SLOT_MEMORY_BYTES;

    if (asked == 0) {
        slots = cores > 2 ? (uint64_t)cores : 2;
        if (slots > fit)
            slots = fit > 0 ? fit : 1;
    }
    return slots > most ? most : (uint32_t)slots;
}
