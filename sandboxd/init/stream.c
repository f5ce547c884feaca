/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream.h"

#include "common/auto.h"
#include "sandboxd/init/stream_out.h"
#include "sandboxd/init/stream_parts.h"
#include "sandboxd/init/violation.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

void sbx_stream_fail(struct sbx_stream *stream, enum sbx_stage stage, int error)
{
    sbx_stream_send_event(
        (struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = (uint32_t)stage, .error = -error});
    stream->is_over = true;
}

/*
 * True when a process was held back in a forbidden call, which is told then;
 * it dies of our kill, in that call. The end of the leader does not say that it
 * was watched: a call through another door (int 0x80, x32) is killed by the
 * engine's own profile, and nobody tells.
 */
static bool tell_violation(struct sbx_stream *stream)
{
    struct pollfd listener = {.fd = stream->fds[SBX_STREAM_FD_LISTENER], .events = POLLIN};
    bool is_socket; /* which is not watched for here */

    if (listener.fd < 0 || poll(&listener, 1, 0) < 1 || !(listener.revents & POLLIN))
        return false;
    sbx_stream_finish(stream,
                      (struct sbx_init_msg){.event = SBX_INIT_VIOLATION,
                                            .detail = sbx_violation_read(listener.fd, &is_socket)});
    return true;
}

/* The interpreter of a session has ended. Without a run, who it leaves has nobody to end it. */
static void lose_kept(struct sbx_stream *stream)
{
    stream->fds[SBX_STREAM_FD_CELLS] = -1;
    sbx_kept_forget(&stream->kept);
    if (!stream->is_started)
        (void)sbx_kept_end_others(&stream->kept);
}

/* Adopted processes are reaped as they come. */
static void reap(struct sbx_stream *stream)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    (void)!read(stream->fds[SBX_STREAM_FD_SIGNAL], &info, sizeof(info));
    while ((stream->is_session || !stream->is_over) && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == stream->kept.pid)
            lose_kept(stream);
        if (pid != stream->leader || stream->is_over)
            continue;
        if (!stream->is_started) { /* while it waited, or was about to */
            stream->parked.is_ready = false;
            sbx_stream_hear_parked(stream);
            continue;
        }
        /* A child of the program may be held back while the program ended. */
        if (!tell_violation(stream))
            sbx_stream_finish(
                stream, (struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = status});
    }
}

static void on_host(struct sbx_stream *stream, short events)
{
    if (events & POLLIN)
        sbx_stream_read_host(stream);
    else if (events & (POLLHUP | POLLERR))
        sbx_stream_die();
}

static void on_program(struct sbx_stream *stream, const struct pollfd *fds)
{
    for (enum sbx_stream_fd at = SBX_STREAM_FD_STDOUT; at <= SBX_STREAM_FD_STDERR; at++) {
        if (fds[at].revents && stream->fds[at] >= 0)
            (void)sbx_stream_pass_on(stream, at);
    }
    if (fds[SBX_STREAM_FD_STDIN].revents)
        sbx_stream_pass_input(stream);
    /* Told, or POLLHUP: nobody is left who has the filter. */
    if (fds[SBX_STREAM_FD_LISTENER].revents && (stream->is_over || !tell_violation(stream)))
        cr_close_fd(&stream->fds[SBX_STREAM_FD_LISTENER]);
    if (fds[SBX_STREAM_FD_PARKED].revents && stream->fds[SBX_STREAM_FD_PARKED] >= 0)
        sbx_stream_hear_parked(stream);
    if (fds[SBX_STREAM_FD_CELLS].revents && stream->fds[SBX_STREAM_FD_CELLS] >= 0 &&
        !stream->is_over)
        sbx_stream_hear_kept(stream);
}

static void wait_for_events(struct sbx_stream *stream)
{
    bool must_look = stream->inside.is_on && stream->is_started && !stream->is_over;
    struct pollfd fds[SBX_STREAM_FD_COUNT] = {
        [SBX_STREAM_FD_HOST] = {.fd = STDIN_FILENO, .events = POLLIN},
        [SBX_STREAM_FD_SIGNAL] = {.fd = stream->fds[SBX_STREAM_FD_SIGNAL], .events = POLLIN},
        [SBX_STREAM_FD_STDOUT] = {.fd = stream->fds[SBX_STREAM_FD_STDOUT], .events = POLLIN},
        [SBX_STREAM_FD_STDERR] = {.fd = stream->fds[SBX_STREAM_FD_STDERR], .events = POLLIN},
        [SBX_STREAM_FD_LISTENER] = {.fd = stream->fds[SBX_STREAM_FD_LISTENER], .events = POLLIN},
        [SBX_STREAM_FD_PARKED] = {.fd = stream->fds[SBX_STREAM_FD_PARKED], .events = POLLIN},
        [SBX_STREAM_FD_CELLS] = {.fd = stream->fds[SBX_STREAM_FD_CELLS], .events = POLLIN},
        [SBX_STREAM_FD_STDIN] = {.fd = stream->input.size > 0 ? stream->input.fd : -1,
                                 .events = POLLOUT},
    };

    if (poll(fds, CR_ARRAY_SIZE(fds), must_look ? SBX_INSIDE_LOOK_MS : -1) < 0)
        return;
    if (must_look)
        sbx_inside_look(&stream->inside, sbx_stream_send_event);
    on_host(stream, fds[SBX_STREAM_FD_HOST].revents);
    on_program(stream, fds);
    if (fds[SBX_STREAM_FD_SIGNAL].revents)
        reap(stream);
}

static int start(struct sbx_stream *stream)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    /* The program has the same user: it must neither trace nor look into this process. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || close_range(STDERR_FILENO + 1, INT_MAX, 0) < 0)
        return -errno;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return -EINVAL;
    stream->fds[SBX_STREAM_FD_SIGNAL] = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    stream->filter_fd = memfd_create("filter", MFD_CLOEXEC);
    stream->payload_fd = memfd_create("payload", MFD_CLOEXEC);
    if (stream->fds[SBX_STREAM_FD_SIGNAL] < 0 || stream->filter_fd < 0 || stream->payload_fd < 0)
        return -errno;
    sbx_stream_init(&stream->parser, SBX_STREAM_TO_INIT);
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    return 0;
}

int sbx_stream_main(bool is_inside)
{
    static struct sbx_stream stream = {.filter_fd = -1,
                                       .payload_fd = -1,
                                       .parked = SBX_PARKED_INIT,
                                       .kept = SBX_KEPT_INIT,
                                       .terminal = SBX_STREAM_TERMINAL_INIT,
                                       .fds = {-1, -1, -1, -1, -1, -1, -1, -1},
                                       .input = {.fd = -1}};
    int r = start(&stream);

    if (r < 0)
        sbx_stream_fail(&stream, SBX_STAGE_INIT, r);
    if (is_inside)
        sbx_inside_open(&stream.inside);
    for (;;)
        wait_for_events(&stream);
}
