/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/relay_child.h"

#include "common/auto.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/docker/frames.h"
#include "sandboxd/docker/relay.h"
#include "sandboxd/docker/relay_sender.h"
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

#include <sys/socket.h>

#define RELAY_POLLS 4
#define FLUSH_MS 500 /* for a front that does not read, when the run is at its end */

/* The one process. */
struct relay {
    struct sbx_relay_sender sender;

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

static struct relay relay = {.sender = SBX_RELAY_SENDER_INIT};

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
    return sbx_relay_sender_map(&relay.sender, has_filter);
}

void sbx_relay_take_order(const struct sbx_relay_order *order)
{
    sbx_relay_sender_take_order(&relay.sender, order);
}

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
        relay.is_rested =
            relay.sender.is_kill_sent && msg->event == SBX_INIT_EMPTY && relay.sender.is_session;
    } else if (msg->event == SBX_INIT_COLLECTED) {
        relay.is_collected = true;
        relay.collected = msg->detail;
    }
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
        return sbx_relay_sender_take_credit(&relay.sender, msg.detail);
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
    relay.sender.must_go = relay.sender.must_go || msg.event == SBX_INIT_GO;
    if (msg.event == SBX_INIT_KILL) {
        relay.sender.must_kill = true;
        relay.sender.end = msg.detail;
    }
    if (msg.event == SBX_INIT_SIGNAL && msg.detail >= 1 && msg.detail <= SBX_SIGNAL_MAX)
        relay.sender.signals |= UINT64_C(1) << (msg.detail - 1);
    if (msg.event == SBX_INIT_RESIZE) {
        relay.sender.has_size = true;
        relay.sender.size = msg.detail;
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
    return relay.sender.is_session && relay.sender.must_kill && is_blocked();
}

/* Whoever has the connection next begins with a whole frame. */
static int end_run(void)
{
    bool is_whole = relay.piece.size == 0 && relay.in_at == relay.in_size &&
                    relay.frames.header_have == 0 && !sbx_relay_sender_has_output(&relay.sender);

    return is_whole ? SBX_RELAY_RESTED : -EPROTO;
}

/* A full output stops everything that comes after it: there is one stream. */
static void fill_polls(struct pollfd fds[RELAY_POLLS])
{
    bool has_output = sbx_relay_sender_has_output(&relay.sender);
    short socket_events = (short)((is_blocked() ? 0 : POLLIN) | (has_output ? POLLOUT : 0));
    int output = output_fds[output_of(relay.item.kind)];

    fds[0] = (struct pollfd){.fd = SBX_RELAY_FD_CONTROL, .events = POLLIN};
    fds[1] =
        (struct pollfd){.fd = socket_events ? SBX_RELAY_FD_SOCKET : -1, .events = socket_events};
    fds[2] = (struct pollfd){
        .fd = sbx_relay_sender_wants_input(&relay.sender) && !has_output ? STDIN_FILENO : -1,
        .events = POLLIN};
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
        sbx_relay_sender_send(&relay.sender);
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
