/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"

#include "common/auto.h"
#include "common/config_file.h"
#include "common/config_print.h"
#include "common/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_MAX 8192U

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

/* One load: where the values go, and which settings the present layer has given. */
struct load {
    const struct cr_config_program *program;
    void *values;
    bool *is_given;
};

#define FILE_SUFFIX "-file"

/* The setting that `name` gives, or, when it is a secret's with "-file" behind it, names a file of.
 */
static const struct cr_setting *find(const struct cr_config_program *program, const char *name,
                                     size_t length, bool *ret_is_file)
{
    static const size_t suffix = sizeof(FILE_SUFFIX) - 1;

    *ret_is_file = false;
    for (size_t i = 0; i < program->count; i++) {
        const struct cr_setting *setting = &program->settings[i];
        size_t size = setting->flag ? strlen(setting->flag) : 0;

        if (!setting->flag || strncmp(setting->flag, name, size) != 0)
            continue;
        if (length == size)
            return setting;
        if (setting->is_secret && program->prefix && length == size + suffix &&
            strncmp(name + size, FILE_SUFFIX, suffix) == 0) {
            *ret_is_file = true;
            return setting;
        }
    }
    return NULL;
}

int cr_config_read_secret(const char *path, char **ret_secret, struct cr_err *err)
{
    char *text = NULL;
    size_t file_size = 0;
    size_t begin = 0;
    size_t size = 0;
    int r = cr_config_file_load(path, SECRET_MAX, &text, &file_size, err);

    if (r < 0)
        return r;
    while (begin < file_size && (text[begin] == ' ' || text[begin] == '\t'))
        begin++;
    while (begin + size < file_size && !strchr(" \t\r\n", text[begin + size]))
        size++;
    if (size > 0)
        *ret_secret = strndup(text + begin, size);
    else
        r = cr_err_set(err, EINVAL, "the first line of '%s' is empty", path);
    if (size > 0 && !*ret_secret)
        r = cr_err_set(err, ENOMEM, "out of memory for a secret");
    explicit_bzero(text, file_size);
    free(text);
    return r;
}

static int set_from_file(struct load *load, const struct cr_setting *setting, const char *origin,
                         const char *path, struct cr_err *err)
{
    char **slot = member(setting, load->values);
    char *secret = NULL;
    int r = cr_config_read_secret(path, &secret, err);

    if (r < 0)
        return cr_err_wrap(err, "%s", origin);
    if (*slot)
        explicit_bzero(*slot, strlen(*slot));
    free(*slot);
    *slot = secret;
    return 0;
}

/* A list that a layer gives replaces what the layers below it gave; within a layer it grows. */
static int give(struct load *load, const struct cr_setting *setting, const char *origin,
                const char *text, struct cr_err *err)
{
    size_t index = (size_t)(setting - load->program->settings);
    bool is_more = load->is_given[index];

    load->is_given[index] = true;
    return set(setting, origin, text, is_more, load->values, err);
}

static void begin_layer(struct load *load)
{
    memset(load->is_given, 0, load->program->count * sizeof(*load->is_given));
}

/* ---- defaults, environment ---- */

static int load_defaults(struct load *load, struct cr_err *err)
{
    int r = 0;

    begin_layer(load);
    for (size_t i = 0; r == 0 && i < load->program->count; i++) {
        const struct cr_setting *setting = &load->program->settings[i];

        if (setting->fallback)
            r = give(load, setting, setting->flag, setting->fallback, err);
    }
    return r;
}

bool cr_config_environment(const struct cr_config_program *program,
                           const struct cr_setting *setting, char name[CR_CONFIG_ENVIRONMENT_MAX])
{
    int size;

    if (setting->environment) {
        (void)snprintf(name, CR_CONFIG_ENVIRONMENT_MAX, "%s", setting->environment);
        return true;
    }
    if (!program->prefix || setting->is_action)
        return false;
    size = snprintf(name, CR_CONFIG_ENVIRONMENT_MAX, "%s%s", program->prefix, setting->flag);
    for (int i = 0; i < size && i < CR_CONFIG_ENVIRONMENT_MAX - 1; i++) {
        if (name[i] == '-')
            name[i] = '_';
        else if (name[i] >= 'a' && name[i] <= 'z')
            name[i] = (char)(name[i] - 'a' + 'A');
    }
    return true;
}

/* NAME_FILE of a secret: the one or the other, so that nobody has to know which one wins. */
static int load_secret_file(struct load *load, const struct cr_setting *setting, const char *name,
                            bool has_value, struct cr_err *err)
{
    char file_name[CR_CONFIG_ENVIRONMENT_MAX + sizeof("_FILE")];
    const char *path;

    if (!setting->is_secret || !load->program->prefix)
        return 0;
    (void)snprintf(file_name, sizeof(file_name), "%s_FILE", name);
    path = secure_getenv(file_name);
    if (!path || !*path)
        return 0;
    if (has_value)
        return cr_err_set(err, EINVAL, "%s and %s are both set; leave one of them out", name,
                          file_name);
    return set_from_file(load, setting, file_name, path, err);
}

static int load_environment(struct load *load, struct cr_err *err)
{
    int r = 0;

    begin_layer(load);
    for (size_t i = 0; r == 0 && i < load->program->count; i++) {
        const struct cr_setting *setting = &load->program->settings[i];
        char name[CR_CONFIG_ENVIRONMENT_MAX];
        const char *text;
        bool has_value;

        if (!cr_config_environment(load->program, setting, name))
            continue;
        text = secure_getenv(name);
        has_value = text && *text;
        if (has_value)
            r = give(load, setting, name, text, err);
        if (r == 0)
            r = load_secret_file(load, setting, name, has_value, err);
    }
    return r;
}

/* ---- file ---- */

static int load_line(struct load *load, const struct cr_config_line *line, struct cr_err *err)
{
    bool is_file = false;
    const struct cr_setting *setting =
        find(load->program, line->name, strlen(line->name), &is_file);
    size_t index;

    if (!setting || setting->is_action)
        return cr_err_set(err, EINVAL, "there is no setting '%s'", line->name);
    if (is_file)
        return set_from_file(load, setting, line->name, line->value, err);
    if (setting->is_secret)
        return cr_err_set(err, EINVAL,
                          "%s is a secret: put it into a file of its own and name that with %s%s",
                          line->name, line->name, FILE_SUFFIX);
    index = (size_t)(setting - load->program->settings);
    if (load->is_given[index] && !setting->is_list)
        return cr_err_set(err, EINVAL, "%s is given twice", line->name);
    return give(load, setting, line->name, line->value, err);
}

static int load_text(struct load *load, const char *text, size_t size, struct cr_err *err)
{
    struct cr_config_line line = {0};
    size_t at = 0;
    int r;

    begin_layer(load);
    while ((r = cr_config_file_next(text, size, &at, &line, err)) > 0) {
        r = load_line(load, &line, err);
        if (r < 0)
            return cr_err_wrap(err, "line %u", line.number);
    }
    return r;
}

/* The path that --config or the environment names; NULL: none. */
static const char *find_file(const struct cr_config_program *program, int argc, char **argv)
{
    char name[CR_CONFIG_ENVIRONMENT_MAX];
    const char *path = NULL;

    for (int at = 1; at < argc; at++) {
        if (strncmp(argv[at], "--config=", 9) == 0)
            path = argv[at] + 9;
        else if (strcmp(argv[at], "--config") == 0 && at + 1 < argc)
            path = argv[at + 1];
    }
    if (path)
        return path;
    (void)snprintf(name, sizeof(name), "%sCONFIG", program->prefix);
    return secure_getenv(name);
}

static int load_file(struct load *load, int argc, char **argv, struct cr_err *err)
{
    const char *path = load->program->prefix ? find_file(load->program, argc, argv) : NULL;
    CR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    int r;

    if (!path || !*path)
        return 0;
    r = cr_config_file_load(path, CR_CONFIG_FILE_MAX, &text, &size, err);
    if (r == 0)
        r = load_text(load, text, size, err);
    return r < 0 ? cr_err_wrap(err, "configuration file '%s'", path) : 0;
}

/* ---- flags ---- */

/* The value of the flag at argv[*at], whose name has `length` bytes; moves *at past both. */
static const char *take_value(int argc, char **argv, int *at, size_t length, bool is_bool)
{
    const char *word = argv[(*at)++];

    if (word[2 + length] == '=')
        return word + 2 + length + 1;
    if (is_bool)
        return "true";
    return *at < argc ? argv[(*at)++] : NULL;
}

/* Reads one flag at argv[*at] and moves *at past it. */
static int load_flag(struct load *load, int argc, char **argv, int *at, struct cr_err *err)
{
    const char *word = argv[*at];
    const struct cr_setting *setting;
    const char *value;
    bool is_file = false;
    size_t length;

    if (strncmp(word, "--", 2) != 0)
        return cr_err_set(err, EINVAL, "'%s' is not a setting; see --help", word);
    length = strcspn(word + 2, "=");
    setting = find(load->program, word + 2, length, &is_file);
    if (!setting)
        return cr_err_set(err, EINVAL, "there is no setting '%.*s'; see --help", (int)length + 2,
                          word);
    if (setting->is_secret && !is_file)
        return cr_err_set(err, EINVAL,
                          "--%s is a secret and would show in the process list: set %s instead",
                          setting->flag, setting->environment);
    value = take_value(argc, argv, at, length, setting->type == CR_SETTING_BOOL);
    if (!value)
        return cr_err_set(err, EINVAL, "--%.*s needs a value", (int)length, word + 2);
    if (is_file)
        return set_from_file(load, setting, word, value, err);
    return give(load, setting, word, value, err);
}

/* --config and --print-config are of the program, not of its table. Returns words to skip. */
static int count_own_words(const struct cr_config_program *program, const char *word)
{
    if (!program->prefix)
        return 0;
    if (strcmp(word, "--config") == 0)
        return 2;
    return strcmp(word, "--print-config") == 0 || strncmp(word, "--config=", 9) == 0 ? 1 : 0;
}

static int load_flags(struct load *load, int argc, char **argv, bool *ret_must_print,
                      struct cr_err *err)
{
    int r = 0;

    begin_layer(load);
    for (int at = 1; r == 0 && at < argc;) {
        int own = count_own_words(load->program, argv[at]);

        if (own > 0 && at + own > argc)
            return cr_err_set(err, EINVAL, "--config needs a value");
        *ret_must_print = *ret_must_print || (own > 0 && argv[at][2] == 'p');
        if (own > 0)
            at += own;
        else
            r = load_flag(load, argc, argv, &at, err);
    }
    return r;
}

/* ---- everything ---- */

/* True when argv asks for something that needs no settings, which is then on stdout. */
static bool answer(const struct cr_config_program *program, int argc, char **argv)
{
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--version") == 0) {
            printf("%s %s\n", program->name, CR_VERSION);
            return true;
        }
        if (strncmp(argv[at], "--help", 6) == 0 && cr_config_help(program, argv[at] + 6))
            return true;
    }
    return false;
}

int cr_config_load_program(const struct cr_config_program *program, int argc, char **argv,
                           void *values, struct cr_err *err)
{
    struct load load = {.program = program, .values = values};
    CR_AUTO_FREE bool *is_given = NULL;
    bool must_print = false;
    int r;

    if (answer(program, argc, argv))
        return 1;
    is_given = calloc(program->count, sizeof(*is_given));
    if (!is_given)
        return cr_err_set(err, ENOMEM, "out of memory for the settings");
    load.is_given = is_given;
    r = load_defaults(&load, err);
    if (r == 0)
        r = load_file(&load, argc, argv, err);
    if (r == 0)
        r = load_environment(&load, err);
    if (r == 0)
        r = load_flags(&load, argc, argv, &must_print, err);
    if (r < 0 || !must_print)
        return r;
    cr_config_print_file(program, values);
    return 1;
}

int cr_config_load(const struct cr_setting *settings, size_t count, const char *program,
                   const char *description, int argc, char **argv, void *values, struct cr_err *err)
{
    const struct cr_config_program plain = {
        .settings = settings, .count = count, .name = program, .description = description};

    return cr_config_load_program(&plain, argc, argv, values, err);
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
