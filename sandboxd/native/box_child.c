/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/box_child.h"

#include "common/auto.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/native/box.h"
#include "sandboxd/wire/boxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HOSTNAME "sandbox"
#define OOM_SCORE "500" /* of 1000: among the first victims when the whole machine is short */
#define NICE 5
#define FIRST_FREE_FD 64 /* above every number below */

/* Bytes that a program may lock; the kernel's own default is of this order. */
#define MEMLOCK_BYTES (64UL << 10)

enum {
    FD_BINARY = SBX_INIT_FD_SECCOMP + 1,
    FD_USERNS,
    FD_COUNT,
};

/* Every step returns 0 or -errno. */

static int reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &standard, NULL); /* SIGKILL and SIGSTOP refuse */
    (void)sigemptyset(&none);
    return -pthread_sigmask(SIG_SETMASK, &none, NULL); /* it returns the number */
}

/* Dies with the backend; a backend that is gone already shows as EOF on the control socket. */
static int die_with_parent(void)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

static int enter_group(const struct sbx_box_plan *plan)
{
    int r = sbx_cgroup_attach_self(plan->group);

    if (r < 0)
        return r;
    /* After the attach: the group of this moment becomes the root of what the box sees. */
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* A new network namespace has its loopback down. */
static int make_namespaces(const struct sbx_box_plan *plan)
{
    CR_AUTO_CLOSE int fd = -1;
    struct ifreq request = {.ifr_name = "lo"};

    if (sethostname(HOSTNAME, strlen(HOSTNAME)) < 0)
        return -errno;
    if (plan->weakened == SBX_CONTROL_NETWORK)
        return 0;
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return -errno;
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/* The folder `name` of the workspace as a mount of its own, which hangs nowhere yet. */
static int clone_folder(int workspace_fd, const char *name, bool allow_exec, int *ret_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (allow_exec ? 0U : MOUNT_ATTR_NOEXEC)};
    CR_AUTO_CLOSE int tree = open_tree(workspace_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return -errno;
    *ret_fd = cr_take_fd(&tree);
    return 0;
}

static int attach(int tree_fd, const char *point)
{
    return move_mount(tree_fd, "", AT_FDCWD, point, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/*
 * Before Linux 6.15 only a mount that hangs in the caller's own namespace can
 * be cloned, so the whole workspace hangs in one place while its folders are.
 * The backend's fd of it stays good after the detach.
 */
static int attach_workspace(int workspace_fd)
{
    static const struct {
        const char *name;
        const char *point;
        bool allow_exec;
    } folders[] = {{"w", "/workspace", true}, {"t", "/tmp", false}, {"s", "/dev/shm", false}};

    int trees[CR_ARRAY_SIZE(folders)] = {-1, -1, -1};
    int r = attach(workspace_fd, "/workspace");

    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(folders); i++)
        r = clone_folder(workspace_fd, folders[i].name, folders[i].allow_exec, &trees[i]);
    if (r == 0 && umount2("/workspace", MNT_DETACH) < 0)
        r = -errno;
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(folders); i++)
        r = attach(trees[i], folders[i].point);
    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++)
        cr_close_fd(&trees[i]);
    return r;
}

static int make_mounts(const struct sbx_box_plan *plan)
{
    const char *options =
        plan->weakened == SBX_CONTROL_PROC ? NULL : "subset=pid,hidepid=invisible";
    int r;

    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
        return -errno;
    r = attach_workspace(plan->workspace_fd);
    if (r == 0 && chdir("/workspace") < 0)
        r = -errno;
    return r;
}

/*
 * Lowers one limit. Hosts without CAP_SYS_RESOURCE refuse to raise a hard
 * limit: what is in force then is lower than asked for, which is safe, and
 * HELLO's maximum of open files says so beforehand.
 */
static int limit_one(int resource, uint64_t value)
{
    struct rlimit now;
    struct rlimit wanted = {.rlim_cur = value, .rlim_max = value};

    if (setrlimit((__rlimit_resource_t)resource, &wanted) == 0)
        return 0;
    if (errno != EPERM || getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return -errno;
    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &now) < 0 ? -errno : 0;
}

/* The backend put itself in front; programs go behind everything else. Best effort, as there. */
static void lose_priority(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, OOM_SCORE, strlen(OOM_SCORE));
    (void)setpriority(PRIO_PROCESS, 0, NICE);
}

static int make_limits(const struct sbx_box_plan *plan)
{
    const struct {
        int resource;
        uint64_t value;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_MEMLOCK, MEMLOCK_BYTES},
        {RLIMIT_MSGQUEUE, 0},
        {RLIMIT_NICE, 0},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_STACK, plan->limits->value[SBX_LIMIT_STACK]},
        {RLIMIT_FSIZE, plan->limits->value[SBX_LIMIT_FILE_SIZE]},
        {RLIMIT_NOFILE, plan->limits->value[SBX_LIMIT_OPEN_FILES]},
    };

    if (plan->weakened == SBX_CONTROL_RLIMITS)
        return 0;
    for (size_t i = 0; i < CR_ARRAY_SIZE(limits); i++) {
        int r = limit_one(limits[i].resource, limits[i].value);

        if (r < 0)
            return r;
    }
    return 0;
}

/*
 * Puts the fds of boxctl.h into place. All sources go up first: a source may
 * have the number of another's target. The two that only this file needs
 * follow, low as well, because RLIMIT_NOFILE comes next; exec closes them.
 */
static int place_fds(const struct sbx_box_plan *plan, int control_fd)
{
    int fds[FD_COUNT] = {
        [0] = plan->stdio_fds[0],
        [1] = plan->stdio_fds[1],
        [2] = plan->stdio_fds[2],
        [SBX_INIT_FD_CONTROL] = control_fd,
        [SBX_INIT_FD_PAYLOAD] = plan->payload_fd,
        [SBX_INIT_FD_SECCOMP] = plan->seccomp_fd,
        [FD_BINARY] = plan->init_fd,
        [FD_USERNS] = plan->userns_fd,
    };

    for (int i = 0; i < FD_COUNT; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < FD_COUNT; i++) {
        if (dup3(fds[i], i, i >= FD_BINARY ? O_CLOEXEC : 0) < 0)
            return -errno;
    }
    return close_range(FD_COUNT, ~0U, 0) < 0 ? -errno : 0;
}

/*
 * The user namespace comes last: mounts, network and process namespace stay
 * owned by the host's, so that even full capabilities in here reach none of
 * them. Raw calls: glibc's would signal threads that do not exist.
 */
static int enter_identity(void)
{
    if (setns(FD_USERNS, CLONE_NEWUSER) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    return die_with_parent(); /* a change of ids clears it */
}

__attribute__((noreturn)) static void fail(int control_fd, enum sbx_stage stage, int error)
{
    struct sbx_init_msg msg = {.event = SBX_INIT_FAILED, .stage = stage, .error = -error};

    (void)send(control_fd, &msg, sizeof(msg), MSG_NOSIGNAL);
    _exit(1);
}

/* `r` is what the step of `stage` returned. */
static void check(int control_fd, enum sbx_stage stage, int r)
{
    if (r < 0)
        fail(control_fd, stage, r);
}

__attribute__((noreturn)) void sbx_box_child(const struct sbx_box_plan *plan, int control_fd)
{
    char name[] = "sandbox-init";
    char *const argv[] = {name, NULL};
    char *const environment[] = {NULL};

    check(control_fd, SBX_STAGE_CLONE, die_with_parent());
    check(control_fd, SBX_STAGE_CLONE, reset_signals());
    check(control_fd, SBX_STAGE_CGROUP, enter_group(plan));
    check(control_fd, SBX_STAGE_NAMESPACE, make_namespaces(plan));
    check(control_fd, SBX_STAGE_MOUNT, make_mounts(plan));
    lose_priority();
    check(control_fd, SBX_STAGE_INIT, place_fds(plan, control_fd));
    control_fd = SBX_INIT_FD_CONTROL;
    check(control_fd, SBX_STAGE_LIMITS, make_limits(plan));
    check(control_fd, SBX_STAGE_IDENTITY, enter_identity());
    (void)syscall(SYS_execveat, FD_BINARY, "", argv, environment, AT_EMPTY_PATH);
    fail(control_fd, SBX_STAGE_INIT, -errno);
}
