/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/roots.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/backend/root_lock.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MAKE_MS 20000
#define ROOT_FOLDER "root" /* in the folder of a registered runtime */

/* What the child that made one says. */
struct report {
    int32_t error; /* 0: it is made; else an errno */
    uint32_t is_here;
    char text[CR_ERR_TEXT_MAX];
};

void sbx_roots_init(struct sbx_roots *roots)
{
    roots->found = 0;
    for (size_t i = 0; i < SBX_RUNTIMES_MAX; i++) {
        roots->fds[i] = -1;
        roots->locks[i] = -1;
    }
}

void sbx_roots_close(struct sbx_roots *roots)
{
    for (size_t i = 0; i < SBX_RUNTIMES_MAX; i++) {
        cr_close_fd(&roots->fds[i]);
        cr_close_fd(&roots->locks[i]);
    }
    roots->found = 0;
}

bool sbx_roots_is_here(const struct sbx_runtime *runtime)
{
    if (access(runtime->version_path, X_OK) < 0)
        return false;
    for (size_t i = 0; runtime->needs[i]; i++) {
        if (access(runtime->needs[i], F_OK) < 0)
            return false;
    }
    return true;
}

/* Lives until the parent has opened its namespace and closes the socket. */
_Noreturn static void make(const char *folder, const struct sbx_runtime *runtime, int socket_fd)
{
    struct report report = {0};
    struct cr_err err = CR_ERR_INIT;
    char end;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sbx_rootfs_enter(folder, SBX_WEAKEN_NOTHING, &err) < 0) {
        report.error = -err.code;
        (void)snprintf(report.text, sizeof(report.text), "%s", err.text);
    } else {
        report.is_here = sbx_roots_is_here(runtime);
    }
    if (send(socket_fd, &report, sizeof(report), MSG_NOSIGNAL) == sizeof(report))
        (void)!read(socket_fd, &end, sizeof(end));
    _exit(0);
}

static int open_namespace(pid_t pid, struct cr_err *err)
{
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
    fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? cr_err_sys(err, errno, "open a mount namespace") : fd;
}

/* Returns the namespace or -errno. */
static int take(pid_t pid, int socket_fd, bool *ret_is_here, struct cr_err *err)
{
    struct pollfd watch = {.fd = socket_fd, .events = POLLIN};
    struct report report = {0};

    if (poll(&watch, 1, cr_patience_ms(MAKE_MS)) != 1 ||
        recv(socket_fd, &report, sizeof(report), 0) != sizeof(report))
        return cr_err_set(err, EIO, "it is not made in time");
    report.text[sizeof(report.text) - 1] = '\0';
    if (report.error != 0)
        return cr_err_set(err, report.error, "%s", report.text);
    *ret_is_here = report.is_here != 0;
    return open_namespace(pid, err);
}

static int make_in_child(const char *folder, const struct sbx_runtime *runtime, bool *ret_is_here,
                         struct cr_err *err)
{
    CR_AUTO_CLOSE int ours = -1;
    int theirs;
    int pair[2];
    pid_t pid;
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    pid = fork();
    if (pid == 0) {
        (void)close(ours);
        make(folder, runtime, theirs);
    }
    (void)close(theirs);
    if (pid < 0)
        return cr_err_sys(err, errno, "fork");
    r = take(pid, ours, ret_is_here, err);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

static int open_one(const char *folder, const struct sbx_runtime *runtime, size_t index,
                    struct sbx_roots *roots, struct cr_err *err)
{
    char path[PATH_MAX];
    bool is_here = false;
    int n = snprintf(path, sizeof(path), "%s/%s/" ROOT_FOLDER, folder ? folder : "", runtime->name);
    int r;

    if (n < 0 || (size_t)n >= sizeof(path))
        return cr_err_set(err, ENAMETOOLONG, "its folder has too long a path");
    r = sbx_root_lock(path, err);
    if (r < 0)
        return r;
    roots->locks[index] = r;
    r = make_in_child(path, runtime, &is_here, err);
    if (r < 0)
        return r;
    roots->fds[index] = r;
    if (is_here)
        roots->found |= UINT32_C(1) << index;
    return 0;
}

int sbx_roots_open(const char *folder, struct sbx_roots *roots, struct cr_err *err)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);

    for (size_t i = 0; i < count; i++) {
        if (!runtimes[i].root[0])
            continue;
        if (open_one(folder, &runtimes[i], i, roots, err) < 0)
            return cr_err_wrap(err, "root file system of runtime '%s'", runtimes[i].name);
    }
    return 0;
}
