/* SPDX-License-Identifier: Apache-2.0 */

/* What is read of the bytes of a client, wherever they are cut. */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "rpc/h2_frames.h"
#include "tests/harness/test.h"
#include "tests/unit/rpc/h2_peer.h"

#include <stdint.h>

#define CASE_FRAMES 6

#define ONE(type, flags, stream, size)                                                             \
    {                                                                                              \
        type, flags, stream, size, 1, 0                                                            \
    }
#define MANY(type, flags, stream, size, count)                                                     \
    {                                                                                              \
        type, flags, stream, size, count, 0                                                        \
    }
/* Each on a stream of its own. */
#define EACH(type, flags, stream, size, count, step)                                               \
    {                                                                                              \
        type, flags, stream, size, count, step                                                     \
    }

static const struct {
    const char *name;
    int expected;
    struct frames frames[CASE_FRAMES]; /* after preface and SETTINGS; all zero: no more */
} cases[] = {
    {"a call", RPC_H2_OK, {ONE(HEADERS, END_HEADERS, 1, 100), ONE(DATA, END_STREAM, 1, 5)}},
    {"a large block in four frames",
     RPC_H2_OK,
     {ONE(HEADERS, NONE, 1, 8192), MANY(CONTINUATION, NONE, 1, 8192, 2),
      ONE(CONTINUATION, END_HEADERS, 1, 8192)}},
    {"large DATA frames",
     RPC_H2_OK,
     {ONE(HEADERS, END_HEADERS, 1, 1), MANY(DATA, NONE, 1, 100000, 3)}},
    {"as many streams as are borne", RPC_H2_OK, {EACH(HEADERS, END_HEADERS, 1, 1, 74, 2)}},
    {"one stream more", RPC_H2_TOO_MANY_STREAMS, {EACH(HEADERS, END_HEADERS, 1, 1, 75, 2)}},
    {"all streams given up at once",
     RPC_H2_OK,
     {EACH(HEADERS, END_HEADERS, 1, 1, 74, 2), EACH(RESET, NONE, 1, 4, 74, 2)}},
    {"empty CONTINUATION frames",
     RPC_H2_HEADERS_TOO_LARGE,
     {ONE(HEADERS, NONE, 1, 1), MANY(CONTINUATION, NONE, 1, 0, 4)}},
    {"a block of more than 32 KiB",
     RPC_H2_HEADERS_TOO_LARGE,
     {ONE(HEADERS, NONE, 1, 16384), ONE(CONTINUATION, NONE, 1, 16384),
      ONE(CONTINUATION, NONE, 1, 1)}},
    {"HEADERS frame of more than 16 KiB", RPC_H2_BAD_LENGTH, {ONE(HEADERS, NONE, 1, 16385)}},
    {"DATA inside a header block",
     RPC_H2_BAD_CONTINUATION,
     {ONE(HEADERS, NONE, 1, 1), ONE(DATA, NONE, 1, 1)}},
    {"CONTINUATION of another stream",
     RPC_H2_BAD_CONTINUATION,
     {ONE(HEADERS, NONE, 1, 1), ONE(CONTINUATION, END_HEADERS, 3, 1)}},
    {"CONTINUATION without HEADERS", RPC_H2_BAD_CONTINUATION, {ONE(CONTINUATION, NONE, 1, 1)}},
    {"stream of even number", RPC_H2_BAD_STREAM, {ONE(HEADERS, END_HEADERS, 2, 1)}},
    {"HEADERS on stream 0", RPC_H2_BAD_STREAM, {ONE(HEADERS, END_HEADERS, 0, 1)}},
    {"DATA on an idle stream", RPC_H2_BAD_STREAM, {ONE(DATA, NONE, 1, 1)}},
    {"RST_STREAM of a call that was given up unsent", RPC_H2_OK, {ONE(RESET, NONE, 1, 4)}},
    {"RST_STREAM of an idle stream of ours", RPC_H2_BAD_STREAM, {ONE(RESET, NONE, 2, 4)}},
    {"resets of idle streams", FLOOD(RESET), {EACH(RESET, NONE, 1, 4, 321, 2)}},
    {"PING on a stream", RPC_H2_BAD_STREAM, {ONE(PING, NONE, 1, 8)}},
    {"PUSH_PROMISE from a client", RPC_H2_BAD_STREAM, {ONE(PUSH, NONE, 1, 4)}},
    {"PING of 7 bytes", RPC_H2_BAD_LENGTH, {ONE(PING, NONE, 0, 7)}},
    {"SETTINGS of 5 bytes", RPC_H2_BAD_LENGTH, {ONE(SETTINGS, NONE, 0, 5)}},
    {"WINDOW_UPDATE of 3 bytes", RPC_H2_BAD_LENGTH, {ONE(WINDOW, NONE, 0, 3)}},
    {"RST_STREAM of 5 bytes", RPC_H2_BAD_LENGTH, {ONE(RESET, NONE, 1, 5)}},
    {"GOAWAY of 7 bytes", RPC_H2_BAD_LENGTH, {ONE(GOAWAY, NONE, 0, 7)}},
    {"settings flood", FLOOD(SETTINGS), {MANY(SETTINGS, NONE, 0, 6, 21)}},
    {"unasked settings acknowledgements", FLOOD(SETTINGS), {MANY(SETTINGS, ACK, 0, 0, 21)}},
    {"ping flood", FLOOD(PING), {MANY(PING, NONE, 0, 8, 101)}},
    {"unasked ping acknowledgements", FLOOD(PING), {MANY(PING, ACK, 0, 8, 101)}},
    {"priority flood", FLOOD(PRIORITY), {MANY(PRIORITY, NONE, 1, 5, 201)}},
    {"window update flood", FLOOD(WINDOW), {MANY(WINDOW, NONE, 0, 4, 4001)}},
    {"empty data flood",
     FLOOD(EMPTY_DATA),
     {ONE(HEADERS, END_HEADERS, 1, 1), MANY(DATA, NONE, 1, 0, 201)}},
    {"small data flood",
     FLOOD(SMALL_DATA),
     {ONE(HEADERS, END_HEADERS, 1, 1), MANY(DATA, NONE, 1, 1, 10001)}},
    {"unknown frames", FLOOD(OTHER), {MANY(77, NONE, 0, 100, 21)}},
    {"unknown frame of more than 16 KiB", RPC_H2_BAD_LENGTH, {ONE(77, NONE, 0, 16385)}},
    {"GOAWAY flood", FLOOD(OTHER), {MANY(GOAWAY, NONE, 0, 8, 21)}},
    {"HEADERS again and again on one stream", FLOOD(OTHER), {MANY(HEADERS, END_HEADERS, 1, 1, 22)}},
    {"some of everything",
     RPC_H2_OK,
     {MANY(SETTINGS, NONE, 0, 6, 5), MANY(PING, NONE, 0, 8, 50), MANY(WINDOW, NONE, 0, 4, 1000),
      MANY(GOAWAY, NONE, 0, 20, 2), ONE(HEADERS, END_HEADERS, 1, 1), MANY(DATA, NONE, 1, 0, 50)}},
};

static void build(size_t index, struct cr_buf *buf)
{
    frames_begin(buf);
    for (size_t i = 0; i < CASE_FRAMES; i++) {
        const struct frames *frames = &cases[index].frames[i];

        if (frames->type || frames->flags || frames->stream || frames->size)
            frames_add(buf, frames);
    }
}

/* Feeds in pieces of at most `piece` bytes, up to the first fault. */
static enum rpc_h2_fault feed(struct rpc_h2 *h2, const struct cr_buf *buf, size_t piece)
{
    enum rpc_h2_fault fault = RPC_H2_OK;

    for (size_t at = 0; at < buf->size && fault == RPC_H2_OK; at += piece) {
        size_t size = buf->size - at < piece ? buf->size - at : piece;

        fault = h2_feed(h2, buf->data + at, size, 1);
    }
    return fault;
}

static void h2_frames_tell_abuse_from_use_at_every_cut(void **state)
{
    static const size_t PIECES[] = {1, 2, 7, 9, 10, 1000, SIZE_MAX / 2};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};

        build(i, &buf);
        for (size_t k = 0; k < CR_ARRAY_SIZE(PIECES); k++) {
            struct rpc_h2_budget peer = {0};
            CR_AUTO_FREE struct rpc_h2 *h2 = h2_new(&peer);
            enum rpc_h2_fault fault = feed(h2, &buf, PIECES[k]);

            if ((int)fault != cases[i].expected)
                fail_msg("%s: %s", cases[i].name, rpc_h2_fault_name(fault));
        }
    }
}

static const struct {
    const char *bytes;
    size_t size;
    int expected;
} openings[] = {
    {"GET / HTTP/1.1\r\n", 16, RPC_H2_NOT_HTTP2},
    {"\x16\x03\x01\x02", 4, RPC_H2_NOT_HTTP2},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", 24, RPC_H2_NOT_HTTP2},
    {"PRI * HT", 8, RPC_H2_OK},
    {PREFACE "\0\0\0\4\0\0\0\0\0", 33, RPC_H2_OK},
    {PREFACE "\0\0\0\4\1\0\0\0\0", 33, RPC_H2_SETTINGS_FIRST},
    {PREFACE "\0\0\1\1\5\0\0\0\1x", 34, RPC_H2_SETTINGS_FIRST},
    {PREFACE "\0\0\7\4\0\0\0\0\0", 33, RPC_H2_BAD_LENGTH},
};

static void h2_frames_want_the_preface_and_settings_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(openings); i++) {
        struct rpc_h2_budget peer = {0};
        CR_AUTO_FREE struct rpc_h2 *h2 = h2_new(&peer);

        assert_int_equal(h2_feed(h2, openings[i].bytes, openings[i].size, 1), openings[i].expected);
        assert_int_equal(rpc_h2_is_ready(h2), openings[i].size >= 33 && openings[i].expected == 0);
    }
}

static const struct {
    const char *bytes;
    size_t size;
    int64_t allowed_s; /* -1: nothing is owed */
} partial[] = {
    {"", 0, -1},
    {"\0", 1, 3},
    {"\0\0\10\6\0\0\0\0", 8, 3},             /* a frame header, but for one byte */
    {"\0\0\10\6\0\0\0\0\0", 9, 3},           /* PING without its payload */
    {"\0\0\10\6\0\0\0\0\0xxxxxxxx", 17, -1}, /* PING */
    {"\0\0\1\1\0\0\0\0\1x", 10, 3},          /* header block that is not finished */
    {"\0\0\1\1\4\0\0\0\1x", 10, -1},
    {"\0\0\1\1\4\0\0\0\1x\0\100\0\0\0\0\0\0\1x", 20, 60 + 16384 / 300}, /* DATA */
};

static void h2_frames_tell_until_when_the_client_must_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(partial); i++) {
        struct rpc_h2_budget peer = {0};
        CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);
        int64_t expected_ns = 100 + partial[i].allowed_s * CR_NS_PER_S;

        for (size_t at = 0; at < partial[i].size; at++)
            assert_int_equal(h2_feed(h2, partial[i].bytes + at, 1, 100), RPC_H2_OK);
        assert_int_equal(rpc_h2_deadline_ns(h2),
                         partial[i].allowed_s < 0 ? INT64_MAX : expected_ns);
    }
}

/* One byte now and then must not push the end away. */
static void h2_frames_count_from_the_first_byte(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    (void)state;
    for (int64_t i = 0; i < 9; i++)
        assert_int_equal(h2_feed(h2, &"\0\0\11\1\0\0\0\0\1"[i], 1, i * CR_NS_PER_S), RPC_H2_OK);
    assert_int_equal(rpc_h2_deadline_ns(h2), 3 * CR_NS_PER_S);

    rpc_h2_restart_clock(h2, 9 * CR_NS_PER_S);
    assert_int_equal(rpc_h2_deadline_ns(h2), 12 * CR_NS_PER_S);
}

static enum rpc_h2_fault fault_of_small_block(uint32_t first_size, uint32_t more_frames)
{
    struct cr_edge edge = *h2_edge();
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);
    enum rpc_h2_fault fault;

    edge.max_header_bytes = 1024;
    edge.max_header_frames = 2;
    h2->edge = &edge;
    fault = h2_from_client(h2, &(struct frames){HEADERS, NONE, 1, first_size, 0, 0}, 1);
    if (fault != RPC_H2_OK || more_frames == 0)
        return fault;
    return h2_from_client(h2, &(struct frames){CONTINUATION, NONE, 1, 1, more_frames, 0}, 1);
}

/* Also when that is less than one frame may have. */
static void h2_frames_hold_header_blocks_to_the_settings(void **state)
{
    (void)state;
    assert_int_equal(fault_of_small_block(1024, 0), RPC_H2_OK);
    assert_int_equal(fault_of_small_block(1025, 0), RPC_H2_HEADERS_TOO_LARGE);
    assert_int_equal(fault_of_small_block(1, 1), RPC_H2_OK);
    assert_int_equal(fault_of_small_block(1, 2), RPC_H2_HEADERS_TOO_LARGE);
}

static void h2_frames_name_every_fault(void **state)
{
    (void)state;
    for (int fault = 0; fault < RPC_H2_FLOOD + CR_EDGE_KIND_COUNT; fault++) {
        assert_non_null(rpc_h2_fault_name((enum rpc_h2_fault)fault));
        assert_string_not_equal(rpc_h2_fault_name((enum rpc_h2_fault)fault), "unknown");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2_frames_tell_abuse_from_use_at_every_cut),
        cmocka_unit_test(h2_frames_want_the_preface_and_settings_first),
        cmocka_unit_test(h2_frames_tell_until_when_the_client_must_go_on),
        cmocka_unit_test(h2_frames_count_from_the_first_byte),
        cmocka_unit_test(h2_frames_hold_header_blocks_to_the_settings),
        cmocka_unit_test(h2_frames_name_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
