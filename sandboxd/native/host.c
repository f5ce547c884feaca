/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/host.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/cgroup.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <sys/capability.h>

/* A slot costs its memory limit and something for pages of the kernel. */
#define SLOT_MEMORY_BYTES (UINT64_C(256) << 20)

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

/* True when `name` is one of the words of `list`. */
static bool is_listed(const char *list, const char *name)
{
    size_t size = strlen(name);

    for (const char *at = list; at && *at;) {
        size_t length = strcspn(at, ",");

        if (length == size && memcmp(at, name, size) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_control(const char *name, size_t size)
{
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        const char *known = sbx_control_name(i);

        if (strlen(known) == size && memcmp(known, name, size) == 0)
            return true;
    }
    return false;
}

int sbx_host_check_accepted(const char *accepted, struct cr_err *err)
{
    for (const char *at = accepted; at && *at;) {
        size_t length = strcspn(at, ",");

        if (!is_control(at, length))
            return cr_err_set(err, EINVAL, "--accept-gap: '%.*s' is no control", (int)length, at);
        at += length + (at[length] == ',');
    }
    return 0;
}

/* How an operator gets a control back. */
static const char *gap_fix(uint32_t control)
{
    switch (control) {
    case SBX_CONTROL_MEMORY:
        return "mount the control group controller memory (some kernels need the boot parameter "
               "cgroup_enable=memory)";
    case SBX_CONTROL_SWAP:
        return "turn swap accounting on (boot parameter swapaccount=1)";
    case SBX_CONTROL_CPU:
        return "mount the control group controller cpu";
    case SBX_CONTROL_CPU_TIME:
        return "mount the control group controller cpuacct";
    case SBX_CONTROL_PIDS:
        return "mount the control group controller pids";
    default:
        return "see docs/threat-model.md";
    }
}

int sbx_host_check_gap(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
                       const char *accepted, struct cr_err *err)
{
    const char *name = sbx_control_name(control);

    if (controls[control] != SBX_GAP)
        return 0;
    if (!is_listed(accepted, name))
        return cr_err_set(err, ENOTSUP,
                          "this host cannot enforce the control '%s': %s, or accept the gap with "
                          "--accept-gap=%s",
                          name, gap_fix(control), name);
    cr_log_warn("this host cannot enforce a control, going on as accepted control=%s", name);
    return 0;
}

int sbx_host_check_gaps(const uint8_t controls[SBX_CONTROL_COUNT], const char *accepted,
                        struct cr_err *err)
{
    int r = sbx_host_check_accepted(accepted, err);

    for (uint32_t i = 0; r == 0 && i < SBX_CONTROL_COUNT; i++)
        r = sbx_host_check_gap(controls, i, accepted, err);
    return r;
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
