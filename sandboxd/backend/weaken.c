/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/weaken.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>

int sbx_weaken_parse(const struct sbx_weaken_settings *settings, uint32_t *ret_control,
                     struct cr_err *err)
{
    uint32_t control = 0;

    if (!settings->control) {
        *ret_control = SBX_WEAKEN_NOTHING;
        return 0;
    }
    if (!settings->is_selftest)
        return cr_err_set(err, EPERM, "--weaken is for the self-test: use sandboxd selftest");
    while (control < SBX_CONTROL_COUNT && strcmp(sbx_control_name(control), settings->control) != 0)
        control++;
    if (control == SBX_CONTROL_COUNT)
        return cr_err_set(err, EINVAL, "--weaken: '%s' is no control", settings->control);
    cr_log_warn("leaving out a control, for the self-test control=%s", settings->control);
    *ret_control = control;
    return 0;
}

bool sbx_is_weakened(const struct sbx_backend *backend, enum sbx_control control)
{
    return backend->weakened == (uint32_t)control;
}

void sbx_weaken_controls(struct sbx_backend *backend)
{
    if (backend->weakened != SBX_WEAKEN_NOTHING)
        backend->controls[backend->weakened] = SBX_GAP;
}

int sbx_weaken_filter(const struct sbx_backend *backend, int *filter_fd, struct cr_err *err)
{
    static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    CR_AUTO_CLOSE int fd = -1;

    if (!sbx_is_weakened(backend, SBX_CONTROL_SECCOMP))
        return 0;
    fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || pwrite(fd, &allow, sizeof(allow), 0) != (ssize_t)sizeof(allow) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "make a filter that allows everything");
    cr_close_fd(filter_fd);
    *filter_fd = cr_take_fd(&fd);
    return 0;
}
