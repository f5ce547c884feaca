/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/disarm.h"

#include "common/privilege.h"
#include "common/signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int sbx_disarm_signals(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int r = cr_signals_reset();

    (void)sigaction(SIGPIPE, &ignore, NULL);
    return r;
}

static int limit(__rlimit_resource_t resource, rlim_t value)
{
    const struct rlimit both = {.rlim_cur = value, .rlim_max = value};

    return setrlimit(resource, &both) < 0 ? -errno : 0;
}

int sbx_disarm_limit(const struct sbx_disarm_limit *limits, size_t count)
{
    int r = limit(RLIMIT_CORE, 0);

    for (size_t i = 0; r == 0 && i < count; i++)
        r = limit(limits[i].resource, limits[i].value);
    return r;
}

int sbx_disarm_drop(uid_t uid, gid_t gid, pid_t parent)
{
    int r = cr_privilege_drop(uid, gid, NULL);

    if (r < 0)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

int sbx_disarm_filter(struct sock_filter *code, size_t count)
{
    const struct sock_fprog program = {.len = (unsigned short)count, .filter = code};

    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
