/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config_print.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/config_file.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOG_TEXT_MAX 1500
#define HELP_COLUMNS 96

/* ---- help ---- */

static void help_setting(const struct cr_config_program *program, const struct cr_setting *setting)
{
    static const char *const value_names[] = {
        [CR_SETTING_STRING] = "=TEXT", [CR_SETTING_UINT] = "=N", [CR_SETTING_BOOL] = ""};
    char name[CR_CONFIG_ENVIRONMENT_MAX];

    if (setting->is_secret && program->prefix)
        printf("  --%s-file=PATH [%s_FILE, or %s with the secret itself]\n      %s\n",
               setting->flag, setting->environment, setting->environment, setting->help);
    else if (setting->is_secret)
        printf("  %s (environment only)\n      %s\n", setting->environment, setting->help);
    if (setting->is_secret)
        return;
    printf("  --%s%s", setting->flag, value_names[setting->type]);
    if (cr_config_environment(program, setting, name))
        printf(" [%s]", name);
    printf("\n      %s", setting->help);
    if (setting->fallback)
        printf(" Default: %s.", setting->fallback);
    printf("\n");
}

static void help_text(const struct cr_config_program *program)
{
    printf("Usage: %s [settings]\n\n%s\n\nSettings:\n", program->name, program->description);
    for (size_t i = 0; i < program->count; i++)
        help_setting(program, &program->settings[i]);
    if (program->prefix)
        printf("  --config=PATH [%sCONFIG]\n      File with lines 'name = value', the names being "
               "those above without '--'. A flag wins over the environment, that over the file.\n"
               "  --print-config\n      Print the settings in force as such a file, and end.\n",
               program->prefix);
    printf("  --help\n      Print this; --help=conf: an example file, --help=markdown: a table.\n"
           "  --version\n      Print the version.\n");
}

/* A comment of whole lines. */
static void print_comment(const char *text)
{
    while (*text) {
        size_t size = strlen(text);
        size_t length = size;

        if (size > HELP_COLUMNS) {
            const char *space = memrchr(text, ' ', HELP_COLUMNS);

            length = space ? (size_t)(space - text) : HELP_COLUMNS;
        }
        printf("# %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* The default as text; a secret's file has none. */
static const char *standard(const struct cr_setting *setting)
{
    static const char *const zeros[] = {
        [CR_SETTING_STRING] = "", [CR_SETTING_UINT] = "0", [CR_SETTING_BOOL] = "false"};

    return setting->fallback ? setting->fallback : zeros[setting->type];
}

static void help_conf(const struct cr_config_program *program)
{
    printf("# Settings of %s, each with its default. A flag (--name=value) and the environment "
           "win\n# over this file; `%s --help` has their names, `%s --check-config` reads them.\n",
           program->name, program->name, program->name);
    for (size_t i = 0; i < program->count; i++) {
        const struct cr_setting *setting = &program->settings[i];

        if (setting->is_action)
            continue;
        printf("\n");
        print_comment(setting->help);
        if (setting->type == CR_SETTING_UINT)
            printf("# From %" PRIu64 " to %" PRIu64 ".\n", setting->min, setting->max);
        printf("#%s%s =%s%s\n", setting->flag, setting->is_secret ? "-file" : "",
               *standard(setting) ? " " : "", standard(setting));
    }
}

static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void help_row(const struct cr_config_program *program, const struct cr_setting *setting)
{
    char name[CR_CONFIG_ENVIRONMENT_MAX];

    if (setting->is_secret)
        printf("| `%s-file` | `%s_FILE`, `%s` |", setting->flag, setting->environment,
               setting->environment);
    else if (cr_config_environment(program, setting, name))
        printf("| `%s` | `%s` |", setting->flag, name);
    else
        printf("| `%s` | |", setting->flag);
    if (setting->fallback && *setting->fallback)
        printf(" `%s`", setting->fallback);
    printf(" | ");
    print_cell(setting->help);
    if (setting->type == CR_SETTING_UINT)
        printf(" %" PRIu64 "…%" PRIu64 ".", setting->min, setting->max);
    printf(" |\n");
}

static void help_markdown(const struct cr_config_program *program)
{
    printf("| Setting | Environment | Default | Meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < program->count; i++)
        help_row(program, &program->settings[i]);
}

bool cr_config_help(const struct cr_config_program *program, const char *form)
{
    if (strcmp(form, "") == 0)
        help_text(program);
    else if (strcmp(form, "=conf") == 0)
        help_conf(program);
    else if (strcmp(form, "=markdown") == 0)
        help_markdown(program);
    else
        return false;
    return true;
}

/* ---- values ---- */

/* One value as text, a secret masked. Returns as cr_buf_add(). */
static int add_value(struct cr_buf *line, const struct cr_setting *setting, const void *values)
{
    const void *slot = (const char *)values + setting->offset;
    const char *text;

    switch (setting->type) {
    case CR_SETTING_UINT:
        return cr_buf_printf(line, "%" PRIu64, *(const uint64_t *)slot);
    case CR_SETTING_BOOL:
        return cr_buf_add_str(line, *(const bool *)slot ? "true" : "false");
    case CR_SETTING_STRING:
        break;
    }
    text = *(const char *const *)slot;
    if (setting->is_secret)
        return cr_buf_add_str(line, text && *text ? "(set)" : "(not set)");
    return cr_buf_add_str(line, text ? text : "");
}

static void print_setting(const struct cr_setting *setting, const char *name, const void *values)
{
    CR_AUTO_BUF struct cr_buf line;

    cr_buf_init(&line, CR_CONFIG_LINE_MAX);
    if (add_value(&line, setting, values) < 0)
        cr_buf_clear(&line);
    printf("%s =%s%s\n", name, line.size > 0 ? " " : "", cr_buf_str(&line));
}

void cr_config_print(const struct cr_setting *settings, size_t count, const void *values)
{
    for (size_t i = 0; i < count; i++)
        print_setting(&settings[i],
                      settings[i].is_secret ? settings[i].environment : settings[i].flag, values);
    printf("the settings are well formed\n");
}

void cr_config_print_file(const struct cr_config_program *program, const void *values)
{
    for (size_t i = 0; i < program->count; i++) {
        const struct cr_setting *setting = &program->settings[i];

        if (setting->is_action)
            continue;
        if (setting->is_secret)
            printf("# ");
        print_setting(setting, setting->flag, values);
    }
}

/* One setting as " name=value". */
static int add_setting(struct cr_buf *line, const struct cr_setting *setting, const void *values)
{
    CR_AUTO_BUF struct cr_buf value;
    int r;

    cr_buf_init(&value, CR_CONFIG_LINE_MAX);
    r = add_value(&value, setting, values);
    if (r < 0)
        return r;
    return cr_buf_printf(line, " %s=%s", setting->flag ? setting->flag : setting->environment,
                         cr_buf_str(&value));
}

void cr_config_log(const struct cr_setting *settings, size_t count, const void *values)
{
    CR_AUTO_BUF struct cr_buf line = {0};

    cr_buf_init(&line, LOG_TEXT_MAX);
    for (size_t i = 0; i < count; i++) {
        /* A full line is written and a new one begun. */
        if (add_setting(&line, &settings[i], values) == -ENOSPC) {
            cr_log_info("settings%s", cr_buf_str(&line));
            cr_buf_clear(&line);
            (void)add_setting(&line, &settings[i], values);
        }
    }
    cr_log_info("settings%s", cr_buf_str(&line));
}
