/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/output.h"

#include "common/utf8.h"

#include <string.h>

/* An incomplete character is at most 3 bytes: less than one more chunk is waiting for its end. */
#define CARRY_MAX 3U

void sbx_output_init(struct sbx_output *output, enum sbx_overflow policy, uint64_t cap,
                     bool as_text)
{
    uint64_t tail_cap = policy == SBX_OVERFLOW_HEAD_TAIL ? cap / 2 : 0;

    *output = (struct sbx_output){
        .policy = policy,
        .as_text = as_text,
        .head_cap = cap - tail_cap,
        .tail_cap = tail_cap,
    };
    cr_buf_init(&output->pending, SIZE_MAX / 2);
    cr_buf_init(&output->tail, (size_t)tail_cap);
}

static void free_pending(struct sbx_output *output)
{
    cr_buf_done(&output->pending);
    output->pending_at = 0;
}

/* Bytes that wait to be taken. */
static size_t pending_size(const struct sbx_output *output)
{
    return output->pending.size - output->pending_at;
}

static const uint8_t *pending_data(const struct sbx_output *output)
{
    return output->pending.data + output->pending_at;
}

/* What is left moves only when it is the smaller part: a long tail is taken in time linear to it.
 */
static void consume_pending(struct sbx_output *output, size_t size)
{
    output->pending_at += size;
    if (output->pending_at < pending_size(output))
        return;
    cr_buf_consume(&output->pending, output->pending_at);
    output->pending_at = 0;
}

void sbx_output_done(struct sbx_output *output)
{
    free_pending(output);
    cr_buf_done(&output->tail);
}

bool sbx_output_wants_more(const struct sbx_output *output)
{
    return !output->is_ended && (output->is_discarding || pending_size(output) <= CARRY_MAX);
}

static void drop(struct sbx_output *output, uint64_t size)
{
    output->dropped += size;
}

/* Appends to the ring; the oldest bytes make room. */
static void feed_tail(struct sbx_output *output, const uint8_t *data, size_t size)
{
    size_t cap = (size_t)output->tail_cap;
    size_t fill = cap - output->tail.size < size ? cap - output->tail.size : size;

    if (cap == 0 || (fill > 0 && cr_buf_add(&output->tail, data, fill) < 0)) {
        output->is_failed = output->is_failed || cap > 0;
        drop(output, size);
        return;
    }
    data += fill;
    size -= fill;
    drop(output, size); /* as many old bytes go as new ones come */
    if (size > cap) {
        data += size - cap;
        size = cap;
    }
    while (size > 0) {
        size_t step = cap - output->tail_at < size ? cap - output->tail_at : size;

        memcpy(output->tail.data + output->tail_at, data, step);
        output->tail_at = (output->tail_at + step) % cap;
        data += step;
        size -= step;
    }
}

bool sbx_output_feed(struct sbx_output *output, const void *data, size_t size)
{
    uint64_t cap = output->head_cap + output->tail_cap;
    bool was_over = output->total > cap;
    uint64_t room = output->head_cap - output->accepted;
    size_t keep = room < size ? (size_t)room : size;

    output->total += size;
    if (output->is_discarding || output->is_failed) {
        drop(output, size);
    } else {
        if (keep > 0 && cr_buf_add(&output->pending, data, keep) < 0) {
            output->is_failed = true;
            drop(output, size);
        } else {
            output->accepted += keep;
            if (size > keep)
                feed_tail(output, (const uint8_t *)data + keep, size - keep);
        }
    }
    return output->policy == SBX_OVERFLOW_KILL && !was_over && output->total > cap;
}

/* The tail becomes what is taken next, oldest byte first. */
static void end_tail(struct sbx_output *output)
{
    size_t old = output->tail.size - output->tail_at;

    if (output->is_discarding)
        return;
    output->gap = output->total - output->accepted - output->tail.size;
    if (cr_buf_add(&output->pending, output->tail.data + output->tail_at, old) < 0 ||
        cr_buf_add(&output->pending, output->tail.data, output->tail_at) < 0) {
        output->is_failed = true;
        drop(output, output->tail.size);
    }
    cr_buf_done(&output->tail);
}

void sbx_output_end(struct sbx_output *output)
{
    if (output->is_ended)
        return;
    output->is_ended = true;
    if (output->tail.size > 0)
        end_tail(output);
}

void sbx_output_discard(struct sbx_output *output)
{
    output->is_discarding = true;
    drop(output, pending_size(output) + output->tail.size);
    free_pending(output);
    cr_buf_done(&output->tail);
    output->tail_at = 0;
}

/* Nothing will follow in `pending` that could complete its last character. */
static bool is_sealed(const struct sbx_output *output)
{
    return output->is_ended || (output->tail_cap == 0 && output->accepted == output->head_cap);
}

/* Bytes of the head that have not been taken. */
static size_t head_left(const struct sbx_output *output)
{
    return output->taken < output->accepted ? (size_t)(output->accepted - output->taken) : 0;
}

static size_t next_size(const struct sbx_output *output)
{
    size_t head = head_left(output);
    size_t size = pending_size(output);

    /* A chunk never bridges the gap, so that one offset is right for all of it. */
    if (output->gap > 0 && head > 0 && head < size)
        size = head;
    if (size > SBX_CHUNK_MAX)
        size = SBX_CHUNK_MAX;
    else if (is_sealed(output) || !output->as_text)
        return size;
    return output->as_text ? cr_utf8_complete_prefix(pending_data(output), size) : size;
}

/* What was dropped is told once when it begins and once at the end. */
static bool has_truncated(const struct sbx_output *output)
{
    if (output->is_discarding || output->dropped == output->dropped_told || head_left(output) > 0)
        return false;
    return output->dropped_told == 0 || output->is_ended;
}

bool sbx_output_has_piece(const struct sbx_output *output)
{
    return has_truncated(output) || (pending_size(output) > 0 && next_size(output) > 0);
}

struct sbx_piece sbx_output_take(struct sbx_output *output, struct cr_buf *chunk)
{
    struct sbx_piece piece = {.type = SBX_PIECE_NONE};
    size_t size;

    if (has_truncated(output)) {
        output->dropped_told = output->dropped;
        return (struct sbx_piece){.type = SBX_PIECE_TRUNCATED, .dropped = output->dropped};
    }
    size = pending_size(output) > 0 ? next_size(output) : 0;
    if (size == 0 || cr_buf_add(chunk, pending_data(output), size) < 0)
        return piece;
    piece.type = SBX_PIECE_DATA;
    piece.size = size;
    piece.offset = output->taken + (head_left(output) > 0 ? 0 : output->gap);
    consume_pending(output, size);
    output->taken += size;
    return piece;
}

bool sbx_output_is_drained(const struct sbx_output *output)
{
    return output->is_ended && pending_size(output) == 0 && !has_truncated(output);
}
