/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/stack.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/rootless.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/spawn.h"
#include "sandboxd/wire/lifeline.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/wait.h>

#define START_MS 30000
#define START_DOCKER_MS 100000 /* the first builds an image */
#define STOP_DEADLINE_MS 30000
#define CLEAN_MS 60000
#define HANDSHAKE_MS UINT64_C(3000)
/* Far from the ids of a sandboxd that runs here; a range for each of our processes. */
#define UID_BASE UINT32_C(0xa0000000)
#define UID_STACKS 1024U
#define FRONT_USER 64321U
#define NOBODYS_IDS UINT32_C(0xf0000000) /* without root ids are few, and shared */

enum sbx_answers sbx_target_answers(const struct sbx_target *target)
{
    if (target->is_docker)
        return SBX_ANSWERS_DOCKER;
    return target->is_rootless && !target->has_ids ? SBX_ANSWERS_ONE_ID : SBX_ANSWERS_NATIVE;
}

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

static int add_flag(struct sbx_child_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int add_flag(struct sbx_child_args *args, const char *format, ...)
{
    char flag[PATH_MAX + 32];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(flag, sizeof(flag), format, values);
    va_end(values);
    return sbx_child_args_add(args, flag);
}

/* The init that leaves out what only an init does. */
static int add_weak_init(struct sbx_child_args *args, struct cr_err *err)
{
    char path[PATH_MAX];
    int r = cr_beside_find("sandbox-init-weak", path, err);

    return r < 0 ? r : add_flag(args, "--init=%s", path);
}

static bool is_of_init(uint32_t control)
{
    return control == SBX_CONTROL_NO_NEW_PRIVS || control == SBX_CONTROL_CAPABILITIES;
}

/* Those which the init of a native box sees to, and which it is told to leave out: the last two
 * where there are no control groups. */
static bool is_of_box(uint32_t control)
{
    return control == SBX_CONTROL_NETWORK || control == SBX_CONTROL_IPC ||
           control == SBX_CONTROL_PROC || control == SBX_CONTROL_RLIMITS ||
           control == SBX_CONTROL_MEMORY || control == SBX_CONTROL_PIDS;
}

/* A container's user is sandbox-init's from the start, so that leaving it out takes that too. */
static bool needs_weak_init(bool is_docker, uint32_t control)
{
    return is_of_init(control) || (is_docker ? control == SBX_CONTROL_USER : is_of_box(control));
}

static int add_weakness(struct sbx_child_args *args, bool is_docker, uint32_t weakened,
                        struct cr_err *err)
{
    int r = 0;

    if (weakened == SBX_CONTROL_COUNT)
        return 0;
    if (needs_weak_init(is_docker, weakened))
        r = add_weak_init(args, err);
    if (r < 0 || (is_of_init(weakened) && !is_docker))
        return r;
    r = add_flag(args, "--weaken=%s", sbx_control_name(weakened));
    return r == 0 ? add_flag(args, "--selftest") : r;
}

static int make_backend_args(const struct sbx_stack *stack, const struct sbx_target *target,
                             const struct sbx_settings *settings, uint32_t weakened,
                             struct sbx_child_args *ret_args, struct cr_err *err)
{
    int r = target->is_docker ? sbx_docker_args_make(settings, false, ret_args)
                              : sbx_native_args_make(settings, ret_args);

    if (r == 0 && target->is_docker)
        r = add_flag(ret_args, "--relay-user=%" PRIu32, stack->uid_base);
    if (r < 0)
        return cr_err_set(err, ENOMEM, "out of memory for the arguments of the stack");
    return add_weakness(ret_args, target->is_docker, weakened, err);
}

static int start_children(struct sbx_stack *stack, struct sbx_child_args *backend,
                          const struct sbx_settings *settings, struct cr_err *err)
{
    struct sbx_child_args front = {0};
    const struct sbx_front_fds fds = {
        .token = -1,
        .audit = -1,
        .runtimes = -1,
        .tls = -1,
        .health = -1,
        .listens = {stack->listen.fd},
        .listen_count = 1,
        .metrics = -1,
    };
    CR_AUTO_CLOSE int backend_end = -1;
    CR_AUTO_CLOSE int front_end = -1;
    int pair[2];
    int r;

    r = sbx_spawn_pair(pair, err);
    if (r < 0)
        return r;
    backend_end = pair[0];
    front_end = pair[1];
    if (sbx_front_args_make(settings, 1, false, &front) < 0)
        r = cr_err_set(err, ENOMEM, "out of memory for the arguments of the stack");
    if (r == 0)
        r = sbx_spawn_backend(&stack->backend, backend, backend_end, -1, err);
    if (r == 0)
        r = sbx_spawn_front(&stack->front, &front, front_end, &fds, err);
    sbx_child_args_done(&front);
    return r;
}

/* The next word of the front; -ETIMEDOUT, or -EIO when one of the two is gone. */
static int wait_message(const struct sbx_stack *stack, int backend_fd, int64_t deadline_ns,
                        struct cr_err *err)
{
    struct pollfd watches[] = {{.fd = stack->front.lifeline_fd, .events = POLLIN},
                               {.fd = backend_fd, .events = POLLIN}};
    int64_t left_ms = (deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;

    if (left_ms <= 0 || poll(watches, CR_ARRAY_SIZE(watches), (int)left_ms) < 1)
        return cr_err_set(err, ETIMEDOUT, "the sandboxes are not ready in time");
    if (watches[1].revents != 0 || (watches[0].revents & POLLIN) == 0)
        return cr_err_set(err, EIO,
                          "the sandboxes did not start: the lines above say why "
                          "(sandboxd check says it for this host)");
    return 0;
}

static int wait_ready(struct sbx_stack *stack, int64_t deadline_ms, struct cr_err *err)
{
    int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(deadline_ms * CR_NS_PER_MS);
    CR_AUTO_CLOSE int backend_fd = pidfd_open(stack->backend.pid, 0);

    if (backend_fd < 0)
        return cr_err_sys(err, errno, "watch the backend");
    for (;;) {
        struct sbx_lifeline_msg msg;
        int fd = -1;
        int r = wait_message(stack, backend_fd, deadline_ns, err);

        if (r < 0)
            return r;
        r = sbx_lifeline_receive(stack->front.lifeline_fd, &msg, &fd);
        cr_close_fd(&fd);
        if (r == 0 && msg.type == SBX_LIFELINE_READY) {
            stack->slots = msg.value;
            return 0;
        }
        if (r < 0 && r != -EAGAIN)
            return cr_err_set(err, EIO, "the front did not start: the lines above say why");
    }
}

static void take_target(const struct sbx_target *target, struct sbx_settings *settings)
{
    settings->docker_socket = target->docker_socket;
    settings->docker_image = target->docker_image;
    settings->docker_base = target->docker_base;
    settings->docker_pull = target->docker_pull;
    settings->docker_runtime = target->docker_runtime;
}

int sbx_stack_clean(const struct sbx_target *target, struct cr_err *err)
{
    static char level[] = "error";
    static char format[] = "text";
    struct sbx_settings settings = {
        .slow_host = cr_patience(), .log_level = level, .log_format = format};
    struct sbx_child_args args = {0};
    int r;

    take_target(target, &settings);
    r = sbx_docker_gc_args_make(&settings, &args);
    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-docker")
              : sbx_child_run("sandboxd-docker", cr_unconst(args.list), false,
                              cr_patience_ms(CLEAN_MS), err);
    sbx_child_args_done(&args);
    return r > 0 ? cr_err_set(err, EIO, "the images of weakened boxes were not removed") : r;
}

/* Nothing of the stack is started when this fails. */
static int start_all(struct sbx_stack *stack, const struct sbx_target *target,
                     const struct sbx_settings *settings, uint32_t weakened, struct cr_err *err)
{
    struct sbx_child_args backend = {0};
    int r = make_backend_args(stack, target, settings, weakened, &backend, err);

    if (r == 0)
        r = start_children(stack, &backend, settings, err);
    sbx_child_args_done(&backend);
    return r;
}

/* One that nobody else has; without root there may be none. */
static uint32_t front_user(const struct sbx_target *target)
{
    if (target->is_rootless)
        return target->has_ids ? SBX_ROOTLESS_FRONT_ID : 0;
    return FRONT_USER;
}

/* Containers are known as ours by the socket. What is not set has its default. */
static void fill_settings(const struct sbx_target *target, const char *socket, uint32_t weakened,
                          struct sbx_settings *ret_settings)
{
    static char level[] = "error";
    static char format[] = "text";
    static char pool[16];
    static char preload[] = "off"; /* the user of a template would be taken for one of a box */
    struct sbx_settings settings = {
        .socket = cr_unconst(socket),
        .front_user = front_user(target),
        .is_rootless = target->is_rootless,
        .slots = SBX_STACK_SLOTS,
        .queue = 16,
        .slow_host = cr_patience(),
        .log_level = level,
        .log_format = format,
        .accept_gaps = no_gaps(),
        .pool = pool,
        /* These cut a client that a slow host holds up. */
        .edge = {.handshake_ms = HANDSHAKE_MS * cr_patience(),
                 .frame_ms = HANDSHAKE_MS * cr_patience()},
        .preload = preload,
    };

    (void)snprintf(pool, sizeof(pool), "plain=%u", SBX_STACK_POOL);
    take_target(target, &settings);
    if (settings.docker_image && needs_weak_init(target->is_docker, weakened)) {
        settings.docker_base = settings.docker_image; /* it holds the other init */
        settings.docker_image = NULL;
    }
    *ret_settings = settings;
}

/* Nothing is open or runs yet; sbx_stack_stop() is right from here on. */
static void init_stack(struct sbx_stack *stack, const struct sbx_target *target, const char *socket)
{
    *stack = (struct sbx_stack){
        .listen = CR_LISTEN_INIT,
        .backend = {.name = target->is_docker ? "sandboxd-docker" : "sandboxd-native",
                    .lifeline_fd = -1},
        .front = {.name = "sandboxd-front", .lifeline_fd = -1},
        .is_rootless = target->is_rootless,
        .uid_base = target->is_rootless
                        ? NOBODYS_IDS
                        : UID_BASE + (uint32_t)getpid() % UID_STACKS * SBX_STACK_IDS,
    };
    (void)snprintf(stack->token, sizeof(stack->token), "crisol-%d-%" PRId64, getpid(),
                   cr_clock_mono_ns());
    (void)snprintf(stack->address, sizeof(stack->address), "unix:%s", socket);
}

int sbx_stack_start(struct sbx_stack *stack, const struct sbx_target *target, const char *socket,
                    uint32_t weakened, struct cr_err *err)
{
    struct sbx_settings settings;
    int r;

    init_stack(stack, target, socket);
    fill_settings(target, socket, weakened, &settings);
    settings.uid_base = stack->uid_base;
    r = cr_listen_open(stack->address, (uid_t)-1, &stack->listen, err);
    if (r == 0)
        r = start_all(stack, target, &settings, weakened, err);
    if (r == 0)
        r = wait_ready(stack, target->is_docker ? START_DOCKER_MS : START_MS, err);
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
    r = wait_child(&stack->front, cr_patience_ms(STOP_DEADLINE_MS));
    cr_close_fd(&stack->backend.lifeline_fd);
    if (wait_child(&stack->backend, cr_patience_ms(STOP_DEADLINE_MS)) < 0)
        r = -EIO;
    cr_listen_close(&stack->listen);
    return r;
}
