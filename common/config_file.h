/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;

/* More than any settings need, less than what would hurt to read. */
#define CR_CONFIG_FILE_MAX (256U << 10)
#define CR_CONFIG_LINE_MAX 8192U
#define CR_CONFIG_NAME_MAX 64U

/*
 * A file of settings: lines "name = value", blank lines, and comments whose
 * first character is '#'. Blanks around name and value do not count; a value
 * goes to the end of its line, may hold '#' and '=', and may be empty.
 */
struct cr_config_line {
    unsigned int number; /* from 1 */
    char name[CR_CONFIG_NAME_MAX];
    char value[CR_CONFIG_LINE_MAX];
};

/*
 * Reads the next setting of `text` (not terminated) behind *at, which moves. `line` is zeroed by
 * the caller before the first. Pure. Returns 1 for a setting, 0 at the end, -EINVAL with a text
 * that has the number of the line.
 */
int cr_config_file_next(const char *text, size_t size, size_t *at, struct cr_config_line *line,
                        struct cr_err *err);

/*
 * Reads a whole file of at most `max` bytes. The caller frees *ret_text. Returns 0 or -errno;
 * -EFBIG for a larger one.
 */
int cr_config_file_load(const char *path, size_t max, char **ret_text, size_t *ret_size,
                        struct cr_err *err);
