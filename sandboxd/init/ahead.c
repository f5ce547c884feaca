/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/ahead.h"

#include "common/auto.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* What init says behind what it says with the fds of LOAD. */
#define ORDER_GO ((uint32_t)SBX_AHEAD_REST + 1)

struct message {
    uint32_t order; /* enum sbx_ahead_order, or ORDER_GO */
};

/* An answer is a struct sbx_program_failure; these are the two that are none. The first DONE comes
 * before LOAD, with the listener of the filter where the kernel has one. */
#define ANSWER_DONE ((struct sbx_program_failure){.stage = SBX_STAGE_NONE})
#define ANSWER_READ_ONLY ((struct sbx_program_failure){.stage = SBX_STAGE_NONE, .error = EROFS})

/* In the order of LOAD. */
static const int places[SBX_INIT_LOAD_FDS] = {SBX_INIT_FD_PAYLOAD, 0, 1, 2};

/* Those that a request can set; the others are the same for everybody. */
static const int limits[] = {RLIMIT_STACK, RLIMIT_FSIZE, RLIMIT_NOFILE};

static int fail(struct sbx_program_failure *failure, enum sbx_stage stage, int error)
{
    *failure = (struct sbx_program_failure){.stage = (uint32_t)stage, .error = error};
    return -1;
}

/* ---- in the process that will be the program ---- */

_Noreturn static void answer(int fd, struct sbx_program_failure failure)
{
    (void)send(fd, &failure, sizeof(failure), MSG_NOSIGNAL);
    _exit(127);
}

_Noreturn static void give_up(int fd, enum sbx_stage stage, int error)
{
    answer(fd, (struct sbx_program_failure){.stage = (uint32_t)stage, .error = -error});
}

/* Puts the fds of LOAD where they belong; what was there is /dev/null, or the same. */
static int take_load(int fd, struct message *message)
{
    int fds[SBX_INIT_LOAD_FDS];
    int r = sbx_fds_receive(fd, message, sizeof(*message), fds, SBX_INIT_LOAD_FDS, 0);

    if (r < 0)
        return r;
    if (r != SBX_INIT_LOAD_FDS)
        return -EPROTO;
    for (int i = 0; i < SBX_INIT_LOAD_FDS; i++) {
        if (dup3(fds[i], places[i], places[i] == SBX_INIT_FD_PAYLOAD ? O_CLOEXEC : 0) < 0)
            return -errno;
        (void)close(fds[i]);
    }
    return 0;
}

/* A file beyond the size limit is EFBIG, not a signal; for the program it is one again. */
static int unpack(const struct sbx_payload_reader *reader)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    int folder = open("/workspace", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (folder < 0)
        return -errno;
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    r = sbx_unpack_files(*reader, folder, SBX_UNPACK_WRITABLE);
    (void)sigaction(SIGXFSZ, &standard, NULL);
    (void)close(folder);
    return r;
}

static int wait_for_go(int fd)
{
    struct message message;
    int r = sbx_fds_receive(fd, &message, sizeof(message), NULL, 0, 0);

    return r == 0 && message.order == ORDER_GO ? 0 : -EPIPE;
}

/* Gives up everything, before a byte of a payload is here. */
static void prepare(int fd)
{
    const struct sbx_program_failure done = ANSWER_DONE;
    int listener_fd;
    int r;

    (void)close(SBX_INIT_FD_CONTROL);
    r = sbx_program_prepare();
    if (r < 0)
        give_up(fd, SBX_STAGE_IDENTITY, r);
    /* Where there is a terminal, it becomes that of the session which prepare() began; the filter
     * would refuse it. */
    (void)ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    listener_fd =
        sbx_program_confine(SBX_INIT_FD_SECCOMP, fd, SBX_INIT_FD_PAYLOAD + 1, SBX_WATCH_SOCKETS);
    r = sbx_fds_send(SBX_PROGRAM_FD_REPORT, &done, sizeof(done), &listener_fd,
                     listener_fd >= 0 ? 1 : 0);
    if (r < 0)
        give_up(SBX_PROGRAM_FD_REPORT, SBX_STAGE_SECCOMP, r);
    cr_close_fd(&listener_fd);
}

/* Files in place; read-only ones are another's work. */
static void place_files(int fd, const struct sbx_payload_reader *reader, uint32_t order)
{
    int r = order == SBX_AHEAD_REST ? 0 : sbx_unpack_has_read_only(*reader);

    if (r > 0 && order == SBX_AHEAD_FIRST)
        answer(fd, ANSWER_READ_ONLY);
    if (r > 0)
        r = -EPROTO; /* who says GO along with LOAD knows that there is none */
    if (r == 0)
        r = unpack(reader);
    if (r < 0)
        give_up(fd, SBX_STAGE_PAYLOAD, r);
}

_Noreturn static void lead(int fd)
{
    const struct sbx_program_failure done = ANSWER_DONE;
    struct sbx_program_vectors vectors = {NULL, NULL};
    struct sbx_payload_reader reader;
    struct message message;
    int r;

    prepare(fd);
    fd = SBX_PROGRAM_FD_REPORT;
    r = take_load(fd, &message);
    if (r == -EPIPE)
        _exit(127); /* nobody is left who could want it */
    if (r < 0)
        give_up(fd, SBX_STAGE_INIT, r);
    r = sbx_payload_map(SBX_INIT_FD_PAYLOAD, &reader);
    if (r < 0)
        give_up(fd, SBX_STAGE_PAYLOAD, r);
    place_files(fd, &reader, message.order);
    r = sbx_program_build_vectors(reader, &vectors);
    if (r < 0)
        give_up(fd, SBX_STAGE_PAYLOAD, r);
    if (message.order != SBX_AHEAD_FIRST_GO &&
        (send(fd, &done, sizeof(done), MSG_NOSIGNAL) < 0 || wait_for_go(fd) < 0))
        _exit(127);
    sbx_program_execute(&vectors);
}

/* ---- in sandbox-init ---- */

/* Its answer; the end of the connection before one is a death without a word. */
static int receive(int fd, int *ret_listener_fd, struct sbx_program_failure *ret_failure)
{
    int r = sbx_fds_receive(fd, ret_failure, sizeof(*ret_failure), ret_listener_fd,
                            ret_listener_fd ? 1 : 0, 0);

    return r < 0 ? fail(ret_failure, SBX_STAGE_INIT, r == -EPIPE ? EIO : -r) : 0;
}

int sbx_ahead_start(struct sbx_ahead *ret_ahead, struct sbx_program_failure *ret_failure)
{
    struct sbx_ahead ahead = {.listener_fd = -1};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(ret_failure, SBX_STAGE_INIT, errno);
    ahead.fd = pair[0];
    ahead.pid = fork();
    if (ahead.pid == 0) {
        (void)close(pair[0]);
        lead(pair[1]);
    }
    (void)close(pair[1]);
    if (ahead.pid < 0) {
        int error = errno;

        (void)close(pair[0]);
        return fail(ret_failure, SBX_STAGE_CLONE, error);
    }
    if (receive(ahead.fd, &ahead.listener_fd, ret_failure) < 0 ||
        ret_failure->stage != SBX_STAGE_NONE) {
        (void)close(ahead.fd);
        return -1;
    }
    *ret_ahead = ahead;
    return 0;
}

/* Ours are those of the run by now; it has those of the time when it was forked. */
static int copy_limits(pid_t pid)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        __rlimit_resource_t resource = (__rlimit_resource_t)limits[i];
        struct rlimit own;

        if (getrlimit(resource, &own) < 0 || prlimit(pid, resource, &own, NULL) < 0)
            return -errno;
    }
    return 0;
}

int sbx_ahead_load(struct sbx_ahead *ahead, enum sbx_ahead_order order,
                   struct sbx_program_failure *ret_failure)
{
    const struct message message = {.order = (uint32_t)order};
    int r = copy_limits(ahead->pid);

    if (r < 0)
        return fail(ret_failure, SBX_STAGE_LIMITS, -r);
    r = sbx_fds_send(ahead->fd, &message, sizeof(message), places, SBX_INIT_LOAD_FDS);
    if (r < 0 && r != -EPIPE)
        return fail(ret_failure, SBX_STAGE_INIT, -r);
    if (order == SBX_AHEAD_FIRST_GO)
        return 0; /* what it has to say, it says before it ends */
    if (receive(ahead->fd, NULL, ret_failure) < 0 || ret_failure->stage != SBX_STAGE_NONE)
        return -1;
    if (ret_failure->error == 0)
        return 0;
    (void)waitpid(ahead->pid, NULL, 0);
    (void)close(ahead->fd);
    cr_close_fd(&ahead->listener_fd);
    return 1;
}

int sbx_ahead_go(const struct sbx_ahead *ahead, struct sbx_program_failure *ret_failure)
{
    const struct message message = {.order = ORDER_GO};
    int r = sbx_fds_send(ahead->fd, &message, sizeof(message), NULL, 0);

    return r < 0 ? fail(ret_failure, SBX_STAGE_INIT, -r) : 0;
}

bool sbx_ahead_has_failed(const struct sbx_ahead *ahead, struct sbx_program_failure *ret_failure)
{
    int r = sbx_fds_receive(ahead->fd, ret_failure, sizeof(*ret_failure), NULL, 0, MSG_DONTWAIT);

    return r == 0 && ret_failure->stage != SBX_STAGE_NONE;
}
