/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pid 1 of a box. Puts the input files in place, starts the program as an
 * unprivileged user, reaps, and reports how it ended. It parses nothing
 * itself: the payload is read by children that have given up every privilege.
 *
 * In a container, which has no fds to give, it runs as the user of the program
 * and speaks boxstream.h instead: stream.c. Else
 * it is started as the user 0 of the box with /workspace mounted and the fds
 * of sandboxd/wire/boxctl.h. The program cannot signal it (another user, and
 * pid 1 of its namespace), nor trace or look into it (not dumpable).
 */
#include "common/auto.h"
#include "common/privilege.h"
#include "common/signals.h"
#include "common/slice.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/ahead.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/stream.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/init/violation.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WORKSPACE "/workspace"
#define WORKSPACE_MODE_SHARED 01775
/* Exit codes of an unpacking child: 0, an errno, or this. */
#define UNPACK_HAS_READ_ONLY 255

/* How the box was started, see boxctl.h. */
enum mode {
    MODE_RUN,   /* everything is there */
    MODE_WAIT,  /* made ahead: the payload comes with LOAD */
    MODE_ADOPT, /* made ahead, and so is the program */
};

static int send_event(struct sbx_init_msg msg)
{
    ssize_t sent;

    do {
        sent = send(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(msg) ? 0 : -EPIPE;
}

_Noreturn static void fail(enum sbx_stage stage, int error)
{
    (void)send_event(
        (struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = (uint32_t)stage, .error = -error});
    _exit(1);
}

/* The control fds have to survive the exec of this program; they shall not survive the next. */
static int secure_self(enum mode mode)
{
    const int last = mode == MODE_ADOPT ? SBX_INIT_FD_ADOPTED : SBX_INIT_FD_SECCOMP;

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    for (int fd = SBX_INIT_FD_CONTROL; fd <= last; fd++) {
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return -errno;
    }
    return close_range((unsigned int)last + 1, ~0U, 0) < 0 ? -errno : 0;
}

/* Says that the box is made, and waits for what it is to run. Returns true when GO came along. */
static bool await_load(enum mode mode, int *listener_fd)
{
    bool is_go = false;
    int r = mode == MODE_ADOPT ? sbx_adopt_await(listener_fd) : 0;

    if (r < 0)
        fail(SBX_STAGE_CLONE, r);
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    if (send_event((struct sbx_init_msg){.event = SBX_INIT_WAITING}) < 0)
        _exit(1);
    r = sbx_adopt_load(&is_go);
    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (r == -EPIPE)
        _exit(1); /* nobody is left who could want it */
    if (r < 0)
        fail(SBX_STAGE_INIT, r);
    return is_go;
}

enum unpack_role {
    UNPACK_FIRST,     /* the user of the program; writes nothing when a file is read-only */
    UNPACK_READ_ONLY, /* the user 0 without any capability */
    UNPACK_REST,      /* the user of the program */
};

static int unpack(int workspace_fd, enum unpack_role role)
{
    /* A file beyond the size limit is EFBIG, not a signal. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sbx_payload_reader reader;
    int r;

    (void)sigaction(SIGXFSZ, &ignore, NULL);
    r = cr_privilege_drop(role == UNPACK_READ_ONLY ? 0 : SBX_PROGRAM_UID, SBX_PROGRAM_GID, NULL);
    if (r < 0)
        return r;
    (void)close(SBX_INIT_FD_CONTROL);
    r = sbx_payload_map(SBX_INIT_FD_PAYLOAD, &reader);
    if (r == 0 && role == UNPACK_FIRST)
        r = sbx_unpack_has_read_only(reader);
    if (r < 0)
        return r;
    if (r > 0)
        return -UNPACK_HAS_READ_ONLY;
    return sbx_unpack_files(reader, workspace_fd,
                            role == UNPACK_READ_ONLY ? SBX_UNPACK_READ_ONLY : SBX_UNPACK_WRITABLE);
}

/* Returns what unpack() returned in a child, or -EIO when the child died of a signal. */
static int unpack_in_child(int workspace_fd, enum unpack_role role)
{
    const pid_t pid = fork();
    int status;

    if (pid < 0)
        return -errno;
    if (pid == 0)
        _exit(-unpack(workspace_fd, role));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/*
 * Read-only files: the workspace and their folders are taken from the program
 * (owner 0, its group, sticky), so that it can add files but neither remove
 * nor rename these, nor their folders; and the files belong to the user 0, so
 * that it cannot change their mode.
 */
static int place_read_only(int workspace_fd)
{
    if (fchown(workspace_fd, 0, SBX_PROGRAM_GID) < 0 ||
        fchmod(workspace_fd, WORKSPACE_MODE_SHARED) < 0)
        return -errno;
    return unpack_in_child(workspace_fd, UNPACK_READ_ONLY);
}

/* For a program that exists already and leaves the files to us. */
static int place_files(void)
{
    CR_AUTO_CLOSE int workspace_fd =
        open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (workspace_fd < 0)
        return -errno;
    r = unpack_in_child(workspace_fd, UNPACK_FIRST);
    if (r != -UNPACK_HAS_READ_ONLY)
        return r;
    r = place_read_only(workspace_fd);
    return r < 0 ? r : unpack_in_child(workspace_fd, UNPACK_REST);
}

_Noreturn static void fail_with(const struct sbx_program_failure *failure)
{
    fail((enum sbx_stage)failure->stage, -failure->error);
}

/* Programs are the third process of their box, whoever forked them. */
static void use_up_pid(void)
{
    const pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it only exits

    if (pid == 0)
        _exit(0);
    (void)waitpid(pid, NULL, 0);
}

/* Forks what will be the program, before its payload is there. */
static void start_ahead(struct sbx_ahead *ret_ahead)
{
    struct sbx_program_failure failure;

    if (chdir(WORKSPACE) < 0)
        fail(SBX_STAGE_MOUNT, -errno);
    if (sbx_ahead_start(ret_ahead, &failure) < 0)
        fail_with(&failure);
}

/* The same where it puts the files in place itself; read-only ones are another's work. */
static void load_ahead(struct sbx_ahead *ahead, bool is_go)
{
    struct sbx_program_failure failure;
    int r = sbx_ahead_load(ahead, is_go ? SBX_AHEAD_FIRST_GO : SBX_AHEAD_FIRST, &failure);

    if (r == 1) {
        CR_AUTO_CLOSE int workspace_fd =
            open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        r = workspace_fd < 0 ? -errno : place_read_only(workspace_fd);
        if (r < 0)
            fail(SBX_STAGE_PAYLOAD, r);
        start_ahead(ahead);
        r = sbx_ahead_load(ahead, SBX_AHEAD_REST, &failure);
    }
    if (r < 0)
        fail_with(&failure);
}

/* The end of the connection means that the backend is gone. */
static int wait_for_go(void)
{
    struct sbx_init_msg msg;
    ssize_t size;

    do {
        size = recv(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), 0);
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof(msg) && msg.event == SBX_INIT_GO ? 0 : -EPIPE;
}

/* The end of our own copies: a pipe ends when the program closes it, not when pid 1 does. */
static void close_streams(void)
{
    for (int fd = 0; fd < SBX_INIT_FD_CONTROL; fd++)
        (void)close(fd);
}

static pid_t start_program(enum mode mode, struct sbx_ahead *ahead, int *listener_fd)
{
    struct sbx_program_failure failure;
    int r =
        mode == MODE_ADOPT ? sbx_adopt_start(&failure) : sbx_ahead_go(ahead, listener_fd, &failure);

    close_streams();
    if (r < 0)
        fail_with(&failure);
    return mode == MODE_ADOPT ? SBX_INIT_ADOPTED_PID : ahead->pid;
}

/*
 * Once is enough. Whoever is held back dies here, not by the kill of the
 * backend: that one ends this process, and with it the listener, a moment
 * before the others, and the call would return for that moment.
 */
static void tell_violation(struct pollfd *listener, bool *has_socket)
{
    struct sbx_init_msg violation = {.event = SBX_INIT_VIOLATION};
    bool is_socket;

    if (listener->revents & POLLIN) {
        violation.detail = sbx_violation_read(listener->fd, &is_socket);
        if (is_socket) {
            *has_socket = true;
            return;
        }
        (void)kill(-1, SIGKILL);
        if (send_event(violation) < 0)
            _exit(1);
    }
    listener->fd = -1; /* or, POLLHUP: nobody is left who has the filter */
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
        fail(SBX_STAGE_INIT, -errno);
    return false;
}

/* Adopted processes are reaped as they come. */
static int reap_until(pid_t leader, int listener_fd, bool *has_socket)
{
    struct pollfd fds[] = {{.fd = open_signals(), .events = POLLIN},
                           {.fd = listener_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    int status = 0;

    if (fds[0].fd < 0)
        fail(SBX_STAGE_INIT, -errno);
    while (!reap(leader, &status)) {
        if (poll(fds, CR_ARRAY_SIZE(fds), -1) < 0)
            continue;
        if (fds[0].revents)
            (void)!read(fds[0].fd, &info, sizeof(info));
        if (fds[1].revents)
            tell_violation(&fds[1], has_socket);
    }
    /* A child of the program may be held back while the program ended. */
    while (fds[1].fd >= 0 && poll(&fds[1], 1, 0) > 0)
        tell_violation(&fds[1], has_socket);
    return status;
}

static enum mode parse_mode(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], SBX_INIT_ADOPT_ARGUMENT) == 0)
        return MODE_ADOPT;
    return argc == 2 && strcmp(argv[1], SBX_INIT_WAIT_ARGUMENT) == 0 ? MODE_WAIT : MODE_RUN;
}

int main(int argc, char **argv)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED};
    const enum mode mode = parse_mode(argc, argv);
    struct sbx_ahead ahead = {.pid = -1, .fd = -1};
    int listener_fd = -1; /* of the program's filter; lives as long as this process */
    bool is_go = false;   /* nobody says GO any more */
    bool has_socket = mode == MODE_ADOPT; /* there they are not watched for */
    pid_t leader;
    int r;

    if (argc == 2 && strcmp(argv[1], SBX_STREAM_ARGUMENT) == 0)
        return sbx_stream_main(false);
    if (argc == 2 && strcmp(argv[1], SBX_STREAM_INSIDE_ARGUMENT) == 0)
        return sbx_stream_main(true);
    cr_slice_set(CR_SLICE_SHORT_NS);
    r = cr_signals_reset(); /* what the backend left behind is neither ours nor the program's */
    if (r == 0)
        r = secure_self(mode);
    if (r < 0)
        fail(SBX_STAGE_INIT, r);
    if (mode != MODE_ADOPT) {
        use_up_pid();
        start_ahead(&ahead);
    }
    if (mode != MODE_RUN)
        is_go = await_load(mode, &listener_fd);
    if (mode != MODE_ADOPT)
        load_ahead(&ahead, is_go);
    else if ((r = place_files()) < 0)
        fail(SBX_STAGE_PAYLOAD, r);
    if (send_event((struct sbx_init_msg){.event = SBX_INIT_READY}) < 0 ||
        (!is_go && wait_for_go() < 0))
        return 1;
    leader = start_program(mode, &ahead, &listener_fd);
    exited.wait_status = reap_until(leader, listener_fd, &has_socket);
    exited.leftovers = sbx_leader_kill_rest();
    exited.detail = listener_fd < 0 ? 0 : SBX_INIT_WATCHED;
    exited.detail |= listener_fd < 0 || has_socket ? 0 : SBX_INIT_NO_SOCKET;
    return send_event(exited) < 0 ? 1 : 0;
}
