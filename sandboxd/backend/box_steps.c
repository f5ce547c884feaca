/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/box_steps.h"

#include "common/auto.h"
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
#include <sys/syscall.h>

#define HOSTNAME "sandbox"
#define OOM_SCORE "500" /* of 1000: among the first victims when the whole machine is short */
#define NICE 5

/* Bytes that a program may lock; the kernel's own default is of this order. */
#define MEMLOCK_BYTES (64UL << 10)

/* Beyond the memory limit: so much that who goes over it is seen, and killed, before. */
#define DATA_MARGIN_BYTES (UINT64_C(1) << 30)

uint64_t sbx_box_namespaces(void)
{
    return CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
}

/* Dies with the backend; a backend that is gone already shows as EOF on the control socket. */
int sbx_box_die_with_parent(void)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

int sbx_box_enter_groups(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (write(fds[i], "0", 1) != 1)
            return -errno;
    }
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* A new network namespace has its loopback down. */
int sbx_box_make_network(void)
{
    CR_AUTO_CLOSE int fd = -1;
    struct ifreq request = {.ifr_name = "lo"};

    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return -errno;
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

int sbx_box_enter_network(int net_fd)
{
    if (net_fd < 0)
        return sbx_box_make_network();
    return setns(net_fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

int sbx_box_name_machine(void)
{
    return sethostname(HOSTNAME, strlen(HOSTNAME)) < 0 ? -errno : 0;
}

/* What hangs where. All come from one mount with nosuid and nodev. */
static const struct {
    const char *name;
    const char *point;
    bool allow_exec;
} folders[] = {{"w", "/workspace", true}, {"t", "/tmp", false}, {"s", "/dev/shm", false}};

#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

/* The folder as a mount of its own, which hangs nowhere yet. */
static int clone_folder(int workspace_fd, const char *name, bool allow_exec, int *ret_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOEXEC};
    CR_AUTO_CLOSE int tree = open_tree(workspace_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 ||
        (!allow_exec && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0))
        return -errno;
    *ret_fd = cr_take_fd(&tree);
    return 0;
}

static int clone_folders(int workspace_fd, int trees[FOLDERS])
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < FOLDERS; i++)
        r = clone_folder(workspace_fd, folders[i].name, folders[i].allow_exec, &trees[i]);
    return r;
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
static int clone_attached(int workspace_fd, int trees[FOLDERS])
{
    int r = attach(workspace_fd, folders[0].point);

    if (r == 0)
        r = clone_folders(workspace_fd, trees);
    if (r == 0 && umount2(folders[0].point, MNT_DETACH) < 0)
        r = -errno;
    return r;
}

static int attach_workspace(int workspace_fd)
{
    int trees[FOLDERS] = {-1, -1, -1};
    int r = clone_folders(workspace_fd, trees);

    if (r == -EINVAL && trees[0] < 0)
        r = clone_attached(workspace_fd, trees);
    for (size_t i = 0; r == 0 && i < FOLDERS; i++)
        r = attach(trees[i], folders[i].point);
    for (size_t i = 0; i < FOLDERS; i++)
        cr_close_fd(&trees[i]);
    return r;
}

int sbx_box_mount_proc(void)
{
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 "subset=pid,hidepid=invisible") < 0
               ? -errno
               : 0;
}

int sbx_box_mount_workspace(int workspace_fd)
{
    int r = attach_workspace(workspace_fd);

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

int sbx_box_make_terminal(uint16_t columns, uint16_t rows, int ret_fds[2])
{
    const struct winsize size = {.ws_col = columns, .ws_row = rows};
    const int open_flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    CR_AUTO_CLOSE int fs = fsopen("devpts", FSOPEN_CLOEXEC);
    CR_AUTO_CLOSE int mount_fd = -1;
    CR_AUTO_CLOSE int master = -1;
    int unlock = 0;
    int slave;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0600", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    mount_fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    master = mount_fd < 0 ? -1 : openat(mount_fd, "ptmx", open_flags);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
        ioctl(master, TIOCSWINSZ, &size) < 0)
        return -errno;
    slave = ioctl(master, TIOCGPTPEER, open_flags);
    if (slave < 0)
        return -errno;
    ret_fds[0] = cr_take_fd(&master);
    ret_fds[1] = slave;
    return 0;
}

/* The backend put itself in front; programs go behind everything else. Best effort, as there. */
void sbx_box_lose_priority(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, OOM_SCORE, strlen(OOM_SCORE));
    (void)setpriority(PRIO_PROCESS, 0, NICE);
}

int sbx_box_make_limits(const struct sbx_limits *limits)
{
    const struct {
        int resource;
        uint64_t value;
    } rows[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_MEMLOCK, MEMLOCK_BYTES},
        {RLIMIT_MSGQUEUE, 0},
        {RLIMIT_SIGPENDING, SBX_BOX_SIGNALS},
        {RLIMIT_NICE, 0},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_STACK, limits->value[SBX_LIMIT_STACK]},
        {RLIMIT_FSIZE, limits->value[SBX_LIMIT_FILE_SIZE]},
        {RLIMIT_NOFILE, limits->value[SBX_LIMIT_OPEN_FILES]},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        int r = limit_one(rows[i].resource, rows[i].value);

        if (r < 0)
            return r;
    }
    return 0;
}

/*
 * The user namespace comes last: mounts, network and process namespace stay
 * owned by the host's, so that even full capabilities in here reach none of
 * them. Raw calls: glibc's would signal threads that do not exist.
 */
int sbx_box_enter_identity(int userns_fd)
{
    if (setns(userns_fd, CLONE_NEWUSER) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    return sbx_box_die_with_parent(); /* a change of ids clears it */
}

int sbx_box_enter_one_id(int userns_fd)
{
    return setns(userns_fd, CLONE_NEWUSER) < 0 ? -errno : sbx_box_die_with_parent();
}

/*
 * Processes are counted by user and user namespace (since Linux 5.14), so that
 * the number is the box' own; one of them is sandbox-init, where it has the
 * program's user. Where it has another it needs two for itself, to start the
 * program, and a program that may be alone gets one more than that. Memory is looked at
 * and not held back: this keeps one process from having very much between two
 * looks. Not RLIMIT_AS, which also counts what is only reserved, and without
 * which neither Java nor Node start.
 */
int sbx_box_make_rootless_limits(const struct sbx_limits *limits, bool has_one_id)
{
    const uint64_t processes = limits->value[SBX_LIMIT_PROCESSES];
    int r = limit_one(RLIMIT_NPROC, has_one_id || processes < 2 ? processes + 1 : processes);

    return r < 0 ? r : limit_one(RLIMIT_DATA, limits->value[SBX_LIMIT_MEMORY] + DATA_MARGIN_BYTES);
}

/* All go up first: one may have the number of another's place. */
int sbx_box_place_fds(int *fds, int last, int spare)
{
    for (int i = 0; i <= last; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, spare);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i <= last; i++) {
        if (dup3(fds[i], i, i == last ? O_CLOEXEC : 0) < 0)
            return -errno;
    }
    return 0;
}

_Noreturn void sbx_box_fail(int control_fd, enum sbx_stage stage, int error)
{
    struct sbx_init_msg msg = {.event = SBX_INIT_FAILED, .stage = stage, .error = -error};

    (void)send(control_fd, &msg, sizeof(msg), MSG_NOSIGNAL);
    _exit(1);
}

void sbx_box_check(int control_fd, enum sbx_stage stage, int r)
{
    if (r < 0)
        sbx_box_fail(control_fd, stage, r);
}
