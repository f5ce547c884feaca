/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/weaken.h"

#include "common/auto.h"
#include "sandboxd/native/native.h"

static const struct {
    enum sbx_control control;
    enum sbx_controller controller;
} controllers[] = {
    {SBX_CONTROL_MEMORY, SBX_CONTROLLER_MEMORY},
    {SBX_CONTROL_CPU, SBX_CONTROLLER_CPU},
    {SBX_CONTROL_PIDS, SBX_CONTROLLER_PIDS},
};

void sbx_native_weaken(struct sbx_native *native)
{
    struct sbx_backend *base = &native->base;

    sbx_weaken_controls(base);
    for (size_t i = 0; i < CR_ARRAY_SIZE(controllers); i++) {
        if (sbx_is_weakened(base, controllers[i].control))
            base->cgroups.hierarchy[controllers[i].controller] = -1; /* as where it is missing */
    }
    if (sbx_is_weakened(base, SBX_CONTROL_SWAP))
        base->cgroups.has_swap = false;
    if (sbx_is_weakened(base, SBX_CONTROL_USER))
        native->uid_base = 0; /* the ids of the box are those of the host */
}
