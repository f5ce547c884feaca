/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/preload.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>

#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))
#define LOADER_VARIABLE "LD_PRELOAD"

_Static_assert(FILTER_MAX <= SBX_STREAM_DATA_MAX, "one frame");

/* ---- what the container is told ---- */

static int add_frame(struct cr_buf *order, enum sbx_stream_kind kind, const void *data, size_t size)
{
    const struct sbx_stream_header header = {.kind = (uint32_t)kind, .size = (uint32_t)size};
    int r = cr_buf_add(order, &header, sizeof(header));

    return r < 0 ? r : cr_buf_add(order, data, size);
}

static int add_filter(struct cr_buf *order, int filter_fd)
{
    uint8_t filter[FILTER_MAX];
    ssize_t n = pread(filter_fd, filter, sizeof(filter), 0);

    if (n <= 0)
        return n < 0 ? -errno : -ENODATA;
    return add_frame(order, SBX_STREAM_FILTER, filter, (size_t)n);
}

static int add_variables(struct cr_buf *payload, const char *const *lines)
{
    int r = 0;

    for (; r == 0 && *lines; lines++) {
        const char *equals = strchr(*lines, '=');

        r = sbx_payload_add(payload, SBX_PAYLOAD_ENV, 0, 0, *lines, (size_t)(equals - *lines),
                            equals + 1, strlen(equals + 1));
    }
    return r;
}

/* What a program of the runtime would get, and the loader's variable, which is taken away again
 * at once. */
static int fill_payload(struct cr_buf *payload, const struct sbx_runtime *runtime)
{
    static const char *const loader[] = {LOADER_VARIABLE "=" SBX_TEMPLATE_IMAGE_PATH, NULL};
    int r = sbx_payload_begin(payload);

    for (const char *const *arg = runtime->argv; r == 0 && *arg; arg++)
        r = sbx_payload_add(payload, SBX_PAYLOAD_ARG, 0, 0, NULL, 0, *arg, strlen(*arg));
    if (r == 0)
        r = add_variables(payload, sbx_environment);
    if (r == 0)
        r = add_variables(payload, runtime->environment);
    if (r == 0)
        r = add_variables(payload, loader);
    if (r == 0)
        sbx_payload_end(payload);
    return r;
}

int sbx_docker_preload_order(enum sbx_template_kind kind, int filter_fd, struct cr_buf *ret_order,
                             struct cr_err *err)
{
    const struct sbx_stream_preload preload = {.version = SBX_STREAM_VERSION,
                                               .kind = (uint32_t)kind};
    CR_AUTO_BUF struct cr_buf payload;
    int r;

    cr_buf_init(&payload, SBX_STREAM_DATA_MAX);
    r = add_filter(ret_order, filter_fd);
    if (r == 0)
        r = fill_payload(&payload, sbx_template_runtime(kind));
    if (r == 0)
        r = add_frame(ret_order, SBX_STREAM_PAYLOAD, payload.data, payload.size);
    if (r == 0)
        r = add_frame(ret_order, SBX_STREAM_PRELOAD, &preload, sizeof(preload));
    return r < 0 ? cr_err_sys(err, -r, "order an interpreter for '%s'", sbx_template_name(kind))
                 : 0;
}

/* ---- what it answers ---- */

void sbx_docker_preload_init(struct sbx_docker_preload *preload)
{
    *preload = (struct sbx_docker_preload){.words_size = 0};
    sbx_stream_init(&preload->parser,
                    SBX_STREAM_BIT(SBX_STREAM_EVENT) | SBX_STREAM_BIT(SBX_STREAM_STDERR));
}

static void keep_words(struct sbx_docker_preload *preload, const struct sbx_stream_item *item)
{
    for (size_t i = 0; i < item->size && preload->words_size < sizeof(preload->words) - 1; i++) {
        char c = (char)item->data[i];

        if (c < ' ' || c == '"' || c > '~')
            c = ' ';
        preload->words[preload->words_size++] = c;
    }
}

/* Returns as feed(), and 0 for what does not end it. */
static int on_item(struct sbx_docker_preload *preload, const struct sbx_stream_item *item)
{
    if (item->kind == SBX_STREAM_STDERR)
        keep_words(preload, item);
    if (item->kind != SBX_STREAM_EVENT)
        return 0;
    memcpy(&preload->last, item->data, sizeof(preload->last));
    if (preload->last.event == SBX_INIT_WAITING)
        return 1;
    return preload->last.event == SBX_INIT_FAILED ? -ECANCELED : -EPROTO;
}

/* The frames of sandbox-init in one piece of the engine's. */
static int feed_piece(struct sbx_docker_preload *preload, struct sbx_docker_piece *piece)
{
    int r = 0;

    while (r == 0 && piece->size > 0) {
        struct sbx_stream_item item;
        int used = sbx_stream_feed(&preload->parser, piece->data, piece->size, &item);

        if (used < 0)
            return used;
        piece->data += used;
        piece->size -= (size_t)used;
        r = on_item(preload, &item);
    }
    return r;
}

int sbx_docker_preload_feed(struct sbx_docker_preload *preload, const uint8_t *data, size_t size)
{
    int r = 0;

    while (r == 0 && size > 0) {
        struct sbx_docker_piece piece = {.size = 0};
        int used = sbx_docker_frames_feed(&preload->frames, data, size, &piece);

        if (used < 0)
            return used;
        data += used;
        size -= (size_t)used;
        if (piece.stream == 1) /* sandbox-init writes nothing into the other */
            r = feed_piece(preload, &piece);
        if (r == 1 && (piece.size > 0 || size > 0 || preload->frames.left > 0))
            return -EPROTO; /* who takes over must find the beginning of a frame */
    }
    return r;
}
