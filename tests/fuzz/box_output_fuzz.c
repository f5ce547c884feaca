/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/frames.h"
#include "sandboxd/docker/preload.h"
#include "sandboxd/wire/boxstream.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define OUTPUT_MAX 8192

/* What a relay would pass on: the engine's frames, and sandbox-init's frames in the first stream.
 */
struct result {
    uint8_t output[3][OUTPUT_MAX];
    size_t size[3];
    uint32_t events;
    bool is_bad;
};

static void take(struct result *result, const struct sbx_stream_item *item)
{
    size_t which = item->kind == SBX_STREAM_COLLECT ? 2 : item->kind == SBX_STREAM_STDERR;

    if (item->kind == SBX_STREAM_EVENT) {
        FUZZ_CHECK(item->size == sizeof(struct sbx_init_msg));
        result->events++;
    } else if (item->kind != SBX_STREAM_NONE) {
        FUZZ_CHECK(item->kind == SBX_STREAM_STDOUT || item->kind == SBX_STREAM_STDERR ||
                   item->kind == SBX_STREAM_COLLECT);
        FUZZ_CHECK(result->size[which] + item->size <= OUTPUT_MAX);
        if (item->size > 0)
            memcpy(result->output[which] + result->size[which], item->data, item->size);
        result->size[which] += item->size;
    }
}

static void feed_piece(struct sbx_stream_parser *parser, const struct sbx_docker_piece *piece,
                       struct result *result)
{
    for (size_t used = 0; used < piece->size && !result->is_bad;) {
        struct sbx_stream_item item;
        int n = sbx_stream_feed(parser, piece->data + used, piece->size - used, &item);

        result->is_bad = n < 0;
        FUZZ_CHECK(n != 0);
        used += n > 0 ? (size_t)n : 0;
        if (n > 0)
            take(result, &item);
    }
}

static void read_all(const uint8_t *data, size_t size, size_t step, struct result *result)
{
    struct sbx_docker_frames frames = {.left = 0};
    struct sbx_stream_parser parser;

    *result = (struct result){.events = 0};
    sbx_stream_init(&parser, SBX_STREAM_TO_RELAY);
    for (size_t at = 0; at < size && !result->is_bad;) {
        size_t part = size - at < step ? size - at : step;
        struct sbx_docker_piece piece;
        int n = sbx_docker_frames_feed(&frames, data + at, part, &piece);

        FUZZ_CHECK(n != 0);
        result->is_bad = n < 0;
        if (n < 0)
            return;
        at += (size_t)n;
        if (piece.stream == 1)
            feed_piece(&parser, &piece, result);
    }
}

/* What the backend itself hears of a container whose interpreter is to wait. */
static int hear(const uint8_t *data, size_t size, size_t step, struct sbx_docker_preload *preload)
{
    int r = 0;

    sbx_docker_preload_init(preload);
    for (size_t at = 0; at < size && r == 0; at += step)
        r = sbx_docker_preload_feed(preload, data + at, size - at < step ? size - at : step);
    FUZZ_CHECK(preload->words_size < sizeof(preload->words));
    FUZZ_CHECK(strlen(preload->words) <= preload->words_size);
    return r;
}

/* Bytes behind the end are an error only where they came with it. */
static void compare_what_is_heard(const uint8_t *data, size_t size, size_t step)
{
    static struct sbx_docker_preload whole;
    static struct sbx_docker_preload pieces;
    int at_once = hear(data, size, size > 0 ? size : 1, &whole);
    int in_pieces = hear(data, size, step, &pieces);

    FUZZ_CHECK(at_once == in_pieces || (at_once == -EPROTO && in_pieces == 1));
    FUZZ_CHECK(strcmp(whole.words, pieces.words) == 0);
}

/* The pieces in which it comes change nothing. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result whole;
    static struct result pieces;
    size_t step = size > 0 ? 1 + data[size - 1] % 11 : 1;

    read_all(data, size, OUTPUT_MAX, &whole);
    read_all(data, size, step, &pieces);
    FUZZ_CHECK(whole.is_bad == pieces.is_bad && whole.events == pieces.events);
    for (int i = 0; i < 2; i++) {
        FUZZ_CHECK(whole.size[i] == pieces.size[i]);
        FUZZ_CHECK(memcmp(whole.output[i], pieces.output[i], whole.size[i]) == 0);
    }
    compare_what_is_heard(data, size, step);
    return 0;
}
