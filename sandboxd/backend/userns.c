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

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LINE_MAX_BYTES 40

static int write_map(int proc_fd, const char *name, const struct sbx_userns_range *ranges,
                     size_t count, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(proc_fd, name, O_WRONLY | O_CLOEXEC);
    char map[SBX_USERNS_RANGES_MAX * LINE_MAX_BYTES];
    size_t size = 0;

    if (fd < 0)
        return cr_err_sys(err, errno, "open %s of a new user namespace", name);
    for (size_t i = 0; i < count; i++) {
        int n = snprintf(map + size, sizeof(map) - size, "%" PRIu32 " %" PRIu32 " %" PRIu32 "\n",
                         ranges[i].inside, ranges[i].outside, ranges[i].count);

        size += n > 0 ? (size_t)n : 0;
    }
    if (write(fd, map, size) < 0)
        return cr_err_sys(err, errno,
                          "map ids %" PRIu32 " to %" PRIu32 " into a user namespace (--uid-base "
                          "chooses others)",
                          ranges[0].outside, ranges[0].outside + ranges[0].count - 1);
    return 0;
}

static int map_and_open(pid_t pid, const struct sbx_userns_range *ranges, size_t count, int *ret_fd,
                        struct cr_err *err)
{
    char path[32];
    CR_AUTO_CLOSE int proc_fd = -1;
    CR_AUTO_CLOSE int ns_fd = -1;
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    proc_fd = openat(AT_FDCWD, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (proc_fd < 0)
        return cr_err_sys(err, errno, "open %s", path);
    r = write_map(proc_fd, "uid_map", ranges, count, err);
    if (r == 0)
        r = write_map(proc_fd, "gid_map", ranges, count, err);
    if (r < 0)
        return r;
    ns_fd = openat(proc_fd, "ns/user", O_RDONLY | O_CLOEXEC);
    if (ns_fd < 0)
        return cr_err_sys(err, errno, "open a new user namespace");
    *ret_fd = cr_take_fd(&ns_fd);
    return 0;
}

/* Has copies of all that the parent holds, and must not outlive it: they would hide its end. */
__attribute__((noreturn)) static void hold_namespace(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) {
        for (;;)
            (void)pause();
    }
    _exit(1);
}

int sbx_userns_make_ranges(const struct sbx_userns_range *ranges, size_t count, int *ret_fd,
                           struct cr_err *err)
{
    const pid_t parent = getpid();
    long pid;
    int r;

    if (count == 0 || count > SBX_USERNS_RANGES_MAX)
        return cr_err_set(err, EINVAL, "map %zu ranges of ids", count);
    /* The raw call: nothing runs in the child but the wait for its end. */
    pid = syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0);
    if (pid < 0)
        return cr_err_sys(err, errno,
                          "make a user namespace (sysctl user.max_user_namespaces, "
                          "kernel.unprivileged_userns_clone or AppArmor may forbid it)");
    if (pid == 0)
        hold_namespace(parent);
    r = map_and_open((pid_t)pid, ranges, count, ret_fd, err);
    (void)kill((pid_t)pid, SIGKILL);
    (void)waitpid((pid_t)pid, NULL, 0);
    return r;
}

int sbx_userns_make(uint32_t first_id, int *ret_fd, struct cr_err *err)
{
    const struct sbx_userns_range range = {
        .inside = 0, .outside = first_id, .count = SBX_USERNS_RANGE};

    return sbx_userns_make_ranges(&range, 1, ret_fd, err);
}
