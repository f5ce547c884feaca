/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/utf8.h"
#include "sandboxd/front/output.h"
#include "tests/harness/test.h"

#include <string.h>

#define CAP 1000U

/* Everything that came out, laid down at its offsets. */
struct sink {
    uint8_t bytes[4 * CAP];
    uint64_t delivered;
    uint64_t end; /* offset behind the last byte */
    uint64_t dropped;
    size_t truncated_events;
    size_t chunks;
};

static void drain(struct sbx_output *output, struct sink *sink)
{
    struct cr_buf chunk;

    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    while (sbx_output_has_piece(output)) {
        struct sbx_piece piece = sbx_output_take(output, &chunk);

        assert_int_not_equal(piece.type, SBX_PIECE_NONE);
        if (piece.type == SBX_PIECE_TRUNCATED) {
            sink->dropped = piece.dropped;
            sink->truncated_events++;
            continue;
        }
        assert_int_equal(piece.size, chunk.size);
        assert_true(piece.offset >= sink->end);
        assert_true(piece.offset + piece.size <= sizeof(sink->bytes));
        if (output->as_text && output->dropped == 0)
            assert_true(cr_utf8_is_valid(chunk.data, chunk.size));
        memcpy(sink->bytes + piece.offset, chunk.data, piece.size);
        sink->delivered += piece.size;
        sink->end = piece.offset + piece.size;
        sink->chunks++;
        cr_buf_clear(&chunk);
    }
    cr_buf_done(&chunk);
}

static void fill_pattern(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
}

/* Feeds `size` bytes in steps; returns how often the cap was reported as passed. */
static size_t feed_all(struct sbx_output *output, struct sink *sink, const uint8_t *data,
                       size_t size, size_t step)
{
    size_t reports = 0;

    for (size_t at = 0; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;

        reports += sbx_output_feed(output, data + at, n);
        drain(output, sink);
    }
    sbx_output_end(output);
    drain(output, sink);
    assert_true(sbx_output_is_drained(output));
    return reports;
}

static void output_below_the_cap_is_exact_under_every_policy(void **state)
{
    static const size_t sizes[] = {0, 1, CAP - 1, CAP};
    static const size_t steps[] = {1, 7, 4096};
    uint8_t data[CAP];

    (void)state;
    fill_pattern(data, sizeof(data));
    for (size_t i = 0; i < 3 * CR_ARRAY_SIZE(sizes) * CR_ARRAY_SIZE(steps); i++) {
        size_t size = sizes[i % 4];
        struct sbx_output output;
        struct sink sink = {0};

        sbx_output_init(&output, (enum sbx_overflow)(i / 4 % 3), CAP, false);
        assert_int_equal(feed_all(&output, &sink, data, size, steps[i / 12]), 0);
        assert_int_equal(sink.delivered, size);
        assert_int_equal(output.total, size);
        assert_int_equal(sink.truncated_events, 0);
        assert_memory_equal(sink.bytes, data, size);
        sbx_output_done(&output);
    }
}

static void output_over_the_cap_is_killed_once_with_the_first_bytes_exact(void **state)
{
    static const size_t sizes[] = {CAP + 1, CAP + 88, 3 * CAP};
    uint8_t data[3 * CAP];

    (void)state;
    fill_pattern(data, sizeof(data));
    for (size_t i = 0; i < CR_ARRAY_SIZE(sizes); i++) {
        struct sbx_output output;
        struct sink sink = {0};

        sbx_output_init(&output, SBX_OVERFLOW_KILL, CAP, false);
        assert_int_equal(feed_all(&output, &sink, data, sizes[i], 333), 1);
        assert_int_equal(sink.delivered, CAP);
        assert_memory_equal(sink.bytes, data, CAP);
        assert_int_equal(output.total, sizes[i]);
        assert_int_equal(sink.dropped, sizes[i] - CAP);
        sbx_output_done(&output);
    }
}

static void output_over_the_cap_is_dropped_and_counted_under_truncate(void **state)
{
    uint8_t data[3 * CAP];
    struct sbx_output output;
    struct sink sink = {0};

    (void)state;
    fill_pattern(data, sizeof(data));
    sbx_output_init(&output, SBX_OVERFLOW_TRUNCATE, CAP, false);
    assert_int_equal(feed_all(&output, &sink, data, sizeof(data), 100), 0);
    assert_int_equal(sink.delivered, CAP);
    assert_memory_equal(sink.bytes, data, CAP);
    assert_int_equal(sink.dropped, 2 * CAP);
    assert_int_equal(sink.truncated_events, 2); /* at the first byte, and at the end */
    sbx_output_done(&output);
}

static void output_over_the_cap_keeps_both_ends_under_head_tail(void **state)
{
    static const size_t steps[] = {1, 13, 499, 500, 501, 1000, 3000};
    uint8_t data[3 * CAP];

    (void)state;
    fill_pattern(data, sizeof(data));
    for (size_t i = 0; i < CR_ARRAY_SIZE(steps); i++) {
        struct sbx_output output;
        struct sink sink = {0};

        sbx_output_init(&output, SBX_OVERFLOW_HEAD_TAIL, CAP, false);
        assert_int_equal(feed_all(&output, &sink, data, sizeof(data), steps[i]), 0);
        assert_int_equal(sink.delivered, CAP);
        assert_memory_equal(sink.bytes, data, CAP / 2);
        assert_memory_equal(sink.bytes + 5 * CAP / 2, data + 5 * CAP / 2, CAP / 2);
        assert_int_equal(sink.end, 3 * CAP);
        assert_int_equal(sink.dropped, 2 * CAP);
        sbx_output_done(&output);
    }
}

static void output_of_odd_and_tiny_caps_loses_nothing_of_its_share(void **state)
{
    uint8_t data[20];

    (void)state;
    fill_pattern(data, sizeof(data));
    for (uint64_t cap = 1; cap <= 5; cap++) {
        for (size_t policy = 0; policy < 3; policy++) {
            struct sbx_output output;
            struct sink sink = {0};

            sbx_output_init(&output, (enum sbx_overflow)policy, cap, false);
            (void)feed_all(&output, &sink, data, sizeof(data), 3);
            assert_int_equal(sink.delivered, cap);
            assert_int_equal(sink.dropped, sizeof(data) - cap);
            sbx_output_done(&output);
        }
    }
}

static void output_as_text_never_splits_a_character(void **state)
{
    static const char euro[] = "\xe2\x82\xac";
    uint8_t data[300];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)euro[i % 3];
    for (size_t step = 1; step < 8; step++) {
        for (size_t policy = 0; policy < 3; policy++) {
            struct sbx_output output;
            struct sink sink = {0};

            /* A head of 150 bytes ends on a border, one of 151 within a character. */
            sbx_output_init(&output, (enum sbx_overflow)policy, 300 + step % 2, true);
            (void)feed_all(&output, &sink, data, sizeof(data), step);
            assert_int_equal(sink.delivered, sizeof(data));
            assert_memory_equal(sink.bytes, data, sizeof(data));
            sbx_output_done(&output);
        }
    }
}

static void output_as_text_gives_up_waiting_at_the_end(void **state)
{
    struct sbx_output output;
    struct sink sink = {0};

    (void)state;
    sbx_output_init(&output, SBX_OVERFLOW_KILL, CAP, true);
    (void)sbx_output_feed(&output, "a\xe2\x82", 3);
    drain(&output, &sink);
    assert_int_equal(sink.delivered, 1);
    assert_true(sbx_output_wants_more(&output)); /* or the character could never complete */
    sbx_output_end(&output);
    output.dropped = 0;
    assert_true(sbx_output_has_piece(&output));
    sbx_output_done(&output);
}

static void output_cuts_chunks_at_their_maximum(void **state)
{
    static uint8_t data[3 * SBX_CHUNK_MAX];
    struct sbx_output output;
    struct cr_buf chunk;
    size_t sizes[3];

    (void)state;
    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    sbx_output_init(&output, SBX_OVERFLOW_KILL, sizeof(data), false);
    (void)sbx_output_feed(&output, data, 2 * SBX_CHUNK_MAX + 5);
    for (size_t i = 0; i < 3; i++) {
        sizes[i] = sbx_output_take(&output, &chunk).size;
        cr_buf_clear(&chunk);
    }
    assert_int_equal(sizes[0], SBX_CHUNK_MAX);
    assert_int_equal(sizes[1], SBX_CHUNK_MAX);
    assert_int_equal(sizes[2], 5);
    cr_buf_done(&chunk);
    sbx_output_done(&output);
}

static void output_wants_no_more_until_it_was_taken(void **state)
{
    struct sbx_output output;
    struct sink sink = {0};

    (void)state;
    sbx_output_init(&output, SBX_OVERFLOW_KILL, CAP, false);
    assert_true(sbx_output_wants_more(&output));
    (void)sbx_output_feed(&output, "hello", 5);
    assert_false(sbx_output_wants_more(&output));
    drain(&output, &sink);
    assert_true(sbx_output_wants_more(&output));
    sbx_output_end(&output);
    assert_false(sbx_output_wants_more(&output));
    sbx_output_done(&output);
}

static void output_that_nobody_takes_is_counted_and_dropped(void **state)
{
    struct sbx_output output;

    (void)state;
    sbx_output_init(&output, SBX_OVERFLOW_HEAD_TAIL, 4, false);
    (void)sbx_output_feed(&output, "abcdef", 6);
    sbx_output_discard(&output);
    assert_true(sbx_output_wants_more(&output));
    (void)sbx_output_feed(&output, "ghi", 3);
    sbx_output_end(&output);
    assert_false(sbx_output_has_piece(&output));
    assert_true(sbx_output_is_drained(&output));
    assert_int_equal(output.total, 9);
    assert_int_equal(output.dropped, 9);
    sbx_output_done(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_below_the_cap_is_exact_under_every_policy),
        cmocka_unit_test(output_over_the_cap_is_killed_once_with_the_first_bytes_exact),
        cmocka_unit_test(output_over_the_cap_is_dropped_and_counted_under_truncate),
        cmocka_unit_test(output_over_the_cap_keeps_both_ends_under_head_tail),
        cmocka_unit_test(output_of_odd_and_tiny_caps_loses_nothing_of_its_share),
        cmocka_unit_test(output_as_text_never_splits_a_character),
        cmocka_unit_test(output_as_text_gives_up_waiting_at_the_end),
        cmocka_unit_test(output_cuts_chunks_at_their_maximum),
        cmocka_unit_test(output_wants_no_more_until_it_was_taken),
        cmocka_unit_test(output_that_nobody_takes_is_counted_and_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
