/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/child.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/unconst.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <sys/pidfd.h>
#include <sys/wait.h>

#define FIRST_FD 3
#define HIGH_FD 128 /* above every target, so that moving one cannot overwrite another */

static int move_fds(const int *fds, size_t fd_count)
{
    int high[SBX_CHILD_FDS_MAX];

    for (size_t i = 0; i < fd_count; i++) {
        high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (fds[i] >= 0 && high[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < fd_count; i++) {
        if (high[i] < 0)
            (void)close(FIRST_FD + (int)i);
        else if (dup2(high[i], FIRST_FD + (int)i) < 0)
            return -errno;
    }
    return close_range(FIRST_FD + (unsigned int)fd_count, UINT_MAX, 0) < 0 ? -errno : 0;
}

static int use_null(bool has_output)
{
    int fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    int r = 0;

    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || (!has_output && dup2(fd, STDOUT_FILENO) < 0))
        r = -errno;
    if (fd > STDERR_FILENO)
        (void)close(fd);
    return r;
}

/* In the child. A session of its own keeps the Ctrl-C of a terminal for the supervisor. */
static _Noreturn void exec_child(const char *path, char *const *argv, const int *fds,
                                 size_t fd_count, bool has_output)
{
    char *const environment[] = {NULL};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    if (use_null(has_output) == 0 && move_fds(fds, fd_count) == 0)
        (void)execve(path, argv, environment);
    cr_log_error("cannot execute path=%s error=%s", path, strerrordesc_np(errno));
    _exit(127);
}

/* Returns the pid or -errno. */
static int fork_child(const char *name, const char *const *argv, const int *fds, size_t fd_count,
                      bool has_output, struct cr_err *err)
{
    char path[PATH_MAX];
    const char **arguments;
    size_t count = 0;
    pid_t pid;
    int r = cr_beside_find(name, path, err);

    if (r < 0)
        return r;
    while (argv[count])
        count++;
    arguments = (const char **)calloc(count + 1, sizeof(*arguments));
    if (!arguments)
        return cr_err_set(err, ENOMEM, "out of memory for the arguments of %s", name);
    memcpy(arguments, argv, count * sizeof(*arguments));
    arguments[0] = path;
    pid = fork();
    if (pid == 0)
        exec_child(path, cr_unconst(arguments), fds, fd_count, has_output);
    r = pid < 0 ? cr_err_sys(err, errno, "fork for %s", name) : pid;
    free((void *)arguments);
    return r;
}

int sbx_child_start(struct sbx_child *child, const char *const *argv, const int *fds,
                    size_t fd_count, struct cr_err *err)
{
    int r;

    if (fd_count > SBX_CHILD_FDS_MAX)
        return cr_err_set(err, EINVAL, "too many descriptors for %s", child->name);
    r = fork_child(child->name, argv, fds, fd_count, false, err);
    if (r < 0)
        return r;
    child->pid = r;
    child->started_ns = cr_clock_mono_ns();
    child->pulse = (struct sbx_pulse){0};
    return 0;
}

void sbx_child_kill(const struct sbx_child *child, int signal_number)
{
    if (child->pid > 0)
        (void)kill(child->pid, signal_number);
}

/* By a signal: whoever sent it will know why. */
static bool is_stopped(const struct sbx_child *child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

bool sbx_child_is_turning(struct sbx_child *child)
{
    enum sbx_pulse_state before = child->pulse.state;
    enum sbx_pulse_state state = child->pid > 0 ? sbx_pulse_look(&child->pulse) : SBX_PULSE_WELL;

    if (before == SBX_PULSE_WELL && state != SBX_PULSE_WELL)
        cr_log_warn("%s says nothing pid=%d", child->name, (int)child->pid);
    if (state == SBX_PULSE_DEAD && !is_stopped(child)) {
        cr_log_error("%s stands still, killing it pid=%d", child->name, (int)child->pid);
        sbx_child_kill(child, SIGKILL);
    }
    return state == SBX_PULSE_WELL;
}

void sbx_child_log_end(const struct sbx_child *child, int status)
{
    if (WIFSIGNALED(status))
        cr_log_warn("%s was killed pid=%d signal=%d", child->name, (int)child->pid,
                    WTERMSIG(status));
    else
        cr_log_warn("%s ended pid=%d status=%d", child->name, (int)child->pid, WEXITSTATUS(status));
}

int sbx_child_run(const char *name, const char *const *argv, bool has_output, int deadline_ms,
                  struct cr_err *err)
{
    CR_AUTO_CLOSE int pidfd = -1;
    struct pollfd poll_fd;
    int status = 0;
    int ended;
    pid_t pid = fork_child(name, argv, NULL, 0, has_output, err);

    if (pid < 0)
        return pid;
    pidfd = pidfd_open(pid, 0);
    poll_fd = (struct pollfd){.fd = pidfd, .events = POLLIN};
    do {
        ended = pidfd < 0 ? 0 : poll(&poll_fd, 1, deadline_ms);
    } while (ended < 0 && errno == EINTR);
    if (ended <= 0)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return cr_err_sys(err, errno, "wait for %s", name);
    }
    if (ended <= 0)
        return cr_err_set(err, ETIMEDOUT, "%s does not end", name);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
