/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/weaken.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>

static const struct {
    enum sbx_control control;
    enum sbx_controller controller;
} controllers[] = {
    {SBX_CONTROL_MEMORY, SBX_CONTROLLER_MEMORY},
    {SBX_CONTROL_CPU, SBX_CONTROLLER_CPU},
    {SBX_CONTROL_PIDS, SBX_CONTROLLER_PIDS},
};

int sbx_weaken_parse(const struct sbx_native_settings *settings, uint32_t *ret_control,
                     struct cr_err *err)
{
    uint32_t control = 0;

    if (!settings->weaken) {
        *ret_control = SBX_WEAKEN_NOTHING;
        return 0;
    }
    if (!settings->is_selftest)
        return cr_err_set(err, EPERM, "--weaken is for the self-test: use sandboxd selftest");
    while (control < SBX_CONTROL_COUNT && strcmp(sbx_control_name(control), settings->weaken) != 0)
        control++;
    if (control == SBX_CONTROL_COUNT || control == SBX_CONTROL_NO_NEW_PRIVS ||
        control == SBX_CONTROL_CAPABILITIES)
        return cr_err_set(err, EINVAL, "--weaken: '%s' is no control that can be left out here",
                          settings->weaken);
    cr_log_warn("leaving out a control, for the self-test control=%s", settings->weaken);
    *ret_control = control;
    return 0;
}

bool sbx_is_weakened(const struct sbx_native *native, enum sbx_control control)
{
    return native->weakened == (uint32_t)control;
}

void sbx_weaken_host(struct sbx_native *native)
{
    if (native->weakened == SBX_WEAKEN_NOTHING)
        return;
    native->controls[native->weakened] = SBX_GAP;
    for (size_t i = 0; i < CR_ARRAY_SIZE(controllers); i++) {
        if (sbx_is_weakened(native, controllers[i].control))
            native->cgroups.hierarchy[controllers[i].controller] = -1; /* as where it is missing */
    }
    if (sbx_is_weakened(native, SBX_CONTROL_SWAP))
        native->cgroups.has_swap = false;
    if (sbx_is_weakened(native, SBX_CONTROL_USER))
        native->uid_base = 0; /* the ids of the box are those of the host */
}

int sbx_weaken_filter(struct sbx_native *native, struct cr_err *err)
{
    static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    CR_AUTO_CLOSE int fd = -1;

    if (!sbx_is_weakened(native, SBX_CONTROL_SECCOMP))
        return 0;
    fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || pwrite(fd, &allow, sizeof(allow), 0) != (ssize_t)sizeof(allow) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "make a filter that allows everything");
    cr_close_fd(&native->seccomp_fd);
    native->seccomp_fd = cr_take_fd(&fd);
    return 0;
}
