/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream.h"

#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/init/inputs.h"
#include "sandboxd/init/inside.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/stream_limits.h"
#include "sandboxd/init/violation.h"
#include "sandboxd/wire/boxstream.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define WORKSPACE "/workspace"
#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))
#define LOOK_MS 20        /* for kills for memory, where the box is read from inside */
#define LOOKS_PER_TELL 5U /* and for all else */

enum source {
    SOURCE_HOST,
    SOURCE_SIGNAL,
    SOURCE_STDOUT,
    SOURCE_STDERR,
    SOURCE_STDIN,
    SOURCE_LISTENER, /* of the program's filter */
    SOURCE_COUNT,
};

/* The one process; one thread. */
struct stream {
    struct sbx_stream_parser parser;
    int filter_fd;
    int payload_fd;
    size_t filter_size;
    size_t payload_size;
    bool is_prepared;
    bool is_started;
    bool is_over;
    pid_t leader;
    int fds[SOURCE_COUNT];    /* -1: closed */
    struct sbx_inside inside; /* off: the box is read from outside */
    int64_t look_ns;
    uint32_t looks;
    bool is_stdin_ending; /* closed when the bytes below are gone */
    uint8_t input[SBX_STREAM_DATA_MAX];
    size_t input_at;
    size_t input_size;
};

static uint8_t buffer[SBX_STREAM_DATA_MAX];

/* Nobody listens any more. */
_Noreturn static void die(void)
{
    (void)kill(-1, SIGKILL);
    _exit(1);
}

static void send_frame(enum sbx_stream_kind kind, void *data, size_t size)
{
    struct sbx_stream_header header = {.kind = (uint32_t)kind, .size = (uint32_t)size};
    struct iovec parts[] = {{&header, sizeof(header)}, {data, size}};
    size_t at = 0;

    while (at < CR_ARRAY_SIZE(parts)) {
        ssize_t n = writev(STDOUT_FILENO, parts + at, (int)(CR_ARRAY_SIZE(parts) - at));

        if (n < 0 && errno != EINTR)
            die();
        for (; n >= 0 && at < CR_ARRAY_SIZE(parts); at++) {
            size_t part = parts[at].iov_len;

            if ((size_t)n < part) {
                parts[at].iov_base = (uint8_t *)parts[at].iov_base + n;
                parts[at].iov_len = part - (size_t)n;
                break;
            }
            n -= (ssize_t)part;
        }
    }
}

static void send_event(struct sbx_init_msg msg)
{
    send_frame(SBX_STREAM_EVENT, &msg, sizeof(msg));
}

/* The end of the relay or the backend is what ends this process then. */
static void fail(struct stream *stream, enum sbx_stage stage, int error)
{
    send_event(
        (struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = (uint32_t)stage, .error = -error});
    stream->is_over = true;
}

static int add(int fd, size_t *size, size_t most, const struct sbx_stream_item *item)
{
    if (item->size > most - *size)
        return -EPROTO;
    if (pwrite(fd, item->data, item->size, (off_t)*size) != (ssize_t)item->size)
        return -EIO;
    *size += item->size;
    return 0;
}

static void prepare(struct stream *stream, const struct sbx_stream_item *item)
{
    uint32_t version;
    int r;

    memcpy(&version, item->data, sizeof(version));
    if (version != SBX_STREAM_VERSION) {
        fail(stream, SBX_STAGE_INIT, -EPROTONOSUPPORT); /* an image of another build */
        return;
    }
    r = sbx_inputs_unpack(stream->payload_fd, stream->inside.is_on);
    if (r < 0) {
        fail(stream, SBX_STAGE_PAYLOAD, r);
        return;
    }
    stream->is_prepared = true;
    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (stream->inside.is_on)
        sbx_inside_tell(&stream->inside, send_event);
    send_event((struct sbx_init_msg){.event = SBX_INIT_READY});
}

/* Pipes for the program: its ends in `theirs`. */
static int open_pipes(struct stream *stream, int theirs[3])
{
    static const enum source sources[] = {SOURCE_STDIN, SOURCE_STDOUT, SOURCE_STDERR};

    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return -errno;
        theirs[i] = ends[i == 0 ? 0 : 1];
        stream->fds[sources[i]] = ends[i == 0 ? 1 : 0];
    }
    return fcntl(stream->fds[SOURCE_STDIN], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static void go(struct stream *stream)
{
    int theirs[3] = {-1, -1, -1};
    struct sbx_program_failure failure;
    int r = chdir(WORKSPACE) < 0 ? -errno : open_pipes(stream, theirs);

    if (r < 0) {
        fail(stream, SBX_STAGE_INIT, r);
    } else {
        const struct sbx_leader_plan plan = {
            .stdio = {theirs[0], theirs[1], theirs[2]},
            .payload_fd = stream->payload_fd,
            .seccomp_fd = stream->filter_fd,
            .private_fd = -1,
            .is_watched = true,
        };

        sbx_stream_raise_oom_score();
        stream->leader = sbx_leader_start(&plan, &stream->fds[SOURCE_LISTENER], &failure);
        if (stream->leader < 0)
            fail(stream, (enum sbx_stage)failure.stage, -failure.error);
    }
    for (int i = 0; i < 3; i++)
        cr_close_fd(&theirs[i]);
    if (!stream->inside.is_on) /* else it says what to collect */
        cr_close_fd(&stream->payload_fd);
    cr_close_fd(&stream->filter_fd);
    stream->is_started = true;
}

static void close_input(struct stream *stream)
{
    cr_close_fd(&stream->fds[SOURCE_STDIN]);
    stream->input_size = 0;
    stream->input_at = 0;
}

/* The host is only read while the buffer is empty, so that there is always room for a piece. */
static void keep_input(struct stream *stream, const struct sbx_stream_item *item)
{
    if (stream->fds[SOURCE_STDIN] < 0)
        return;
    if (item->size == 0) {
        stream->is_stdin_ending = true;
    } else {
        memcpy(stream->input + stream->input_size, item->data, item->size);
        stream->input_size += item->size;
    }
}

static void write_input(struct stream *stream)
{
    while (stream->input_at < stream->input_size) {
        ssize_t n = write(stream->fds[SOURCE_STDIN], stream->input + stream->input_at,
                          stream->input_size - stream->input_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* EPIPE: the program does not read it */
            close_input(stream);
            return;
        }
        stream->input_at += (size_t)n;
    }
    stream->input_at = 0;
    stream->input_size = 0;
    if (stream->is_stdin_ending)
        close_input(stream);
}

/* One piece of output. Returns false at its end. */
static bool pass_on(struct stream *stream, enum source source)
{
    ssize_t n;

    do {
        n = read(stream->fds[source], buffer, sizeof(buffer));
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        cr_close_fd(&stream->fds[source]);
        return false;
    }
    send_frame(source == SOURCE_STDOUT ? SBX_STREAM_STDOUT : SBX_STREAM_STDERR, buffer, (size_t)n);
    return true;
}

/* Everything in the box is dead, so that both pipes have an end. */
static void pass_on_rest(struct stream *stream)
{
    for (enum source source = SOURCE_STDOUT; source <= SOURCE_STDERR; source++) {
        while (stream->fds[source] >= 0 && pass_on(stream, source)) {
        }
    }
    close_input(stream);
    stream->is_over = true;
}

static void send_collected(void *data, size_t size)
{
    send_frame(SBX_STREAM_COLLECT, data, size);
}

/* What nobody outside can see. */
static void tell_end(struct stream *stream, bool has_failed)
{
    struct sbx_init_msg collected = {.event = SBX_INIT_COLLECTED};

    send_event((struct sbx_init_msg){.event = SBX_INIT_EMPTY});
    collected.detail =
        sbx_inside_collect(&stream->inside, stream->payload_fd, has_failed, send_collected);
    send_event(collected);
}

/* Ends everything in the box: what was written before is passed on before the last word. */
static void finish(struct stream *stream, struct sbx_init_msg last)
{
    const uint32_t leftovers = sbx_leader_kill_rest();
    const bool is_exit = last.event == SBX_INIT_EXITED;

    if (is_exit)
        last.leftovers = leftovers;
    pass_on_rest(stream);
    if (stream->inside.is_on)
        sbx_inside_tell(&stream->inside, send_event);
    send_event(last);
    if (stream->inside.is_on)
        tell_end(stream, !is_exit || last.wait_status != 0);
}

/* The backend wants the end, and does not ask how the program would have ended. */
static int kill_box(struct stream *stream)
{
    if (!stream->inside.is_on || !stream->is_started)
        return -EPROTO;
    (void)sbx_leader_kill_rest();
    pass_on_rest(stream);
    sbx_inside_tell(&stream->inside, send_event);
    tell_end(stream, false);
    return 0;
}

/* What the relay may say in which state; anything else is not our relay. */
static int on_item(struct stream *stream, const struct sbx_stream_item *item)
{
    int r;

    switch (item->kind) {
    case SBX_STREAM_FILTER:
        return stream->is_prepared ? -EPROTO
                                   : add(stream->filter_fd, &stream->filter_size, FILTER_MAX, item);
    case SBX_STREAM_PAYLOAD:
        return stream->is_prepared
                   ? -EPROTO
                   : add(stream->payload_fd, &stream->payload_size, SBX_PAYLOAD_MAX, item);
    case SBX_STREAM_LIMITS:
        if (stream->is_prepared)
            return -EPROTO;
        r = sbx_stream_take_limits(item->data);
        if (r < 0)
            fail(stream, SBX_STAGE_LIMITS, r);
        return 0;
    case SBX_STREAM_PREPARE:
        if (stream->is_prepared)
            return -EPROTO;
        prepare(stream, item);
        return 0;
    case SBX_STREAM_GO:
        if (!stream->is_prepared || stream->is_started)
            return -EPROTO;
        go(stream);
        return 0;
    case SBX_STREAM_STDIN:
        if (!stream->is_started)
            return -EPROTO;
        keep_input(stream, item);
        return 0;
    case SBX_STREAM_KILL:
        return kill_box(stream);
    default:
        return -EPROTO;
    }
}

static void read_host(struct stream *stream)
{
    ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));
    size_t at = 0;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        die();
    while (at < (size_t)n) {
        struct sbx_stream_item item;
        int used = sbx_stream_feed(&stream->parser, buffer + at, (size_t)n - at, &item);

        if (used < 0)
            die();
        at += (size_t)used;
        if (item.kind != SBX_STREAM_NONE && !stream->is_over && on_item(stream, &item) < 0)
            die();
    }
    if (stream->input_size > 0 || stream->is_stdin_ending)
        write_input(stream);
}

/*
 * True when a process was held back in a forbidden call, which is told then;
 * it dies of our kill, in that call. The end of the leader does not say that it
 * was watched: a call through another door (int 0x80, x32) is killed by the
 * engine's own profile, and nobody tells.
 */
static bool tell_violation(struct stream *stream)
{
    struct pollfd listener = {.fd = stream->fds[SOURCE_LISTENER], .events = POLLIN};
    bool is_socket; /* which is not watched for here */

    if (listener.fd < 0 || poll(&listener, 1, 0) < 1 || !(listener.revents & POLLIN))
        return false;
    finish(stream, (struct sbx_init_msg){.event = SBX_INIT_VIOLATION,
                                         .detail = sbx_violation_read(listener.fd, &is_socket)});
    return true;
}

/* Adopted processes are reaped as they come. */
static void reap(struct stream *stream)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    (void)!read(stream->fds[SOURCE_SIGNAL], &info, sizeof(info));
    while (!stream->is_over && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != stream->leader)
            continue;
        /* A child of the program may be held back while the program ended. */
        if (!tell_violation(stream))
            finish(stream, (struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = status});
    }
}

/* The kernel tells nobody in here that it killed for memory; the backend asks for the rest. */
static void look(struct stream *stream)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns < stream->look_ns)
        return;
    stream->look_ns = now_ns + LOOK_MS * CR_NS_PER_MS;
    if (stream->looks++ % LOOKS_PER_TELL == 0 || sbx_inside_has_oom(&stream->inside))
        sbx_inside_tell(&stream->inside, send_event);
}

/* POLLHUP alone comes too while we do not read: it is the end. */
static void on_host(struct stream *stream, short events, bool wants_host)
{
    if ((events & POLLIN) && wants_host)
        read_host(stream);
    else if (events & (POLLHUP | POLLERR))
        die();
}

static void on_program(struct stream *stream, const struct pollfd *fds)
{
    for (enum source source = SOURCE_STDOUT; source <= SOURCE_STDERR; source++) {
        if (fds[source].revents && stream->fds[source] >= 0)
            (void)pass_on(stream, source);
    }
    if (fds[SOURCE_STDIN].revents && stream->fds[SOURCE_STDIN] >= 0)
        write_input(stream);
    /* Told, or POLLHUP: nobody is left who has the filter. */
    if (fds[SOURCE_LISTENER].revents && (stream->is_over || !tell_violation(stream)))
        cr_close_fd(&stream->fds[SOURCE_LISTENER]);
}

static void wait_for_events(struct stream *stream)
{
    bool wants_host = stream->is_over || stream->input_size == 0;
    bool must_look = stream->inside.is_on && stream->is_started && !stream->is_over;
    struct pollfd fds[SOURCE_COUNT] = {
        [SOURCE_HOST] = {.fd = STDIN_FILENO, .events = wants_host ? POLLIN : 0},
        [SOURCE_SIGNAL] = {.fd = stream->fds[SOURCE_SIGNAL], .events = POLLIN},
        [SOURCE_STDOUT] = {.fd = stream->fds[SOURCE_STDOUT], .events = POLLIN},
        [SOURCE_STDERR] = {.fd = stream->fds[SOURCE_STDERR], .events = POLLIN},
        [SOURCE_LISTENER] = {.fd = stream->fds[SOURCE_LISTENER], .events = POLLIN},
        [SOURCE_STDIN] = {.fd = stream->input_size > 0 ? stream->fds[SOURCE_STDIN] : -1,
                          .events = POLLOUT},
    };

    if (poll(fds, CR_ARRAY_SIZE(fds), must_look ? LOOK_MS : -1) < 0)
        return;
    if (must_look)
        look(stream);
    on_host(stream, fds[SOURCE_HOST].revents, wants_host);
    on_program(stream, fds);
    if (fds[SOURCE_SIGNAL].revents)
        reap(stream);
}

static int start(struct stream *stream)
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
    stream->fds[SOURCE_SIGNAL] = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    stream->filter_fd = memfd_create("filter", MFD_CLOEXEC);
    stream->payload_fd = memfd_create("payload", MFD_CLOEXEC);
    if (stream->fds[SOURCE_SIGNAL] < 0 || stream->filter_fd < 0 || stream->payload_fd < 0)
        return -errno;
    sbx_stream_init(&stream->parser, SBX_STREAM_TO_INIT);
    (void)prctl(PR_SET_NAME, SBX_INIT_IDLE_NAME, 0, 0, 0);
    return 0;
}

int sbx_stream_main(bool is_inside)
{
    static struct stream stream = {
        .filter_fd = -1, .payload_fd = -1, .fds = {-1, -1, -1, -1, -1, -1}};
    int r = start(&stream);

    if (r < 0)
        fail(&stream, SBX_STAGE_INIT, r);
    if (is_inside)
        sbx_inside_open(&stream.inside);
    for (;;)
        wait_for_events(&stream);
}
