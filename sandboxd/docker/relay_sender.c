/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/relay_sender.h"

#include "common/auto.h"
#include "sandboxd/docker/relay_child.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FILTER_MAX ((off_t)(BPF_MAXINSNS * sizeof(struct sock_filter)))

static int map(int fd, off_t most, struct sbx_relay_source *source)
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

int sbx_relay_sender_map(struct sbx_relay_sender *sender, bool has_filter)
{
    int r = has_filter ? map(SBX_RELAY_FD_FILTER, FILTER_MAX, &sender->sources[0]) : 0;

    return r < 0 ? r : map(SBX_RELAY_FD_PAYLOAD, SBX_PAYLOAD_MAX, &sender->sources[1]);
}

void sbx_relay_sender_take_order(struct sbx_relay_sender *sender,
                                 const struct sbx_relay_order *order)
{
    sender->has_limits = order->has_limits != 0;
    sender->limits = order->limits;
    sender->must_go = order->is_going != 0;
    sender->prepare = (struct sbx_stream_prepare){.version = SBX_STREAM_VERSION,
                                                  .mode = order->mode,
                                                  .size = order->size,
                                                  .flags = order->is_fresh ? SBX_STREAM_FRESH : 0};
    sender->is_session = order->mode >= SBX_STREAM_MODE_CALL;
}

int sbx_relay_sender_take_credit(struct sbx_relay_sender *sender, uint32_t bytes)
{
    if (bytes > SBX_STREAM_CREDIT - sender->credit)
        return -EPROTO;
    sender->credit += bytes;
    return 0;
}

bool sbx_relay_sender_has_output(const struct sbx_relay_sender *sender)
{
    return sender->out_at < sender->out_size;
}

/* There is room for one; see fill_out(). */
static void put_frame(struct sbx_relay_sender *sender, enum sbx_stream_kind kind, const void *data,
                      size_t size)
{
    const struct sbx_stream_header header = {.kind = (uint32_t)kind, .size = (uint32_t)size};

    memcpy(sender->out + sender->out_size, &header, sizeof(header));
    if (size > 0)
        memcpy(sender->out + sender->out_size + sizeof(header), data, size);
    sender->out_size += sizeof(header) + size;
}

/* The next piece of filter or payload. Returns false when all was sent. */
static bool put_source(struct sbx_relay_sender *sender)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(sender->sources); i++) {
        struct sbx_relay_source *source = &sender->sources[i];
        size_t size = source->size - source->at;

        if (size == 0)
            continue;
        if (size > SBX_STREAM_DATA_MAX)
            size = SBX_STREAM_DATA_MAX;
        put_frame(sender, source->kind, source->data + source->at, size);
        source->at += size;
        return true;
    }
    return false;
}

/* Input of the program: right into the frame. Returns false when there is none now. */
static bool put_input(struct sbx_relay_sender *sender)
{
    struct sbx_stream_header header = {.kind = SBX_STREAM_STDIN};
    uint8_t *frame = sender->out + sender->out_size;
    ssize_t n = read(STDIN_FILENO, frame + sizeof(header), sender->credit);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        n = 0;
        sender->is_stdin_over = true;
        (void)close(STDIN_FILENO);
    }
    header.size = (uint32_t)n;
    sender->credit -= (uint32_t)n;
    memcpy(frame, &header, sizeof(header));
    sender->out_size += sizeof(header) + (size_t)n;
    return true;
}

bool sbx_relay_sender_wants_input(const struct sbx_relay_sender *sender)
{
    return sender->is_started && !sender->is_kill_sent && !sender->is_stdin_over &&
           !sender->is_gone && sender->credit > 0;
}

static bool put_kill(struct sbx_relay_sender *sender)
{
    sender->is_kill_sent = true;
    if (sender->is_session)
        put_frame(sender, SBX_STREAM_END, &sender->end, sizeof(sender->end));
    else
        put_frame(sender, SBX_STREAM_KILL, NULL, 0);
    return true;
}

/* What the running program is told beside its input. Returns false when there is nothing. */
static bool put_word(struct sbx_relay_sender *sender)
{
    uint32_t value;

    if (!sender->is_started || sender->is_kill_sent)
        return false;
    if (sender->must_kill)
        return put_kill(sender);
    if (sender->signals != 0) {
        value = (uint32_t)__builtin_ctzll(sender->signals) + 1;
        sender->signals &= sender->signals - 1;
        put_frame(sender, SBX_STREAM_SIGNAL, &value, sizeof(value));
        return true;
    }
    if (!sender->has_size)
        return false;
    sender->has_size = false;
    put_frame(sender, SBX_STREAM_RESIZE, &sender->size, sizeof(sender->size));
    return true;
}

static bool put_next(struct sbx_relay_sender *sender)
{
    /* A box that goes on does not want the rest of what it is not to run. */
    if (sender->is_session && (sender->must_kill || sender->is_kill_sent))
        return !sender->is_kill_sent && put_kill(sender);
    if (put_source(sender))
        return true;
    if (sender->has_limits) {
        sender->has_limits = false;
        put_frame(sender, SBX_STREAM_LIMITS, &sender->limits, sizeof(sender->limits));
        return true;
    }
    if (!sender->is_prepare_sent) {
        sender->is_prepare_sent = true;
        put_frame(sender, SBX_STREAM_PREPARE, &sender->prepare, sizeof(sender->prepare));
        return true;
    }
    if (sender->must_go && !sender->is_started) {
        sender->is_started = true;
        put_frame(sender, SBX_STREAM_GO, NULL, 0);
        return true;
    }
    return put_word(sender) || (sbx_relay_sender_wants_input(sender) && put_input(sender));
}

/* As many frames as fit, behind those that were sent in whole. */
static bool fill_out(struct sbx_relay_sender *sender)
{
    if (sender->is_gone)
        return false;
    if (sender->out_at == sender->out_size) {
        sender->out_at = 0;
        sender->out_size = 0;
    }
    while (sizeof(sender->out) - sender->out_size >= SBX_RELAY_FRAME_MAX && put_next(sender)) {
    }
    return sbx_relay_sender_has_output(sender);
}

/* What cannot be sent any more must not wake the loop, which may have to wait for an output. */
static void give_up_sending(struct sbx_relay_sender *sender)
{
    sender->is_gone = true;
    sender->out_at = sender->out_size;
}

void sbx_relay_sender_send(struct sbx_relay_sender *sender)
{
    while (fill_out(sender)) {
        ssize_t n = send(SBX_RELAY_FD_SOCKET, sender->out + sender->out_at,
                         sender->out_size - sender->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                give_up_sending(sender);
            return;
        }
        sender->out_at += (size_t)n;
    }
}
