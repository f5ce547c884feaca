/* SPDX-License-Identifier: Apache-2.0 */

/*
 * In place of cr_privilege_drop() in sandbox-init-weak, unless it is to leave
 * something else out (weak_box.c): it changes the user and leaves out
 * no_new_privs and the emptying of the bounding set, so that their probes can
 * be seen to fail.
 */
#include "common/err.h"
#include "common/privilege.h"
#include "sandboxd/wire/boxspawn.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Without no_new_privs a filter takes CAP_SYS_ADMIN to load; the exec behind it ends them. */
static int raise_effective(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* 1 when there is no capability to change the user with. */
static int has_nothing(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    return (data[0].permitted | data[1].permitted) == 0;
}

int __real_cr_privilege_drop(uid_t uid, gid_t gid, struct cr_err *err);
int __wrap_cr_privilege_drop(uid_t uid, gid_t gid, struct cr_err *err);

int __wrap_cr_privilege_drop(uid_t uid, gid_t gid, struct cr_err *err)
{
    int r;

    if (secure_getenv(SBX_INIT_LEAVE_OUT))
        return __real_cr_privilege_drop(uid, gid, err);
    r = has_nothing();
    if (r < 0)
        return cr_err_sys(err, -r, "read the capabilities");
    if (r > 0)
        return 0; /* a container's: whoever it was started as */
    /* EPERM: an ordinary user's user namespace, in which nobody may (user_namespaces(7)). */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || (setgroups(0, NULL) < 0 && errno != EPERM) ||
        setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return cr_err_sys(err, errno, "become user %u, group %u", uid, gid);
    r = raise_effective();
    return r < 0 ? cr_err_sys(err, -r, "keep the capabilities") : 0;
}
