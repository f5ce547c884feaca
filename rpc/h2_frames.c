/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2_frames.h"

#include "common/clock.h"

#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_SIZE (sizeof(PREFACE) - 1)
#define FRAME_HEADER_SIZE 9U

/* Frame size that everybody may send unasked (RFC 9113, 4.2). Core announces more for DATA. */
#define FRAME_MAX 16384U
#define SMALL_DATA 64U
#define CREDIT_MAX 100000U

/* A slow line is no attack: a whole DATA frame of the usual 16 KiB at 300 bytes a second. */
#define DATA_BYTES_PER_S 300

enum frame_type {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_PRIORITY = 2,
    FRAME_RST_STREAM = 3,
    FRAME_SETTINGS = 4,
    FRAME_PUSH_PROMISE = 5,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_WINDOW_UPDATE = 8,
    FRAME_CONTINUATION = 9,
    FRAME_KNOWN_COUNT,
};

enum frame_flag {
    FLAG_ACK = 0x1,
    FLAG_END_STREAM = 0x1,
    FLAG_END_HEADERS = 0x4,
};

struct frame {
    uint32_t size;
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
};

static const char *const flood_names[] = {
    [CR_EDGE_SETTINGS] = "settings flood",       [CR_EDGE_PING] = "ping flood",
    [CR_EDGE_PRIORITY] = "priority flood",       [CR_EDGE_RESET] = "rapid reset",
    [CR_EDGE_LATE_RESET] = "reset flood",        [CR_EDGE_WINDOW] = "window update flood",
    [CR_EDGE_EMPTY_DATA] = "empty data flood",   [CR_EDGE_SMALL_DATA] = "small data flood",
    [CR_EDGE_OTHER] = "flood of unusual frames",
};

_Static_assert(sizeof(flood_names) / sizeof(flood_names[0]) == CR_EDGE_KIND_COUNT,
               "one row per kind");

/* What a frame of each type must look like, whatever it says (RFC 9113, 6). */
static const struct {
    enum {
        STREAM_ANY,
        STREAM_ZERO,
        STREAM_NOT_ZERO
    } stream;

    uint32_t size_min;
    uint32_t size_max;
    uint32_t size_step; /* the size is a multiple of it */
} shapes[] = {
    [FRAME_DATA] = {STREAM_NOT_ZERO, 0, UINT32_MAX, 1},
    [FRAME_HEADERS] = {STREAM_NOT_ZERO, 0, FRAME_MAX, 1},
    [FRAME_PRIORITY] = {STREAM_NOT_ZERO, 5, 5, 1},
    [FRAME_RST_STREAM] = {STREAM_NOT_ZERO, 4, 4, 1},
    [FRAME_SETTINGS] = {STREAM_ZERO, 0, FRAME_MAX, 6},
    [FRAME_PUSH_PROMISE] = {STREAM_NOT_ZERO, 0, FRAME_MAX, 1},
    [FRAME_PING] = {STREAM_ZERO, 8, 8, 1},
    [FRAME_GOAWAY] = {STREAM_ZERO, 8, FRAME_MAX, 1},
    [FRAME_WINDOW_UPDATE] = {STREAM_ANY, 4, 4, 1},
    [FRAME_CONTINUATION] = {STREAM_NOT_ZERO, 0, FRAME_MAX, 1},
};

_Static_assert(sizeof(shapes) / sizeof(shapes[0]) == FRAME_KNOWN_COUNT, "one row per frame type");

void rpc_h2_init(struct rpc_h2 *h2, const struct cr_edge *edge, struct rpc_h2_budget *peer)
{
    memset(h2, 0, offsetof(struct rpc_h2, streams));
    h2->edge = edge;
    h2->peer = peer;
}

static enum rpc_h2_fault take(struct rpc_h2 *h2, enum cr_edge_kind kind, int64_t now_ns)
{
    if (rpc_bucket_take(&h2->budget.buckets[kind], &h2->edge->frames[kind].connection, now_ns) &&
        rpc_bucket_take(&h2->peer->buckets[kind], &h2->edge->frames[kind].peer, now_ns))
        return RPC_H2_OK;
    return (enum rpc_h2_fault)(RPC_H2_FLOOD + kind);
}

static void add_credit(uint32_t *credit, uint32_t count)
{
    if (*credit < CREDIT_MAX)
        *credit += count;
}

/* What we asked for ourselves costs nothing. */
static enum rpc_h2_fault take_credit(struct rpc_h2 *h2, uint32_t *credit, enum cr_edge_kind kind,
                                     int64_t now_ns)
{
    if (*credit == 0)
        return take(h2, kind, now_ns);
    (*credit)--;
    return RPC_H2_OK;
}

/* ---- open streams ---- */

/* Index of the first open stream whose id is not below `id`. */
static uint32_t lower_bound(const struct rpc_h2 *h2, uint32_t id)
{
    uint32_t low = 0;
    uint32_t high = h2->stream_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (h2->streams[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct rpc_h2_stream *find_stream(struct rpc_h2 *h2, uint32_t id)
{
    uint32_t index = lower_bound(h2, id);

    if (index == h2->stream_count || h2->streams[index].id != id)
        return NULL;
    return &h2->streams[index];
}

static void close_stream(struct rpc_h2 *h2, struct rpc_h2_stream *stream)
{
    size_t after = (size_t)(&h2->streams[h2->stream_count] - (stream + 1));

    memmove(stream, stream + 1, after * sizeof(*stream));
    h2->stream_count--;
}

/* ---- frames from the client ---- */

static enum rpc_h2_fault check_shape(const struct frame *frame)
{
    if (frame->type >= FRAME_KNOWN_COUNT)
        return frame->size > FRAME_MAX ? RPC_H2_BAD_LENGTH : RPC_H2_OK;
    if (frame->size < shapes[frame->type].size_min || frame->size > shapes[frame->type].size_max ||
        frame->size % shapes[frame->type].size_step != 0)
        return RPC_H2_BAD_LENGTH;
    if ((shapes[frame->type].stream == STREAM_ZERO && frame->stream != 0) ||
        (shapes[frame->type].stream == STREAM_NOT_ZERO && frame->stream == 0))
        return RPC_H2_BAD_STREAM;
    return RPC_H2_OK;
}

/* Adds a frame to the open header block. */
static enum rpc_h2_fault add_to_block(struct rpc_h2 *h2, const struct frame *frame)
{
    h2->block_size += frame->size;
    h2->block_frames++;
    h2->block_stream = frame->flags & FLAG_END_HEADERS ? 0 : frame->stream;
    if (h2->block_size > h2->edge->max_header_bytes ||
        h2->block_frames > h2->edge->max_header_frames)
        return RPC_H2_HEADERS_TOO_LARGE;
    return RPC_H2_OK;
}

static enum rpc_h2_fault on_headers(struct rpc_h2 *h2, const struct frame *frame, int64_t now_ns)
{
    enum rpc_h2_fault fault = RPC_H2_OK;

    if (frame->stream % 2 == 0)
        return RPC_H2_BAD_STREAM;
    if (frame->stream > h2->last_stream) {
        if (h2->stream_count >= h2->edge->max_streams + RPC_H2_STREAM_SLACK)
            return RPC_H2_TOO_MANY_STREAMS;
        h2->last_stream = frame->stream;
        h2->streams[h2->stream_count++] = (struct rpc_h2_stream){.id = frame->stream};
    } else {
        /* Trailers, which gRPC clients do not send, or a stream that is closed. */
        fault = take(h2, CR_EDGE_OTHER, now_ns);
    }
    h2->block_size = 0;
    h2->block_frames = 0;
    return fault != RPC_H2_OK ? fault : add_to_block(h2, frame);
}

static enum rpc_h2_fault on_continuation(struct rpc_h2 *h2, const struct frame *frame)
{
    return h2->block_stream == 0 ? RPC_H2_BAD_CONTINUATION : add_to_block(h2, frame);
}

static enum rpc_h2_fault on_data(struct rpc_h2 *h2, const struct frame *frame, int64_t now_ns)
{
    if (frame->stream > h2->last_stream)
        return RPC_H2_BAD_STREAM;
    if (frame->flags & FLAG_END_STREAM)
        return RPC_H2_OK;
    if (frame->size == 0)
        return take(h2, CR_EDGE_EMPTY_DATA, now_ns);
    if (frame->size < SMALL_DATA)
        return take(h2, CR_EDGE_SMALL_DATA, now_ns);
    return RPC_H2_OK;
}

static enum rpc_h2_fault on_reset(struct rpc_h2 *h2, const struct frame *frame, int64_t now_ns)
{
    struct rpc_h2_stream *stream = find_stream(h2, frame->stream);
    /* gRPC core as a client resets a call, too, that it gives up before its HEADERS have left. */
    bool is_idle = frame->stream > h2->last_stream;
    bool is_early = is_idle || (stream && !stream->is_answered);

    if (is_idle && frame->stream % 2 == 0)
        return RPC_H2_BAD_STREAM;
    if (stream)
        close_stream(h2, stream);
    h2->costly += is_early;
    return take(h2, is_early ? CR_EDGE_RESET : CR_EDGE_LATE_RESET, now_ns);
}

static enum rpc_h2_fault on_settings(struct rpc_h2 *h2, const struct frame *frame, int64_t now_ns)
{
    if (frame->flags & FLAG_ACK)
        return take_credit(h2, &h2->settings_ack_credit, CR_EDGE_SETTINGS, now_ns);
    return take(h2, CR_EDGE_SETTINGS, now_ns);
}

static enum rpc_h2_fault on_ping(struct rpc_h2 *h2, const struct frame *frame, int64_t now_ns)
{
    if (frame->flags & FLAG_ACK)
        return take_credit(h2, &h2->ping_ack_credit, CR_EDGE_PING, now_ns);
    return take_credit(h2, &h2->ping_credit, CR_EDGE_PING, now_ns);
}

static enum rpc_h2_fault on_client_frame(struct rpc_h2 *h2, const struct frame *frame,
                                         int64_t now_ns)
{
    enum rpc_h2_fault fault = check_shape(frame);

    if (fault != RPC_H2_OK)
        return fault;
    if (!h2->has_settings) {
        h2->has_settings = frame->type == FRAME_SETTINGS && !(frame->flags & FLAG_ACK);
        return h2->has_settings ? RPC_H2_OK : RPC_H2_SETTINGS_FIRST;
    }
    if (h2->block_stream != 0 &&
        (frame->type != FRAME_CONTINUATION || frame->stream != h2->block_stream))
        return RPC_H2_BAD_CONTINUATION;
    switch (frame->type) {
    case FRAME_DATA:
        return on_data(h2, frame, now_ns);
    case FRAME_HEADERS:
        return on_headers(h2, frame, now_ns);
    case FRAME_CONTINUATION:
        return on_continuation(h2, frame);
    case FRAME_RST_STREAM:
        return on_reset(h2, frame, now_ns);
    case FRAME_SETTINGS:
        return on_settings(h2, frame, now_ns);
    case FRAME_PING:
        return on_ping(h2, frame, now_ns);
    case FRAME_PRIORITY:
        return take(h2, CR_EDGE_PRIORITY, now_ns);
    case FRAME_WINDOW_UPDATE:
        return take_credit(h2, &h2->window_credit, CR_EDGE_WINDOW, now_ns);
    case FRAME_PUSH_PROMISE:
        return RPC_H2_BAD_STREAM;
    default:
        return take(h2, CR_EDGE_OTHER, now_ns);
    }
}

/* ---- frames from the server ---- */

static void on_server_frame(struct rpc_h2 *h2, const struct frame *frame)
{
    struct rpc_h2_stream *stream = find_stream(h2, frame->stream);
    bool is_answer = frame->type == FRAME_DATA || frame->type == FRAME_HEADERS;

    if (is_answer) {
        add_credit(&h2->window_credit, 2);
        add_credit(&h2->ping_credit, 1);
    }
    if (frame->type == FRAME_PING && !(frame->flags & FLAG_ACK))
        add_credit(&h2->ping_ack_credit, 1);
    if (frame->type == FRAME_SETTINGS && !(frame->flags & FLAG_ACK))
        add_credit(&h2->settings_ack_credit, 1);
    if (!stream)
        return;
    if (is_answer)
        stream->is_answered = true;
    if (frame->type == FRAME_RST_STREAM || (is_answer && (frame->flags & FLAG_END_STREAM)))
        close_stream(h2, stream);
}

/* ---- cutting bytes into frames ---- */

static struct frame parse_header(const uint8_t header[FRAME_HEADER_SIZE])
{
    return (struct frame){
        .size = (uint32_t)header[0] << 16 | (uint32_t)header[1] << 8 | header[2],
        .type = header[3],
        .flags = header[4],
        /* The highest bit is reserved and ignored (RFC 9113, 4.1). */
        .stream = (uint32_t)(header[5] & 0x7F) << 24 | (uint32_t)header[6] << 16 |
                  (uint32_t)header[7] << 8 | header[8],
    };
}

/* Consumes up to one frame header, or payload. True when a header has just become complete. */
static bool advance(struct rpc_h2_reader *reader, const uint8_t **at, size_t *left)
{
    size_t size;

    if (reader->payload_left > 0) {
        size = *left < reader->payload_left ? *left : reader->payload_left;
        reader->payload_left -= (uint32_t)size;
        *at += size;
        *left -= size;
        return false;
    }
    size = FRAME_HEADER_SIZE - reader->header_size;
    if (size > *left)
        size = *left;
    memcpy(reader->header + reader->header_size, *at, size);
    reader->header_size = (uint8_t)(reader->header_size + size);
    *at += size;
    *left -= size;
    if (reader->header_size < FRAME_HEADER_SIZE)
        return false;
    reader->header_size = 0;
    return true;
}

static bool is_between_frames(const struct rpc_h2_reader *reader)
{
    return reader->header_size == 0 && reader->payload_left == 0;
}

/* Returns how many bytes of the preface were taken; false when they are none of it. */
static bool skip_preface(struct rpc_h2 *h2, const uint8_t **at, size_t *left)
{
    size_t size = PREFACE_SIZE - h2->preface_size;

    if (size > *left)
        size = *left;
    if (memcmp(*at, &PREFACE[h2->preface_size], size) != 0)
        return false;
    h2->preface_size += (uint32_t)size;
    *at += size;
    *left -= size;
    return true;
}

enum rpc_h2_fault rpc_h2_feed_client(struct rpc_h2 *h2, const void *data, size_t size,
                                     uint32_t costly, int64_t now_ns, size_t *ret_used)
{
    const uint8_t *at = data;

    h2->costly = 0;
    if (size > 0 && !skip_preface(h2, &at, &size))
        return RPC_H2_NOT_HTTP2;
    while (size > 0 && h2->costly < costly) {
        enum rpc_h2_fault fault;
        struct frame frame;

        if (is_between_frames(&h2->client) && h2->block_stream == 0)
            h2->frame_since_ns = now_ns;
        if (!advance(&h2->client, &at, &size))
            continue;
        frame = parse_header(h2->client.header);
        h2->client.payload_left = frame.size;
        fault = on_client_frame(h2, &frame, now_ns);
        if (fault != RPC_H2_OK)
            return fault;
    }
    *ret_used = (size_t)(at - (const uint8_t *)data);
    return RPC_H2_OK;
}

void rpc_h2_feed_server(struct rpc_h2 *h2, const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size > 0) {
        struct frame frame;

        if (!advance(&h2->server, &at, &size))
            continue;
        frame = parse_header(h2->server.header);
        h2->server.payload_left = frame.size;
        on_server_frame(h2, &frame);
    }
}

bool rpc_h2_is_ready(const struct rpc_h2 *h2)
{
    return h2->has_settings;
}

int64_t rpc_h2_deadline_ns(const struct rpc_h2 *h2)
{
    bool is_data = h2->client.header_size == 0 && h2->client.payload_left > 0 &&
                   h2->client.header[3] == FRAME_DATA;
    struct frame frame;

    if (is_between_frames(&h2->client) && h2->block_stream == 0)
        return INT64_MAX;
    if (!is_data)
        return h2->frame_since_ns + h2->edge->frame_ms * CR_NS_PER_MS;
    frame = parse_header(h2->client.header);
    return h2->frame_since_ns + h2->edge->data_frame_ms * CR_NS_PER_MS +
           frame.size / DATA_BYTES_PER_S * CR_NS_PER_S;
}

void rpc_h2_restart_clock(struct rpc_h2 *h2, int64_t now_ns)
{
    h2->frame_since_ns = now_ns;
}

const char *rpc_h2_fault_name(enum rpc_h2_fault fault)
{
    static const char *const names[] = {
        [RPC_H2_OK] = "none",
        [RPC_H2_NOT_HTTP2] = "not HTTP/2",
        [RPC_H2_SETTINGS_FIRST] = "first frame is not SETTINGS",
        [RPC_H2_BAD_LENGTH] = "frame of a wrong length",
        [RPC_H2_BAD_STREAM] = "frame on a wrong stream",
        [RPC_H2_BAD_CONTINUATION] = "CONTINUATION out of place",
        [RPC_H2_HEADERS_TOO_LARGE] = "header block too large",
        [RPC_H2_TOO_MANY_STREAMS] = "too many streams",
    };

    if (fault < RPC_H2_FLOOD)
        return names[fault];
    if (fault < RPC_H2_FLOOD + CR_EDGE_KIND_COUNT)
        return flood_names[fault - RPC_H2_FLOOD];
    return "unknown";
}

bool rpc_h2_budget_is_full(const struct rpc_h2_budget *budget, int64_t now_ns)
{
    for (size_t i = 0; i < CR_EDGE_KIND_COUNT; i++)
        if (!rpc_bucket_is_full(&budget->buckets[i], now_ns))
            return false;
    return true;
}
