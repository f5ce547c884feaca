/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the program gets on its standard input: at most one piece of the
 * relay's at a time, so that there is always room for it. Embedded, as zeros
 * with `fd` -1.
 */
struct sbx_stream_input {
    int fd;         /* non-blocking; -1: closed */
    bool is_ending; /* closed when the bytes below are gone */
    uint8_t bytes[SBX_STREAM_DATA_MAX];
    size_t at;
    size_t size;
};

/* Takes a piece (without data: the end) behind what is there; the caller asks for none while
 * something is. */
void sbx_stream_input_keep(struct sbx_stream_input *input, const struct sbx_stream_item *item);

/* As much as the program takes now. */
void sbx_stream_input_write(struct sbx_stream_input *input);

/* Drops what is there. Safe to repeat. */
void sbx_stream_input_close(struct sbx_stream_input *input);
