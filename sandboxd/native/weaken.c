/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/weaken.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/native/native.h"

#include <errno.h>

static const struct {
    enum sbx_control control;
    enum sbx_controller controller;
} controllers[] = {
    {SBX_CONTROL_MEMORY, SBX_CONTROLLER_MEMORY},
    {SBX_CONTROL_CPU, SBX_CONTROLLER_CPU},
    {SBX_CONTROL_PIDS, SBX_CONTROLLER_PIDS},
};

int sbx_native_may_weaken(uint32_t control, struct cr_err *err)
{
    if (control == SBX_CONTROL_NO_NEW_PRIVS || control == SBX_CONTROL_CAPABILITIES)
        return cr_err_set(err, EINVAL, "--weaken: '%s' is no control that can be left out here",
                          sbx_control_name(control));
    return 0;
}

void sbx_native_weaken(struct sbx_native *native)
{
    struct sbx_backend *base = &native->base;

    sbx_weaken_controls(base);
    for (size_t i = 0; i < CR_ARRAY_SIZE(controllers); i++) {
        if (sbx_is_weakened(base, controllers[i].control))
            base->cgroups.hierarchy[controllers[i].controller] = -1; /* as where it is missing */
    }
    base->cgroups.is_memory_unseen = sbx_is_weakened(base, SBX_CONTROL_MEMORY);
    base->cgroups.is_pids_unseen = sbx_is_weakened(base, SBX_CONTROL_PIDS);
    if (sbx_is_weakened(base, SBX_CONTROL_SWAP))
        base->cgroups.has_swap = false;
    if (sbx_is_weakened(base, SBX_CONTROL_USER))
        native->uid_base = native->own_ids = 0; /* the ids of the box are those of the host */
}
