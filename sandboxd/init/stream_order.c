/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/init/inputs.h"
#include "sandboxd/init/stream_limits.h"
#include "sandboxd/init/stream_out.h"
#include "sandboxd/init/stream_parts.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

/* What the host said: some frames, the last of which may be cut. */
static uint8_t buffer[SBX_STREAM_DATA_MAX];

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
static int preload(struct sbx_stream *stream, const struct sbx_stream_item *item)
{
    struct sbx_program_failure failure;
    struct sbx_stream_preload order;

    memcpy(&order, item->data, sizeof(order));
    stream->is_preloaded = true;
    if (order.version != SBX_STREAM_VERSION || order.kind >= SBX_TEMPLATE_KIND_COUNT) {
        sbx_stream_fail(stream, SBX_STAGE_INIT, -EPROTONOSUPPORT);
        return 0;
    }
    sbx_stream_raise_oom_score();
    if (sbx_parked_start(order.kind, stream->payload_fd, stream->filter_fd, &stream->parked,
                         &failure) < 0) {
        sbx_stream_fail(stream, (enum sbx_stage)failure.stage, -failure.error);
        return 0;
    }
    stream->leader = stream->parked.pid;
    stream->fds[SBX_STREAM_FD_PARKED] = stream->parked.channel_fd;
    cr_close_fd(&stream->filter_fd);
    cr_close_fd(&stream->payload_fd);
    stream->payload_size = 0;
    stream->payload_fd = memfd_create("payload", MFD_CLOEXEC);
    return stream->payload_fd < 0 ? -errno : 0;
}

void sbx_stream_hear_parked(struct sbx_stream *stream)
{
    char words[SBX_TEMPLATE_WORDS_MAX];
    int r = sbx_parked_hear(&stream->parked, &stream->fds[SBX_STREAM_FD_LISTENER], words);

    if (r == 0)
        return;
    stream->fds[SBX_STREAM_FD_PARKED] = -1; /* the channel stays open in `parked` */
    if (r > 0) {
        cr_close_fd(&stream->parked.words_fd);
        sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_WAITING});
        return;
    }
    sbx_stream_send(SBX_STREAM_STDERR, words, strlen(words));
    sbx_stream_fail(stream, SBX_STAGE_EXEC, r);
}

/* Whether the interpreter of a session is there is settled here: READY tells. */
static void prepare_session(struct sbx_stream *stream)
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

static void prepare(struct sbx_stream *stream, const struct sbx_stream_item *item)
{
    bool is_session;
    int r;

    memcpy(&stream->prepare, item->data, sizeof(stream->prepare));
    is_session = stream->prepare.mode >= SBX_STREAM_MODE_CALL;
    if (stream->prepare.version != SBX_STREAM_VERSION ||
        stream->prepare.mode >= SBX_STREAM_MODE_END || (is_session && stream->inside.is_on) ||
        (stream->is_session && !is_session)) {
        sbx_stream_fail(stream, SBX_STAGE_INIT, -EPROTONOSUPPORT); /* an image of another build */
        return;
    }
    if (is_session)
        prepare_session(stream);
    r = sbx_inputs_unpack(stream->payload_fd, stream->inside.is_on);
    if (r < 0) {
        sbx_stream_fail(stream, SBX_STAGE_PAYLOAD, r);
        return;
    }
    stream->is_prepared = true;
    (void)prctl(PR_SET_NAME, SBX_INIT_NAME, 0, 0, 0);
    if (stream->inside.is_on)
        sbx_inside_tell(&stream->inside, sbx_stream_send_event);
    sbx_stream_send_event((struct sbx_init_msg){.event = SBX_INIT_READY,
                                                .detail = stream->is_new ? SBX_INIT_NEW_STATE : 0});
}

/* True while frames of that kind are legal: once, nor behind PREPARE, nor while an interpreter that
 * is to wait does not wait yet. */
static bool is_due(const struct sbx_stream *stream, enum sbx_stream_kind kind)
{
    bool wants_filter = kind == SBX_STREAM_FILTER || kind == SBX_STREAM_PRELOAD;

    return !stream->is_prepared && stream->fds[SBX_STREAM_FD_PARKED] < 0 &&
           !(wants_filter && stream->is_preloaded);
}

/* What the relay may say before PREPARE, and the backend before there is one. */
static int on_early_item(struct sbx_stream *stream, const struct sbx_stream_item *item)
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
            sbx_stream_fail(stream, SBX_STAGE_LIMITS, r);
        return 0;
    default:
        prepare(stream, item);
        return 0;
    }
}

/* The leader began a session of its own, and may have left its group since. */
static void send_signal(const struct sbx_stream *stream, uint32_t number)
{
    if (number > SBX_SIGNAL_MAX || stream->leader <= 0)
        return;
    if (kill(-stream->leader, (int)number) < 0)
        (void)kill(stream->leader, (int)number);
}

/* What the relay may say behind GO. */
static int on_late_item(struct sbx_stream *stream, const struct sbx_stream_item *item)
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
static int on_item(struct sbx_stream *stream, const struct sbx_stream_item *item)
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
            sbx_stream_go_without_program(stream);
        else
            sbx_stream_go(stream);
        return 0;
    case SBX_STREAM_STDIN:
    case SBX_STREAM_SIGNAL:
    case SBX_STREAM_RESIZE:
        return on_late_item(stream, item);
    case SBX_STREAM_KILL:
        return sbx_stream_kill_box(stream);
    case SBX_STREAM_END:
        if (!stream->is_session)
            return -EPROTO;
        sbx_stream_rest(stream, item);
        return 0;
    default:
        return -EPROTO;
    }
}

/* What comes late for a run that is over is nothing, but for the word that nothing more comes. */
static bool is_heard(const struct sbx_stream *stream, enum sbx_stream_kind kind)
{
    return kind != SBX_STREAM_NONE &&
           (!stream->is_over || (stream->is_session && kind == SBX_STREAM_END));
}

void sbx_stream_pass_input(struct sbx_stream *stream)
{
    struct sbx_init_msg taken = {.event = SBX_INIT_TAKEN};

    if (stream->input.fd >= 0)
        sbx_stream_input_write(&stream->input);
    taken.detail = sbx_stream_input_take_credit(&stream->input);
    if (taken.detail > 0 && !stream->is_over)
        sbx_stream_send_event(taken);
}

void sbx_stream_read_host(struct sbx_stream *stream)
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
    sbx_stream_pass_input(stream);
}
