/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/stack.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/spawn.h"
#include "sandboxd/wire/lifeline.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/wait.h>

#define START_DEADLINE_MS 30000
#define STOP_DEADLINE_MS 15000
#define SLOTS 2U
#define HANDSHAKE_MS 3000U
/* Far from the ids of a sandboxd that runs here; a range for each of our processes. */
#define UID_BASE UINT32_C(0xa0000000)
#define UID_STACKS 4096U

static char *no_gaps(void)
{
    static char list[512];

    /* The self-test reports gaps itself, so its own backend must start with them. */
    if (!list[0]) {
        for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
            size_t used = strlen(list);

            (void)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? "," : "",
                           sbx_control_name(i));
        }
    }
    return list;
}

/* "--weaken", or the init that leaves out what only an init does. */
static int add_weakness(struct sbx_child_args *args, uint32_t weakened, struct cr_err *err)
{
    char path[PATH_MAX];
    char flag[PATH_MAX + 16];
    int r;

    if (weakened == SBX_CONTROL_COUNT)
        return 0;
    if (weakened == SBX_CONTROL_NO_NEW_PRIVS || weakened == SBX_CONTROL_CAPABILITIES) {
        r = cr_beside_find("sandbox-init-weak", path, err);
        if (r < 0)
            return r;
        (void)snprintf(flag, sizeof(flag), "--init=%s", path);
        return sbx_child_args_add(args, flag);
    }
    (void)snprintf(flag, sizeof(flag), "--weaken=%s", sbx_control_name(weakened));
    r = sbx_child_args_add(args, flag);
    return r == 0 ? sbx_child_args_add(args, "--selftest") : r;
}

static int start_children(struct sbx_stack *stack, const struct sbx_settings *settings,
                          uint32_t weakened, struct cr_err *err)
{
    struct sbx_child_args native = {0};
    struct sbx_child_args front = {0};
    const struct sbx_front_fds fds = {
        .token = -1, .audit = -1, .listens = {stack->listen.fd}, .listen_count = 1};
    CR_AUTO_CLOSE int backend_end = -1;
    CR_AUTO_CLOSE int front_end = -1;
    int pair[2];
    int r;

    r = sbx_spawn_pair(pair, err);
    if (r < 0)
        return r;
    backend_end = pair[0];
    front_end = pair[1];
    r = sbx_settings_native_args(settings, &native);
    if (r == 0)
        r = sbx_settings_front_args(settings, 1, &front);
    if (r < 0)
        r = cr_err_set(err, ENOMEM, "out of memory for the arguments of the stack");
    if (r == 0)
        r = add_weakness(&native, weakened, err);
    if (r == 0)
        r = sbx_spawn_backend(&stack->native, &native, backend_end, err);
    if (r == 0)
        r = sbx_spawn_front(&stack->front, &front, front_end, &fds, err);
    sbx_child_args_done(&native);
    sbx_child_args_done(&front);
    return r;
}

static int wait_ready(struct sbx_stack *stack, struct cr_err *err)
{
    int64_t deadline_ns = cr_clock_mono_ns() + START_DEADLINE_MS * CR_NS_PER_MS * stack->slowness;

    for (;;) {
        struct pollfd watch = {.fd = stack->front.lifeline_fd, .events = POLLIN};
        int64_t left_ms = (deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
        struct sbx_lifeline_msg msg;
        int fd = -1;
        int r;

        if (left_ms <= 0 || poll(&watch, 1, (int)left_ms) != 1)
            return cr_err_set(err, ETIMEDOUT, "the sandboxes are not ready in time");
        r = sbx_lifeline_receive(stack->front.lifeline_fd, &msg, &fd);
        if (fd >= 0)
            (void)close(fd);
        if (r == 0 && msg.type == SBX_LIFELINE_READY) {
            stack->slots = msg.value;
            return 0;
        }
        if (r < 0 && r != -EAGAIN)
            return cr_err_set(err, EIO,
                              "the sandboxes did not start: the lines above say why "
                              "(sandboxd check says it for this host)");
    }
}

int sbx_stack_start(struct sbx_stack *stack, const char *socket, uint32_t weakened,
                    struct cr_err *err)
{
    static char level[] = "error";
    static char format[] = "text";
    static char pool[] = "plain=2";
    struct sbx_settings settings = {
        .front_user = 64321,
        .slots = SLOTS,
        .queue = 16,
        .log_level = level,
        .log_format = format,
        .accept_gaps = no_gaps(),
        .pool = pool,
        /* What is not set has its default; these cut a client that a slow host holds up. */
        .edge = {.handshake_ms = HANDSHAKE_MS * stack->slowness,
                 .frame_ms = HANDSHAKE_MS * stack->slowness},
    };
    int r;

    *stack = (struct sbx_stack){
        .slowness = stack->slowness,
        .listen = CR_LISTEN_INIT,
        .native = {.name = "sandboxd-native", .lifeline_fd = -1},
        .front = {.name = "sandboxd-front", .lifeline_fd = -1},
        .uid_base = UID_BASE + (uint32_t)getpid() % UID_STACKS * SBX_STACK_IDS,
    };
    settings.uid_base = stack->uid_base;
    (void)snprintf(stack->address, sizeof(stack->address), "unix:%s", socket);
    r = cr_listen_open(stack->address, (uid_t)-1, &stack->listen, err);
    if (r == 0)
        r = start_children(stack, &settings, weakened, err);
    if (r == 0)
        r = wait_ready(stack, err);
    if (r < 0)
        (void)sbx_stack_stop(stack);
    return r;
}

/* Its lifeline is closed. Returns 0 when it ended by itself and well. */
static int wait_child(struct sbx_child *child, int deadline_ms)
{
    CR_AUTO_CLOSE int pidfd = child->pid > 0 ? pidfd_open(child->pid, 0) : -1;
    struct pollfd watch = {.fd = pidfd, .events = POLLIN};
    int status = 0;

    if (child->pid <= 0)
        return 0;
    if (pidfd < 0 || poll(&watch, 1, deadline_ms) != 1)
        (void)kill(child->pid, SIGKILL);
    if (waitpid(child->pid, &status, 0) != child->pid)
        return -EIO;
    child->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int sbx_stack_stop(struct sbx_stack *stack)
{
    int r;

    cr_close_fd(&stack->front.lifeline_fd);
    r = wait_child(&stack->front, STOP_DEADLINE_MS * (int)stack->slowness);
    cr_close_fd(&stack->native.lifeline_fd);
    if (wait_child(&stack->native, STOP_DEADLINE_MS * (int)stack->slowness) < 0)
        r = -EIO;
    cr_listen_close(&stack->listen);
    return r;
}
