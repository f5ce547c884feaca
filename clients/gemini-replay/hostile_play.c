/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile_play.h"

#include "clients/gemini-replay/hostile_cases.h"
#include "common/auto.h"
#include "common/hash.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static const size_t MAX_START = 256U << 10;
static const size_t FILL_BLOCK = 64U << 10;
static const char CUT = '^';

void hostile_dice_init(struct hostile_dice *dice, uint64_t seed, const char *name)
{
    dice->state = cr_hash(seed * UINT64_C(0x9E3779B97F4A7C15) + 1, name, strlen(name));
}

/* xorshift64*: small, and the same everywhere. */
uint32_t hostile_dice_roll(struct hostile_dice *dice, uint32_t bound)
{
    dice->state ^= dice->state >> 12;
    dice->state ^= dice->state << 25;
    dice->state ^= dice->state >> 27;
    return (uint32_t)((dice->state * UINT64_C(0x2545F4914F6CDD1D)) >> 32) % bound;
}

static int add_date(struct cr_buf *buf)
{
    time_t when = time(NULL) + 1;
    struct tm parts;
    char text[64];

    if (!gmtime_r(&when, &parts) ||
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts) == 0)
        return -EINVAL;
    return cr_buf_add_str(buf, text);
}

static bool begins(const char *text, size_t size, const char *mark)
{
    return size >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0;
}

/* Adds the value when `text` begins with a mark. *ret_size: bytes of it; 0: it is none. */
static int add_value(struct cr_buf *buf, const char *text, size_t size,
                     const struct hostile_values *values, size_t *ret_size)
{
    const char *dash = strrchr(values->name, '-');

    *ret_size = 6;
    if (begins(text, size, "@DATE@"))
        return add_date(buf);
    if (begins(text, size, "@NAME@"))
        return cr_buf_add_str(buf, dash ? dash + 1 : values->name);
    if (begins(text, size, "@PORT@"))
        return cr_buf_printf(buf, "%u", values->port);
    *ret_size = 5;
    if (begins(text, size, "@KEY@"))
        return cr_buf_add_str(buf, values->key);
    *ret_size = 0;
    return 0;
}

/* Copies text of the table; the marks of cuts stay. */
static int add_text(struct cr_buf *buf, const char *text, size_t size,
                    const struct hostile_values *values)
{
    int r = 0;

    for (size_t at = 0; at < size && r == 0;) {
        size_t taken = 0;

        if (text[at] == '@')
            r = add_value(buf, text + at, size - at, values, &taken);
        if (r == 0 && taken == 0) {
            r = text[at] == '\'' ? cr_buf_add_char(buf, '"') : cr_buf_add_char(buf, text[at]);
            taken = 1;
        }
        at += taken;
    }
    return r;
}

static const char *pick_line_end(enum hostile_lines lines, struct hostile_dice *dice)
{
    static const char *const ends[] = {
        [HOSTILE_LINES_CRLF] = "\r\n", [HOSTILE_LINES_LF] = "\n", [HOSTILE_LINES_CR] = "\r"};

    return ends[lines == HOSTILE_LINES_SEED ? 1 + hostile_dice_roll(dice, 3) : lines];
}

/* One event; JSON may be broken into lines behind any comma outside of texts: here behind '['. */
static int add_event(struct cr_buf *buf, const char *text, size_t size, const char *line_end,
                     bool is_split, const struct hostile_values *values)
{
    int r = cr_buf_add_str(buf, "data: ");

    while (r == 0 && size > 0) {
        const char *bracket = is_split ? memchr(text, '[', size) : NULL;
        size_t part = bracket ? (size_t)(bracket - text) + 1 : size;

        r = add_text(buf, text, part, values);
        text += part;
        size -= part;
        if (r == 0 && size > 0)
            r = cr_buf_printf(buf, "%sdata: ", line_end);
    }
    return r;
}

static int add_comment(struct cr_buf *buf, const struct hostile_response *response,
                       const char *line_end, struct hostile_dice *dice)
{
    static const char *const comments[] = {":",     ": keep-alive", ":data: {", "event: message",
                                           "id: 7", "retry: 100"};

    if (!response->has_comments && hostile_dice_roll(dice, 4) != 0)
        return 0;
    return cr_buf_printf(buf, "%s%s%s", comments[hostile_dice_roll(dice, CR_ARRAY_SIZE(comments))],
                         line_end, hostile_dice_roll(dice, 2) ? line_end : "");
}

static int add_events(struct cr_buf *buf, const struct hostile_response *response,
                      const struct hostile_values *values, struct hostile_dice *dice)
{
    const char *line_end = pick_line_end(response->lines, dice);
    int r = 0;

    for (const char *event = response->events; event && r == 0;) {
        size_t size = strcspn(event, "|");
        bool is_last = event[size] == 0;

        r = add_comment(buf, response, line_end, dice);
        if (r == 0)
            r = add_event(buf, event, size, line_end, response->is_split, values);
        if (r == 0 && !(is_last && response->lacks_end))
            r = cr_buf_printf(buf, "%s%s", line_end, line_end);
        event = is_last ? NULL : event + size + 1;
    }
    return r;
}

/* Bits as RFC 1951 packs them: from the lowest of each byte on. */
struct bits {
    struct cr_buf *buf;
    uint32_t held;
    uint32_t count;
};

static int add_bits(struct bits *bits, uint32_t value, uint32_t count)
{
    int r = 0;

    bits->held |= value << bits->count;
    bits->count += count;
    while (bits->count >= 8 && r == 0) {
        r = cr_buf_add_char(bits->buf, (char)(bits->held & 0xFF));
        bits->held >>= 8;
        bits->count -= 8;
    }
    return r;
}

/* A literal of the fixed code; Huffman codes go from their highest bit on. */
static int add_literal(struct bits *bits, uint8_t byte)
{
    bool is_short = byte < 144;
    uint32_t code = is_short ? 0x30U + byte : 0x190U + byte - 144;
    uint32_t size = is_short ? 8 : 9;
    int r = 0;

    while (size > 0 && r == 0)
        r = add_bits(bits, code >> --size & 1, 1);
    return r;
}

static uint32_t crc32_of(const struct cr_buf *buf)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < buf->size; i++) {
        crc ^= buf->data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
    }
    return ~crc;
}

/* One gzip member (RFC 1952) of one block with the fixed code: small, and nobody's plain text. */
static int compress(struct cr_buf *buf)
{
    static const uint8_t head[] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255};
    struct cr_buf member;
    struct bits bits = {.buf = &member};
    int r;

    cr_buf_init(&member, MAX_START);
    r = cr_buf_add(&member, head, sizeof(head));
    if (r == 0)
        r = add_bits(&bits, 3, 3); /* the last block; fixed code */
    for (size_t i = 0; i < buf->size && r == 0; i++)
        r = add_literal(&bits, buf->data[i]);
    if (r == 0)
        r = add_bits(&bits, 0, 7 + 7); /* end of block, and up to a whole byte */
    bits.held = 0;
    bits.count = 0;
    if (r == 0)
        r = add_bits(&bits, crc32_of(buf) & 0xFFFF, 16);
    if (r == 0)
        r = add_bits(&bits, crc32_of(buf) >> 16, 16);
    if (r == 0)
        r = add_bits(&bits, (uint32_t)buf->size & 0xFFFF, 16);
    if (r == 0)
        r = add_bits(&bits, (uint32_t)(buf->size >> 16), 16);
    cr_buf_done(buf);
    *buf = member;
    return r;
}

static int build_body(struct cr_buf *body, const struct hostile_response *response,
                      const struct hostile_values *values, struct hostile_dice *dice)
{
    int r = response->is_marked ? cr_buf_add_str(body, "\xEF\xBB\xBF") : 0;

    if (r == 0)
        r = add_events(body, response, values, dice);
    if (r == 0 && response->body)
        r = add_text(body, response->body, strlen(response->body), values);
    if (r == 0 && response->is_compressed)
        r = compress(body);
    return r;
}

static int add_cut(struct hostile_play *play)
{
    size_t *cuts = reallocarray(play->cuts, play->cut_count + 1, sizeof(*cuts));

    if (!cuts)
        return -ENOMEM;
    play->cuts = cuts;
    cuts[play->cut_count++] = play->start.size;
    return 0;
}

/* Bytes up to the next write: the marks and the kind of chop say how many. */
static size_t next_piece(const struct cr_buf *body, size_t at, enum hostile_chop chop,
                         bool has_marks, struct hostile_dice *dice)
{
    const uint8_t *mark = has_marks ? memchr(body->data + at, CUT, body->size - at) : NULL;
    size_t left = mark ? (size_t)(mark - (body->data + at)) : body->size - at;
    size_t size = left;

    if (chop == HOSTILE_CHOP_BYTES)
        size = 1;
    else if (chop == HOSTILE_CHOP_SEED)
        size = 1 + hostile_dice_roll(dice, 200);
    return size < left ? size : left;
}

static int add_piece(struct hostile_play *play, const uint8_t *bytes, size_t size, bool is_chunked)
{
    int r = is_chunked ? cr_buf_printf(&play->start, "%zx\r\n", size) : 0;

    if (r == 0)
        r = cr_buf_add(&play->start, bytes, size);
    if (r == 0 && is_chunked)
        r = cr_buf_add_str(&play->start, "\r\n");
    return r < 0 ? r : add_cut(play);
}

static int chop_body(struct hostile_play *play, const struct cr_buf *body,
                     const struct hostile_response *response, bool is_chunked,
                     struct hostile_dice *dice)
{
    bool has_marks = !response->is_compressed;
    int r = 0;

    for (size_t at = 0; at < body->size && r == 0;) {
        size_t size = next_piece(body, at, response->chop, has_marks, dice);

        if (size > 0)
            r = add_piece(play, body->data + at, size, is_chunked);
        at += size;
        at += has_marks && at < body->size && body->data[at] == CUT;
    }
    return r;
}

static int add_head(struct hostile_play *play, const struct hostile_response *response,
                    bool is_chunked, const struct hostile_values *values)
{
    const char *type = response->type ? response->type : "text/event-stream";
    int r = cr_buf_printf(&play->start,
                          "%s"
                          "HTTP/1.1 %s\r\nContent-Type: %s\r\nConnection: close\r\n",
                          response->before ? response->before : "",
                          response->status ? response->status : "200 OK", type);

    if (r == 0 && response->headers)
        r = add_text(&play->start, response->headers, strlen(response->headers), values);
    if (r == 0 && response->is_compressed)
        r = cr_buf_add_str(&play->start, "Content-Encoding: gzip\r\n");
    if (r == 0 && is_chunked)
        r = cr_buf_add_str(&play->start, "Transfer-Encoding: chunked\r\n");
    if (r == 0)
        r = cr_buf_add_str(&play->start, "\r\n");
    return r < 0 ? r : add_cut(play);
}

/* Many of a short piece go in one write. */
static int build_fill(struct hostile_play *play, const struct hostile_response *response,
                      const struct hostile_values *values)
{
    size_t size = strlen(response->fill);
    uint32_t per_block;
    int r = 0;

    if (size == 0)
        return 0;
    per_block = (uint32_t)(FILL_BLOCK / size);
    while (per_block > 1 && response->fill_count % per_block != 0)
        per_block--;
    if (per_block == 0)
        per_block = 1; /* a long piece goes alone */
    for (uint32_t i = 0; i < per_block && r == 0; i++)
        r = add_text(&play->fill, response->fill, size, values);
    play->fill_count = response->fill_count / per_block;
    return r;
}

int hostile_play_init(struct hostile_play *play, const struct hostile_response *response,
                      const struct hostile_values *values, struct hostile_dice *dice)
{
    /* What is cut off must look cut, and a chunked body has an end. */
    bool is_whole = !response->fill && !response->is_silent && response->after == HOSTILE_CLOSE;
    bool is_chunked = is_whole && hostile_dice_roll(dice, 2) != 0;
    CR_AUTO_BUF struct cr_buf body;
    int r;

    *play = (struct hostile_play){.cuts = NULL};
    cr_buf_init(&play->start, 16 * MAX_START);
    cr_buf_init(&play->fill, 2 * FILL_BLOCK);
    cr_buf_init(&play->tail, MAX_START);
    cr_buf_init(&body, MAX_START);
    if (response->is_silent)
        return 0;
    r = add_head(play, response, is_chunked, values);
    if (r == 0)
        r = build_body(&body, response, values, dice);
    if (r == 0)
        r = chop_body(play, &body, response, is_chunked, dice);
    if (r == 0 && is_chunked)
        r = cr_buf_add_str(&play->start, "0\r\n\r\n");
    if (r == 0 && is_chunked)
        r = add_cut(play);
    if (r == 0 && response->fill)
        r = build_fill(play, response, values);
    if (r == 0 && response->tail)
        r = add_text(&play->tail, response->tail, strlen(response->tail), values);
    return r;
}

void hostile_play_done(struct hostile_play *play)
{
    cr_buf_done(&play->start);
    cr_buf_done(&play->fill);
    cr_buf_done(&play->tail);
    free(play->cuts);
    *play = (struct hostile_play){.cuts = NULL};
}
