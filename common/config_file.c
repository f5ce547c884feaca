/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config_file.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char character)
{
    return character == ' ' || character == '\t';
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && is_blank(**text)) {
        (*text)++;
        (*size)--;
    }
    while (*size > 0 && is_blank((*text)[*size - 1]))
        (*size)--;
}

/* A control character in a value would be a line of its own in a log, or nothing that is seen. */
static bool has_control(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (((unsigned char)text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7F)
            return true;
    }
    return false;
}

/* The line at *at, without its end; moves behind it. */
static void take_line(const char *text, size_t size, size_t *at, const char **ret_line,
                      size_t *ret_size)
{
    const char *begin = text + *at;
    const char *end = memchr(begin, '\n', size - *at);
    size_t length = end ? (size_t)(end - begin) : size - *at;

    *at += length + (end ? 1 : 0);
    if (length > 0 && begin[length - 1] == '\r')
        length--;
    *ret_line = begin;
    *ret_size = length;
}

static int split(const char *text, size_t size, struct cr_config_line *line, struct cr_err *err)
{
    const char *equals = memchr(text, '=', size);
    const char *value;
    size_t name_size;
    size_t value_size;

    if (!equals)
        return cr_err_set(err, EINVAL, "line %u is not 'name = value'", line->number);
    name_size = (size_t)(equals - text);
    value = equals + 1;
    value_size = size - name_size - 1;
    trim(&text, &name_size);
    trim(&value, &value_size);
    if (name_size == 0 || name_size >= sizeof(line->name))
        return cr_err_set(err, EINVAL, "line %u has no name of a setting", line->number);
    if (value_size >= sizeof(line->value) || has_control(text, name_size) ||
        has_control(value, value_size))
        return cr_err_set(err, EINVAL, "line %u is too long or has a control character",
                          line->number);
    memcpy(line->name, text, name_size);
    line->name[name_size] = '\0';
    memcpy(line->value, value, value_size);
    line->value[value_size] = '\0';
    return 1;
}

int cr_config_file_next(const char *text, size_t size, size_t *at, struct cr_config_line *line,
                        struct cr_err *err)
{
    while (*at < size) {
        const char *begin;
        size_t length;

        take_line(text, size, at, &begin, &length);
        line->number++;
        trim(&begin, &length);
        if (length > 0 && *begin != '#')
            return split(begin, length, line, err);
    }
    return 0;
}

int cr_config_file_load(const char *path, size_t max, char **ret_text, size_t *ret_size,
                        struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    ssize_t n = 1;

    if (fd < 0)
        return cr_err_sys(err, errno, "open '%s'", path);
    text = malloc(max + 1);
    if (!text)
        return cr_err_set(err, ENOMEM, "out of memory for '%s'", path);
    while (n > 0 && size <= max) {
        n = read(fd, text + size, max + 1 - size);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            size += (size_t)n;
    }
    if (n < 0)
        return cr_err_sys(err, errno, "read '%s'", path);
    if (size > max)
        return cr_err_set(err, EFBIG, "'%s' has more than %zu bytes", path, max);
    *ret_text = cr_take_ptr(&text);
    *ret_size = size;
    return 0;
}
