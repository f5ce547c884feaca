/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/relay.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/bpf.h"
#include "sandboxd/backend/disarm.h"
#include "sandboxd/docker/relay_child.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define UNPACK_FDS 64 /* folders below folders */
#define SPARE_FD 32   /* free ones from here on, for the way to their places */

/* What the rest of this process calls; everything else ends it. */
static int load_filter(void)
{
    struct sock_filter code[] = {
        SBX_BPF_HEAD,
        SBX_BPF_ALLOW(read),
        SBX_BPF_ALLOW(write),
#ifdef __NR_poll
        SBX_BPF_ALLOW(poll),
#endif
        SBX_BPF_ALLOW(ppoll),
        SBX_BPF_ALLOW(recvfrom),
        SBX_BPF_ALLOW(sendto),
        SBX_BPF_ALLOW(close),
        SBX_BPF_ALLOW(rt_sigreturn),
        SBX_BPF_ALLOW(restart_syscall),
        SBX_BPF_ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };

    return sbx_disarm_filter(code, CR_ARRAY_SIZE(code));
}

static int reset_signals(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int r = sbx_disarm_signals();

    (void)sigaction(SIGXFSZ, &ignore, NULL); /* EFBIG will do */
    return r;
}

/*
 * All sources go up first: a source may have the number of another's target.
 * The places of what comes with the order are held by the control socket, so
 * that no fd gets such a number on its way.
 */
static int place_fds(const struct sbx_relay_plan *plan, int control_fd)
{
    int fds[SBX_RELAY_FD_COUNT];

    for (int i = 0; i < SBX_RELAY_FD_COUNT; i++)
        fds[i] = control_fd;
    fds[SBX_RELAY_FD_SOCKET] = plan->socket_fd;
    if (plan->filter_fd >= 0)
        fds[SBX_RELAY_FD_FILTER] = plan->filter_fd;
    for (int i = 0; i < SBX_RELAY_FD_COUNT; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SPARE_FD);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < SBX_RELAY_FD_COUNT; i++) {
        if (dup3(fds[i], i, O_CLOEXEC) < 0)
            return -errno;
    }
    return close_range(SBX_RELAY_FD_COUNT, ~0U, 0) < 0 ? -errno : 0;
}

/* Waits for the run: returns 1 when none comes any more. */
static int await_order(struct sbx_relay_order *order)
{
    static const int places[SBX_RELAY_ORDER_FDS] = {
        SBX_RELAY_FD_PAYLOAD, 0, 1, 2, SBX_RELAY_FD_FOLDER, SBX_RELAY_FD_COLLECT};
    struct pollfd control = {.fd = SBX_RELAY_FD_CONTROL, .events = POLLIN};
    int fds[SBX_RELAY_ORDER_FDS];
    int at = 0;
    int r;

    while (poll(&control, 1, -1) < 0) {
    }
    r = sbx_fds_receive(SBX_RELAY_FD_CONTROL, order, sizeof(*order), fds, SBX_RELAY_ORDER_FDS, 0);
    if (r < 0)
        return r == -EPIPE ? 1 : r;
    if (r != 4 + (order->has_folder != 0) + (order->has_collect != 0))
        return -EPROTO;
    for (int i = 0; i < SBX_RELAY_ORDER_FDS; i++) {
        bool is_missing = (places[i] == SBX_RELAY_FD_FOLDER && !order->has_folder) ||
                          (places[i] == SBX_RELAY_FD_COLLECT && !order->has_collect);

        if (is_missing)
            (void)close(places[i]); /* it was the control socket */
        else if (dup3(fds[at++], places[i], O_CLOEXEC) < 0)
            return -errno;
    }
    for (int i = 0; i < SBX_RELAY_FD_COUNT; i++)
        (void)fcntl(i, F_SETFL, O_NONBLOCK | O_RDWR); /* of the folder it says nothing */
    return close_range(SBX_RELAY_FD_COUNT, ~0U, 0) < 0 ? -errno : 0;
}

static int limit_self(uint64_t file_size, uint64_t fds)
{
    const struct sbx_disarm_limit limits[] = {
        {RLIMIT_FSIZE, file_size},
        {RLIMIT_NOFILE, fds},
    };

    return sbx_disarm_limit(limits, CR_ARRAY_SIZE(limits));
}

/* With what came: read-only files, and then nothing but passing on. */
static int serve(const struct sbx_relay_plan *plan, const struct sbx_relay_order *order)
{
    int r = limit_self(order->file_size_bytes, UNPACK_FDS);

    sbx_relay_take_order(order);
    if (plan->filter_fd < 0)
        (void)close(SBX_RELAY_FD_FILTER);
    if (r == 0 && order->has_folder)
        r = sbx_relay_unpack();
    if (r == 0)
        r = limit_self(0, SBX_RELAY_FD_COUNT); /* pipes and sockets have no size */
    if (r == 0)
        r = sbx_relay_map(plan->filter_fd >= 0);
    if (r == 0)
        r = load_filter();
    return r < 0 ? r : sbx_relay_loop();
}

static int run(const struct sbx_relay_plan *plan, int control_fd, pid_t parent)
{
    struct sbx_relay_order order;
    int r = reset_signals();

    if (r == 0)
        r = place_fds(plan, control_fd);
    if (r == 0)
        r = sbx_disarm_drop(plan->uid, plan->gid, parent);
    if (r == 0)
        r = await_order(&order);
    if (r != 0)
        return r < 0 ? r : 0;
    return serve(plan, &order);
}

int sbx_relay_start(const struct sbx_relay_plan *plan, struct sbx_relay *ret_relay,
                    struct cr_err *err)
{
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    const pid_t parent = getpid();
    int pair[2];
    int pidfd;
    pid_t pid;
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return cr_err_sys(err, errno, "make a socket pair for the relay");
    ours = pair[0];
    theirs = pair[1];
    pid = fork();
    if (pid < 0)
        return cr_err_sys(err, errno, "fork the relay");
    if (pid == 0) {
        r = run(plan, theirs, parent);
        _exit(r < 0 ? 1 : r);
    }
    pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        int error = errno;

        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return cr_err_sys(err, error, "watch the relay");
    }
    *ret_relay = (struct sbx_relay){.pid = pid, .pidfd = pidfd, .control_fd = cr_take_fd(&ours)};
    return 0;
}

int sbx_relay_load(const struct sbx_relay *relay, const struct sbx_relay_load *load,
                   struct cr_err *err)
{
    struct sbx_relay_order order = {
        .has_folder = load->folder_fd >= 0,
        .has_collect = load->collect_fd >= 0,
        .has_limits = load->limits != NULL,
        .is_going = load->is_going,
        .file_size_bytes = load->file_size_bytes,
        .mode = (uint32_t)load->mode,
        .size = load->terminal_size,
        .is_fresh = load->is_fresh,
    };
    int fds[SBX_RELAY_ORDER_FDS] = {load->payload_fd, load->stdio_fds[0], load->stdio_fds[1],
                                    load->stdio_fds[2]};
    size_t count = 4;
    int r;

    if (load->folder_fd >= 0)
        fds[count++] = load->folder_fd;
    if (load->collect_fd >= 0)
        fds[count++] = load->collect_fd;
    if (load->limits)
        order.limits = (struct sbx_stream_limits){
            .stack_bytes = load->limits->value[SBX_LIMIT_STACK],
            .file_size_bytes = load->limits->value[SBX_LIMIT_FILE_SIZE],
            .open_files = load->limits->value[SBX_LIMIT_OPEN_FILES],
        };
    r = sbx_fds_send(relay->control_fd, &order, sizeof(order), fds, count);
    return r < 0 ? cr_err_sys(err, -r, "hand a run to its relay") : 0;
}

void sbx_relay_kill(const struct sbx_relay *relay)
{
    if (relay->pidfd >= 0)
        (void)pidfd_send_signal(relay->pidfd, SIGKILL, NULL, 0);
}

int sbx_relay_reap(struct sbx_relay *relay)
{
    int status = 0;
    bool has_exited =
        relay->pid >= 0 && waitpid(relay->pid, &status, 0) == relay->pid && WIFEXITED(status);

    relay->pid = -1;
    cr_close_fd(&relay->pidfd);
    cr_close_fd(&relay->control_fd);
    return has_exited ? WEXITSTATUS(status) : -1;
}
