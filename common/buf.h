/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A growing byte buffer with a hard cap. Embedded in its owner; not
 * thread-safe. One NUL is always kept behind the data (not counted), so that
 * a buffer of text can be read as a C string.
 */
struct cr_buf {
    uint8_t *data; /* NULL while empty */
    size_t size;   /* bytes of content */
    size_t room;   /* bytes allocated */
    size_t cap;    /* content never grows past this */
};

#define CR_AUTO_BUF __attribute__((cleanup(cr_buf_done)))

/* Starts empty; allocates nothing. `cap` is in bytes. */
void cr_buf_init(struct cr_buf *buf, size_t cap);

/* Frees the content. Safe to repeat; the cap stays. */
void cr_buf_done(struct cr_buf *buf);

/* Returns 0, -ENOSPC when the cap would be passed, -ENOMEM. On failure nothing is added. */
int cr_buf_add(struct cr_buf *buf, const void *data, size_t size);
int cr_buf_add_str(struct cr_buf *buf, const char *text);
int cr_buf_add_char(struct cr_buf *buf, char character);
int cr_buf_printf(struct cr_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Drops the first `size` bytes (all when there are fewer). */
void cr_buf_consume(struct cr_buf *buf, size_t size);

/* Empties the buffer and keeps its memory. */
void cr_buf_clear(struct cr_buf *buf);

/* The content as a C string; "" when empty. Borrowed until the next change. */
const char *cr_buf_str(const struct cr_buf *buf);

/* Hands the content over as a heap string ("" when empty, never NULL unless -ENOMEM) and leaves the
 * buffer empty. */
char *cr_buf_take_str(struct cr_buf *buf);
