/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/reap.h"

#include "sandboxd/init/say.h"
#include "sandboxd/init/violation.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/signalfd.h>
#include <sys/wait.h>

#define LATE_MAX 1024U /* calls that are still answered when the program has ended */

/*
 * Once is enough. Whoever is held back dies here, not by the kill of the
 * backend: that one ends this process, and with it the listener, a moment
 * before the others, and the call would return for that moment.
 */
static void tell_violation(struct sbx_reaper *reaper, short revents)
{
    struct sbx_init_msg violation = {.event = SBX_INIT_VIOLATION};
    bool is_socket;

    if (revents & POLLIN) {
        violation.detail = sbx_violation_read(reaper->listener_fd, &is_socket);
        if (is_socket) {
            reaper->has_socket = true;
            return;
        }
        (void)kill(-1, SIGKILL);
        if (sbx_say(violation) < 0)
            _exit(1);
    }
    reaper->listener_fd = -1; /* or, POLLHUP: nobody is left who has the filter */
}

static int open_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return -EINVAL;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Reaps every process that is dead. Returns true when the leader was among them. */
static bool reap(pid_t leader, int *ret_status)
{
    pid_t pid;

    do {
        pid = waitpid(-1, ret_status, WNOHANG);
        if (pid == leader)
            return true;
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    if (pid < 0)
        sbx_say_failed(SBX_STAGE_INIT, -errno);
    return false;
}

int sbx_reaper_init(struct sbx_reaper *reaper, pid_t leader, int listener_fd)
{
    *reaper = (struct sbx_reaper){
        .leader = leader, .signal_fd = open_signals(), .listener_fd = listener_fd};
    return reaper->signal_fd < 0 ? -errno : 0;
}

/* Children of the program may be held back while it ended. Those that live may ask for ever:
 * bounded. */
static void tell_late(struct sbx_reaper *reaper)
{
    struct pollfd late = {.fd = reaper->listener_fd, .events = POLLIN};

    for (size_t i = 0; i < LATE_MAX && reaper->listener_fd >= 0 && poll(&late, 1, 0) > 0; i++)
        tell_violation(reaper, late.revents);
}

/* Adopted processes are reaped as they come. */
bool sbx_reaper_wait(struct sbx_reaper *reaper, struct pollfd *more, size_t count, int *ret_status)
{
    struct pollfd fds[2 + SBX_REAP_MORE_MAX];
    struct signalfd_siginfo info;

    assert(count <= SBX_REAP_MORE_MAX);
    while (!reap(reaper->leader, ret_status)) {
        bool is_up = false;

        fds[0] = (struct pollfd){.fd = reaper->signal_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = reaper->listener_fd, .events = POLLIN};
        memcpy(fds + 2, more, count * sizeof(*more));
        if (poll(fds, (nfds_t)(2 + count), -1) < 0)
            continue;
        if (fds[0].revents)
            (void)!read(fds[0].fd, &info, sizeof(info));
        if (fds[1].revents)
            tell_violation(reaper, fds[1].revents);
        for (size_t i = 0; i < count; i++) {
            more[i].revents = fds[2 + i].revents;
            is_up = is_up || more[i].revents != 0;
        }
        if (is_up)
            return false;
    }
    tell_late(reaper);
    return true;
}
