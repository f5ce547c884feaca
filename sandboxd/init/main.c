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
#include "common/signals.h"
#include "common/slice.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/ahead.h"
#include "sandboxd/init/cells.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/place.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/reap.h"
#include "sandboxd/init/say.h"
#include "sandboxd/init/spawner.h"
#include "sandboxd/init/stream.h"
#include "sandboxd/init/terminal.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

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

/* How the box was started, see boxctl.h. */
enum mode {
    MODE_RUN,      /* everything is there */
    MODE_WAIT,     /* made ahead: the payload comes with LOAD */
    MODE_ADOPT,    /* made ahead, and so is the program */
    MODE_CELLS,    /* made ahead, for an interpreter that outlives its runs */
    MODE_FILES,    /* everything is there, and there is no program */
    MODE_TERMINAL, /* everything is there, a terminal too */
};

/* The control fds have to survive the exec of this program; they shall not survive the next. */
static int secure_self(enum mode mode)
{
    const int last_of_mode[] = {
        [MODE_RUN] = SBX_INIT_FD_SECCOMP,   [MODE_WAIT] = SBX_INIT_FD_SECCOMP,
        [MODE_ADOPT] = SBX_INIT_FD_ADOPTED, [MODE_CELLS] = SBX_INIT_FD_SECCOMP,
        [MODE_FILES] = SBX_INIT_FD_SECCOMP, [MODE_TERMINAL] = SBX_INIT_FD_SLAVE,
    };
    const int last = last_of_mode[mode];

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    for (int fd = SBX_INIT_FD_CONTROL; fd <= last; fd++) {
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return -errno;
    }
    return close_range((unsigned int)last + 1, ~0U, 0) < 0 ? -errno : 0;
}

/*
 * Until something is said. What will be the program is larger than this
 * process, so it is whom the kernel kills when the machine is short of memory:
 * without it the box is good for no run, and its end tells the backend.
 */
static void await_word(int program_fd)
{
    struct pollfd fds[] = {{.fd = SBX_INIT_FD_CONTROL, .events = POLLIN}, {.fd = program_fd}};

    while (poll(fds, CR_ARRAY_SIZE(fds), -1) < 0) {
    }
    if (fds[1].revents)
        _exit(1);
}

/* Says that the box is made, and waits for what it is to run. Returns true when GO came along. */
static bool await_load(enum mode mode, int program_fd, int *listener_fd)
{
    bool is_go = false;
    int r = mode == MODE_ADOPT ? sbx_adopt_await(program_fd, listener_fd) : 0;

    if (r < 0)
        sbx_say_failed(SBX_STAGE_CLONE, r);
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    if (sbx_say((struct sbx_init_msg){.event = SBX_INIT_WAITING}) < 0)
        _exit(1);
    await_word(program_fd);
    r = sbx_adopt_load(&is_go);
    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (r == -EPIPE)
        _exit(1); /* nobody is left who could want it */
    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    return is_go;
}

_Noreturn static void fail_with(const struct sbx_program_failure *failure)
{
    sbx_say_failed((enum sbx_stage)failure->stage, -failure->error);
}

/* Forks what will be the program, before its payload is there. */
static void start_ahead(struct sbx_ahead *ret_ahead)
{
    struct sbx_program_failure failure;

    if (chdir(WORKSPACE) < 0)
        sbx_say_failed(SBX_STAGE_MOUNT, -errno);
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

        r = workspace_fd < 0 ? -errno : sbx_place_read_only(workspace_fd);
        if (r < 0)
            sbx_say_failed(SBX_STAGE_PAYLOAD, r);
        start_ahead(ahead);
        r = sbx_ahead_load(ahead, SBX_AHEAD_REST, &failure);
    }
    if (r < 0)
        fail_with(&failure);
}

/* The end of our own copies: a pipe ends when the program closes it, not when pid 1 does. */
static void close_streams(void)
{
    for (int fd = 0; fd < SBX_INIT_FD_CONTROL; fd++)
        (void)close(fd);
}

static pid_t start_program(enum mode mode, const struct sbx_ahead *ahead, bool is_going)
{
    struct sbx_program_failure failure;
    int r = 0;

    if (mode == MODE_ADOPT)
        r = sbx_adopt_start(SBX_INIT_FD_ADOPTED, sbx_adopt_places, &failure);
    else if (!is_going)
        r = sbx_ahead_go(ahead, &failure);
    close_streams();
    if (r < 0)
        fail_with(&failure);
    return mode == MODE_ADOPT ? SBX_INIT_ADOPTED_PID : ahead->pid;
}

/* What pid 1 has while it makes the box what it is to be. */
struct box {
    enum mode mode;
    struct sbx_ahead ahead;
    struct sbx_cells cells;       /* CELLS */
    struct sbx_terminal terminal; /* TERMINAL */
    int listener_fd;              /* of the program's filter; lives as long as this process */
};

/* What the backend says while the program runs. */
static void hear(pid_t leader, const struct sbx_terminal *terminal)
{
    struct sbx_init_msg msg;
    const ssize_t size = recv(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), MSG_DONTWAIT);

    if (size == 0)
        _exit(1); /* it is gone, and everybody in here with it */
    if (size != (ssize_t)sizeof(msg))
        return;
    /* The leader began a session of its own, and may have left its group since. */
    if (msg.event == SBX_INIT_SIGNAL && kill(-leader, (int)msg.detail) < 0)
        (void)kill(leader, (int)msg.detail);
    if (msg.event == SBX_INIT_RESIZE && terminal)
        sbx_terminal_resize(terminal, msg.detail >> 16, msg.detail & UINT16_MAX);
}

/* Until the leader has ended. Returns its status. */
static int attend(struct sbx_reaper *reaper, struct sbx_terminal *terminal)
{
    int status = 0;

    for (;;) {
        struct pollfd more[1 + SBX_TERMINAL_FDS] = {{.fd = SBX_INIT_FD_CONTROL, .events = POLLIN}};

        if (terminal)
            sbx_terminal_watch(terminal, more + 1);
        if (sbx_reaper_wait(reaper, more, terminal ? 1 + SBX_TERMINAL_FDS : 1, &status))
            return status;
        if (more[0].revents)
            hear(reaper->leader, terminal);
        if (terminal)
            sbx_terminal_pass(terminal, more + 1);
    }
}

/* From the start of the program to its end. Returns the status to exit with. */
static int lead_to_end(const struct box *box, pid_t leader, struct sbx_terminal *terminal)
{
    const int listener_fd = box->listener_fd;
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED};
    struct sbx_program_failure failure;
    struct sbx_reaper reaper;
    int r = sbx_reaper_init(&reaper, leader, listener_fd);

    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    reaper.has_socket = box->mode == MODE_ADOPT; /* there they are not watched for */
    exited.wait_status = attend(&reaper, terminal);
    if (box->mode != MODE_ADOPT && sbx_ahead_has_failed(&box->ahead, &failure))
        fail_with(&failure);
    exited.leftovers = sbx_leader_kill_rest();
    if (terminal)
        sbx_terminal_drain(terminal);
    exited.detail = listener_fd < 0 ? 0 : SBX_INIT_WATCHED;
    exited.detail |= listener_fd < 0 || reaper.has_socket ? 0 : SBX_INIT_NO_SOCKET;
    return sbx_say(exited) < 0 ? 1 : 0;
}

/* Nothing is started. */
static int serve_files(void)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED,
                                  .detail = SBX_INIT_WATCHED | SBX_INIT_NO_SOCKET};
    int r = sbx_place_files();

    if (r < 0)
        sbx_say_failed(SBX_STAGE_PAYLOAD, r);
    if (sbx_say((struct sbx_init_msg){.event = SBX_INIT_READY}) < 0 || sbx_say_await_go() < 0)
        return 1;
    close_streams();
    return sbx_say(exited) < 0 ? 1 : 0;
}

/* In a box that the spawner forked. */
static enum mode be_forked(void)
{
    static const enum mode modes[SBX_BOX_MODE_COUNT] = {
        [SBX_BOX_RUN] = MODE_RUN,           [SBX_BOX_AHEAD] = MODE_WAIT,
        [SBX_BOX_CELLS] = MODE_CELLS,       [SBX_BOX_FILES] = MODE_FILES,
        [SBX_BOX_TERMINAL] = MODE_TERMINAL,
    };

    return modes[sbx_spawner_serve()];
}

static enum mode parse_mode(int argc, char **argv)
{
    static const struct {
        const char *argument;
        enum mode mode;
    } modes[] = {
        {SBX_INIT_ADOPT_ARGUMENT, MODE_ADOPT},
        {SBX_INIT_WAIT_ARGUMENT, MODE_WAIT},
    };

    for (size_t i = 0; argc == 2 && i < CR_ARRAY_SIZE(modes); i++) {
        if (strcmp(argv[1], modes[i].argument) == 0)
            return modes[i].mode;
    }
    return MODE_RUN;
}

/* Puts the streams of the first run out of the way of the program. */
static void take_streams(struct sbx_cells *cells)
{
    int r = sbx_cells_take_streams(cells);

    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
}

/* Up to READY. Returns true when nobody says GO any more. */
static bool get_ready(struct box *box)
{
    const enum mode mode = box->mode;
    bool is_go = false;
    int r = 0;

    /* Before the fork: what will be the program takes the terminal when it begins its session. */
    if (mode == MODE_TERMINAL)
        r = sbx_terminal_open(&box->terminal, SBX_INIT_FD_MASTER, SBX_INIT_FD_SLAVE);
    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    if (mode != MODE_ADOPT) {
        (void)sbx_leader_use_up_pid();
        start_ahead(&box->ahead);
    }
    if (mode == MODE_CELLS)
        r = sbx_cells_open(&box->cells);
    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    if (mode != MODE_RUN && mode != MODE_TERMINAL)
        is_go = await_load(mode, mode == MODE_ADOPT ? SBX_INIT_FD_ADOPTED : box->ahead.fd,
                           &box->listener_fd);
    if (mode == MODE_CELLS)
        take_streams(&box->cells);
    if (mode == MODE_ADOPT && (r = sbx_place_files()) < 0)
        sbx_say_failed(SBX_STAGE_PAYLOAD, r);
    if (mode != MODE_ADOPT) {
        load_ahead(&box->ahead, is_go);
        box->listener_fd = box->ahead.listener_fd;
    }
    return is_go;
}

/* Has it run what is in place. Returns the status to exit with. */
static int go(struct box *box, bool is_going)
{
    pid_t leader = start_program(box->mode, &box->ahead, is_going);

    if (box->mode == MODE_CELLS)
        return sbx_cells_serve(&box->cells, &box->ahead);
    return lead_to_end(box, leader, box->mode == MODE_TERMINAL ? &box->terminal : NULL);
}

int main(int argc, char **argv)
{
    static struct box box = {.ahead = {.pid = -1, .fd = -1, .listener_fd = -1},
                             .listener_fd = -1}; /* large */
    bool is_go;
    int r;

    box.mode = parse_mode(argc, argv);
    if (argc == 2 && strcmp(argv[1], SBX_STREAM_ARGUMENT) == 0)
        return sbx_stream_main(false);
    if (argc == 2 && strcmp(argv[1], SBX_STREAM_INSIDE_ARGUMENT) == 0)
        return sbx_stream_main(true);
    cr_slice_set(CR_SLICE_SHORT_NS);
    r = cr_signals_reset(); /* what the backend left behind is neither ours nor the program's */
    if (r == 0 && argc == 2 && strcmp(argv[1], SBX_INIT_SPAWN_ARGUMENT) == 0)
        box.mode = be_forked();
    if (r == 0)
        r = secure_self(box.mode);
    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    if (box.mode == MODE_FILES)
        return serve_files();
    is_go = get_ready(&box);
    if (!is_go &&
        (sbx_say((struct sbx_init_msg){.event = SBX_INIT_READY}) < 0 || sbx_say_await_go() < 0))
        return 1;
    return go(&box, is_go);
}
