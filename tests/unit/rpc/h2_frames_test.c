/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "rpc/h2_frames.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define LIMIT 10U

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RESET,
    SETTINGS,
    PUSH,
    PING,
    GOAWAY,
    WINDOW,
    CONTINUATION
};

enum {
    NONE = 0,
    ACK = 1,
    END_STREAM = 1,
    END_HEADERS = 4
};

/* `count` frames in a row; with `step` each on a stream of its own. */
struct frames {
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
    uint32_t size;
    uint32_t count;
    uint32_t step;
};

static void add_frame(struct cr_buf *buf, const struct frames *frames, uint32_t index)
{
    uint32_t stream = frames->stream + index * frames->step;
    const uint8_t header[9] = {(uint8_t)(frames->size >> 16),
                               (uint8_t)(frames->size >> 8),
                               (uint8_t)frames->size,
                               frames->type,
                               frames->flags,
                               (uint8_t)(stream >> 24),
                               (uint8_t)(stream >> 16),
                               (uint8_t)(stream >> 8),
                               (uint8_t)stream};

    assert_int_equal(cr_buf_add(buf, header, sizeof(header)), 0);
    for (uint32_t i = 0; i < frames->size; i++)
        assert_int_equal(cr_buf_add_char(buf, 'x'), 0);
}

static void add_frames(struct cr_buf *buf, const struct frames *frames)
{
    for (uint32_t i = 0; i < (frames->count ? frames->count : 1); i++)
        add_frame(buf, frames, i);
}

static void begin(struct cr_buf *buf)
{
    const struct frames settings = {.type = SETTINGS};

    cr_buf_init(buf, (size_t)16 << 20);
    assert_int_equal(cr_buf_add_str(buf, PREFACE), 0);
    add_frames(buf, &settings);
}

#define FLOOD(kind) (RPC_H2_FLOOD + CR_EDGE_##kind)
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
    begin(buf);
    for (size_t i = 0; i < CASE_FRAMES; i++) {
        const struct frames *frames = &cases[index].frames[i];

        if (frames->type || frames->flags || frames->stream || frames->size)
            add_frames(buf, frames);
    }
}

/* In as many turns as it takes. */
static enum rpc_h2_fault feed_all(struct rpc_h2 *h2, const void *data, size_t size, int64_t now_ns)
{
    const uint8_t *at = data;
    enum rpc_h2_fault fault = RPC_H2_OK;

    while (size > 0 && fault == RPC_H2_OK) {
        size_t used = 0;

        fault = rpc_h2_feed_client(h2, at, size, 16, now_ns, &used);
        assert_true(fault != RPC_H2_OK || used > 0);
        at += used;
        size -= used;
    }
    return fault;
}

/* Feeds in pieces of at most `piece` bytes, up to the first fault. */
static enum rpc_h2_fault feed(struct rpc_h2 *h2, const struct cr_buf *buf, size_t piece)
{
    enum rpc_h2_fault fault = RPC_H2_OK;

    for (size_t at = 0; at < buf->size && fault == RPC_H2_OK; at += piece) {
        size_t size = buf->size - at < piece ? buf->size - at : piece;

        fault = feed_all(h2, buf->data + at, size, 1);
    }
    return fault;
}

/* What is allowed, but for fewer streams. */
static const struct cr_edge *few_streams(void)
{
    static struct cr_edge edge;

    cr_edge_defaults(&edge);
    edge.max_streams = LIMIT;
    return &edge;
}

static struct rpc_h2 *new_h2(struct rpc_h2_budget *peer)
{
    struct rpc_h2 *h2 = malloc(sizeof(*h2));

    assert_non_null(h2);
    rpc_h2_init(h2, few_streams(), peer);
    return h2;
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
            CR_AUTO_FREE struct rpc_h2 *h2 = new_h2(&peer);
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
        CR_AUTO_FREE struct rpc_h2 *h2 = new_h2(&peer);

        assert_int_equal(feed_all(h2, openings[i].bytes, openings[i].size, 1),
                         openings[i].expected);
        assert_int_equal(rpc_h2_is_ready(h2), openings[i].size >= 33 && openings[i].expected == 0);
    }
}

static void from_server(struct rpc_h2 *h2, const struct frames *frames)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, (size_t)1 << 20);
    add_frames(&buf, frames);
    /* In two cuts, so that this direction is put together again, too. */
    rpc_h2_feed_server(h2, buf.data, 5);
    rpc_h2_feed_server(h2, buf.data + 5, buf.size - 5);
}

static enum rpc_h2_fault from_client(struct rpc_h2 *h2, const struct frames *frames, int64_t now_ns)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, (size_t)1 << 20);
    add_frames(&buf, frames);
    return feed_all(h2, buf.data, buf.size, now_ns);
}

static struct rpc_h2 *new_open_h2(struct rpc_h2_budget *peer)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    struct rpc_h2 *h2 = new_h2(peer);

    begin(&buf);
    assert_int_equal(feed_all(h2, buf.data, buf.size, 1), RPC_H2_OK);
    return h2;
}

/* Opens, has it answered when asked to, and resets, one stream after the other. */
static uint32_t resets_until_fault(bool is_answered, uint32_t count)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t stream = 2 * i + 1;

        if (from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1))
            return i;
        if (is_answered)
            from_server(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0});
        if (from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1))
            return i;
    }
    return count;
}

static void h2_frames_count_only_resets_before_our_answer(void **state)
{
    (void)state;
    assert_int_equal(resets_until_fault(false, 10000), 320);
    assert_int_equal(resets_until_fault(true, 10000), 10000);
}

/* Only those that core has not begun to answer hold it up. */
static void h2_frames_stop_after_so_many_costly_frames(void **state)
{
    const struct frames open_all = {HEADERS, END_HEADERS, 1, 1, 60, 2};
    const struct frames reset_all = {RESET, NONE, 1, 4, 60, 2};
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);
    CR_AUTO_BUF struct cr_buf buf = {0};
    size_t used = 0;

    (void)state;
    cr_buf_init(&buf, 65536);
    add_frames(&buf, &reset_all);
    assert_int_equal(from_client(h2, &open_all, 1), RPC_H2_OK);
    for (uint32_t stream = 1; stream < 2 * 20; stream += 2)
        from_server(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0});

    assert_int_equal(rpc_h2_feed_client(h2, buf.data, buf.size, 16, 1, &used), RPC_H2_OK);
    assert_int_equal(h2->costly, 16);
    /* The payload of the last one is still to come. */
    assert_int_equal(used, (20 + 16) * 13 - 4);
    assert_int_equal(rpc_h2_feed_client(h2, buf.data + used, buf.size - used, 1, 1, &used),
                     RPC_H2_OK);
    assert_int_equal(h2->costly, 1);
    assert_int_equal(used, 13);
}

static void h2_frames_bear_a_reset_that_crosses_our_end(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    (void)state;
    for (uint32_t stream = 1; stream < 2000; stream += 2) {
        assert_int_equal(
            from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1), RPC_H2_OK);
        from_server(h2, &(struct frames){HEADERS, END_HEADERS | END_STREAM, stream, 1, 0, 0});
        assert_int_equal(from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1),
                         RPC_H2_OK);
    }
    assert_int_equal(h2->stream_count, 0);
}

static void h2_frames_forget_streams_that_the_server_ended(void **state)
{
    static const struct frames ENDS[] = {{HEADERS, END_HEADERS | END_STREAM, 0, 1, 0, 0},
                                         {DATA, END_STREAM, 0, 1, 0, 0},
                                         {RESET, NONE, 0, 4, 0, 0}};
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        struct frames end = ENDS[i % CR_ARRAY_SIZE(ENDS)];

        end.stream = 2 * i + 1;
        assert_int_equal(
            from_client(h2, &(struct frames){HEADERS, END_HEADERS, end.stream, 1, 0, 0}, 1),
            RPC_H2_OK);
        from_server(h2, &end);
    }
    assert_int_equal(h2->stream_count, 0);
}

/* What the server asked for is not held against the client. */
static void h2_frames_give_credit_for_what_we_sent(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    (void)state;
    from_server(h2, &(struct frames){PING, NONE, 0, 8, 1000, 0});
    assert_int_equal(from_client(h2, &(struct frames){PING, ACK, 0, 8, 1000, 0}, 1), RPC_H2_OK);
    from_server(h2, &(struct frames){SETTINGS, NONE, 0, 0, 1000, 0});
    assert_int_equal(from_client(h2, &(struct frames){SETTINGS, ACK, 0, 0, 1000, 0}, 1), RPC_H2_OK);
    from_server(h2, &(struct frames){DATA, NONE, 1, 1, 10000, 0});
    assert_int_equal(from_client(h2, &(struct frames){WINDOW, NONE, 0, 4, 20000, 0}, 1), RPC_H2_OK);
    /* grpc-go probes the bandwidth as it reads: a stream of small messages brings many PINGs. */
    assert_int_equal(from_client(h2, &(struct frames){PING, NONE, 0, 8, 10000, 0}, 1), RPC_H2_OK);
    assert_int_equal(from_client(h2, &(struct frames){PING, NONE, 0, 8, 101, 0}, 1), FLOOD(PING));
}

static void h2_frames_refill_with_time(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    (void)state;
    assert_int_equal(from_client(h2, &(struct frames){PING, NONE, 0, 8, 100, 0}, 1), RPC_H2_OK);
    /* 20 a second. */
    assert_int_equal(from_client(h2, &(struct frames){PING, NONE, 0, 8, 20, 0}, 1 + CR_NS_PER_S),
                     RPC_H2_OK);
    assert_int_equal(from_client(h2, &(struct frames){PING, NONE, 0, 8, 1, 0}, 1 + CR_NS_PER_S),
                     FLOOD(PING));
}

/* A peer that connects anew has new buckets per connection, but not per peer. */
static void h2_frames_hold_a_peer_over_all_its_connections(void **state)
{
    struct rpc_h2_budget peer = {0};
    enum rpc_h2_fault fault = RPC_H2_OK;
    uint32_t connections = 0;

    (void)state;
    for (; fault == RPC_H2_OK && connections < 100; connections++) {
        CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

        for (uint32_t stream = 1; stream < 200 && fault == RPC_H2_OK; stream += 2) {
            fault = from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1);
            if (fault == RPC_H2_OK)
                fault = from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1);
        }
    }
    assert_int_equal(fault, FLOOD(RESET));
    assert_int_equal(connections, 7); /* 640 resets, 100 each */
    assert_false(rpc_h2_budget_is_full(&peer, 1));
    assert_true(rpc_h2_budget_is_full(&peer, 1 + 4 * CR_NS_PER_S));
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
        CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);
        int64_t expected_ns = 100 + partial[i].allowed_s * CR_NS_PER_S;

        for (size_t at = 0; at < partial[i].size; at++)
            assert_int_equal(feed_all(h2, partial[i].bytes + at, 1, 100), RPC_H2_OK);
        assert_int_equal(rpc_h2_deadline_ns(h2),
                         partial[i].allowed_s < 0 ? INT64_MAX : expected_ns);
    }
}

/* One byte now and then must not push the end away. */
static void h2_frames_count_from_the_first_byte(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);

    (void)state;
    for (int64_t i = 0; i < 9; i++)
        assert_int_equal(feed_all(h2, &"\0\0\11\1\0\0\0\0\1"[i], 1, i * CR_NS_PER_S), RPC_H2_OK);
    assert_int_equal(rpc_h2_deadline_ns(h2), 3 * CR_NS_PER_S);

    rpc_h2_restart_clock(h2, 9 * CR_NS_PER_S);
    assert_int_equal(rpc_h2_deadline_ns(h2), 12 * CR_NS_PER_S);
}

static enum rpc_h2_fault fault_of_small_block(uint32_t first_size, uint32_t more_frames)
{
    struct cr_edge edge = *few_streams();
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = new_open_h2(&peer);
    enum rpc_h2_fault fault;

    edge.max_header_bytes = 1024;
    edge.max_header_frames = 2;
    h2->edge = &edge;
    fault = from_client(h2, &(struct frames){HEADERS, NONE, 1, first_size, 0, 0}, 1);
    if (fault != RPC_H2_OK || more_frames == 0)
        return fault;
    return from_client(h2, &(struct frames){CONTINUATION, NONE, 1, 1, more_frames, 0}, 1);
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
        cmocka_unit_test(h2_frames_count_only_resets_before_our_answer),
        cmocka_unit_test(h2_frames_stop_after_so_many_costly_frames),
        cmocka_unit_test(h2_frames_bear_a_reset_that_crosses_our_end),
        cmocka_unit_test(h2_frames_forget_streams_that_the_server_ended),
        cmocka_unit_test(h2_frames_give_credit_for_what_we_sent),
        cmocka_unit_test(h2_frames_refill_with_time),
        cmocka_unit_test(h2_frames_hold_a_peer_over_all_its_connections),
        cmocka_unit_test(h2_frames_tell_until_when_the_client_must_go_on),
        cmocka_unit_test(h2_frames_count_from_the_first_byte),
        cmocka_unit_test(h2_frames_hold_header_blocks_to_the_settings),
        cmocka_unit_test(h2_frames_name_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
