/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/wire/boxstream.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct stream {
    uint8_t bytes[512];
    size_t size;
};

static void add(struct stream *stream, uint32_t kind, const void *data, uint32_t size)
{
    const struct sbx_stream_header header = {.kind = kind, .size = size};

    memcpy(stream->bytes + stream->size, &header, sizeof(header));
    stream->size += sizeof(header);
    if (size > 0)
        memcpy(stream->bytes + stream->size, data, size);
    stream->size += size;
}

/* What a reader gets out of a stream that comes in pieces of `step` bytes. */
struct seen {
    char output[2][64];
    size_t size[2];
    struct sbx_init_msg events[4];
    int event_count;
};

static void take(struct seen *seen, const struct sbx_stream_item *item)
{
    size_t which = item->kind == SBX_STREAM_STDERR;

    if (item->kind == SBX_STREAM_NONE)
        return;
    if (item->kind == SBX_STREAM_EVENT) {
        assert_int_equal(item->size, sizeof(struct sbx_init_msg));
        memcpy(&seen->events[seen->event_count++], item->data, item->size);
        return;
    }
    memcpy(seen->output[which] + seen->size[which], item->data, item->size);
    seen->size[which] += item->size;
}

static void read_all(const struct stream *stream, size_t step, struct seen *seen)
{
    struct sbx_stream_parser parser;

    *seen = (struct seen){0};
    sbx_stream_init(&parser, SBX_STREAM_TO_RELAY);
    for (size_t at = 0; at < stream->size; at += step) {
        size_t size = stream->size - at < step ? stream->size - at : step;

        for (size_t used = 0; used < size;) {
            struct sbx_stream_item item;
            int n = sbx_stream_feed(&parser, stream->bytes + at + used, size - used, &item);

            assert_in_range(n, 1, size - used);
            used += (size_t)n;
            take(seen, &item);
        }
    }
}

static void frames_are_the_same_at_any_chunking(void **state)
{
    const struct sbx_init_msg ready = {.event = SBX_INIT_READY};
    const struct sbx_init_msg exited = {.event = SBX_INIT_EXITED, .wait_status = 256};
    struct stream stream = {.size = 0};

    (void)state;
    add(&stream, SBX_STREAM_EVENT, &ready, sizeof(ready));
    add(&stream, SBX_STREAM_STDOUT, "hello ", 6);
    add(&stream, SBX_STREAM_STDERR, "bad", 3);
    add(&stream, SBX_STREAM_STDOUT, "", 0);
    add(&stream, SBX_STREAM_STDOUT, "world", 5);
    add(&stream, SBX_STREAM_EVENT, &exited, sizeof(exited));
    for (size_t step = 1; step <= stream.size; step++) {
        struct seen seen;

        read_all(&stream, step, &seen);
        assert_int_equal(seen.size[0], 11);
        assert_memory_equal(seen.output[0], "hello world", 11);
        assert_int_equal(seen.size[1], 3);
        assert_int_equal(seen.event_count, 2);
        assert_int_equal(seen.events[0].event, SBX_INIT_READY);
        assert_int_equal(seen.events[1].wait_status, 256);
    }
}

static void an_empty_frame_is_an_item(void **state)
{
    struct sbx_stream_parser parser;
    struct sbx_stream_item item;
    struct stream stream = {.size = 0};

    (void)state;
    add(&stream, SBX_STREAM_STDIN, NULL, 0);
    sbx_stream_init(&parser, SBX_STREAM_TO_INIT);
    assert_int_equal(sbx_stream_feed(&parser, stream.bytes, stream.size, &item), 8);
    assert_int_equal(item.kind, SBX_STREAM_STDIN);
    assert_int_equal(item.size, 0);
}

static void what_is_not_legal_is_refused(void **state)
{
    static const struct {
        uint32_t legal;
        struct sbx_stream_header header;
    } cases[] = {
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_NONE, 0}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_KIND_END, 0}},
        {SBX_STREAM_TO_RELAY, {UINT32_MAX, 0}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_STDIN, 1}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_STDOUT, 1}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_PRELOAD, sizeof(uint32_t)}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_PRELOAD, sizeof(struct sbx_stream_preload)}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_EVENT, sizeof(struct sbx_init_msg)}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_EVENT, sizeof(struct sbx_init_msg) - 1}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_EVENT, sizeof(struct sbx_init_msg) + 1}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_STDOUT, SBX_STREAM_DATA_MAX + 1}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_STDOUT, UINT32_MAX}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_GO, 1}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_PREPARE, 0}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_PREPARE, sizeof(uint32_t)}}, /* as it once was */
        {SBX_STREAM_TO_INIT, {SBX_STREAM_SIGNAL, 0}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_RESIZE, sizeof(uint64_t)}},
        {SBX_STREAM_TO_INIT, {SBX_STREAM_END, 0}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_END, sizeof(uint32_t)}},
        {SBX_STREAM_TO_RELAY, {SBX_STREAM_SIGNAL, sizeof(uint32_t)}},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct sbx_stream_parser parser;
        struct sbx_stream_item item;

        sbx_stream_init(&parser, cases[i].legal);
        assert_int_equal(sbx_stream_feed(&parser, (const uint8_t *)&cases[i].header,
                                         sizeof(cases[i].header), &item),
                         -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_the_same_at_any_chunking),
        cmocka_unit_test(an_empty_frame_is_an_item),
        cmocka_unit_test(what_is_not_legal_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
