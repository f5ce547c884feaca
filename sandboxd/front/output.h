/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One output stream of a run between its pipe and the call: applies the cap
 * and the overflow policy, cuts chunks. Pure; no I/O, no threads. Embedded in
 * its owner.
 *
 * Memory: whoever feeds it asks sbx_output_wants_more() first, so it holds at
 * most what was fed last (plus, with HEAD_TAIL, half of the cap).
 */
enum sbx_overflow {
    SBX_OVERFLOW_KILL,
    SBX_OVERFLOW_TRUNCATE,
    SBX_OVERFLOW_HEAD_TAIL,
};

#define SBX_CHUNK_MAX (64U << 10)

struct sbx_output {
    enum sbx_overflow policy;
    bool as_text; /* chunks end on character borders */
    bool is_ended;
    bool is_failed;        /* memory ran out; the rest was dropped and counted */
    bool is_discarding;    /* nobody will take anything any more */
    uint64_t head_cap;     /* bytes that go out as they come */
    uint64_t tail_cap;     /* bytes kept back for the end */
    uint64_t total;        /* bytes fed */
    uint64_t accepted;     /* bytes put into `pending` so far */
    uint64_t taken;        /* bytes delivered */
    uint64_t gap;          /* bytes dropped between head and tail; known at the end */
    uint64_t dropped;      /* bytes dropped so far */
    uint64_t dropped_told; /* what the last TRUNCATED said */
    struct cr_buf pending; /* to be taken next, from pending_at on */
    size_t pending_at;
    struct cr_buf tail; /* ring, when full */
    size_t tail_at;     /* where the oldest byte of a full ring lies */
};

enum sbx_piece_type {
    SBX_PIECE_NONE,
    SBX_PIECE_DATA,
    SBX_PIECE_TRUNCATED,
};

struct sbx_piece {
    enum sbx_piece_type type;
    uint64_t offset;  /* of DATA in what the program wrote */
    size_t size;      /* of DATA */
    uint64_t dropped; /* TRUNCATED: so far */
};

void sbx_output_init(struct sbx_output *output, enum sbx_overflow policy, uint64_t cap,
                     bool as_text);
void sbx_output_done(struct sbx_output *output);

/* True when feeding would not pile up: back-pressure is not asking the pipe for more. */
bool sbx_output_wants_more(const struct sbx_output *output);

/* Takes bytes that the program wrote. Returns true when this passed the cap for the first time
 * under KILL. */
bool sbx_output_feed(struct sbx_output *output, const void *data, size_t size);

/* The program will write no more. */
void sbx_output_end(struct sbx_output *output);

/* From now on everything is counted and dropped. */
void sbx_output_discard(struct sbx_output *output);

/* True when sbx_output_take() would yield a piece. */
bool sbx_output_has_piece(const struct sbx_output *output);

/* The next piece; DATA is appended to `chunk` (at most SBX_CHUNK_MAX bytes, cap of `chunk`
 * permitting). */
struct sbx_piece sbx_output_take(struct sbx_output *output, struct cr_buf *chunk);

/* True at the end, when everything was taken. */
bool sbx_output_is_drained(const struct sbx_output *output);
