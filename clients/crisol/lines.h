/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The lines of a file, pipe or terminal, one by one as they come in. Never
 * waits: cli_lines_read() is for when poll(2) says that there is something.
 */
struct cli_lines {
    int fd; /* borrowed */
    struct cr_buf buf;
    size_t max_bytes;
    size_t given;     /* of buf: the line given last, with its end */
    uint64_t number;  /* of the line given last; the first is 1 */
    bool is_skipping; /* the rest of a line that was too long */
    bool is_eof;
};

enum cli_line {
    CLI_LINE_WAIT,     /* nothing whole yet */
    CLI_LINE_TEXT,     /* a line */
    CLI_LINE_TOO_LONG, /* a line of more bytes than the cap: it is skipped */
    CLI_LINE_END,      /* no more */
};

/* Lines of at most `max_bytes`. */
void cli_lines_init(struct cli_lines *lines, int fd, size_t max_bytes);
void cli_lines_done(struct cli_lines *lines);

/* Reads once; after CLI_LINE_WAIT only. Returns 0 or -errno. */
int cli_lines_read(struct cli_lines *lines);

/*
 * Takes the next line: *ret_text has *ret_size bytes without its end, valid
 * until the next call. Also the last line when it has no end.
 */
enum cli_line cli_lines_next(struct cli_lines *lines, const char **ret_text, size_t *ret_size);
