/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the program gets on its standard input: at most the relay's credit at a
 * time, so that there is always room for it. Embedded, as zeros with `fd` -1.
 */
struct sbx_stream_input {
    int fd;           /* non-blocking; -1: closed */
    bool is_terminal; /* its end is typed */
    bool is_ending;   /* closed when the bytes below are gone */
    uint8_t bytes[SBX_STREAM_CREDIT + 1];
    size_t at;
    size_t size;
    size_t taken; /* bytes that left and were not told; told once all have */
};

/* Takes a piece (without data: the end) behind what is there. Returns 0, or -EPROTO for more than
 * the credit. */
int sbx_stream_input_keep(struct sbx_stream_input *input, const struct sbx_stream_item *item);

/* As much as the program takes now. */
void sbx_stream_input_write(struct sbx_stream_input *input);

/* Bytes that have left since the last call, for TAKEN; 0 as long as some are there. */
uint32_t sbx_stream_input_take_credit(struct sbx_stream_input *input);

/* Drops what is there. Safe to repeat. */
void sbx_stream_input_close(struct sbx_stream_input *input);

/* As it was before it had a program: for the next one. */
void sbx_stream_input_renew(struct sbx_stream_input *input);
