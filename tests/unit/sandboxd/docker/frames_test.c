/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/docker/frames.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

/* The bytes of one stream, from a joined stream that comes in pieces of `step` bytes. */
static size_t pick(const uint8_t *bytes, size_t size, size_t step, uint32_t stream, char *out)
{
    struct sbx_docker_frames frames = {.left = 0};
    size_t found = 0;

    for (size_t at = 0; at < size; at += step) {
        size_t part = size - at < step ? size - at : step;

        for (size_t used = 0; used < part;) {
            struct sbx_docker_piece piece;
            int n = sbx_docker_frames_feed(&frames, bytes + at + used, part - used, &piece);

            assert_in_range(n, 1, part - used);
            used += (size_t)n;
            if (piece.stream == stream)
                memcpy(out + found, piece.data, piece.size);
            found += piece.stream == stream ? piece.size : 0;
        }
    }
    return found;
}

static void streams_come_apart_at_any_chunking(void **state)
{
    /* A payload that itself begins as a header does; empty frames; both streams. */
    static const uint8_t bytes[] = "\1\0\0\0\0\0\0\5\1\0\0\0x"
                                   "\2\0\0\0\0\0\0\3err"
                                   "\1\0\0\0\0\0\0\0"
                                   "\1\0\0\0\0\0\0\2ab";
    char out[64];

    (void)state;
    for (size_t step = 1; step < sizeof(bytes); step++) {
        assert_int_equal(pick(bytes, sizeof(bytes) - 1, step, 1, out), 7);
        assert_memory_equal(out, "\1\0\0\0xab", 7);
        assert_int_equal(pick(bytes, sizeof(bytes) - 1, step, 2, out), 3);
        assert_memory_equal(out, "err", 3);
    }
}

static void sizes_have_32_bits(void **state)
{
    static const uint8_t bytes[] = "\1\0\0\0\xff\xff\xff\xff"
                                   "rest";
    struct sbx_docker_frames frames = {.left = 0};
    struct sbx_docker_piece piece;

    (void)state;
    assert_int_equal(sbx_docker_frames_feed(&frames, bytes, sizeof(bytes) - 1, &piece), 12);
    assert_int_equal(piece.size, 4);
    assert_int_equal(frames.left, UINT32_MAX - 4);
}

static void another_protocol_is_refused(void **state)
{
    static const char *const heads[] = {"\0\0\0\0\0\0\0\1", "\3\0\0\0\0\0\0\1", "\1\1\0\0\0\0\0\1",
                                        "\1\0\0\1\0\0\0\1", "HTTP/1.1"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(heads); i++) {
        struct sbx_docker_frames frames = {.left = 0};
        struct sbx_docker_piece piece;

        assert_int_equal(sbx_docker_frames_feed(&frames, (const uint8_t *)heads[i], 8, &piece),
                         -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_come_apart_at_any_chunking),
        cmocka_unit_test(sizes_have_32_bits),
        cmocka_unit_test(another_protocol_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
