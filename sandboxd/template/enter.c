/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/template/enter.h"

#include "common/auto.h"
#include "common/signals.h"
#include "common/slice.h"
#include "common/unconst.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/template.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ENVIRONMENT_MAX 32
#define FIRST_SPARE_FD 300
#define FILE_CREATION_MASK 022
#define LOADER_VARIABLE "LD_PRELOAD=/proc/self/fd/203"

_Noreturn static void fail(int control_fd, const char *step, int error)
{
    struct sbx_template_msg msg = {.op = SBX_TEMPLATE_FAILED, .error = error};

    (void)snprintf(msg.text, sizeof(msg.text), "%s", step);
    (void)send(control_fd, &msg, sizeof(msg), MSG_NOSIGNAL);
    _exit(1);
}

static void check(int control_fd, const char *step, int r)
{
    if (r < 0)
        fail(control_fd, step, -r);
}

/*
 * A box can only mount its own /proc where another one is fully visible
 * (mount_too_revealing() in the kernel). This one lies under that of each box
 * and shows nobody but the template itself.
 */
static int mount_proc(void)
{
    if (unshare(CLONE_NEWNS) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible") < 0)
        return -errno;
    return 0;
}

/* From here on no capability of ours counts outside of the template's user namespace. */
static int leave_host(int userns_fd)
{
    int r;

    if (setns(userns_fd, CLONE_NEWUSER) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) < 0)
        return -errno;
    r = sbx_box_enter_network(-1);
    /* The machine's name is asked for and remembered by modules: the one that boxes have. */
    return r < 0 ? r : sbx_box_name_machine();
}

/* What the libc derives from it at start (stacks of threads) must be as in a box. */
static int limit_stack(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0)
        return -errno;
    limit.rlim_cur = sbx_default_limits.value[SBX_LIMIT_STACK];
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_STACK, &limit) < 0 ? -errno : 0;
}

static int place_fds(const struct sbx_template_host *host, const struct sbx_template_fds *fds)
{
    struct {
        int from;
        int to;
    } moves[] = {
        {fds->stdio[0], 0},
        {fds->stdio[1], 1},
        {fds->stdio[2], 2},
        {fds->control, SBX_TEMPLATE_FD_CONTROL},
        {host->init_fd, SBX_TEMPLATE_FD_INIT},
        {host->seccomp_fd, SBX_TEMPLATE_FD_SECCOMP},
        {host->image_fd, SBX_TEMPLATE_FD_IMAGE},
    };

    /* All go up first: one may have the number of another's target. */
    for (size_t i = 0; i < CR_ARRAY_SIZE(moves); i++) {
        moves[i].from = fcntl(moves[i].from, F_DUPFD_CLOEXEC, FIRST_SPARE_FD);
        if (moves[i].from < 0)
            return -errno;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(moves); i++) {
        if (dup2(moves[i].from, moves[i].to) < 0)
            return -errno;
    }
    if (close_range(3, SBX_TEMPLATE_FD_FIRST - 1, 0) < 0 ||
        close_range(SBX_TEMPLATE_FD_IMAGE + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

static size_t add_lines(const char *const *lines, char **list, size_t count)
{
    for (size_t i = 0; lines[i] && count < ENVIRONMENT_MAX; i++)
        list[count++] = cr_unconst(lines[i]);
    return count;
}

/* What a box' program would get, and the loader's variable, which is taken away again at once. */
_Noreturn static void execute(const struct sbx_runtime *runtime)
{
    char *environment[ENVIRONMENT_MAX + 2] = {NULL};
    size_t count = add_lines(sbx_environment, environment, 0);

    count = add_lines(runtime->environment, environment, count);
    environment[count] = cr_unconst(LOADER_VARIABLE);
    (void)execve(runtime->argv[0], cr_unconst(runtime->argv), environment);
    fail(SBX_TEMPLATE_FD_CONTROL, "execute the interpreter", errno);
}

_Noreturn void sbx_template_enter(const struct sbx_template_host *host, enum sbx_template_kind kind,
                                  const struct sbx_template_fds *fds)
{
    check(fds->control, "reset signals", cr_signals_reset());
    check(fds->control, "mount /proc", mount_proc());
    cr_slice_set(0);
    sbx_box_lose_priority(); /* behind us, as its boxes are: it is started beside runs */
    check(fds->control, "enter the user namespace", leave_host(host->userns_fd));
    check(fds->control, "die with the backend", sbx_box_die_with_parent());
    check(fds->control, "limit the stack", limit_stack());
    check(fds->control, "place file descriptors", place_fds(host, fds));
    (void)umask(FILE_CREATION_MASK);
    execute(sbx_template_runtime(kind));
}
