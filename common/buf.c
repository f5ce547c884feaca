/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256U

void cr_buf_init(struct cr_buf *buf, size_t cap)
{
    *buf = (struct cr_buf){.cap = cap};
}

void cr_buf_done(struct cr_buf *buf)
{
    free(buf->data);
    *buf = (struct cr_buf){.cap = buf->cap};
}

/* Makes room for `extra` more bytes and the NUL. */
static int reserve(struct cr_buf *buf, size_t extra)
{
    size_t need;
    size_t room;
    uint8_t *data;

    if (extra > buf->cap || buf->size > buf->cap - extra)
        return -ENOSPC;
    need = buf->size + extra + 1;
    if (need <= buf->room)
        return 0;
    room = buf->room ? buf->room : FIRST_ROOM;
    while (room < need)
        room *= 2;
    if (room > buf->cap + 1)
        room = buf->cap + 1;
    data = realloc(buf->data, room);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->room = room;
    return 0;
}

int cr_buf_add(struct cr_buf *buf, const void *data, size_t size)
{
    int r = reserve(buf, size);

    if (r < 0)
        return r;
    if (size > 0)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = 0;
    return 0;
}

int cr_buf_add_str(struct cr_buf *buf, const char *text)
{
    return cr_buf_add(buf, text, strlen(text));
}

int cr_buf_add_char(struct cr_buf *buf, char character)
{
    return cr_buf_add(buf, &character, 1);
}

int cr_buf_printf(struct cr_buf *buf, const char *format, ...)
{
    va_list args;
    int length;
    int r;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return -EINVAL;
    r = reserve(buf, (size_t)length);
    if (r < 0)
        return r;
    va_start(args, format);
    (void)vsnprintf((char *)buf->data + buf->size, (size_t)length + 1, format, args);
    va_end(args);
    buf->size += (size_t)length;
    return 0;
}

void cr_buf_consume(struct cr_buf *buf, size_t size)
{
    if (size >= buf->size) {
        cr_buf_clear(buf);
        return;
    }
    if (size == 0)
        return;
    memmove(buf->data, buf->data + size, buf->size - size + 1);
    buf->size -= size;
}

void cr_buf_clear(struct cr_buf *buf)
{
    buf->size = 0;
    if (buf->data)
        buf->data[0] = 0;
}

const char *cr_buf_str(const struct cr_buf *buf)
{
    return buf->data ? (const char *)buf->data : "";
}

char *cr_buf_take_str(struct cr_buf *buf)
{
    char *text;

    if (!buf->data)
        return calloc(1, 1);
    text = (char *)buf->data;
    *buf = (struct cr_buf){.cap = buf->cap};
    return text;
}
