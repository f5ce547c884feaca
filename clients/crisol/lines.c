/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536U

void cli_lines_init(struct cli_lines *lines, int fd, size_t max_bytes)
{
    *lines = (struct cli_lines){.fd = fd, .max_bytes = max_bytes};
    cr_buf_init(&lines->buf, max_bytes + READ_BYTES);
}

void cli_lines_done(struct cli_lines *lines)
{
    cr_buf_done(&lines->buf);
}

int cli_lines_read(struct cli_lines *lines)
{
    char chunk[READ_BYTES];
    size_t room = lines->buf.cap - lines->buf.size; /* not 0: no line of the maximum waits */
    ssize_t n = read(lines->fd, chunk, room < sizeof(chunk) ? room : sizeof(chunk));

    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    if (n == 0)
        lines->is_eof = true;
    return cr_buf_add(&lines->buf, chunk, (size_t)n);
}

/* Gives the first `size` bytes as a line; with `end_size` bytes behind them it is consumed. */
static enum cli_line give(struct cli_lines *lines, size_t size, size_t end_size,
                          const char **ret_text, size_t *ret_size)
{
    lines->given = size + end_size;
    lines->number++;
    if (size > lines->max_bytes)
        return CLI_LINE_TOO_LONG;
    *ret_text = cr_buf_str(&lines->buf);
    *ret_size = size;
    return CLI_LINE_TEXT;
}

static enum cli_line give_without_end(struct cli_lines *lines, const char **ret_text,
                                      size_t *ret_size)
{
    if (lines->is_skipping) {
        cr_buf_clear(&lines->buf);
    } else if (lines->buf.size > lines->max_bytes) {
        lines->is_skipping = true;
        return give(lines, lines->buf.size, 0, ret_text, ret_size);
    }
    if (!lines->is_eof)
        return CLI_LINE_WAIT;
    if (lines->buf.size == 0)
        return CLI_LINE_END;
    return give(lines, lines->buf.size, 0, ret_text, ret_size);
}

enum cli_line cli_lines_next(struct cli_lines *lines, const char **ret_text, size_t *ret_size)
{
    cr_buf_consume(&lines->buf, lines->given);
    lines->given = 0;
    for (;;) {
        const uint8_t *data = lines->buf.data;
        const uint8_t *end = lines->buf.size > 0 ? memchr(data, '\n', lines->buf.size) : NULL;

        if (!end)
            return give_without_end(lines, ret_text, ret_size);
        if (!lines->is_skipping)
            return give(lines, (size_t)(end - data), 1, ret_text, ret_size);
        lines->is_skipping = false;
        cr_buf_consume(&lines->buf, (size_t)(end - data) + 1);
    }
}
