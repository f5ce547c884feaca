/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/keeper.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/native/sweep.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PENDING_MAX 128 /* removals that wait for the kernel */
#define RETRY_MS 2
#define REMOVE_DEADLINE_NS (10 * CR_NS_PER_S)
#define STOP_DEADLINE_MS 8000

/* Everything the keeper process knows. */
struct keeping {
    const struct sbx_cgroup_host *host;
    int fd;
    int home_fd; /* our own network namespace */
    size_t pending_count;

    struct {
        uint32_t number;
        int64_t deadline_ns;
    } pending[PENDING_MAX];
};

/* `net_fd` goes along unless it is -1. */
static int answer(const struct keeping *keeping, uint32_t op, uint32_t number, int error,
                  int net_fd)
{
    struct sbx_keeper_msg msg = {.op = op, .number = number, .error = error};

    return sbx_fds_send(keeping->fd, &msg, sizeof(msg), &net_fd, net_fd >= 0 ? 1 : 0);
}

/* The network namespace that this process is in; there is no /proc to open it from. */
static int open_network(void)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int net_fd = fd < 0 ? -1 : ioctl(fd, SIOCGSKNS);

    return net_fd < 0 ? -errno : net_fd;
}

/* Who may not come back to the host's, as an ordinary user, gets a home of its own. */
static int open_home(void)
{
    int net_fd = open_network();

    if (net_fd != -EPERM || sbx_box_make_network() < 0)
        return net_fd;
    return open_network();
}

/* Makes one and goes home again. Returns it or -errno. */
static int make_network(const struct keeping *keeping)
{
    int r = sbx_box_make_network();
    int net_fd = r < 0 ? r : open_network();

    if (setns(keeping->home_fd, CLONE_NEWNET) < 0 && net_fd >= 0) {
        r = -errno;
        (void)close(net_fd);
        return r;
    }
    return net_fd;
}

static void make(const struct keeping *keeping, uint32_t op, uint32_t number)
{
    CR_AUTO_CLOSE int net_fd = -1;
    struct cr_err err = CR_ERR_INIT;
    int r = 0;

    if (op == SBX_KEEPER_MAKE) {
        net_fd = make_network(keeping);
        r = net_fd < 0 ? cr_err_sys(&err, -net_fd, "make a network namespace") : 0;
    }
    if (r == 0)
        r = sbx_cgroup_make(keeping->host, number, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    (void)answer(keeping, op, number, -r, r < 0 ? -1 : net_fd);
}

/* EBUSY for some milliseconds after the last member was reaped is normal: try again. */
static void retry_pending(struct keeping *keeping)
{
    for (size_t i = 0; i < keeping->pending_count;) {
        int r = sbx_cgroup_remove(keeping->host, keeping->pending[i].number);

        if (r == -EBUSY && cr_clock_mono_ns() < keeping->pending[i].deadline_ns) {
            i++;
            continue;
        }
        if (r < 0)
            cr_log_warn("cannot remove a control group, leaving it to the sweep number=%" PRIu32
                        " error=%s",
                        keeping->pending[i].number, strerrordesc_np(-r));
        (void)answer(keeping, SBX_KEEPER_REMOVE, keeping->pending[i].number, -r, -1);
        keeping->pending[i] = keeping->pending[--keeping->pending_count];
    }
}

static void handle(struct keeping *keeping, const struct sbx_keeper_msg *msg)
{
    if (msg->op == SBX_KEEPER_MAKE || msg->op == SBX_KEEPER_MAKE_NETLESS) {
        make(keeping, msg->op, msg->number);
        return;
    }
    if (msg->op == SBX_KEEPER_DROP)
        return; /* it is done */
    if (keeping->pending_count == PENDING_MAX) {
        (void)answer(keeping, SBX_KEEPER_REMOVE, msg->number, ENOSPC, -1);
        return;
    }
    keeping->pending[keeping->pending_count].number = msg->number;
    keeping->pending[keeping->pending_count++].deadline_ns =
        cr_clock_mono_ns() + cr_patience_ns(REMOVE_DEADLINE_NS);
    retry_pending(keeping);
}

/* Returns false when the backend is gone. */
static bool receive(struct keeping *keeping)
{
    struct sbx_keeper_msg msg;
    int workspace_fd = -1;
    int r = sbx_fds_receive(keeping->fd, &msg, sizeof(msg), &workspace_fd, 1, MSG_DONTWAIT);

    if (r < 0)
        return r == -EAGAIN || r == -EINTR;
    if (r > 0)
        (void)close(workspace_fd); /* the last reference frees its pages, here */
    handle(keeping, &msg);
    return true;
}

/* Keeps what the keeper needs and nothing else: an fd of the front held here would hide its EOF. */
static void close_others(const struct sbx_cgroup_host *host, int fd)
{
    unsigned int first = 3;

    for (;;) {
        int next = fd >= (int)first ? fd : -1;

        for (uint32_t i = 0; i < host->hierarchy_count; i++) {
            if (host->own_fds[i] >= (int)first && (next < 0 || host->own_fds[i] < next))
                next = host->own_fds[i];
            if (host->base_fds[i] >= (int)first && (next < 0 || host->base_fds[i] < next))
                next = host->base_fds[i];
        }
        if (next < 0)
            break;
        if ((unsigned int)next > first)
            (void)close_range(first, (unsigned int)next - 1, 0);
        first = (unsigned int)next + 1;
    }
    (void)close_range(first, ~0U, 0);
}

__attribute__((noreturn)) static void keep(const struct sbx_cgroup_host *host, int fd)
{
    struct keeping keeping = {.host = host, .fd = fd};
    struct pollfd watch = {.fd = fd, .events = POLLIN};
    struct cr_err err = CR_ERR_INIT;

    (void)prctl(PR_SET_NAME, "crisol-keeper");
    close_others(host, fd);
    keeping.home_fd = open_home();
    do {
        (void)poll(&watch, 1, keeping.pending_count > 0 ? RETRY_MS : -1);
        retry_pending(&keeping);
    } while (receive(&keeping));
    if (sbx_sweep_own(host, &err) < 0)
        cr_log_error("%s", err.text);
    _exit(err.code == 0 ? 0 : 1);
}

int sbx_keeper_start(const struct sbx_cgroup_host *host, struct sbx_keeper *ret_keeper,
                     struct cr_err *err)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "open the socket of the keeper");
    pid = fork();
    if (pid < 0) {
        int errnum = errno;

        (void)close(pair[0]);
        (void)close(pair[1]);
        return cr_err_sys(err, errnum, "fork the keeper");
    }
    if (pid == 0)
        keep(host, pair[1]);
    (void)close(pair[1]);
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK); /* cannot fail for a socket */
    *ret_keeper = (struct sbx_keeper){.pid = pid, .fd = pair[0]};
    return 0;
}

static int request(const struct sbx_keeper *keeper, enum sbx_keeper_op op, uint32_t number, int fd)
{
    struct sbx_keeper_msg msg = {.op = op, .number = number};

    return sbx_fds_send(keeper->fd, &msg, sizeof(msg), &fd, fd >= 0 ? 1 : 0);
}

int sbx_keeper_make(const struct sbx_keeper *keeper, uint32_t number, bool with_net)
{
    return request(keeper, with_net ? SBX_KEEPER_MAKE : SBX_KEEPER_MAKE_NETLESS, number, -1);
}

int sbx_keeper_remove(const struct sbx_keeper *keeper, uint32_t number, int workspace_fd)
{
    return request(keeper, SBX_KEEPER_REMOVE, number, workspace_fd);
}

int sbx_keeper_drop(const struct sbx_keeper *keeper, int space_fd)
{
    return request(keeper, SBX_KEEPER_DROP, 0, space_fd);
}

int sbx_keeper_receive(const struct sbx_keeper *keeper, struct sbx_keeper_msg *ret_msg,
                       int *ret_net_fd)
{
    int r;

    *ret_net_fd = -1;
    r = sbx_fds_receive(keeper->fd, ret_msg, sizeof(*ret_msg), ret_net_fd, 1, MSG_DONTWAIT);
    return r > 0 ? 0 : r;
}

int sbx_keeper_stop(struct sbx_keeper *keeper, struct cr_err *err)
{
    CR_AUTO_CLOSE int pidfd = -1;
    struct pollfd watch = {.events = POLLIN};

    if (keeper->pid < 0)
        return 0;
    cr_close_fd(&keeper->fd);
    pidfd = pidfd_open(keeper->pid, 0);
    watch.fd = pidfd;
    if (pidfd < 0 || poll(&watch, 1, cr_patience_ms(STOP_DEADLINE_MS)) != 1)
        return cr_err_set(err, ETIMEDOUT, "the keeper does not end");
    (void)waitpid(keeper->pid, NULL, 0);
    keeper->pid = -1;
    return 0;
}
