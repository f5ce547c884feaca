/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/stream_limits.h"
#include "sandboxd/init/stream_out.h"
#include "sandboxd/init/stream_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#define WORKSPACE "/workspace"

/* One piece of output on its way. Not where the host's frames are read: a run may end, and its
 * output leave, between two of them. */
static uint8_t buffer[SBX_STREAM_DATA_MAX];

static void send_collected(void *data, size_t size)
{
    sbx_stream_send(SBX_STREAM_COLLECT, data, size);
}

/* What nobody outside can see. */
static void tell_end(struct sbx_stream *stream, bool has_failed)
{
    struct sbx_init_msg collected = {.event = SBX_INIT_COLLECTED};

    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_EMPTY});
    collected.detail =
        sbx_inside_collect(&stream->inside, stream->payload_fd, has_failed, send_collected);
    sbx_stream_send_event(collected);
}

bool sbx_stream_pass_on(struct sbx_stream *stream, enum sbx_stream_fd at)
{
    ssize_t n;

    do {
        n = read(stream->fds[at], buffer, sizeof(buffer));
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) /* of a terminal, or of an interpreter that stays */
        return false;
    if (n <= 0) {
        cr_close_fd(&stream->fds[at]);
        return false;
    }
    sbx_stream_send(at == SBX_STREAM_FD_STDOUT ? SBX_STREAM_STDOUT : SBX_STREAM_STDERR, buffer,
                    (size_t)n);
    return true;
}

/* Everything in the box is dead, so that both pipes have an end, or the terminal has. */
static void pass_on_rest(struct sbx_stream *stream)
{
    cr_close_fd(&stream->terminal.slave_fd);
    for (enum sbx_stream_fd at = SBX_STREAM_FD_STDOUT; at <= SBX_STREAM_FD_STDERR; at++) {
        while (stream->fds[at] >= 0 && sbx_stream_pass_on(stream, at)) {
        }
        if (stream->is_session)
            cr_close_fd(&stream->fds[at]);
    }
    sbx_stream_input_close(&stream->input);
    stream->is_over = true;
}

/* But for the interpreter of a session, unless this run was its own and is not over. */
static uint32_t end_processes(struct sbx_stream *stream)
{
    stream->fds[SBX_STREAM_FD_CELLS] = -1;
    return sbx_kept_end_others(&stream->kept);
}

void sbx_stream_finish(struct sbx_stream *stream, struct sbx_init_msg last)
{
    const uint32_t leftovers = end_processes(stream);
    const bool is_exit = last.event == SBX_INIT_EXITED;

    if (is_exit)
        last.leftovers = leftovers;
    pass_on_rest(stream);
    if (stream->inside.is_on)
        sbx_inside_tell(&stream->inside, sbx_stream_send_event);
    sbx_stream_send_event(last);
    if (stream->inside.is_on)
        tell_end(stream, !is_exit || last.wait_status != 0);
}

/* Pipes for the program: its ends in `theirs`. */
static int open_pipes(struct sbx_stream *stream, int theirs[3])
{
    int *const ours[] = {&stream->input.fd, &stream->fds[SBX_STREAM_FD_STDOUT],
                         &stream->fds[SBX_STREAM_FD_STDERR]};

    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return -errno;
        theirs[i] = ends[i == 0 ? 0 : 1];
        *ours[i] = ends[i == 0 ? 1 : 0];
    }
    /* Those of an interpreter that stays have no end. */
    for (int i = 0; i < (stream->is_session ? 3 : 1); i++) {
        if (fcntl(*ours[i], F_SETFL, O_NONBLOCK) < 0)
            return -errno;
    }
    return 0;
}

/* Or a terminal. Each of its ends has as many descriptors as a pipe would: they close alike. */
static int open_terminal(struct sbx_stream *stream, int theirs[3])
{
    int r = sbx_stream_terminal_open(&stream->terminal, stream->prepare.size);

    if (r < 0)
        return r;
    stream->input.is_terminal = true;
    stream->input.fd = fcntl(stream->terminal.master_fd, F_DUPFD_CLOEXEC, 0);
    stream->fds[SBX_STREAM_FD_STDOUT] = fcntl(stream->terminal.master_fd, F_DUPFD_CLOEXEC, 0);
    if (stream->input.fd < 0 || stream->fds[SBX_STREAM_FD_STDOUT] < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        theirs[i] = fcntl(stream->terminal.slave_fd, F_DUPFD_CLOEXEC, 0);
        if (theirs[i] < 0)
            return -errno;
    }
    return 0;
}

static int open_streams(struct sbx_stream *stream, int theirs[3])
{
    return stream->prepare.mode == SBX_STREAM_MODE_TERMINAL ? open_terminal(stream, theirs)
                                                            : open_pipes(stream, theirs);
}

/* The interpreter of a session has its next run; its streams are its own from now on. */
static int wake_kept(struct sbx_stream *stream, int theirs[3], struct sbx_program_failure *failure)
{
    int r = stream->kept.pid < 0 ? -EPIPE : sbx_kept_wake(&stream->kept, theirs);

    stream->leader = stream->kept.pid;
    stream->fds[SBX_STREAM_FD_LISTENER] = cr_take_fd(&stream->kept.listener_fd);
    stream->fds[SBX_STREAM_FD_CELLS] = stream->kept.cells.socket_fd;
    *failure = (struct sbx_program_failure){.stage = SBX_STAGE_INIT, .error = -r};
    return r < 0 ? -1 : 0;
}

/* Starts the program, or lets the one go that is there. Returns 0, or -1 with what failed. */
static int start_leader(struct sbx_stream *stream, int theirs[3],
                        struct sbx_program_failure *failure)
{
    const int load[SBX_INIT_LOAD_FDS] = {stream->payload_fd, theirs[0], theirs[1], theirs[2]};
    const struct sbx_leader_plan plan = {
        .stdio = {theirs[0], theirs[1], theirs[2]},
        .payload_fd = stream->payload_fd,
        .seccomp_fd = stream->filter_fd,
        .private_fd = -1,
        .is_watched = true,
    };

    if (stream->is_preloaded)
        return sbx_adopt_start(stream->parked.channel_fd, load, failure);
    if (stream->prepare.mode == SBX_STREAM_MODE_CELL)
        return wake_kept(stream, theirs, failure);
    sbx_stream_raise_oom_score();
    stream->leader = sbx_leader_start(&plan, &stream->fds[SBX_STREAM_FD_LISTENER], failure);
    if (stream->is_session)
        sbx_stream_lower_oom_score(); /* for an interpreter that is started by and by */
    return stream->leader < 0 ? -1 : 0;
}

/* The payload takes memory that the program could have, and the filter is used once. */
static void drop_plan(struct sbx_stream *stream)
{
    if (stream->is_session) {
        (void)!ftruncate(stream->payload_fd, 0); /* both are used again */
        stream->payload_size = 0;
        return;
    }
    if (!stream->inside.is_on) /* else it says what to collect */
        cr_close_fd(&stream->payload_fd);
    cr_close_fd(&stream->filter_fd);
}

void sbx_stream_go_without_program(struct sbx_stream *stream)
{
    stream->is_started = true;
    sbx_stream_finish(stream, (struct sbx_init_msg){.event = SBX_INIT_EXITED});
}

void sbx_stream_go(struct sbx_stream *stream)
{
    int theirs[3] = {-1, -1, -1};
    struct sbx_program_failure failure = {.stage = SBX_STAGE_INIT};
    int r = chdir(WORKSPACE) < 0 ? -errno : 0;

    /* Before it has streams, for which few open files are left. */
    if (r == 0 && stream->is_new)
        r = sbx_kept_start(&stream->kept, stream->payload_fd, stream->filter_fd, &failure);
    if (r == 0)
        r = open_streams(stream, theirs);
    if (r == 0)
        r = start_leader(stream, theirs, &failure);
    if (r < 0)
        sbx_stream_fail(stream, (enum sbx_stage)failure.stage,
                        failure.error > 0 ? -failure.error : r);
    for (int i = 0; i < 3; i++)
        cr_close_fd(&theirs[i]);
    drop_plan(stream);
    stream->is_started = true;
}

int sbx_stream_kill_box(struct sbx_stream *stream)
{
    if (!stream->inside.is_on || !stream->is_started)
        return -EPROTO;
    (void)sbx_leader_kill_rest();
    pass_on_rest(stream);
    sbx_inside_tell(&stream->inside, sbx_stream_send_event);
    tell_end(stream, false);
    return 0;
}

void sbx_stream_hear_kept(struct sbx_stream *stream)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED};
    int code = 0;

    if (!sbx_cells_is_over(&stream->kept.cells, &code)) {
        stream->fds[SBX_STREAM_FD_CELLS] =
            stream->kept.cells.socket_fd; /* which it may have closed */
        return;
    }
    exited.wait_status = W_EXITCODE(code, 0);
    if (sbx_kept_park(&stream->kept)) {
        stream->kept.listener_fd = cr_take_fd(&stream->fds[SBX_STREAM_FD_LISTENER]);
        exited.detail = SBX_INIT_PARKED;
    }
    sbx_stream_finish(stream, exited);
}

void sbx_stream_rest(struct sbx_stream *stream, const struct sbx_stream_item *item)
{
    uint32_t flags;

    memcpy(&flags, item->data, sizeof(flags));
    if (flags & SBX_STREAM_FRESH)
        sbx_kept_forget(&stream->kept);
    (void)end_processes(stream);
    pass_on_rest(stream);
    cr_close_fd(&stream->fds[SBX_STREAM_FD_LISTENER]);
    sbx_stream_input_renew(&stream->input);
    stream->leader = 0;
    drop_plan(stream);
    stream->is_prepared = false;
    stream->is_started = false;
    stream->is_over = false;
    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_EMPTY});
}
