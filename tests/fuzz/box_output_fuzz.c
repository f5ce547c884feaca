/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/frames.h"
#include "sandboxd/wire/boxstream.h"
#include "tests/fuzz/fuzz.h"

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
    return 0;
}
