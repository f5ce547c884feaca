/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/runtimes/file.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/utf8.h"
#include "sandboxd/wire/payload.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_MAX 200U
#define LIMIT_PREFIX "limit."
#define OWN_PREFIX ".crisol" /* no request can put a file there */

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
static const char digits[] = "0123456789";

/* What the texts of a runtime point into. */
struct storage {
    const char *argv[SBX_RUNTIME_LIST_MAX + 1];
    const char *environment[SBX_RUNTIME_LIST_MAX + 1];
    size_t argv_count;
    size_t environment_count;
    size_t used;
    char text[SBX_RUNTIME_FILE_MAX + 1]; /* a last line may have no newline */
};

struct parser {
    const char *file; /* borrowed: its name, for errors */
    unsigned int line;
    uint32_t seen;        /* bit per key that stands once */
    uint32_t seen_limits; /* bit per limit */
    struct storage *storage;
    struct sbx_runtime runtime;
    struct cr_err *err;
};

static int fail(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fail(struct parser *parser, const char *format, ...)
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
static const char *keep(struct parser *parser, const char *value, size_t size)
{
    char *kept = parser->storage->text + parser->storage->used;

    memcpy(kept, value, size);
    kept[size] = '\0';
    parser->storage->used += size + 1;
    return kept;
}

/* ---- values ---- */

static int take_name(struct parser *parser, const char *value)
{
    const size_t size = strlen(value);

    if (size > SBX_RUNTIME_NAME_MAX || !strchr(lower, value[0]) ||
        strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789._+-") != size)
        return fail(parser,
                    "name: '%.64s' is no name: use a to z, digits, '.', '_', '+' and '-', a letter "
                    "or a digit first, at most %u",
                    value, SBX_RUNTIME_NAME_MAX);
    parser->runtime.name = value;
    parser->runtime.name_line = parser->line;
    return 0;
}

static int take_description(struct parser *parser, const char *value)
{
    if (strlen(value) > DESCRIPTION_MAX)
        return fail(parser, "description: %zu bytes are more than the maximum of %u: one sentence",
                    strlen(value), DESCRIPTION_MAX);
    parser->runtime.description = value;
    return 0;
}

static int take_interpreter(struct parser *parser, const char *value)
{
    if (value[0] != '/')
        return fail(parser, "interpreter: '%.64s' is no absolute path", value);
    parser->runtime.version_path = value;
    return 0;
}

static int take_argv(struct parser *parser, const char *value)
{
    struct storage *storage = parser->storage;

    if (storage->argv_count == 0 && value[0] != '/')
        return fail(parser, "argv: '%.64s' comes first and is no absolute path, as /usr/bin/env is",
                    value);
    if (storage->argv_count == SBX_RUNTIME_LIST_MAX)
        return fail(parser, "argv: more than %u lines", SBX_RUNTIME_LIST_MAX);
    storage->argv[storage->argv_count++] = value;
    return 0;
}

/* True when `line` gives the variable that `other` gives. */
static bool is_same_variable(const char *line, const char *other)
{
    const size_t size = strcspn(line, "=") + 1;

    return strncmp(line, other, size) == 0;
}

static int take_env(struct parser *parser, const char *value)
{
    struct storage *storage = parser->storage;
    const size_t name_size = strcspn(value, "=");

    if (value[name_size] == '\0' || name_size == 0 || strchr(digits, value[0]) ||
        strspn(value, name_characters) < name_size)
        return fail(parser, "env: '%.64s' is not NAME=value; a name has letters, digits and '_'",
                    value);
    for (size_t i = 0; sbx_environment[i]; i++) {
        if (is_same_variable(value, sbx_environment[i]))
            return fail(parser, "env: '%.64s' is the same for every runtime; leave it out", value);
    }
    for (size_t i = 0; i < storage->environment_count; i++) {
        if (is_same_variable(value, storage->environment[i]))
            return fail(parser, "env: '%.64s' has its variable a second time", value);
    }
    if (storage->environment_count == SBX_RUNTIME_LIST_MAX)
        return fail(parser, "env: more than %u lines", SBX_RUNTIME_LIST_MAX);
    storage->environment[storage->environment_count++] = value;
    return 0;
}

static int take_entry_file(struct parser *parser, const char *value)
{
    if (!sbx_path_is_safe(value, strlen(value)) || strchr(value, '/') ||
        strncmp(value, OWN_PREFIX, strlen(OWN_PREFIX)) == 0)
        return fail(parser,
                    "entry_file: '%.64s' is no name of a file: without '/', not '.' or '..', and "
                    "not beginning with '" OWN_PREFIX "'",
                    value);
    parser->runtime.entry_file = value;
    return 0;
}

static int take_report_file(struct parser *parser, const char *value)
{
    if (!sbx_path_is_safe(value, strlen(value)) || strchr(value, '/') ||
        strncmp(value, OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
        return fail(parser,
                    "report_file: '%.64s' must begin with '" OWN_PREFIX "' (no request can put a "
                    "file there) and have no '/'",
                    value);
    parser->runtime.report_file = value;
    return 0;
}

static int take_preload(struct parser *parser, const char *value)
{
    parser->runtime.preload_line = parser->line;
    if (strcmp(value, "none") != 0)
        parser->runtime.preload = value; /* the table knows which there are */
    return 0;
}

static int take_needs_files(struct parser *parser, const char *value)
{
    parser->runtime.needs_files = strcmp(value, "yes") == 0;
    if (!parser->runtime.needs_files && strcmp(value, "no") != 0)
        return fail(parser, "needs_files: '%.64s' is neither yes nor no", value);
    return 0;
}

static int take_rootfs(struct parser *parser, const char *value)
{
    if (strcmp(value, "host") != 0)
        return fail(parser, "rootfs: '%.64s' is not known; host is the only one", value);
    parser->runtime.rootfs = SBX_ROOTFS_HOST;
    return 0;
}

/* ---- keys ---- */

static const struct {
    const char *name;
    bool is_list; /* may stand again */
    bool is_required;
    int (*take)(struct parser *parser, const char *value);
} keys[] = {
    {"name", .is_required = true, .take = take_name},
    {"description", .is_required = true, .take = take_description},
    {"argv", .is_list = true, .is_required = true, .take = take_argv},
    {"env", .is_list = true, .take = take_env},
    {"interpreter", .take = take_interpreter},
    {"entry_file", .take = take_entry_file},
    {"report_file", .take = take_report_file},
    {"needs_files", .take = take_needs_files},
    {"preload", .take = take_preload},
    {"rootfs", .take = take_rootfs},
};

static int take_limit(struct parser *parser, const char *name, const char *value)
{
    char *end;
    uint32_t limit = 0;
    uint64_t number;

    while (limit < SBX_LIMIT_COUNT && strcmp(sbx_limit_name(limit), name) != 0)
        limit++;
    if (limit == SBX_LIMIT_COUNT)
        return fail(parser,
                    "'" LIMIT_PREFIX "%.64s' is no limit: the names are those of Limits in "
                    "sandbox.proto, such as " LIMIT_PREFIX "memory_bytes",
                    name);
    if (parser->seen_limits & (UINT32_C(1) << limit))
        return fail(parser, LIMIT_PREFIX "%s: stands a second time", name);
    parser->seen_limits |= UINT32_C(1) << limit;
    errno = 0;
    number = strtoull(value, &end, 10);
    if (!strchr(digits, value[0]) || *end || errno != 0)
        return fail(parser, LIMIT_PREFIX "%s: '%.64s' is no number", name, value);
    if (number < sbx_minimum_limits.value[limit] || number > sbx_maximum_limits.value[limit])
        return fail(parser, LIMIT_PREFIX "%s: %" PRIu64 " is out of range: %" PRIu64 " to %" PRIu64,
                    name, number, sbx_minimum_limits.value[limit], sbx_maximum_limits.value[limit]);
    parser->runtime.defaults.value[limit] = number;
    return 0;
}

static int take_key(struct parser *parser, const char *key, const char *value)
{
    for (uint32_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].name, key) != 0)
            continue;
        if (!keys[i].is_list && (parser->seen & (UINT32_C(1) << i)))
            return fail(parser, "%s: stands a second time", key);
        parser->seen |= UINT32_C(1) << i;
        return keys[i].take(parser, value);
    }
    if (strncmp(key, LIMIT_PREFIX, strlen(LIMIT_PREFIX)) == 0)
        return take_limit(parser, key + strlen(LIMIT_PREFIX), value);
    return fail(parser,
                "'%.64s' is no key: name, description, argv, env, interpreter, entry_file, "
                "report_file, needs_files, preload, rootfs, or " LIMIT_PREFIX "…",
                key);
}

/* ---- lines ---- */

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

static int check_bytes(struct parser *parser, const char *line, size_t size)
{
    if (size > SBX_RUNTIME_LINE_MAX)
        return fail(parser, "%zu bytes are more than the maximum of a line, %u", size,
                    SBX_RUNTIME_LINE_MAX);
    if (!cr_utf8_is_valid(line, size))
        return fail(parser, "is not UTF-8");
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)line[i];

        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return fail(parser, "has the control character 0x%02x at byte %zu%s", byte, i + 1,
                        byte == '\r' ? ": lines end with a newline alone" : "");
    }
    return 0;
}

static int take_line(struct parser *parser, const char *line, size_t size)
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
        return fail(parser, "'%.*s' is not 'key = value'", (int)(size < 64 ? size : 64), line);
    key_size = (size_t)(equals - line);
    value = equals + 1;
    value_size = size - key_size - 1;
    trim(&line, &key_size);
    trim(&value, &value_size);
    if (value_size == 0)
        return fail(parser, "'%.*s' has no value", (int)(key_size < 64 ? key_size : 64), line);
    return take_key(parser, keep(parser, line, key_size), keep(parser, value, value_size));
}

static int take_lines(struct parser *parser, const char *text, size_t size)
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

static int finish(struct parser *parser)
{
    struct storage *storage = parser->storage;

    for (uint32_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        if (keys[i].is_required && !(parser->seen & (UINT32_C(1) << i)))
            return fail(parser, "the file ends without '%s = …'", keys[i].name);
    }
    parser->runtime.argv = storage->argv;
    parser->runtime.environment = storage->environment;
    if (!parser->runtime.version_path)
        parser->runtime.version_path = storage->argv[0];
    return 0;
}

int sbx_runtime_file_parse(const char *file, const char *text, size_t size,
                           struct sbx_runtime *ret_runtime, struct cr_err *err)
{
    struct parser parser = {.file = file, .err = err, .runtime.needs_files = true};
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
        r = finish(&parser);
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
