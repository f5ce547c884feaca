/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_TEXT_MAX 1500

static void *member(const struct cr_setting *setting, void *values)
{
    return (char *)values + setting->offset;
}

/* Decimal digits only: strtoull takes signs and white space, which a setting must not. */
static int parse_uint(const char *text, uint64_t *ret_value)
{
    char *end = NULL;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? 0 : -EINVAL;
}

static int set_uint(const struct cr_setting *setting, const char *origin, const char *text,
                    void *values, struct cr_err *err)
{
    uint64_t value;

    if (parse_uint(text, &value) < 0 || value < setting->min || value > setting->max)
        return cr_err_set(err, EINVAL,
                          "%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, origin,
                          text, setting->min, setting->max);
    *(uint64_t *)member(setting, values) = value;
    return 0;
}

static int set_bool(const struct cr_setting *setting, const char *origin, const char *text,
                    void *values, struct cr_err *err)
{
    bool is_true = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;

    if (!is_true && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return cr_err_set(err, EINVAL, "%s: '%s' is neither true nor false", origin, text);
    *(bool *)member(setting, values) = is_true;
    return 0;
}

static int set_string(const struct cr_setting *setting, const char *text, bool is_append,
                      void *values, struct cr_err *err)
{
    char **slot = member(setting, values);
    char *joined = NULL;
    int n;

    if (is_append && *slot && **slot)
        n = asprintf(&joined, "%s,%s", *slot, text);
    else
        n = asprintf(&joined, "%s", text);
    if (n < 0)
        return cr_err_set(err, ENOMEM, "out of memory for --%s", setting->flag);
    free(*slot);
    *slot = joined;
    return 0;
}

/* `origin` names the flag or variable in an error. */
static int set(const struct cr_setting *setting, const char *origin, const char *text,
               bool is_append, void *values, struct cr_err *err)
{
    switch (setting->type) {
    case CR_SETTING_UINT:
        return set_uint(setting, origin, text, values, err);
    case CR_SETTING_BOOL:
        return set_bool(setting, origin, text, values, err);
    case CR_SETTING_STRING:
        break;
    }
    return set_string(setting, text, is_append && setting->is_list, values, err);
}

static void print_help(const struct cr_setting *settings, size_t count, const char *program,
                       const char *description)
{
    static const char *const value_names[] = {
        [CR_SETTING_STRING] = "=TEXT", [CR_SETTING_UINT] = "=N", [CR_SETTING_BOOL] = ""};

    printf("Usage: %s [settings]\n\n%s\n\nSettings:\n", program, description);
    for (size_t i = 0; i < count; i++) {
        const struct cr_setting *setting = &settings[i];

        if (setting->is_secret) {
            printf("  %s (environment only)\n      %s\n", setting->environment, setting->help);
            continue;
        }
        printf("  --%s%s", setting->flag, value_names[setting->type]);
        if (setting->environment)
            printf(" [%s]", setting->environment);
        printf("\n      %s", setting->help);
        if (setting->fallback)
            printf(" Default: %s.", setting->fallback);
        printf("\n");
    }
    printf("  --help\n      Print this.\n  --version\n      Print the version.\n");
}

static const struct cr_setting *find(const struct cr_setting *settings, size_t count,
                                     const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        const char *flag = settings[i].flag;

        if (flag && strncmp(flag, name, length) == 0 && flag[length] == '\0')
            return &settings[i];
    }
    return NULL;
}

/* Reads one flag at argv[*at] and moves *at past it. */
static int load_flag(const struct cr_setting *settings, size_t count, int argc, char **argv,
                     int *at, void *values, struct cr_err *err)
{
    const char *word = argv[*at];
    const struct cr_setting *setting;
    const char *value;
    size_t length;

    if (strncmp(word, "--", 2) != 0)
        return cr_err_set(err, EINVAL, "'%s' is not a setting; see --help", word);
    length = strcspn(word + 2, "=");
    setting = find(settings, count, word + 2, length);
    if (!setting)
        return cr_err_set(err, EINVAL, "there is no setting '%.*s'; see --help", (int)length + 2,
                          word);
    if (setting->is_secret)
        return cr_err_set(err, EINVAL,
                          "--%s is a secret and would show in the process list: set %s instead",
                          setting->flag, setting->environment);
    if (word[2 + length] == '=') {
        value = word + 2 + length + 1;
    } else if (setting->type == CR_SETTING_BOOL) {
        value = "true";
    } else {
        if (*at + 1 >= argc)
            return cr_err_set(err, EINVAL, "--%s needs a value", setting->flag);
        value = argv[++*at];
    }
    (*at)++;
    return set(setting, word, value, true, values, err);
}

static int load_defaults(const struct cr_setting *settings, size_t count, void *values,
                         struct cr_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct cr_setting *setting = &settings[i];
        const char *text = setting->environment ? secure_getenv(setting->environment) : NULL;
        int r = 0;

        if (text && *text)
            r = set(setting, setting->environment, text, false, values, err);
        else if (setting->fallback)
            r = set(setting, setting->flag, setting->fallback, false, values, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A list given by flags replaces the default or the environment: forget those first. */
static void clear_lists(const struct cr_setting *settings, size_t count, int argc, char **argv,
                        void *values)
{
    for (int at = 1; at < argc; at++) {
        const struct cr_setting *setting;

        if (strncmp(argv[at], "--", 2) != 0)
            continue;
        setting = find(settings, count, argv[at] + 2, strcspn(argv[at] + 2, "="));
        if (setting && setting->is_list) {
            free(*(char **)member(setting, values));
            *(char **)member(setting, values) = NULL;
        }
    }
}

int cr_config_load(const struct cr_setting *settings, size_t count, const char *program,
                   const char *description, int argc, char **argv, void *values, struct cr_err *err)
{
    int r;

    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0) {
            print_help(settings, count, program, description);
            return 1;
        }
        if (strcmp(argv[at], "--version") == 0) {
            printf("%s %s\n", program, CR_VERSION);
            return 1;
        }
    }
    r = load_defaults(settings, count, values, err);
    if (r < 0)
        return r;
    clear_lists(settings, count, argc, argv, values);
    for (int at = 1; at < argc;) {
        r = load_flag(settings, count, argc, argv, &at, values, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void print_text(const struct cr_setting *setting, const char *text)
{
    bool is_set = text && *text;

    if (setting->is_secret)
        text = is_set ? "(set)" : "(not set)";
    printf("%s\n", text ? text : "");
}

void cr_config_print(const struct cr_setting *settings, size_t count, const void *values)
{
    for (size_t i = 0; i < count; i++) {
        const void *slot = (const char *)values + settings[i].offset;

        printf("%s = ", settings[i].is_secret ? settings[i].environment : settings[i].flag);
        switch (settings[i].type) {
        case CR_SETTING_UINT:
            printf("%" PRIu64 "\n", *(const uint64_t *)slot);
            break;
        case CR_SETTING_BOOL:
            printf("%s\n", *(const bool *)slot ? "true" : "false");
            break;
        case CR_SETTING_STRING:
            print_text(&settings[i], *(const char *const *)slot);
            break;
        }
    }
    printf("the settings are well formed\n");
}

void cr_config_done(const struct cr_setting *settings, size_t count, void *values)
{
    for (size_t i = 0; i < count; i++) {
        char **slot;

        if (settings[i].type != CR_SETTING_STRING)
            continue;
        slot = member(&settings[i], values);
        if (*slot && settings[i].is_secret)
            explicit_bzero(*slot, strlen(*slot));
        free(*slot);
        *slot = NULL;
    }
}

/* One setting as " name=value". */
static int add_setting(struct cr_buf *line, const struct cr_setting *setting, const void *values)
{
    const void *slot = (const char *)values + setting->offset;
    const char *name = setting->flag ? setting->flag : setting->environment;
    const char *text;

    switch (setting->type) {
    case CR_SETTING_UINT:
        return cr_buf_printf(line, " %s=%" PRIu64, name, *(const uint64_t *)slot);
    case CR_SETTING_BOOL:
        return cr_buf_printf(line, " %s=%s", name, *(const bool *)slot ? "true" : "false");
    case CR_SETTING_STRING:
        break;
    }
    text = *(const char *const *)slot;
    if (setting->is_secret)
        return cr_buf_printf(line, " %s=%s", name, text && *text ? "(set)" : "(not set)");
    return cr_buf_printf(line, " %s=%s", name, text ? text : "");
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
