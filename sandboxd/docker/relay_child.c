/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/relay_child.h"

#include "common/auto.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/docker/frames.h"
#include "sandboxd/docker/relay.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/wire/boxstream.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define RELAY_POLLS 4
#define FLUSH_MS 500 /* for a front that does not read, when the run is at its end */
#define FRAME_MAX (sizeof(struct sbx_stream_header) + SBX_STREAM_DATA_MAX)
#define FILTER_MAX ((off_t)(BPF_MAXINSNS * sizeof(struct sock_filter)))

/* A file that goes out in frames. */
struct source {
    enum sbx_stream_kind kind;
    const uint8_t *data;
    size_t size;
    size_t at;
};

/* The one process. */
struct relay {
    struct source sources[2];
    bool has_limits; /* to send */
    struct sbx_stream_limits limits;
    struct sbx_stream_prepare prepare;
    bool is_prepare_sent;
    bool must_go;
    bool is_started;
    bool is_session; /* its box goes on: the end of the run is agreed upon, see boxstream.h */
    bool must_kill;
    uint32_t end; /* what END says then */
    bool is_kill_sent;
    bool is_stdin_over;
    bool is_gone;     /* the container: what it sent can still be read */
    uint32_t credit;  /* bytes of input that sandbox-init has room for */
    uint64_t signals; /* to send: a bit for each, from 1 */
    bool has_size;    /* to send */
    uint32_t size;    /* of the terminal */

    uint8_t out[2 * FRAME_MAX]; /* whole frames, so that what is small goes out as one */
    size_t out_at;
    size_t out_size;

    struct sbx_docker_frames frames;
    struct sbx_stream_parser parser;
    uint8_t in[SBX_STREAM_DATA_MAX];
    size_t in_at;
    size_t in_size;
    struct sbx_docker_piece piece; /* what of it was not parsed yet */
    struct sbx_stream_item item;   /* output that was not written yet */
    bool is_output_closed[3];      /* of enum output: the front does not read it any more */
    bool is_collected;             /* nothing comes any more */
    uint32_t collected;            /* `detail` of COLLECTED */
    bool is_rested;                /* likewise, of this run */
};

/* Where what comes from the container goes. */
enum output {
    OUTPUT_STDOUT,
    OUTPUT_STDERR,
    OUTPUT_COLLECT,
};

static const int output_fds[] = {
    [OUTPUT_STDOUT] = STDOUT_FILENO,
    [OUTPUT_STDERR] = STDERR_FILENO,
    [OUTPUT_COLLECT] = SBX_RELAY_FD_COLLECT,
};

static struct relay relay = {
    .sources = {{.kind = SBX_STREAM_FILTER}, {.kind = SBX_STREAM_PAYLOAD}},
    .credit = SBX_STREAM_CREDIT,
};

static int map(int fd, off_t most, struct source *source)
{
    struct stat info;
    void *data;

    if (fstat(fd, &info) < 0)
        return -errno;
    if (info.st_size <= 0 || info.st_size > most)
        return -EPROTO;
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    source->data = data;
    source->size = (size_t)info.st_size;
    return 0;
}

/* Waits without a deadline of its own: the backend has one. */
static int ask_for_share(void)
{
    struct sbx_init_msg msg = {.event = SBX_RELAY_SHARE};
    struct pollfd poll_fd = {.fd = SBX_RELAY_FD_CONTROL, .events = POLLIN};

    if (send(SBX_RELAY_FD_CONTROL, &msg, sizeof(msg), MSG_NOSIGNAL) < 0)
        return -errno;
    while (poll(&poll_fd, 1, -1) < 0) {
    }
    return recv(SBX_RELAY_FD_CONTROL, &msg, sizeof(msg), MSG_DONTWAIT) == sizeof(msg) &&
                   msg.event == SBX_RELAY_SHARE
               ? 0
               : -EPIPE;
}

static int unpack(void)
{
    struct sbx_payload_reader reader;
    int r = sbx_payload_map(SBX_RELAY_FD_PAYLOAD, &reader);

    if (r == 0)
        r = sbx_unpack_has_read_only(reader);
    if (r <= 0)
        return r;
    r = ask_for_share();
    return r < 0 ? r : sbx_unpack_files(reader, SBX_RELAY_FD_FOLDER, SBX_UNPACK_READ_ONLY);
}

int sbx_relay_unpack(void)
{
    struct sbx_init_msg failed = {.event = SBX_INIT_FAILED, .stage = SBX_STAGE_PAYLOAD};
    int r = unpack();

    (void)close(SBX_RELAY_FD_FOLDER);
    if (r == 0)
        return 0;
    failed.error = -r;
    (void)send(SBX_RELAY_FD_CONTROL, &failed, sizeof(failed), MSG_NOSIGNAL);
    return r;
}

int sbx_relay_map(bool has_filter)
{
    int r = has_filter ? map(SBX_RELAY_FD_FILTER, FILTER_MAX, &relay.sources[0]) : 0;

    return r < 0 ? r : map(SBX_RELAY_FD_PAYLOAD, SBX_PAYLOAD_MAX, &relay.sources[1]);
}

/* ---- to the container ---- */

void sbx_relay_take_order(const struct sbx_relay_order *order)
{
    relay.has_limits = order->has_limits != 0;
    relay.limits = order->limits;
    relay.must_go = order->is_going != 0;
    relay.prepare = (struct sbx_stream_prepare){.version = SBX_STREAM_VERSION,
                                                .mode = order->mode,
                                                .size = order->size,
                                                .flags = order->is_fresh ? SBX_STREAM_FRESH : 0};
    relay.is_session = order->mode >= SBX_STREAM_MODE_CALL;
}

/* There is room for one; see send_pending(). */
static void put_frame(enum sbx_stream_kind kind, const void *data, size_t size)
{
    const struct sbx_stream_header header = {.kind = (uint32_t)kind, .size = (uint32_t)size};

    memcpy(relay.out + relay.out_size, &header, sizeof(header));
    if (size > 0)
        memcpy(relay.out + relay.out_size + sizeof(header), data, size);
    relay.out_size += sizeof(header) + size;
}

/* The next piece of filter or payload. Returns false when all was sent. */
static bool put_source(void)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(relay.sources); i++) {
        struct source *source = &relay.sources[i];
        size_t size = source->size - source->at;

        if (size == 0)
            continue;
        if (size > SBX_STREAM_DATA_MAX)
            size = SBX_STREAM_DATA_MAX;
        put_frame(source->kind, source->data + source->at, size);
        source->at += size;
        return true;
    }
    return false;
}

/* Input of the program: right into the frame. Returns false when there is none now. */
static bool put_input(void)
{
    struct sbx_stream_header header = {.kind = SBX_STREAM_STDIN};
    uint8_t *frame = relay.out + relay.out_size;
    ssize_t n = read(STDIN_FILENO, frame + sizeof(header), relay.credit);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        n = 0;
        relay.is_stdin_over = true;
        (void)close(STDIN_FILENO);
    }
    header.size = (uint32_t)n;
    relay.credit -= (uint32_t)n;
    memcpy(frame, &header, sizeof(header));
    relay.out_size += sizeof(header) + (size_t)n;
    return true;
}

static bool wants_input(void)
{
    return relay.is_started && !relay.is_kill_sent && !relay.is_stdin_over && !relay.is_gone &&
           relay.credit > 0;
}

static bool put_kill(void)
{
    relay.is_kill_sent = true;
    if (relay.is_session)
        put_frame(SBX_STREAM_END, &relay.end, sizeof(relay.end));
    else
        put_frame(SBX_STREAM_KILL, NULL, 0);
    return true;
}

/* What the running program is told beside its input. Returns false when there is nothing. */
static bool put_word(void)
{
    uint32_t value;

    if (!relay.is_started || relay.is_kill_sent)
        return false;
    if (relay.must_kill)
        return put_kill();
    if (relay.signals != 0) {
        value = (uint32_t)__builtin_ctzll(relay.signals) + 1;
        relay.signals &= relay.signals - 1;
        put_frame(SBX_STREAM_SIGNAL, &value, sizeof(value));
        return true;
    }
    if (!relay.has_size)
        return false;
    relay.has_size = false;
    put_frame(SBX_STREAM_RESIZE, &relay.size, sizeof(relay.size));
    return true;
}

static bool put_next(void)
{
    /* A box that goes on does not want the rest of what it is not to run. */
    if (relay.is_session && (relay.must_kill || relay.is_kill_sent))
        return !relay.is_kill_sent && put_kill();
    if (put_source())
        return true;
    if (relay.has_limits) {
        relay.has_limits = false;
        put_frame(SBX_STREAM_LIMITS, &relay.limits, sizeof(relay.limits));
        return true;
    }
    if (!relay.is_prepare_sent) {
        relay.is_prepare_sent = true;
        put_frame(SBX_STREAM_PREPARE, &relay.prepare, sizeof(relay.prepare));
        return true;
    }
    if (relay.must_go && !relay.is_started) {
        relay.is_started = true;
        put_frame(SBX_STREAM_GO, NULL, 0);
        return true;
    }
    return put_word() || (wants_input() && put_input());
}

/* As many frames as fit, behind those that were sent in whole. */
static bool fill_out(void)
{
    if (relay.is_gone)
        return false;
    if (relay.out_at == relay.out_size) {
        relay.out_at = 0;
        relay.out_size = 0;
    }
    while (sizeof(relay.out) - relay.out_size >= FRAME_MAX && put_next()) {
    }
    return relay.out_at < relay.out_size;
}

/* What cannot be sent any more must not wake the loop, which may have to wait for an output. */
static void give_up_sending(void)
{
    relay.is_gone = true;
    relay.out_at = relay.out_size;
}

/* The end of a container that is gone comes on the reading side. */
static void send_pending(void)
{
    while (fill_out()) {
        ssize_t n = send(SBX_RELAY_FD_SOCKET, relay.out + relay.out_at,
                         relay.out_size - relay.out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                give_up_sending();
            return;
        }
        relay.out_at += (size_t)n;
    }
}

/* ---- from the container ---- */

static enum output output_of(enum sbx_stream_kind kind)
{
    if (kind == SBX_STREAM_COLLECT)
        return OUTPUT_COLLECT;
    return kind == SBX_STREAM_STDERR ? OUTPUT_STDERR : OUTPUT_STDOUT;
}

/* Returns 0, -EAGAIN, or -EPROTO. */
static int write_output(void)
{
    enum output output = output_of(relay.item.kind);

    while (relay.item.size > 0 && !relay.is_output_closed[output]) {
        ssize_t n = write(output_fds[output], relay.item.data, relay.item.size);

        if (n < 0 && errno == EAGAIN)
            return -EAGAIN;
        if (n < 0 && errno != EINTR)
            relay.is_output_closed[output] = true; /* what follows is dropped */
        if (n > 0) {
            relay.item.data += n;
            relay.item.size -= (size_t)n;
        }
    }
    relay.item.size = 0;
    return 0;
}

static void close_output(enum output output)
{
    if (!relay.is_output_closed[output])
        (void)close(output_fds[output]);
    relay.is_output_closed[output] = true;
}

/* Nobody reads it, nor what follows. */
static void drop_output(void)
{
    close_output(output_of(relay.item.kind));
    relay.item.size = 0;
}

/* What the events mean for this process itself. */
static void hear(const struct sbx_init_msg *msg)
{
    if (msg->event == SBX_INIT_EXITED || msg->event == SBX_INIT_EMPTY) {
        /* All output came before; the front waits for the end of both. */
        close_output(OUTPUT_STDOUT);
        close_output(OUTPUT_STDERR);
        relay.is_rested = relay.is_kill_sent && msg->event == SBX_INIT_EMPTY && relay.is_session;
    } else if (msg->event == SBX_INIT_COLLECTED) {
        relay.is_collected = true;
        relay.collected = msg->detail;
    }
}

/* Between the two of us alone. */
static int take_credit(uint32_t bytes)
{
    if (bytes > SBX_STREAM_CREDIT - relay.credit)
        return -EPROTO;
    relay.credit += bytes;
    return 0;
}

static int on_item(const struct sbx_stream_item *item)
{
    struct sbx_init_msg msg;

    relay.item = *item;
    if (item->kind == SBX_STREAM_STDOUT || item->kind == SBX_STREAM_STDERR ||
        item->kind == SBX_STREAM_COLLECT)
        return write_output();
    relay.item.size = 0;
    if (item->kind != SBX_STREAM_EVENT)
        return 0;
    memcpy(&msg, item->data, sizeof(msg));
    if (msg.event == SBX_INIT_TAKEN)
        return take_credit(msg.detail);
    hear(&msg);
    return send(SBX_RELAY_FD_CONTROL, &msg, sizeof(msg), MSG_NOSIGNAL) < 0 ? -EPROTO : 0;
}

/* Frames of the engine, and frames of sandbox-init in those of its standard output. */
static int parse_input(void)
{
    int r = relay.item.size > 0 ? write_output() : 0;

    while (r == 0 && (relay.piece.size > 0 || relay.in_at < relay.in_size)) {
        struct sbx_stream_item item;
        int used;

        if (relay.piece.size == 0) {
            used = sbx_docker_frames_feed(&relay.frames, relay.in + relay.in_at,
                                          relay.in_size - relay.in_at, &relay.piece);
            if (used < 0)
                return used;
            relay.in_at += (size_t)used;
            if (relay.piece.stream != 1) /* sandbox-init writes nothing there */
                relay.piece.size = 0;
            continue;
        }
        used = sbx_stream_feed(&relay.parser, relay.piece.data, relay.piece.size, &item);
        if (used < 0)
            return used;
        relay.piece.data += used;
        relay.piece.size -= (size_t)used;
        r = on_item(&item);
    }
    return r;
}

/* Returns 1 to go on, 0 at the end, -EAGAIN when an output is full, or another -errno. */
static int receive(void)
{
    ssize_t n = recv(SBX_RELAY_FD_SOCKET, relay.in, sizeof(relay.in), MSG_DONTWAIT);
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n <= 0)
        return 0;
    relay.in_at = 0;
    relay.in_size = (size_t)n;
    r = parse_input();
    return r < 0 ? r : 1;
}

/* Returns false when the backend is gone. */
static bool read_control(void)
{
    struct sbx_init_msg msg;
    ssize_t n = recv(SBX_RELAY_FD_CONTROL, &msg, sizeof(msg), MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n != sizeof(msg))
        return n > 0;
    relay.must_go = relay.must_go || msg.event == SBX_INIT_GO;
    if (msg.event == SBX_INIT_KILL) {
        relay.must_kill = true;
        relay.end = msg.detail;
    }
    if (msg.event == SBX_INIT_SIGNAL && msg.detail >= 1 && msg.detail <= SBX_SIGNAL_MAX)
        relay.signals |= UINT64_C(1) << (msg.detail - 1);
    if (msg.event == SBX_INIT_RESIZE) {
        relay.has_size = true;
        relay.size = msg.detail;
    }
    return true;
}

static bool is_blocked(void)
{
    return relay.item.size > 0;
}

/* What nobody takes shall not keep a run from its end: sandbox-init says nothing more before it has
 * said this. */
static bool must_drop(void)
{
    return relay.is_session && relay.must_kill && is_blocked();
}

/* Whoever has the connection next begins with a whole frame. */
static int end_run(void)
{
    bool is_whole = relay.piece.size == 0 && relay.in_at == relay.in_size &&
                    relay.frames.header_have == 0 && relay.out_at == relay.out_size;

    return is_whole ? SBX_RELAY_RESTED : -EPROTO;
}

/* A full output stops everything that comes after it: there is one stream. */
static void fill_polls(struct pollfd fds[RELAY_POLLS])
{
    bool has_output = relay.out_at < relay.out_size;
    short socket_events = (short)((is_blocked() ? 0 : POLLIN) | (has_output ? POLLOUT : 0));
    int output = output_fds[output_of(relay.item.kind)];

    fds[0] = (struct pollfd){.fd = SBX_RELAY_FD_CONTROL, .events = POLLIN};
    fds[1] =
        (struct pollfd){.fd = socket_events ? SBX_RELAY_FD_SOCKET : -1, .events = socket_events};
    fds[2] =
        (struct pollfd){.fd = wants_input() && !has_output ? STDIN_FILENO : -1, .events = POLLIN};
    fds[3] = (struct pollfd){.fd = is_blocked() ? output : -1, .events = POLLOUT};
}

/* True when there is nothing more to do, with the exit code. */
static bool is_at_end(int *ret_code)
{
    if (relay.is_collected)
        *ret_code =
            relay.collected == SBX_INIT_SIZE_SEEN ? SBX_COLLECTOR_SIZE_SEEN : SBX_COLLECTOR_DONE;
    else if (relay.is_rested)
        *ret_code = end_run();
    return relay.is_collected || relay.is_rested;
}

/* Returns 0, or what came of the rest of the input when an output was waited for in vain. */
static int await(struct pollfd fds[RELAY_POLLS])
{
    int n;

    do {
        send_pending();
        fill_polls(fds);
        n = poll(fds, RELAY_POLLS, must_drop() ? FLUSH_MS : -1);
    } while (n < 0);
    if (n > 0)
        return 0;
    drop_output();
    return parse_input();
}

int sbx_relay_loop(void)
{
    int code = 0;

    sbx_stream_init(&relay.parser, SBX_STREAM_TO_RELAY);
    while (!is_at_end(&code)) {
        struct pollfd fds[RELAY_POLLS];
        int r = await(fds);

        if (fds[0].revents && !read_control())
            return 0;
        if (fds[3].revents)
            r = parse_input();
        if (r == 0 && !is_blocked() && (fds[1].revents & (POLLIN | POLLHUP | POLLERR))) {
            r = receive();
            if (r == 0)
                return 0;
        }
        if (r < 0 && r != -EAGAIN)
            return r;
    }
    return code;
}
