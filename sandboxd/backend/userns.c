/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/userns.h"

#include "common/auto.h"
#include "common/err.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>
#include <sys/wait.h>

static int write_map(int proc_fd, const char *name, uint32_t first_id, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(proc_fd, name, O_WRONLY | O_CLOEXEC);
    char map[64];

    if (fd < 0)
        return cr_err_sys(err, errno, "open %s of a new user namespace", name);
    (void)snprintf(map, sizeof(map), "0 %" PRIu32 " %" PRIu32 "\n", first_id, SBX_USERNS_RANGE);
    if (write(fd, map, strlen(map)) < 0)
        return cr_err_sys(err, errno,
                          "map ids %" PRIu32 " to %" PRIu32 " into a user namespace (--uid-base "
                          "chooses others)",
                          first_id, first_id + SBX_USERNS_RANGE - 1);
    return 0;
}

static int map_and_open(pid_t pid, uint32_t first_id, int *ret_fd, struct cr_err *err)
{
    char path[32];
    CR_AUTO_CLOSE int proc_fd = -1;
    CR_AUTO_CLOSE int ns_fd = -1;
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    proc_fd = openat(AT_FDCWD, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (proc_fd < 0)
        return cr_err_sys(err, errno, "open %s", path);
    r = write_map(proc_fd, "uid_map", first_id, err);
    if (r == 0)
        r = write_map(proc_fd, "gid_map", first_id, err);
    if (r < 0)
        return r;
    ns_fd = openat(proc_fd, "ns/user", O_RDONLY | O_CLOEXEC);
    if (ns_fd < 0)
        return cr_err_sys(err, errno, "open a new user namespace");
    *ret_fd = cr_take_fd(&ns_fd);
    return 0;
}

int sbx_userns_make(uint32_t first_id, int *ret_fd, struct cr_err *err)
{
    /* The raw call: nothing runs in the child but the wait for its end. */
    long pid = syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0);
    int r;

    if (pid < 0)
        return cr_err_sys(err, errno,
                          "make a user namespace (sysctl user.max_user_namespaces, "
                          "kernel.unprivileged_userns_clone or AppArmor may forbid it)");
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    r = map_and_open((pid_t)pid, first_id, ret_fd, err);
    (void)kill((pid_t)pid, SIGKILL);
    (void)waitpid((pid_t)pid, NULL, 0);
    return r;
}
