/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/tool.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/unconst.h"
#include "sandboxd/builder/room.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FAILED 126
#define LOOK_MS 20 /* how often the room that is left is measured */

static int stop_fd = -1; /* signalfd of those that end a build; set once, before the first tool */

int sbx_tool_block_signals(struct cr_err *err)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    stop_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return stop_fd < 0 ? cr_err_sys(err, errno, "watch signals") : 0;
}

bool sbx_tool_is_told_to_stop(void)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};

    return poll(&stop, 1, 0) == 1;
}

int sbx_tool_stop_fd(void)
{
    return stop_fd;
}

/* ---- in the child ---- */

/*
 * What a tool mounts goes with it, however it ends: mmdebstrap binds the host's
 * /proc and /dev/shm into the new root, and one that is killed takes nothing back.
 */
static int keep_mounts_apart(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    return 0;
}

/* Everything becomes read-only but the folder, which an archive or a package must not leave. */
static int confine(const char *folder)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    CR_AUTO_CLOSE int tree = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
        move_mount(tree, "", AT_FDCWD, folder, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* What programs expect of a system; it goes with our mount namespace. */
static int enter(const char *folder)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/proc", folder);
    if (mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "%s/dev", folder);
    if (mount("/dev", path, NULL, MS_BIND, NULL) < 0)
        return -errno;
    return chroot(folder) < 0 || chdir("/") < 0 ? -errno : 0;
}

static int limit(int resource, uint64_t most)
{
    const struct rlimit limit = {.rlim_cur = most, .rlim_max = most};

    return setrlimit((__rlimit_resource_t)resource, &limit) < 0 ? -errno : 0;
}

/* A file of holes takes no room, but whoever reads it reads all of it. */
static int set_limits(const struct sbx_tool *tool)
{
    int r = tool->memory_bytes > 0 ? limit(RLIMIT_AS, tool->memory_bytes) : 0;

    return r == 0 ? limit(RLIMIT_FSIZE, tool->room->most_bytes) : r;
}

static int prepare(const struct sbx_tool *tool)
{
    int null_fd = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;
    int r;

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || null_fd < 0 ||
        dup2(null_fd, STDIN_FILENO) < 0 || dup2(tool->output_fd, STDOUT_FILENO) < 0 ||
        dup2(tool->output_fd, STDERR_FILENO) < 0)
        return -errno;
    (void)umask(022);
    r = set_limits(tool);
    if (r == 0)
        r = keep_mounts_apart();
    if (r == 0 && !tool->is_free)
        r = confine(tool->folder);
    if (r == 0 && tool->is_inside)
        return enter(tool->folder);
    return r == 0 && chdir(tool->folder) < 0 ? -errno : r;
}

_Noreturn static void become(const struct sbx_tool *tool)
{
    int r = prepare(tool);

    if (r == 0) {
        (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0);
        (void)execve(tool->argv[0], cr_unconst(tool->argv), environ);
        r = -errno;
    }
    (void)dprintf(STDERR_FILENO, "cannot start %s: %s\n", tool->argv[0], strerrordesc_np(-r));
    _exit(FAILED);
}

/* ---- in the parent ---- */

/* Returns 0 at its end, -ETIMEDOUT, -EFBIG or -EINTR. */
static int wait_end(const struct sbx_tool *tool, int pidfd)
{
    struct pollfd watches[] = {{.fd = pidfd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};

    for (;;) {
        int64_t left_ms = (tool->deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;

        if (left_ms <= 0)
            return -ETIMEDOUT;
        if (sbx_room_is_used_up(tool->room, tool->folder))
            return -EFBIG;
        if (poll(watches, CR_ARRAY_SIZE(watches), left_ms > LOOK_MS ? LOOK_MS : (int)left_ms) < 0)
            continue;
        if (watches[0].revents)
            return 0;
        if (watches[1].revents)
            return -EINTR;
    }
}

int sbx_tool_run(const struct sbx_tool *tool, struct cr_err *err)
{
    CR_AUTO_CLOSE int pidfd = -1;
    const char *name = strrchr(tool->argv[0], '/') + 1;
    siginfo_t info = {0};
    pid_t pid;
    int r;

    if (sbx_tool_is_told_to_stop())
        return cr_err_set(err, EINTR, "interrupted");
    pid = fork();
    if (pid == 0)
        become(tool);
    if (pid < 0)
        return cr_err_sys(err, errno, "fork for %s", name);
    pidfd = pidfd_open(pid, 0);
    r = pidfd < 0 ? -errno : wait_end(tool, pidfd);
    (void)kill(-pid, SIGKILL); /* its session, with whatever it left behind */
    (void)kill(pid, SIGKILL);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR)
        ;
    if (r == -EINTR)
        return cr_err_set(err, EINTR, "interrupted");
    if (r == 0 && info.si_code != CLD_EXITED && info.si_status == SIGXFSZ)
        r = -EFBIG;
    if (r == -EFBIG)
        return cr_err_set(err, EFBIG,
                          "%s takes more than three quarters of what was free below --state-dir",
                          name);
    if (r < 0)
        return cr_err_sys(err, -r, "%s does not end", name);
    if (info.si_code != CLD_EXITED || info.si_status != 0)
        return cr_err_set(err, EIO, "%s failed with %d", name, info.si_status);
    return 0;
}
