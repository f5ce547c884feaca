/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/boxstream.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(sizeof(struct sbx_stream_limits) <= sizeof(struct sbx_init_msg), "it fits");

void sbx_stream_init(struct sbx_stream_parser *parser, uint32_t legal)
{
    *parser = (struct sbx_stream_parser){.legal = legal};
}

/* The one size that a kind has, or -1 for a kind of any size. */
static int fixed_size(uint32_t kind)
{
    switch (kind) {
    case SBX_STREAM_PREPARE:
        return sizeof(struct sbx_stream_prepare);
    case SBX_STREAM_SIGNAL:
    case SBX_STREAM_RESIZE:
    case SBX_STREAM_END:
        return sizeof(uint32_t);
    case SBX_STREAM_GO:
    case SBX_STREAM_KILL:
        return 0;
    case SBX_STREAM_LIMITS:
        return sizeof(struct sbx_stream_limits);
    case SBX_STREAM_PRELOAD:
        return sizeof(struct sbx_stream_preload);
    case SBX_STREAM_EVENT:
        return sizeof(struct sbx_init_msg);
    default:
        return -1;
    }
}

static bool is_header_valid(const struct sbx_stream_parser *parser)
{
    const struct sbx_stream_header *header = &parser->header;
    int fixed;

    if (header->kind >= SBX_STREAM_KIND_END || !(parser->legal & SBX_STREAM_BIT(header->kind)))
        return false;
    fixed = fixed_size(header->kind);
    if (fixed >= 0)
        return header->size == (uint32_t)fixed;
    return header->size <= SBX_STREAM_DATA_MAX;
}

/* Bytes of the header; true when it is complete. */
static size_t take_header(struct sbx_stream_parser *parser, const uint8_t *data, size_t size)
{
    size_t missing = sizeof(parser->header) - parser->header_have;
    size_t taken = size < missing ? size : missing;

    memcpy((uint8_t *)&parser->header + parser->header_have, data, taken);
    parser->header_have += (uint32_t)taken;
    return taken;
}

static void end_frame(struct sbx_stream_parser *parser)
{
    parser->header_have = 0;
    parser->fixed_have = 0;
}

/* `size` is at least 1, or the frame has no data at all. Returns the bytes taken. */
static size_t take_data(struct sbx_stream_parser *parser, const uint8_t *data, size_t size,
                        struct sbx_stream_item *item)
{
    size_t taken = size < parser->left ? size : parser->left;

    parser->left -= (uint32_t)taken;
    if (fixed_size(parser->header.kind) >= 0) {
        if (taken > 0)
            memcpy(parser->fixed + parser->fixed_have, data, taken);
        parser->fixed_have += (uint32_t)taken;
        if (parser->left > 0)
            return taken;
        item->data = parser->fixed;
        item->size = parser->fixed_have;
    } else {
        item->data = data;
        item->size = taken;
    }
    item->kind = (enum sbx_stream_kind)parser->header.kind;
    if (parser->left == 0)
        end_frame(parser);
    return taken;
}

int sbx_stream_feed(struct sbx_stream_parser *parser, const uint8_t *data, size_t size,
                    struct sbx_stream_item *ret_item)
{
    size_t used = 0;

    *ret_item = (struct sbx_stream_item){.kind = SBX_STREAM_NONE};
    if (parser->header_have < sizeof(parser->header)) {
        used = take_header(parser, data, size);
        if (parser->header_have < sizeof(parser->header))
            return (int)used;
        if (!is_header_valid(parser))
            return -EPROTO;
        parser->left = parser->header.size;
    }
    if (used < size || parser->left == 0)
        used += take_data(parser, data + used, size - used, ret_item);
    return (int)used;
}
