/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/runtimes/file_parser.h"
#include "sandboxd/wire/glob.h"
#include "sandboxd/wire/payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_MAX 200U
#define COMPILE_OUTPUT_MAX 8U
#define LIMIT_PREFIX "limit."
#define COMPILE_LIMIT_PREFIX "compile.limit."
#define OWN_PREFIX ".crisol" /* no request can put a file there */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

static const char name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
static const char digits[] = "0123456789";

static int add(struct sbx_file_parser *parser, struct sbx_file_list *list, size_t most,
               const char *key, const char *value)
{
    if (list->count == most)
        return sbx_file_fail(parser, "%s: more than %zu lines", key, most);
    list->items[list->count++] = value;
    return 0;
}

static int add_line(struct sbx_file_parser *parser, struct sbx_file_list *list, const char *key,
                    const char *value)
{
    return add(parser, list, SBX_RUNTIME_LIST_MAX, key, value);
}

/* ---- values ---- */

static int check_word(struct sbx_file_parser *parser, const char *key, const char *what,
                      const char *value)
{
    const size_t size = strlen(value);

    if (size <= SBX_RUNTIME_NAME_MAX && strchr(NAME_LETTERS, value[0]) &&
        strspn(value, NAME_LETTERS "._+-") == size)
        return 0;
    return sbx_file_fail(parser,
                         "%s: '%.64s' is no %s: use a to z, digits, '.', '_', '+' and '-', a "
                         "letter or a digit first, at most %u",
                         key, value, what, SBX_RUNTIME_NAME_MAX);
}

static int take_name(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.name = value;
    parser->runtime.name_line = parser->line;
    return check_word(parser, "name", "name", value);
}

static int take_version(struct sbx_file_parser *parser, const char *value)
{
    parser->version = value;
    return check_word(parser, "version", "version", value);
}

static int take_description(struct sbx_file_parser *parser, const char *value)
{
    if (strlen(value) > DESCRIPTION_MAX)
        return sbx_file_fail(parser,
                             "description: %zu bytes are more than the maximum of %u: one sentence",
                             strlen(value), DESCRIPTION_MAX);
    parser->runtime.description = value;
    return 0;
}

static int take_interpreter(struct sbx_file_parser *parser, const char *value)
{
    if (value[0] != '/')
        return sbx_file_fail(parser, "interpreter: '%.64s' is no absolute path", value);
    parser->runtime.version_path = value;
    return 0;
}

static int take_needs(struct sbx_file_parser *parser, const char *value)
{
    if (value[0] != '/')
        return sbx_file_fail(parser, "needs: '%.64s' is no absolute path", value);
    return add_line(parser, &parser->storage->needs, "needs", value);
}

/* The first item is what is executed. */
static int take_command(struct sbx_file_parser *parser, struct sbx_file_list *list, const char *key,
                        const char *value)
{
    if (list->count == 0 && value[0] != '/')
        return sbx_file_fail(parser,
                             "%s: '%.64s' comes first and is no absolute path, as /usr/bin/env is",
                             key, value);
    return add_line(parser, list, key, value);
}

static int take_argv(struct sbx_file_parser *parser, const char *value)
{
    return take_command(parser, &parser->storage->argv, "argv", value);
}

static int take_version_argv(struct sbx_file_parser *parser, const char *value)
{
    return take_command(parser, &parser->storage->version_argv, "version_argv", value);
}

static int take_compile_argv(struct sbx_file_parser *parser, const char *value)
{
    return take_command(parser, &parser->storage->compile, "compile.argv", value);
}

static int take_compile_output(struct sbx_file_parser *parser, const char *value)
{
    const char *problem = sbx_glob_problem(value, strlen(value));

    if (problem)
        return sbx_file_fail(parser, "compile.output: '%.64s' %s", value, problem);
    return add(parser, &parser->storage->compile_output, COMPILE_OUTPUT_MAX, "compile.output",
               value);
}

/* True when `line` gives the variable that `other` gives. */
static bool is_same_variable(const char *line, const char *other)
{
    const size_t size = strcspn(line, "=") + 1;

    return strncmp(line, other, size) == 0;
}

static int take_env(struct sbx_file_parser *parser, const char *value)
{
    struct sbx_file_list *list = &parser->storage->environment;
    const size_t name_size = strcspn(value, "=");

    if (value[name_size] == '\0' || name_size == 0 || strchr(digits, value[0]) ||
        strspn(value, name_characters) < name_size)
        return sbx_file_fail(
            parser, "env: '%.64s' is not NAME=value; a name has letters, digits and '_'", value);
    for (size_t i = 0; sbx_environment[i]; i++) {
        if (is_same_variable(value, sbx_environment[i]))
            return sbx_file_fail(parser, "env: '%.64s' is the same for every runtime; leave it out",
                                 value);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (is_same_variable(value, list->items[i]))
            return sbx_file_fail(parser, "env: '%.64s' has its variable a second time", value);
    }
    return add_line(parser, list, "env", value);
}

static int take_entry_file(struct sbx_file_parser *parser, const char *value)
{
    if (!sbx_path_is_safe(value, strlen(value)) || strchr(value, '/') ||
        strncmp(value, OWN_PREFIX, strlen(OWN_PREFIX)) == 0)
        return sbx_file_fail(
            parser,
            "entry_file: '%.64s' is no name of a file: without '/', not '.' or '..', and "
            "not beginning with '" OWN_PREFIX "'",
            value);
    parser->runtime.entry_file = value;
    return 0;
}

static int take_report_file(struct sbx_file_parser *parser, const char *value)
{
    if (!sbx_path_is_safe(value, strlen(value)) || strchr(value, '/') ||
        strncmp(value, OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
        return sbx_file_fail(parser,
                             "report_file: '%.64s' must begin with '" OWN_PREFIX
                             "' (no request can put a "
                             "file there) and have no '/'",
                             value);
    parser->runtime.report_file = value;
    return 0;
}

static int take_preload(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.preload_line = parser->line;
    if (strcmp(value, "none") != 0)
        parser->runtime.preload = value; /* the table knows which there are */
    return 0;
}

static int take_needs_files(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.needs_files = strcmp(value, "yes") == 0;
    if (!parser->runtime.needs_files && strcmp(value, "no") != 0)
        return sbx_file_fail(parser, "needs_files: '%.64s' is neither yes nor no", value);
    return 0;
}

extern const char sbx_cells_python[]; /* cells.py, in shipped.S */

static int take_cells(struct sbx_file_parser *parser, const char *value)
{
    if (strcmp(value, "python") == 0)
        parser->runtime.cells = sbx_cells_python;
    else if (strcmp(value, "none") != 0)
        return sbx_file_fail(parser, "cells: '%.64s' is neither python nor none", value);
    return 0;
}

static int take_rootfs(struct sbx_file_parser *parser, const char *value)
{
    const bool is_build = strcmp(value, "build") == 0;

    parser->runtime.rootfs = is_build ? SBX_ROOTFS_BUILD : SBX_ROOTFS_HOST;
    if (!is_build && strcmp(value, "host") != 0)
        return sbx_file_fail(parser, "rootfs: '%.64s' is neither host nor build", value);
    return 0;
}

/* ---- the recipe of a root file system ---- */

/* Names go into the argument of a program: these characters say nothing to it. */
static int take_token(struct sbx_file_parser *parser, const char *key, const char *legal,
                      const char *value)
{
    if (strspn(value, legal) == strlen(value) && value[0] != '-')
        return 0;
    return sbx_file_fail(parser, "%s: '%.64s' has a character that no such name has", key, value);
}

static int take_package(struct sbx_file_parser *parser, const char *value)
{
    int r = take_token(parser, "build.package", NAME_LETTERS "+-.:=~", value);

    return r < 0 ? r : add_line(parser, &parser->storage->packages, "build.package", value);
}

static int take_suite(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.suite = value;
    return take_token(parser, "build.suite", NAME_LETTERS "-", value);
}

static int take_requirements(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.requirements = value;
    return 0;
}

static int take_folder(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.folder = value;
    return 0;
}

static int take_archive(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.archive = value;
    return 0;
}

static int take_image(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.image = value;
    return take_token(parser, "build.image", NAME_LETTERS "/:.@_+-", value);
}

static int take_smoke_code(struct sbx_file_parser *parser, const char *value)
{
    return add_line(parser, &parser->storage->smoke_code, "smoke.code", value);
}

static int take_smoke_output(struct sbx_file_parser *parser, const char *value)
{
    parser->runtime.recipe.smoke_output = value;
    return 0;
}

/* ---- keys ---- */

static const struct {
    const char *name;
    bool is_list; /* may stand again */
    bool is_required;
    int (*take)(struct sbx_file_parser *parser, const char *value);
} keys[] = {
    {"name", .is_required = true, .take = take_name},
    {"description", .is_required = true, .take = take_description},
    {"argv", .is_list = true, .is_required = true, .take = take_argv},
    {"env", .is_list = true, .take = take_env},
    {"version", .take = take_version},
    {"interpreter", .take = take_interpreter},
    {"needs", .is_list = true, .take = take_needs},
    {"version_argv", .is_list = true, .take = take_version_argv},
    {"entry_file", .take = take_entry_file},
    {"report_file", .take = take_report_file},
    {"needs_files", .take = take_needs_files},
    {"preload", .take = take_preload},
    {"cells", .take = take_cells},
    {"compile.argv", .is_list = true, .take = take_compile_argv},
    {"compile.output", .is_list = true, .take = take_compile_output},
    {"rootfs", .take = take_rootfs},
    {"build.suite", .take = take_suite},
    {"build.package", .is_list = true, .take = take_package},
    {"build.requirements", .take = take_requirements},
    {"build.folder", .take = take_folder},
    {"build.archive", .take = take_archive},
    {"build.image", .take = take_image},
    {"smoke.code", .is_list = true, .take = take_smoke_code},
    {"smoke.output", .take = take_smoke_output},
};

_Static_assert(CR_ARRAY_SIZE(keys) <= 32, "one bit each in `seen`");

static int take_limit(struct sbx_file_parser *parser, const char *prefix, const char *name,
                      const char *value, struct sbx_limits *limits, uint32_t *seen)
{
    char *end;
    uint32_t limit = 0;
    uint64_t number;

    while (limit < SBX_LIMIT_COUNT && strcmp(sbx_limit_name(limit), name) != 0)
        limit++;
    if (limit == SBX_LIMIT_COUNT)
        return sbx_file_fail(parser,
                             "'%s%.64s' is no limit: the names are those of Limits in "
                             "sandbox.proto, such as %smemory_bytes",
                             prefix, name, prefix);
    if (*seen & (UINT32_C(1) << limit))
        return sbx_file_fail(parser, "%s%s: stands a second time", prefix, name);
    *seen |= UINT32_C(1) << limit;
    errno = 0;
    number = strtoull(value, &end, 10);
    if (!strchr(digits, value[0]) || *end || errno != 0)
        return sbx_file_fail(parser, "%s%s: '%.64s' is no number", prefix, name, value);
    if (number < sbx_minimum_limits.value[limit] || number > sbx_maximum_limits.value[limit])
        return sbx_file_fail(parser, "%s%s: %" PRIu64 " is out of range: %" PRIu64 " to %" PRIu64,
                             prefix, name, number, sbx_minimum_limits.value[limit],
                             sbx_maximum_limits.value[limit]);
    limits->value[limit] = number;
    return 0;
}

static int refuse_key(struct sbx_file_parser *parser, const char *key)
{
    char known[CR_ERR_TEXT_MAX] = "";

    for (size_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        const size_t used = strlen(known);

        (void)snprintf(known + used, sizeof(known) - used, "%s, ", keys[i].name);
    }
    return sbx_file_fail(
        parser, "'%.64s' is no key: %s" LIMIT_PREFIX "… or " COMPILE_LIMIT_PREFIX "…", key, known);
}

int sbx_file_take(struct sbx_file_parser *parser, const char *key, const char *value)
{
    for (uint32_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].name, key) != 0)
            continue;
        if (!keys[i].is_list && (parser->seen & (UINT32_C(1) << i)))
            return sbx_file_fail(parser, "%s: stands a second time", key);
        parser->seen |= UINT32_C(1) << i;
        return keys[i].take(parser, value);
    }
    if (strncmp(key, LIMIT_PREFIX, strlen(LIMIT_PREFIX)) == 0)
        return take_limit(parser, LIMIT_PREFIX, key + strlen(LIMIT_PREFIX), value,
                          &parser->runtime.defaults, &parser->seen_limits);
    if (strncmp(key, COMPILE_LIMIT_PREFIX, strlen(COMPILE_LIMIT_PREFIX)) == 0)
        return take_limit(parser, COMPILE_LIMIT_PREFIX, key + strlen(COMPILE_LIMIT_PREFIX), value,
                          &parser->runtime.compile_limits, &parser->seen_compile_limits);
    return refuse_key(parser, key);
}

/* ---- the end ---- */

static bool has_entry_file(const struct sbx_file_parser *parser)
{
    const char *entry = parser->runtime.entry_file;

    for (size_t i = 0; entry && i < parser->storage->argv.count; i++) {
        if (strcmp(parser->storage->argv.items[i], entry) == 0)
            return true;
    }
    return false;
}

static int check_compile(struct sbx_file_parser *parser)
{
    const struct sbx_file_storage *storage = parser->storage;

    if ((storage->compile.count > 0) != (storage->compile_output.count > 0))
        return sbx_file_fail(parser, "the file ends with one of compile.argv and compile.output: "
                                     "the one makes what the other names");
    if (storage->compile.count > 0 && parser->runtime.report_file)
        return sbx_file_fail(parser, "report_file: does not go with compile.argv");
    /* The program takes the place of the entry file in the argv. */
    if (parser->runtime.cells && (!has_entry_file(parser) || storage->compile.count > 0))
        return sbx_file_fail(parser,
                             "cells: a line of argv must be the entry_file alone, and there "
                             "can be no compile.argv");
    return 0;
}

static int check_recipe(struct sbx_file_parser *parser)
{
    const struct sbx_file_storage *storage = parser->storage;
    const struct sbx_recipe *recipe = &parser->runtime.recipe;
    const bool has_packages = storage->packages.count > 0;

    if (parser->runtime.rootfs == SBX_ROOTFS_BUILD && !has_packages && !recipe->folder &&
        !recipe->archive)
        return sbx_file_fail(parser, "rootfs: build needs build.package, build.folder or "
                                     "build.archive");
    if (has_packages && recipe->archive)
        return sbx_file_fail(parser, "build.archive: is a whole root file system, so it does not "
                                     "go with build.package; build.folder and build.requirements "
                                     "can be laid over either");
    if (recipe->image && !recipe->archive)
        return sbx_file_fail(parser, "build.image: names an image of a build.archive, and there is "
                                     "none");
    if (recipe->smoke_output && storage->smoke_code.count == 0)
        return sbx_file_fail(parser, "smoke.output: there is no smoke.code that could print it");
    if (storage->smoke_code.count > 0 && !parser->runtime.entry_file)
        return sbx_file_fail(parser, "smoke.code: there is no entry_file to write it to");
    return 0;
}

static void publish(struct sbx_file_parser *parser)
{
    struct sbx_runtime *runtime = &parser->runtime;
    struct sbx_file_storage *storage = parser->storage;

    runtime->argv = storage->argv.items;
    runtime->environment = storage->environment.items;
    runtime->needs = storage->needs.items;
    runtime->version_argv = storage->version_argv.items;
    runtime->compile = storage->compile.items;
    runtime->compile_output = storage->compile_output.items;
    runtime->recipe.packages = storage->packages.items;
    runtime->recipe.smoke_code = storage->smoke_code.items;
    if (!runtime->recipe.suite)
        runtime->recipe.suite = "bookworm";
    if (!runtime->version_path)
        runtime->version_path =
            storage->compile.count > 0 ? storage->compile.items[0] : storage->argv.items[0];
    if (!parser->version)
        return;
    (void)snprintf(storage->name, sizeof(storage->name), "%s:%s", runtime->name, parser->version);
    runtime->name = storage->name;
}

int sbx_file_finish(struct sbx_file_parser *parser)
{
    int r;

    for (uint32_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        if (keys[i].is_required && !(parser->seen & (UINT32_C(1) << i)))
            return sbx_file_fail(parser, "the file ends without '%s = …'", keys[i].name);
    }
    r = check_compile(parser);
    if (r == 0)
        r = check_recipe(parser);
    if (r == 0)
        publish(parser);
    return r;
}
