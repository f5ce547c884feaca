/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/process.h"

#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/stat.h>

int sbx_process_block_signals(struct cr_err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;
    int r;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return cr_err_sys(err, errno, "ignore SIGPIPE");
    r = pthread_sigmask(SIG_BLOCK, &set, NULL);
    return r != 0 ? cr_err_sys(err, r, "block signals") : 0;
}

static int take_socket(const char *program, int fd, const char *what, struct cr_err *err)
{
    struct stat stat;

    if (fstat(fd, &stat) < 0 || !S_ISSOCK(stat.st_mode))
        return cr_err_set(err, EBADF, "fd %d is not %s: %s is started by sandboxd, not by hand", fd,
                          what, program);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "take fd %d", fd);
    return 0;
}

int sbx_process_take_fds(const char *program, int *ret_front_fd, int *ret_lifeline_fd,
                         struct cr_err *err)
{
    int r = take_socket(program, SBX_BACKEND_FD_FRONT, "the socket to the front", err);

    if (r == 0)
        r = take_socket(program, SBX_BACKEND_FD_LIFELINE, "the supervisor's lifeline", err);
    if (r == 0 && close_range(SBX_BACKEND_FD_LIFELINE + 1, ~0U, 0) < 0)
        r = cr_err_sys(err, errno, "close inherited fds");
    if (r < 0)
        return r;
    *ret_front_fd = SBX_BACKEND_FD_FRONT;
    *ret_lifeline_fd = SBX_BACKEND_FD_LIFELINE;
    return 0;
}
