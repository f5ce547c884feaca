/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream.h"

#include "common/auto.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/inputs.h"
#include "sandboxd/init/inside.h"
#include "sandboxd/init/kept.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/init/parked.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/stream_input.h"
#include "sandboxd/init/stream_limits.h"
#include "sandboxd/init/stream_out.h"
#include "sandboxd/init/stream_terminal.h"
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
#include <sys/wait.h>

#define WORKSPACE "/workspace"
#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

enum source {
    SOURCE_HOST,
    SOURCE_SIGNAL,
    SOURCE_STDOUT,
    SOURCE_STDERR,
    SOURCE_STDIN,    /* of `input` */
    SOURCE_LISTENER, /* of the program's filter */
    SOURCE_PARKED,   /* an interpreter that does not wait yet */
    SOURCE_CELLS,    /* the interpreter of a session, while it has a run */
    SOURCE_COUNT,
};

/* The one process; one thread. */
struct stream {
    struct sbx_stream_parser parser;
    int filter_fd;
    int payload_fd;
    size_t filter_size;
    size_t payload_size;
    bool is_preloaded; /* `parked` is there, or on its way */
    bool is_prepared;
    bool is_started;
    bool is_over;
    bool is_session; /* see boxstream.h */
    bool is_new;     /* the interpreter of a session has to be started for this run */
    struct sbx_parked parked;
    struct sbx_kept kept;
    struct sbx_stream_prepare prepare; /* what sort of run it is */
    pid_t leader;
    struct sbx_stream_terminal terminal;
    int fds[SOURCE_COUNT];    /* -1: closed */
    struct sbx_inside inside; /* off: the box is read from outside */
    struct sbx_stream_input input;
};

static uint8_t buffer[SBX_STREAM_DATA_MAX];

/* The end of the relay or the backend is what ends this process then. */
static void fail(struct stream *stream, enum sbx_stage stage, int error)
{
    sbx_stream_send_event(
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

/* The payload that came is the interpreter's; that of its run comes into another file. */
static int preload(struct stream *stream, const struct sbx_stream_item *item)
{
    struct sbx_program_failure failure;
    struct sbx_stream_preload order;

    memcpy(&order, item->data, sizeof(order));
    stream->is_preloaded = true;
    if (order.version != SBX_STREAM_VERSION || order.kind >= SBX_TEMPLATE_KIND_COUNT) {
        fail(stream, SBX_STAGE_INIT, -EPROTONOSUPPORT);
        return 0;
    }
    sbx_stream_raise_oom_score();
    if (sbx_parked_start(order.kind, stream->payload_fd, stream->filter_fd, &stream->parked,
                         &failure) < 0) {
        fail(stream, (enum sbx_stage)failure.stage, -failure.error);
        return 0;
    }
    stream->leader = stream->parked.pid;
    stream->fds[SOURCE_PARKED] = stream->parked.channel_fd;
    cr_close_fd(&stream->filter_fd);
    cr_close_fd(&stream->payload_fd);
    stream->payload_size = 0;
    stream->payload_fd = memfd_create("payload", MFD_CLOEXEC);
    return stream->payload_fd < 0 ? -errno : 0;
}

/* READY, its hello, or its end; that may also come while it waits. */
static void hear_parked(struct stream *stream)
{
    char words[SBX_TEMPLATE_WORDS_MAX];
    int r = sbx_parked_hear(&stream->parked, &stream->fds[SOURCE_LISTENER], words);

    if (r == 0)
        return;
    stream->fds[SOURCE_PARKED] = -1; /* the channel stays open in `parked` */
    if (r > 0) {
        cr_close_fd(&stream->parked.words_fd);
        sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_WAITING});
        return;
    }
    sbx_stream_send(SBX_STREAM_STDERR, words, strlen(words));
    fail(stream, SBX_STAGE_EXEC, r);
}

/* Whether the interpreter of a session is there is settled here: READY tells. */
static void prepare_session(struct stream *stream)
{
    struct sbx_kept *kept = &stream->kept;

    stream->is_session = true;
    if ((stream->prepare.flags & SBX_STREAM_FRESH) ||
        (kept->pid > 0 && waitpid(kept->pid, NULL, WNOHANG) == kept->pid)) {
        sbx_kept_forget(kept);
        (void)sbx_kept_end_others(kept);
    }
    stream->is_new = stream->prepare.mode == SBX_STREAM_MODE_CELL && stream->kept.pid < 0;
}

static void prepare(struct stream *stream, const struct sbx_stream_item *item)
{
    bool is_session;
    int r;

    memcpy(&stream->prepare, item->data, sizeof(stream->prepare));
    is_session = stream->prepare.mode >= SBX_STREAM_MODE_CALL;
    if (stream->prepare.version != SBX_STREAM_VERSION ||
        stream->prepare.mode >= SBX_STREAM_MODE_END || (is_session && stream->inside.is_on) ||
        (stream->is_session && !is_session)) {
        fail(stream, SBX_STAGE_INIT, -EPROTONOSUPPORT); /* an image of another build */
        return;
    }
    if (is_session)
        prepare_session(stream);
    r = sbx_inputs_unpack(stream->payload_fd, stream->inside.is_on);
    if (r < 0) {
        fail(stream, SBX_STAGE_PAYLOAD, r);
        return;
    }
    stream->is_prepared = true;
    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (stream->inside.is_on)
        sbx_inside_tell(&stream->inside, sbx_stream_send_event);
    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_READY,
                                                .detail = stream->is_new ? SBX_INIT_NEW_STATE : 0});
}

/* One piece of output. Returns false at its end. */
static bool pass_on(struct stream *stream, enum source source)
{
    ssize_t n;

    do {
        n = read(stream->fds[source], buffer, sizeof(buffer));
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) /* of a terminal, or of an interpreter that stays */
        return false;
    if (n <= 0) {
        cr_close_fd(&stream->fds[source]);
        return false;
    }
    sbx_stream_send(source == SOURCE_STDOUT ? SBX_STREAM_STDOUT : SBX_STREAM_STDERR, buffer,
                    (size_t)n);
    return true;
}

/* Everything in the box is dead, so that both pipes have an end, or the terminal has. */
static void pass_on_rest(struct stream *stream)
{
    cr_close_fd(&stream->terminal.slave_fd);
    for (enum source source = SOURCE_STDOUT; source <= SOURCE_STDERR; source++) {
        while (stream->fds[source] >= 0 && pass_on(stream, source)) {
        }
        if (stream->is_session)
            cr_close_fd(&stream->fds[source]);
    }
    sbx_stream_input_close(&stream->input);
    stream->is_over = true;
}

static void send_collected(void *data, size_t size)
{
    sbx_stream_send(SBX_STREAM_COLLECT, data, size);
}

/* What nobody outside can see. */
static void tell_end(struct stream *stream, bool has_failed)
{
    struct sbx_init_msg collected = {.event = SBX_INIT_COLLECTED};

    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_EMPTY});
    collected.detail =
        sbx_inside_collect(&stream->inside, stream->payload_fd, has_failed, send_collected);
    sbx_stream_send_event(collected);
}

/* But for the interpreter of a session, unless this run was its own and is not over. */
static uint32_t end_processes(struct stream *stream)
{
    stream->fds[SOURCE_CELLS] = -1;
    return sbx_kept_end_others(&stream->kept);
}

/* Ends everything in the box: what was written before is passed on before the last word. */
static void finish(struct stream *stream, struct sbx_init_msg last)
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
static int open_pipes(struct stream *stream, int theirs[3])
{
    int *const ours[] = {&stream->input.fd, &stream->fds[SOURCE_STDOUT],
                         &stream->fds[SOURCE_STDERR]};

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
static int open_terminal(struct stream *stream, int theirs[3])
{
    int r = sbx_stream_terminal_open(&stream->terminal, stream->prepare.size);

    if (r < 0)
        return r;
    stream->input.is_terminal = true;
    stream->input.fd = fcntl(stream->terminal.master_fd, F_DUPFD_CLOEXEC, 0);
    stream->fds[SOURCE_STDOUT] = fcntl(stream->terminal.master_fd, F_DUPFD_CLOEXEC, 0);
    if (stream->input.fd < 0 || stream->fds[SOURCE_STDOUT] < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        theirs[i] = fcntl(stream->terminal.slave_fd, F_DUPFD_CLOEXEC, 0);
        if (theirs[i] < 0)
            return -errno;
    }
    return 0;
}

static int open_streams(struct stream *stream, int theirs[3])
{
    return stream->prepare.mode == SBX_STREAM_MODE_TERMINAL ? open_terminal(stream, theirs)
                                                            : open_pipes(stream, theirs);
}

/* The interpreter of a session has its next run; its streams are its own from now on. */
static int wake_kept(struct stream *stream, int theirs[3], struct sbx_program_failure *failure)
{
    int r = stream->kept.pid < 0 ? -EPIPE : sbx_kept_wake(&stream->kept, theirs);

    stream->leader = stream->kept.pid;
    stream->fds[SOURCE_LISTENER] = cr_take_fd(&stream->kept.listener_fd);
    stream->fds[SOURCE_CELLS] = stream->kept.cells.socket_fd;
    *failure = (struct sbx_program_failure){.stage = SBX_STAGE_INIT, .error = -r};
    return r < 0 ? -1 : 0;
}

/* Starts the program, or lets the one go that is there. Returns 0, or -1 with what failed. */
static int start_leader(struct stream *stream, int theirs[3], struct sbx_program_failure *failure)
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
    stream->leader = sbx_leader_start(&plan, &stream->fds[SOURCE_LISTENER], failure);
    if (stream->is_session)
        sbx_stream_lower_oom_score(); /* for an interpreter that is started by and by */
    return stream->leader < 0 ? -1 : 0;
}

/* The payload takes memory that the program could have, and the filter is used once. */
static void drop_plan(struct stream *stream)
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

/* Nothing is started: the files are in place. */
static void go_without_program(struct stream *stream)
{
    stream->is_started = true;
    finish(stream, (struct sbx_init_msg){.event = SBX_INIT_EXITED});
}

static void go(struct stream *stream)
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
        fail(stream, (enum sbx_stage)failure.stage, failure.error > 0 ? -failure.error : r);
    for (int i = 0; i < 3; i++)
        cr_close_fd(&theirs[i]);
    drop_plan(stream);
    stream->is_started = true;
}

/* The backend wants the end, and does not ask how the program would have ended. */
static int kill_box(struct stream *stream)
{
    if (!stream->inside.is_on || !stream->is_started)
        return -EPROTO;
    (void)sbx_leader_kill_rest();
    pass_on_rest(stream);
    sbx_inside_tell(&stream->inside, sbx_stream_send_event);
    tell_end(stream, false);
    return 0;
}

/* The interpreter says that its run is over: with all that it began, it waits for the next. */
static void hear_kept(struct stream *stream)
{
    struct sbx_init_msg exited = {.event = SBX_INIT_EXITED};
    int code = 0;

    if (!sbx_cells_is_over(&stream->kept.cells, &code)) {
        stream->fds[SOURCE_CELLS] = stream->kept.cells.socket_fd; /* which it may have closed */
        return;
    }
    exited.wait_status = W_EXITCODE(code, 0);
    if (sbx_kept_park(&stream->kept)) {
        stream->kept.listener_fd = cr_take_fd(&stream->fds[SOURCE_LISTENER]);
        exited.detail = SBX_INIT_PARKED;
    }
    finish(stream, exited);
}

/* The run of a session is over, whatever it came to: as if the box had just been made, but for
 * what stays. */
static void rest(struct stream *stream, const struct sbx_stream_item *item)
{
    uint32_t flags;

    memcpy(&flags, item->data, sizeof(flags));
    if (flags & SBX_STREAM_FRESH)
        sbx_kept_forget(&stream->kept);
    (void)end_processes(stream);
    pass_on_rest(stream);
    cr_close_fd(&stream->fds[SOURCE_LISTENER]);
    sbx_stream_input_renew(&stream->input);
    stream->leader = 0;
    drop_plan(stream);
    stream->is_prepared = false;
    stream->is_started = false;
    stream->is_over = false;
    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_EMPTY});
}

/* True while frames of that kind are legal: once, nor behind PREPARE, nor while an interpreter that
 * is to wait does not wait yet. */
static bool is_due(const struct stream *stream, enum sbx_stream_kind kind)
{
    bool wants_filter = kind == SBX_STREAM_FILTER || kind == SBX_STREAM_PRELOAD;

    return !stream->is_prepared && stream->fds[SOURCE_PARKED] < 0 &&
           !(wants_filter && stream->is_preloaded);
}

/* What the relay may say before PREPARE, and the backend before there is one. */
static int on_early_item(struct stream *stream, const struct sbx_stream_item *item)
{
    int r;

    if (!is_due(stream, item->kind))
        return -EPROTO;
    switch (item->kind) {
    case SBX_STREAM_FILTER:
        return add(stream->filter_fd, &stream->filter_size, FILTER_MAX, item);
    case SBX_STREAM_PAYLOAD:
        return add(stream->payload_fd, &stream->payload_size, SBX_PAYLOAD_MAX, item);
    case SBX_STREAM_PRELOAD:
        return preload(stream, item);
    case SBX_STREAM_LIMITS:
        r = sbx_stream_take_limits(item->data);
        if (r < 0)
            fail(stream, SBX_STAGE_LIMITS, r);
        return 0;
    default:
        prepare(stream, item);
        return 0;
    }
}

/* The leader began a session of its own, and may have left its group since. */
static void send_signal(const struct stream *stream, uint32_t number)
{
    if (number > SBX_SIGNAL_MAX || stream->leader <= 0)
        return;
    if (kill(-stream->leader, (int)number) < 0)
        (void)kill(stream->leader, (int)number);
}

/* What the relay may say behind GO. */
static int on_late_item(struct stream *stream, const struct sbx_stream_item *item)
{
    uint32_t value = 0;

    if (!stream->is_started)
        return -EPROTO;
    if (item->kind == SBX_STREAM_STDIN)
        return sbx_stream_input_keep(&stream->input, item);
    memcpy(&value, item->data, sizeof(value));
    if (item->kind == SBX_STREAM_SIGNAL)
        send_signal(stream, value);
    else
        sbx_stream_terminal_resize(&stream->terminal, value);
    return 0;
}

/* What the relay may say in which state; anything else is not our relay. */
static int on_item(struct stream *stream, const struct sbx_stream_item *item)
{
    switch (item->kind) {
    case SBX_STREAM_FILTER:
    case SBX_STREAM_PAYLOAD:
    case SBX_STREAM_PRELOAD:
    case SBX_STREAM_LIMITS:
    case SBX_STREAM_PREPARE:
        return on_early_item(stream, item);
    case SBX_STREAM_GO:
        if (!stream->is_prepared || stream->is_started)
            return -EPROTO;
        if (stream->prepare.mode == SBX_STREAM_MODE_FILES)
            go_without_program(stream);
        else
            go(stream);
        return 0;
    case SBX_STREAM_STDIN:
    case SBX_STREAM_SIGNAL:
    case SBX_STREAM_RESIZE:
        return on_late_item(stream, item);
    case SBX_STREAM_KILL:
        return kill_box(stream);
    case SBX_STREAM_END:
        if (!stream->is_session)
            return -EPROTO;
        rest(stream, item);
        return 0;
    default:
        return -EPROTO;
    }
}

/* What comes late for a run that is over is nothing, but for the word that nothing more comes. */
static bool is_heard(const struct stream *stream, enum sbx_stream_kind kind)
{
    return kind != SBX_STREAM_NONE &&
           (!stream->is_over || (stream->is_session && kind == SBX_STREAM_END));
}

/* Room for input is told when all of it has left; while there is none to tell, nothing is. */
static void pass_input(struct stream *stream)
{
    struct sbx_init_msg taken = {.event = SBX_INIT_TAKEN};

    if (stream->input.fd >= 0)
        sbx_stream_input_write(&stream->input);
    taken.detail = sbx_stream_input_take_credit(&stream->input);
    if (taken.detail > 0 && !stream->is_over)
        sbx_stream_send_event(taken);
}

static void read_host(struct stream *stream)
{
    ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));
    size_t at = 0;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        sbx_stream_die();
    while (at < (size_t)n) {
        struct sbx_stream_item item;
        int used = sbx_stream_feed(&stream->parser, buffer + at, (size_t)n - at, &item);

        if (used < 0)
            sbx_stream_die();
        at += (size_t)used;
        if (is_heard(stream, item.kind) && on_item(stream, &item) < 0)
            sbx_stream_die();
    }
    pass_input(stream);
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

/* The interpreter of a session has ended. Without a run, who it leaves has nobody to end it. */
static void lose_kept(struct stream *stream)
{
    stream->fds[SOURCE_CELLS] = -1;
    sbx_kept_forget(&stream->kept);
    if (!stream->is_started)
        (void)sbx_kept_end_others(&stream->kept);
}

/* Adopted processes are reaped as they come. */
static void reap(struct stream *stream)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    (void)!read(stream->fds[SOURCE_SIGNAL], &info, sizeof(info));
    while ((stream->is_session || !stream->is_over) && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == stream->kept.pid)
            lose_kept(stream);
        if (pid != stream->leader || stream->is_over)
            continue;
        if (!stream->is_started) { /* while it waited, or was about to */
            stream->parked.is_ready = false;
            hear_parked(stream);
            continue;
        }
        /* A child of the program may be held back while the program ended. */
        if (!tell_violation(stream))
            finish(stream, (struct sbx_init_msg){.event = SBX_INIT_EXITED, .wait_status = status});
    }
}

static void on_host(struct stream *stream, short events)
{
    if (events & POLLIN)
        read_host(stream);
    else if (events & (POLLHUP | POLLERR))
        sbx_stream_die();
}

static void on_program(struct stream *stream, const struct pollfd *fds)
{
    for (enum source source = SOURCE_STDOUT; source <= SOURCE_STDERR; source++) {
        if (fds[source].revents && stream->fds[source] >= 0)
            (void)pass_on(stream, source);
    }
    if (fds[SOURCE_STDIN].revents)
        pass_input(stream);
    /* Told, or POLLHUP: nobody is left who has the filter. */
    if (fds[SOURCE_LISTENER].revents && (stream->is_over || !tell_violation(stream)))
        cr_close_fd(&stream->fds[SOURCE_LISTENER]);
    if (fds[SOURCE_PARKED].revents && stream->fds[SOURCE_PARKED] >= 0)
        hear_parked(stream);
    if (fds[SOURCE_CELLS].revents && stream->fds[SOURCE_CELLS] >= 0 && !stream->is_over)
        hear_kept(stream);
}

static void wait_for_events(struct stream *stream)
{
    bool must_look = stream->inside.is_on && stream->is_started && !stream->is_over;
    struct pollfd fds[SOURCE_COUNT] = {
        [SOURCE_HOST] = {.fd = STDIN_FILENO, .events = POLLIN},
        [SOURCE_SIGNAL] = {.fd = stream->fds[SOURCE_SIGNAL], .events = POLLIN},
        [SOURCE_STDOUT] = {.fd = stream->fds[SOURCE_STDOUT], .events = POLLIN},
        [SOURCE_STDERR] = {.fd = stream->fds[SOURCE_STDERR], .events = POLLIN},
        [SOURCE_LISTENER] = {.fd = stream->fds[SOURCE_LISTENER], .events = POLLIN},
        [SOURCE_PARKED] = {.fd = stream->fds[SOURCE_PARKED], .events = POLLIN},
        [SOURCE_CELLS] = {.fd = stream->fds[SOURCE_CELLS], .events = POLLIN},
        [SOURCE_STDIN] = {.fd = stream->input.size > 0 ? stream->input.fd : -1, .events = POLLOUT},
    };

    if (poll(fds, CR_ARRAY_SIZE(fds), must_look ? SBX_INSIDE_LOOK_MS : -1) < 0)
        return;
    if (must_look)
        sbx_inside_look(&stream->inside, sbx_stream_send_event);
    on_host(stream, fds[SOURCE_HOST].revents);
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
    static struct stream stream = {.filter_fd = -1,
                                   .payload_fd = -1,
                                   .parked = SBX_PARKED_INIT,
                                   .kept = SBX_KEPT_INIT,
                                   .terminal = SBX_STREAM_TERMINAL_INIT,
                                   .fds = {-1, -1, -1, -1, -1, -1, -1, -1},
                                   .input = {.fd = -1}};
    int r = start(&stream);

    if (r < 0)
        fail(&stream, SBX_STAGE_INIT, r);
    if (is_inside)
        sbx_inside_open(&stream.inside);
    for (;;)
        wait_for_events(&stream);
}
