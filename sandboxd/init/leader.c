/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/leader.h"

#include "common/auto.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/wait.h>

static pid_t fail(struct sbx_program_failure *failure, enum sbx_stage stage, int error)
{
    *failure = (struct sbx_program_failure){.stage = (uint32_t)stage, .error = error};
    return -1;
}

_Noreturn static void become_program(const struct sbx_leader_plan *plan, int report_fd)
{
    if (plan->private_fd >= 0)
        (void)close(plan->private_fd);
    for (int i = 0; i < 3; i++) {
        if (plan->stdio[i] != i && dup2(plan->stdio[i], i) < 0)
            _exit(127); /* the report socket ends without a word */
    }
    sbx_program_become(plan->payload_fd, plan->seccomp_fd, report_fd, plan->is_watched);
}

static int await_exec(int report_fd, int *ret_listener_fd, struct sbx_program_failure *failure)
{
    for (;;) {
        struct sbx_program_failure report;
        int fd = -1;
        int r = sbx_fds_receive(report_fd, &report, sizeof(report), &fd, 1, 0);

        if (r == -EPIPE)
            return 0;
        if (r < 0)
            return fail(failure, SBX_STAGE_INIT, -r);
        if (r == 0) {
            *failure = report;
            return -1;
        }
        cr_close_fd(ret_listener_fd); /* one at most comes */
        *ret_listener_fd = fd;
    }
}

pid_t sbx_leader_start(const struct sbx_leader_plan *plan, int *ret_listener_fd,
                       struct sbx_program_failure *ret_failure)
{
    int report[2];
    pid_t pid;
    int r;

    *ret_listener_fd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) < 0)
        return fail(ret_failure, SBX_STAGE_INIT, errno);
    pid = fork();
    if (pid == 0)
        become_program(plan, report[1]);
    r = pid < 0 ? fail(ret_failure, SBX_STAGE_CLONE, errno) : 0;
    (void)close(report[1]);
    if (r == 0)
        r = await_exec(report[0], ret_listener_fd, ret_failure);
    (void)close(report[0]);
    if (r < 0)
        cr_close_fd(ret_listener_fd);
    return r < 0 ? -1 : pid;
}

int sbx_leader_use_up_pid(void)
{
    int status;
    const pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it only exits

    if (pid == 0)
        _exit(0);
    return pid < 0 || waitpid(pid, &status, 0) != pid ? -errno : 0;
}

/*
 * One kill(2) for all, so that no fork slips through. But it looks at every
 * process of the machine, and most programs leave none: whoever is left here
 * has an ancestor that is a child of ours.
 */
uint32_t sbx_leader_kill_rest(void)
{
    uint32_t count = 0;
    int status;

    if (waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD)
        return 0;
    if (kill(-1, SIGKILL) < 0)
        return 0; /* ESRCH: nobody is left */
    for (;;) {
        const pid_t pid = waitpid(-1, &status, 0);

        if (pid > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            count++;
        if (pid < 0 && errno != EINTR)
            return count;
    }
}
