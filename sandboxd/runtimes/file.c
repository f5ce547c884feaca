/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/runtimes/file.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/utf8.h"
#include "sandboxd/runtimes/file_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sbx_file_fail(struct sbx_file_parser *parser, const char *format, ...)
{
    char text[CR_ERR_TEXT_MAX];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    return cr_err_set(parser->err, EINVAL, "%s:%u: %s", parser->file, parser->line, text);
}

/* Always fits: the '=' and the newline of a line leave room for the NUL of its key and its value.
 */
static const char *keep(struct sbx_file_parser *parser, const char *value, size_t size)
{
    char *kept = parser->storage->text + parser->storage->used;

    memcpy(kept, value, size);
    kept[size] = '\0';
    parser->storage->used += size + 1;
    return kept;
}

/* Without the blanks at both ends. */
static void trim(const char **text, size_t *size)
{
    while (*size > 0 && strchr(" \t", (*text)[0])) {
        (*text)++;
        (*size)--;
    }
    while (*size > 0 && strchr(" \t", (*text)[*size - 1]))
        (*size)--;
}

static int check_bytes(struct sbx_file_parser *parser, const char *line, size_t size)
{
    if (size > SBX_RUNTIME_LINE_MAX)
        return sbx_file_fail(parser, "%zu bytes are more than the maximum of a line, %u", size,
                             SBX_RUNTIME_LINE_MAX);
    if (!cr_utf8_is_valid(line, size))
        return sbx_file_fail(parser, "is not UTF-8");
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)line[i];

        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return sbx_file_fail(parser, "has the control character 0x%02x at byte %zu%s", byte,
                                 i + 1, byte == '\r' ? ": lines end with a newline alone" : "");
    }
    return 0;
}

static int take_line(struct sbx_file_parser *parser, const char *line, size_t size)
{
    const char *equals;
    const char *value;
    size_t key_size;
    size_t value_size;
    int r = check_bytes(parser, line, size);

    if (r < 0)
        return r;
    trim(&line, &size);
    if (size == 0 || line[0] == '#')
        return 0;
    equals = memchr(line, '=', size);
    if (!equals)
        return sbx_file_fail(parser, "'%.*s' is not 'key = value'", (int)(size < 64 ? size : 64),
                             line);
    key_size = (size_t)(equals - line);
    value = equals + 1;
    value_size = size - key_size - 1;
    trim(&line, &key_size);
    trim(&value, &value_size);
    if (value_size == 0)
        return sbx_file_fail(parser, "'%.*s' has no value", (int)(key_size < 64 ? key_size : 64),
                             line);
    return sbx_file_take(parser, keep(parser, line, key_size), keep(parser, value, value_size));
}

static int take_lines(struct sbx_file_parser *parser, const char *text, size_t size)
{
    int r = 0;

    while (r == 0 && size > 0) {
        const char *end = memchr(text, '\n', size);
        const size_t line = end ? (size_t)(end - text) : size;
        const size_t step = end ? line + 1 : line;

        parser->line++;
        r = take_line(parser, text, line);
        text += step;
        size -= step;
    }
    return r;
}

int sbx_runtime_file_parse(const char *file, const char *text, size_t size,
                           struct sbx_runtime *ret_runtime, struct cr_err *err)
{
    struct sbx_file_parser parser = {.file = file, .err = err, .runtime.needs_files = true};
    int r;

    if (size > SBX_RUNTIME_FILE_MAX)
        return cr_err_set(err, EINVAL, "%s: %zu bytes are more than the maximum of %u", file, size,
                          SBX_RUNTIME_FILE_MAX);
    parser.storage = calloc(1, sizeof(*parser.storage));
    if (!parser.storage)
        return cr_err_set(err, ENOMEM, "out of memory for the runtime in %s", file);
    parser.runtime.storage = parser.storage;
    r = take_lines(&parser, text, size);
    if (r == 0)
        r = sbx_file_finish(&parser);
    if (r < 0) {
        sbx_runtime_done(&parser.runtime);
        return r;
    }
    *ret_runtime = parser.runtime;
    return 0;
}

void sbx_runtime_done(struct sbx_runtime *runtime)
{
    free(runtime->storage);
    *runtime = (struct sbx_runtime){0};
}
