/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Loops that count their turns, and who looks whether they still do. Such a
 * loop waits for at most CR_TURN_MS, so that one that stands still can be told
 * from one that has nothing to do. What is counted are looks and not time: a
 * process or a machine that was stopped as a whole is not blamed.
 */
#define CR_TURN_MS 1000

/* The timeout of poll(2) that a loop asks for (-1: none), cut so that it turns. */
int cr_turn_ms(int wanted_ms);

/* What was seen of one loop; all zero at first. */
struct cr_turns_watch {
    uint64_t turns;
    unsigned int looks; /* in a row that found no new turn */
};

/* A look at a loop that has counted `turns` so far. Returns how many in a row, this one
 * included, have found it standing still; 0: it turns. Pure but for `watch`. */
unsigned int cr_turns_look(struct cr_turns_watch *watch, uint64_t turns);
