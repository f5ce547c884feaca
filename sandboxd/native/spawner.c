/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/spawner.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/boxspawn.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define ANSWER_NS (10 * CR_NS_PER_S)
#define LEFT_OUT_MAX 32   /* more than the name of any control has */
#define FIRST_SPARE_FD 64 /* above every number below */
#define FD_BINARY (SBX_INIT_FD_SLAVE + 1)

static int place_fds(int control_fd, int init_fd, int seccomp_fd, int null_fd)
{
    int fds[] = {
        [0] = null_fd,
        [1] = null_fd,
        [2] = null_fd,
        [SBX_INIT_FD_CONTROL] = control_fd,
        [SBX_INIT_FD_PAYLOAD] = null_fd,
        [SBX_INIT_FD_SECCOMP] = seccomp_fd,
        [SBX_INIT_FD_MASTER] = null_fd,
        [SBX_INIT_FD_SLAVE] = null_fd,
        [FD_BINARY] = init_fd,
    };

    return sbx_box_place_fds(fds, FD_BINARY, FIRST_SPARE_FD); /* the program closes all others */
}

_Noreturn static void execute(const struct sbx_spawner_plan *plan, int control_fd, int null_fd)
{
    char name[] = "sandbox-init";
    char spawn[] = SBX_INIT_SPAWN_ARGUMENT;
    char left_out[sizeof(SBX_INIT_LEAVE_OUT) + LEFT_OUT_MAX];
    char *const argv[] = {name, spawn, NULL};
    char *const environment[] = {plan->left_out ? left_out : NULL, NULL};

    (void)setpgid(0, 0);
    if (plan->left_out)
        (void)snprintf(left_out, sizeof(left_out), SBX_INIT_LEAVE_OUT "=%s", plan->left_out);
    if (place_fds(control_fd, plan->init_fd, plan->seccomp_fd, null_fd) == 0)
        (void)syscall(SYS_execveat, FD_BINARY, "", argv, environment, AT_EMPTY_PATH);
    _exit(127); /* its first answer is missing then */
}

int sbx_spawner_start(const struct sbx_spawner_plan *plan, struct sbx_spawner *ret_spawner,
                      struct cr_err *err)
{
    const struct timeval deadline = {.tv_sec = cr_patience_ns(ANSWER_NS) / CR_NS_PER_S};
    CR_AUTO_CLOSE int null_fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    int pair[2];
    pid_t pid;

    if (null_fd < 0)
        return cr_err_sys(err, errno, "open /dev/null of the boxes");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "open the socket of the spawner");
    ours = pair[0];
    theirs = pair[1];
    if (setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)) < 0 ||
        setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline)) < 0)
        return cr_err_sys(err, errno, "open the socket of the spawner");
    pid = fork();
    if (pid < 0)
        return cr_err_sys(err, errno, "fork the spawner");
    if (pid == 0)
        execute(plan, theirs, null_fd);
    (void)setpgid(pid, pid); /* whoever of us comes first */
    *ret_spawner = (struct sbx_spawner){.pid = pid, .fd = cr_take_fd(&ours)};
    return 0;
}

static int send_request(const struct sbx_spawner *spawner, int control_fd,
                        const struct sbx_cgroup *group, int net_fd)
{
    struct sbx_spawn_request request = {.flags = 0};
    int fds[SBX_SPAWN_FDS_MAX] = {[SBX_SPAWN_CONTROL] = control_fd};
    int folder_fd = sbx_cgroup_clone_fd(group);
    size_t count = SBX_SPAWN_REST;

    if (folder_fd >= 0) {
        request.flags |= SBX_SPAWN_INTO_GROUP;
        fds[count++] = folder_fd;
    }
    if (net_fd >= 0) {
        request.flags |= SBX_SPAWN_HAS_NET;
        fds[count++] = net_fd;
    }
    if (folder_fd < 0) {
        request.entries = (uint32_t)sbx_cgroup_entries(group, fds + count);
        count += request.entries;
    }
    return sbx_fds_send(spawner->fd, &request, sizeof(request), fds, count);
}

pid_t sbx_spawner_fork(const struct sbx_spawner *spawner, int control_fd,
                       const struct sbx_cgroup *group, int net_fd, struct cr_err *err)
{
    struct sbx_spawn_answer answer = {.pid = -1};
    int r = spawner->fd < 0 ? -EPIPE : send_request(spawner, control_fd, group, net_fd);

    if (r == 0)
        r = sbx_fds_receive(spawner->fd, &answer, sizeof(answer), NULL, 0, 0);
    if (r < 0) {
        /* A late answer would be taken for that of the next: nothing is asked of it any more. */
        (void)shutdown(spawner->fd, SHUT_RDWR);
        return cr_err_sys(err, ENOTCONN, "ask the spawner for a box");
    }
    if (answer.pid <= 0)
        return cr_err_sys(err, answer.error, "clone a box");
    (void)setpgid(answer.pid, answer.pid); /* it has not executed anything, and never will */
    return answer.pid;
}

bool sbx_spawner_is_gone(const struct sbx_spawner *spawner)
{
    struct pollfd end = {.fd = spawner->fd, .events = POLLIN};

    return spawner->fd < 0 || poll(&end, 1, 0) == 1;
}

void sbx_spawner_stop(struct sbx_spawner *spawner)
{
    if (spawner->pid < 0)
        return;
    cr_close_fd(&spawner->fd);
    /*
     * It has nothing to clean up; and one that is stopped would not see the end
     * of its socket. As long as it is not reaped, the number of its group is its.
     */
    (void)kill(-spawner->pid, SIGKILL);
    while (waitpid(-spawner->pid, NULL, 0) > 0 || errno == EINTR)
        ;
    spawner->pid = -1;
}
