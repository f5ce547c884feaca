/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/gaps.h"

#include "common/err.h"
#include "common/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOSSES_MAX 256U

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

int sbx_gaps_check_names(const char *accepted, struct cr_err *err)
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

int sbx_gaps_check(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
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

/* All of them, as the flag takes them: nobody wants to hear of one after the other. */
static void list_losses(const uint8_t controls[SBX_CONTROL_COUNT], char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT && used < size; i++) {
        if (controls[i] != SBX_ENFORCED)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "",
                                     sbx_control_name(i));
    }
}

int sbx_gaps_check_rootless(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
                            const char *accepted, struct cr_err *err)
{
    const char *name = sbx_control_name(control);
    const char *what = controls[control] == SBX_GAP ? "lost" : "weaker";
    char losses[LOSSES_MAX];

    if (controls[control] == SBX_ENFORCED)
        return 0;
    list_losses(controls, losses, sizeof(losses));
    if (!is_listed(accepted, name))
        return cr_err_set(err, ENOTSUP,
                          "--rootless: the control '%s' is %s without root, and this is not "
                          "accepted: --accept-gap=%s accepts all that is lost or weaker",
                          name, what, losses);
    cr_log_warn("a control is %s without root, going on as accepted control=%s", what, name);
    return 0;
}

int sbx_gaps_check_all(const uint8_t controls[SBX_CONTROL_COUNT], const char *accepted,
                       struct cr_err *err)
{
    int r = sbx_gaps_check_names(accepted, err);

    for (uint32_t i = 0; r == 0 && i < SBX_CONTROL_COUNT; i++)
        r = sbx_gaps_check(controls, i, accepted, err);
    return r;
}
