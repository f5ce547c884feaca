/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stddef.h>
#include <stdint.h>

struct hostile_response;

/* Numbers that are the same for the same seed. */
struct hostile_dice {
    uint64_t state;
};

/* `name` makes the numbers of each case its own. */
void hostile_dice_init(struct hostile_dice *dice, uint64_t seed, const char *name);

/* 0 … bound - 1. */
uint32_t hostile_dice_roll(struct hostile_dice *dice, uint32_t bound);

/* What the marks of the table stand for. All borrowed. */
struct hostile_values {
    const char *name; /* of the case */
    const char *key;
    uint16_t port;
};

/* The bytes of one answer: `start`, then `fill` as often as said, then `tail`. */
struct hostile_play {
    struct cr_buf start;
    struct cr_buf fill;
    uint32_t fill_count;
    struct cr_buf tail;
    size_t *cuts; /* where writes of `start` end, ascending; the last one is its size */
    size_t cut_count;
};

/*
 * Puts an answer together: what the table says exactly, and the seed's choice
 * of the rest (line ends, comments, framing, sizes of writes).
 * Returns 0, -ENOMEM, -ENOSPC; a play is done in any case.
 */
int hostile_play_init(struct hostile_play *play, const struct hostile_response *response,
                      const struct hostile_values *values, struct hostile_dice *dice);

void hostile_play_done(struct hostile_play *play);
