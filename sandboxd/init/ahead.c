/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/ahead.h"

#include "sandboxd/init/leader.h"
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

/* An answer is a struct sbx_program_failure; these are the two that are none. */
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

_Noreturn static void lead(int fd)
{
    const struct sbx_program_failure done = ANSWER_DONE;
    struct sbx_program_vectors vectors = {NULL, NULL};
    struct sbx_payload_reader reader;
    struct message message;
    int r;

    (void)close(SBX_INIT_FD_CONTROL); /* before a byte of a payload is here */
    r = sbx_program_prepare();
    if (r < 0)
        give_up(fd, SBX_STAGE_IDENTITY, r);
    r = take_load(fd, &message);
    if (r == -EPIPE)
        _exit(127); /* nobody is left who could want it */
    if (r < 0)
        give_up(fd, SBX_STAGE_INIT, r);
    /* Where it is a terminal, it becomes that of the session which prepare() began. */
    (void)ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    r = sbx_payload_map(SBX_INIT_FD_PAYLOAD, &reader);
    if (r == 0 && message.order != SBX_AHEAD_REST)
        r = sbx_unpack_has_read_only(reader);
    if (r > 0)
        answer(fd, ANSWER_READ_ONLY);
    if (r == 0)
        r = unpack(&reader);
    if (r == 0)
        r = sbx_program_read_vectors(SBX_INIT_FD_PAYLOAD, &vectors);
    if (r < 0)
        give_up(fd, SBX_STAGE_PAYLOAD, r);
    if (send(fd, &done, sizeof(done), MSG_NOSIGNAL) < 0 ||
        (message.order != SBX_AHEAD_FIRST_GO && wait_for_go(fd) < 0))
        _exit(127);
    sbx_program_execute(&vectors, SBX_INIT_FD_SECCOMP, fd, SBX_WATCH_SOCKETS);
}

/* ---- in sandbox-init ---- */

int sbx_ahead_start(struct sbx_ahead *ret_ahead, struct sbx_program_failure *ret_failure)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(ret_failure, SBX_STAGE_INIT, errno);
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        lead(pair[1]);
    }
    (void)close(pair[1]);
    if (pid < 0) {
        int error = errno;

        (void)close(pair[0]);
        return fail(ret_failure, SBX_STAGE_CLONE, error);
    }
    *ret_ahead = (struct sbx_ahead){.pid = pid, .fd = pair[0]};
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

/* Its answer; the end of the connection before one is a death without a word. */
static int receive(int fd, struct sbx_program_failure *ret_failure)
{
    int r = sbx_fds_receive(fd, ret_failure, sizeof(*ret_failure), NULL, 0, 0);

    return r < 0 ? fail(ret_failure, SBX_STAGE_INIT, r == -EPIPE ? EIO : -r) : 0;
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
    if (receive(ahead->fd, ret_failure) < 0 || ret_failure->stage != SBX_STAGE_NONE)
        return -1;
    if (ret_failure->error == 0) {
        ahead->is_going = order == SBX_AHEAD_FIRST_GO;
        return 0;
    }
    (void)waitpid(ahead->pid, NULL, 0);
    (void)close(ahead->fd);
    return 1;
}

int sbx_ahead_go(struct sbx_ahead *ahead, int *ret_listener_fd,
                 struct sbx_program_failure *ret_failure)
{
    const struct message message = {.order = ORDER_GO};
    int r = ahead->is_going ? 0 : sbx_fds_send(ahead->fd, &message, sizeof(message), NULL, 0);

    *ret_listener_fd = -1;
    r = r < 0 ? fail(ret_failure, SBX_STAGE_INIT, -r)
              : sbx_leader_await_exec(ahead->fd, ret_listener_fd, ret_failure);
    (void)close(ahead->fd);
    ahead->fd = -1;
    return r;
}
