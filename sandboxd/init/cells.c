/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/cells.h"

#include "common/auto.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/place.h"
#include "sandboxd/init/say.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/wait.h>

/* Above every number of boxctl.h, and low: a program may be limited to 16 open files. */
#define FIRST_FREE_FD (SBX_INIT_FD_SLAVE + 1)
#define STREAM_COUNT 3
#define EXIT_CODE_MAX 255

static int move_up(int fd)
{
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

    return moved < 0 ? -errno : moved;
}

int sbx_cells_open(struct sbx_cells *ret_cells)
{
    struct sbx_cells cells = {.streams = {-1, -1, -1}};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    cells.socket_fd = move_up(pair[0]);
    cells.theirs_fd = move_up(pair[1]);
    cells.null_fd = move_up(STDIN_FILENO);
    (void)close(pair[0]);
    (void)close(pair[1]);
    if (cells.socket_fd < 0 || cells.theirs_fd < 0 || cells.null_fd < 0)
        return -EMFILE;
    *ret_cells = cells;
    return 0;
}

int sbx_cells_take_streams(struct sbx_cells *cells)
{
    for (int i = 0; i < STREAM_COUNT; i++) {
        const int source =
            i == STDIN_FILENO && cells->theirs_fd >= 0 ? cells->theirs_fd : cells->null_fd;

        cells->streams[i] = move_up(i);
        if (cells->streams[i] < 0)
            return cells->streams[i];
        if (dup2(source, i) < 0)
            return -errno;
    }
    cr_close_fd(&cells->theirs_fd);
    return 0;
}

/* Only the program has the streams then: their end is not ours to keep back. */
int sbx_cells_hand_out(struct sbx_cells *cells)
{
    const struct sbx_cell_word word = {.number = ++cells->number};
    int r = sbx_fds_send(cells->socket_fd, &word, sizeof(word), cells->streams, STREAM_COUNT);

    for (int i = 0; i < STREAM_COUNT; i++)
        cr_close_fd(&cells->streams[i]);
    return r == -EPIPE ? 0 : r; /* it is about to end, which is seen */
}

/* It may say anything. */
bool sbx_cells_is_over(struct sbx_cells *cells, int *ret_code)
{
    struct sbx_cell_word word;
    int r = sbx_fds_receive(cells->socket_fd, &word, sizeof(word), NULL, 0, MSG_DONTWAIT);

    if (r == -EPIPE)
        cr_close_fd(&cells->socket_fd); /* it hears no more: its end, or a limit, is all there is */
    if (r < 0 || word.number != cells->number || word.code < 0 || word.code > EXIT_CODE_MAX)
        return false;
    *ret_code = word.code;
    return true;
}

/* Runs a cell. Returns true when it is over and the program lives, else the program has ended. */
static bool run_cell(struct sbx_cells *cells, int *ret_code, int *ret_status)
{
    for (;;) {
        struct pollfd more = {.fd = cells->socket_fd, .events = POLLIN};

        if (sbx_reaper_wait(&cells->reaper, &more, 1, ret_status))
            return false;
        if (sbx_cells_is_over(cells, ret_code))
            return true;
    }
}

static uint32_t watched(const struct sbx_cells *cells)
{
    if (!cells->is_watched)
        return 0;
    return SBX_INIT_WATCHED | (cells->reaper.has_socket ? 0 : SBX_INIT_NO_SOCKET);
}

/* One kill(2) for all: nobody goes on behind the back of the others. */
static int park(const struct sbx_cells *cells, int code)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED, .wait_status = W_EXITCODE(code, 0)};

    (void)kill(-1, SIGSTOP);
    exited.detail = watched(cells) | SBX_INIT_PARKED;
    return sbx_say(exited);
}

/* The next run, up to its GO. Returns 0, or -EPIPE when nobody is left who could want one. */
static int await_next(struct sbx_cells *cells)
{
    bool is_go = false;
    int r = sbx_adopt_load(&is_go);

    if (r == -EPIPE)
        return r;
    (void)kill(-1, SIGSTOP); /* a timer may have woken somebody, who was frozen until now */
    if (r == 0 && is_go)
        r = -EPROTO;
    if (r == 0)
        r = sbx_cells_take_streams(cells);
    if (r < 0)
        sbx_say_failed(SBX_STAGE_INIT, r);
    r = sbx_place_files();
    if (r < 0)
        sbx_say_failed(SBX_STAGE_PAYLOAD, r);
    r = sbx_say((struct sbx_init_msg){.event = SBX_INIT_READY});
    return r == 0 ? sbx_say_await_go() : r;
}

static int say_end(const struct sbx_cells *cells, const struct sbx_ahead *program, int status)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED, .wait_status = status};
    struct sbx_program_failure failure;

    if (sbx_ahead_has_failed(program, &failure))
        sbx_say_failed((enum sbx_stage)failure.stage, -failure.error);
    exited.leftovers = sbx_leader_kill_rest();
    exited.detail = watched(cells);
    return sbx_say(exited) < 0 ? 1 : 0;
}

int sbx_cells_serve(struct sbx_cells *cells, const struct sbx_ahead *program)
{
    int r = sbx_reaper_init(&cells->reaper, program->pid, program->listener_fd);

    cells->is_watched = program->listener_fd >= 0;
    for (;;) {
        int code = 0;
        int status = 0;

        if (r == 0)
            r = sbx_cells_hand_out(cells);
        if (r < 0)
            sbx_say_failed(SBX_STAGE_INIT, r);
        if (!run_cell(cells, &code, &status))
            return say_end(cells, program, status);
        /* What stands at 0 to 2 is a place for what comes. */
        for (int i = 0; i < STREAM_COUNT; i++)
            (void)dup2(cells->null_fd, i);
        if (park(cells, code) < 0 || await_next(cells) < 0)
            return 1;
        (void)kill(-1, SIGCONT);
    }
}
