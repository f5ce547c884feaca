/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/spawner.h"

#include "common/auto.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/boxspawn.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * Behind the fds of boxctl.h. Of those, 3 is free in the spawner, so that the
 * first fd of a request, the control socket of a box, is where it has to be.
 */
#define FD_BACKEND (SBX_INIT_FD_SLAVE + 1)
#define FD_FIRST_RECEIVED (FD_BACKEND + 1)

/* ---- in the box ---- */

/*
 * What is the same for every box. An fd of the backend that it held while it
 * waits would hide the end of that one.
 */
static void build_shell(const struct sbx_spawn_request *request, const int *fds, size_t count)
{
    const int control_fd = SBX_INIT_FD_CONTROL;
    const int net_fd = fds[count - request->entries - 1];
    const uint32_t entries = request->entries;
    const bool has_net = (request->flags & SBX_SPAWN_HAS_NET) != 0;

    (void)close(FD_BACKEND);
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    sbx_box_check(control_fd, SBX_STAGE_CLONE, sbx_box_die_with_parent());
    sbx_box_check(control_fd, SBX_STAGE_CGROUP,
                  sbx_box_enter_groups(fds + count - entries, entries));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE, sbx_box_enter_network(has_net ? net_fd : -1));
    sbx_box_check(control_fd, SBX_STAGE_NAMESPACE, sbx_box_name_machine());
    sbx_box_check(control_fd, SBX_STAGE_MOUNT, sbx_box_mount_proc());
    sbx_box_lose_priority();
    sbx_box_check(control_fd, SBX_STAGE_CLONE, close_range(FD_BACKEND, ~0U, 0) < 0 ? -errno : 0);
}

static void await_order(struct sbx_box_order *ret_order, int fds[SBX_BOX_ORDER_FDS])
{
    int r = sbx_fds_receive(SBX_INIT_FD_CONTROL, ret_order, sizeof(*ret_order), fds,
                            SBX_BOX_ORDER_FDS, 0);

    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (r == -EPIPE)
        _exit(0); /* nobody needs it */
    if (r >= 0 &&
        (ret_order->mode >= SBX_BOX_MODE_COUNT || (uint32_t)r != sbx_box_order_fds(ret_order)))
        r = -EPROTO;
    sbx_box_check(SBX_INIT_FD_CONTROL, SBX_STAGE_INIT, r);
}

/* A box whose run is to come keeps the /dev/null that is there. */
static int place_streams(const int fds[SBX_BOX_ORDER_FDS])
{
    for (int i = 0; i < 3; i++) {
        if (dup3(fds[SBX_BOX_ORDER_STDIO + i], i, 0) < 0)
            return -errno;
    }
    return dup3(fds[SBX_BOX_ORDER_PAYLOAD], SBX_INIT_FD_PAYLOAD, O_CLOEXEC) < 0 ? -errno : 0;
}

static int place_terminal(uint16_t columns, uint16_t rows)
{
    int ends[2];
    int r = sbx_box_make_terminal(columns, rows, ends);

    if (r < 0)
        return r;
    if (dup3(ends[0], SBX_INIT_FD_MASTER, O_CLOEXEC) < 0 ||
        dup3(ends[1], SBX_INIT_FD_SLAVE, O_CLOEXEC) < 0)
        return -errno;
    return 0;
}

/* In place of the copy of the spawner's own, with the /proc that is in it. */
static int enter_root(int root_fd)
{
    if (setns(root_fd, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    return sbx_box_mount_proc();
}

/* What is behind the numbers of boxctl.h is closed by who goes on. */
static enum sbx_box_mode be_box(const struct sbx_spawn_request *request, const int *request_fds,
                                size_t count)
{
    const int control_fd = SBX_INIT_FD_CONTROL;
    struct sbx_box_order order;
    int fds[SBX_BOX_ORDER_FDS];

    build_shell(request, request_fds, count);
    await_order(&order, fds);
    if (order.has_root)
        sbx_box_check(control_fd, SBX_STAGE_MOUNT, enter_root(fds[sbx_box_order_fds(&order) - 1]));
    sbx_box_check(control_fd, SBX_STAGE_MOUNT,
                  sbx_box_mount_workspace(fds[SBX_BOX_ORDER_WORKSPACE]));
    if (order.mode == SBX_BOX_TERMINAL)
        sbx_box_check(control_fd, SBX_STAGE_MOUNT, place_terminal(order.columns, order.rows));
    if (sbx_box_order_has_streams(&order))
        sbx_box_check(control_fd, SBX_STAGE_INIT, place_streams(fds));
    sbx_box_check(control_fd, SBX_STAGE_LIMITS, sbx_box_make_limits(&order.limits));
    if (order.is_watched)
        sbx_box_check(control_fd, SBX_STAGE_LIMITS,
                      sbx_box_make_rootless_limits(&order.limits, order.has_one_id));
    sbx_box_check(control_fd, SBX_STAGE_IDENTITY,
                  order.has_one_id ? sbx_box_enter_one_id(fds[SBX_BOX_ORDER_USERNS])
                                   : sbx_box_enter_identity(fds[SBX_BOX_ORDER_USERNS]));
    return (enum sbx_box_mode)order.mode;
}

/* ---- in the spawner ---- */

/*
 * CLONE_PARENT: the backend waits for its boxes. The kernel keeps the libc's
 * copy of the thread id right, where it tells where that is; else the copy is
 * wrong, which nothing here looks at.
 */
static long clone_box(const struct sbx_spawn_request *request, const int *fds)
{
    uint64_t tid_address = 0;
    struct clone_args args = {
        .flags = CLONE_PARENT | sbx_box_namespaces(),
    };

    if (prctl(PR_GET_TID_ADDRESS, &tid_address, 0, 0, 0) == 0) {
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = tid_address;
    }
    if (request->flags & SBX_SPAWN_INTO_GROUP) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned int)fds[SBX_SPAWN_REST];
    }
    return syscall(SYS_clone3, &args, sizeof(args));
}

static bool is_request(const struct sbx_spawn_request *request, const int *fds, int count)
{
    const int named = SBX_SPAWN_REST + ((request->flags & SBX_SPAWN_INTO_GROUP) != 0) +
                      ((request->flags & SBX_SPAWN_HAS_NET) != 0);

    return count >= named && (uint32_t)(count - named) == request->entries &&
           fds[SBX_SPAWN_CONTROL] == SBX_INIT_FD_CONTROL;
}

static void answer(long pid, int error)
{
    const struct sbx_spawn_answer answer = {.pid = (int32_t)pid, .error = error};

    (void)close(SBX_INIT_FD_CONTROL);
    (void)close_range(FD_FIRST_RECEIVED, ~0U, 0);
    if (sbx_fds_send(FD_BACKEND, &answer, sizeof(answer), NULL, 0) < 0)
        _exit(1);
}

/* Frees 3, and lets no signal to all processes of the service (systemd's) end this one first. */
static void settle(void)
{
    sigset_t all;

    (void)sigfillset(&all);
    if (dup3(SBX_INIT_FD_CONTROL, FD_BACKEND, O_CLOEXEC) < 0 ||
        close_range(FD_FIRST_RECEIVED, ~0U, 0) < 0 || sbx_box_die_with_parent() < 0 ||
        pthread_sigmask(SIG_SETMASK, &all, NULL) != 0)
        _exit(1);
    (void)close(SBX_INIT_FD_CONTROL);
}

static void accept_signals(void)
{
    sigset_t none;

    (void)sigemptyset(&none);
    sbx_box_check(SBX_INIT_FD_CONTROL, SBX_STAGE_CLONE, -pthread_sigmask(SIG_SETMASK, &none, NULL));
}

enum sbx_box_mode sbx_spawner_serve(void)
{
    (void)prctl(PR_SET_NAME, "crisol-spawner");
    settle();
    for (;;) {
        struct sbx_spawn_request request;
        int fds[SBX_SPAWN_FDS_MAX];
        int count =
            sbx_fds_receive(FD_BACKEND, &request, sizeof(request), fds, SBX_SPAWN_FDS_MAX, 0);
        long pid;

        if (count < 0 || !is_request(&request, fds, count))
            _exit(count == -EPIPE ? 0 : 1);
        pid = clone_box(&request, fds);
        if (pid == 0) {
            accept_signals();
            return be_box(&request, fds, (size_t)count);
        }
        answer(pid, pid < 0 ? errno : 0);
    }
}
