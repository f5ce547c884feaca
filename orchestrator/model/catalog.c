/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/catalog.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 256
#define WORDS_MAX 6
#define MICRO UINT64_C(1000000)

static const size_t MAX_FILE = 64U << 10;
static const uint64_t MAX_DOLLARS = 1000; /* per million tokens; keeps every product in 64 bits */

struct agt_catalog {
    size_t count;
    struct agt_catalog_entry items[ENTRIES_MAX];
};

/* A piece of a line. */
struct word {
    const char *text;
    size_t size;
};

/* Digits with at most six behind a point, in millionths. */
static int read_micro(const struct word *word, uint64_t max, uint64_t *ret_micro)
{
    uint64_t value = 0;
    uint64_t unit = MICRO;
    bool has_point = false;

    if (word->size == 0 || word->size > 20)
        return -EINVAL;
    for (size_t i = 0; i < word->size; i++) {
        char digit = word->text[i];

        if (digit == '.' && !has_point && i > 0 && i + 1 < word->size) {
            has_point = true;
            continue;
        }
        if (digit < '0' || digit > '9' || (has_point && unit == 1))
            return -EINVAL;
        if (has_point)
            unit /= 10;
        value = has_point ? value + (uint64_t)(digit - '0') * unit
                          : value * 10 + (uint64_t)(digit - '0') * MICRO;
        if (value > max * MICRO)
            return -EINVAL;
    }
    *ret_micro = value;
    return 0;
}

static int read_price(const struct word *value, uint64_t *ret_price, struct cr_err *err)
{
    if (read_micro(value, MAX_DOLLARS, ret_price) == 0)
        return 0;
    return cr_err_set(err, EINVAL,
                      "'%.*s' is no price: dollars per million tokens, 0 to %llu, with at most six "
                      "digits behind the point",
                      (int)value->size, value->text, (unsigned long long)MAX_DOLLARS);
}

static int read_count(const struct word *value, uint64_t max, uint64_t *ret_count,
                      struct cr_err *err)
{
    uint64_t micro = 0;

    if (memchr(value->text, '.', value->size) || read_micro(value, max, &micro) < 0)
        return cr_err_set(err, EINVAL, "'%.*s' is no number from 0 to %llu", (int)value->size,
                          value->text, (unsigned long long)max);
    *ret_count = micro / MICRO;
    return 0;
}

static int set_temperature(struct agt_catalog_entry *entry, const struct word *value,
                           struct cr_err *err)
{
    uint64_t micro = 0;

    if (read_micro(value, 2, &micro) < 0)
        return cr_err_set(err, EINVAL, "'%.*s' is no temperature from 0 to 2", (int)value->size,
                          value->text);
    entry->has_temperature = true;
    entry->temperature = (double)micro / (double)MICRO;
    return 0;
}

static int set_thinking(struct agt_catalog_entry *entry, const struct word *value,
                        struct cr_err *err)
{
    uint64_t count = 0;
    int r = 0;

    entry->has_thinking = true;
    entry->thinking_budget = -1;
    if (value->size == 4 && memcmp(value->text, "auto", 4) == 0)
        return 0;
    r = read_count(value, 1000000, &count, err);
    entry->thinking_budget = (int32_t)count;
    return r;
}

static bool is_name(const struct word *word, const char *name)
{
    return word->size == strlen(name) && memcmp(word->text, name, word->size) == 0;
}

/* name=value */
static int set(struct agt_catalog_entry *entry, const struct word *word, bool *has_input,
               bool *has_output, struct cr_err *err)
{
    const char *equals = memchr(word->text, '=', word->size);
    struct word name = {word->text, equals ? (size_t)(equals - word->text) : word->size};
    struct word value = {equals ? equals + 1 : "", equals ? word->size - name.size - 1 : 0};
    uint64_t count = 0;
    int r;

    if (is_name(&name, "input") && !*has_input) {
        *has_input = true;
        return read_price(&value, &entry->input_price, err);
    }
    if (is_name(&name, "output") && !*has_output) {
        *has_output = true;
        return read_price(&value, &entry->output_price, err);
    }
    if (is_name(&name, "temperature") && !entry->has_temperature)
        return set_temperature(entry, &value, err);
    if (is_name(&name, "thinking") && !entry->has_thinking)
        return set_thinking(entry, &value, err);
    if (is_name(&name, "max-output") && entry->max_output_tokens == 0) {
        r = read_count(&value, 10000000, &count, err);
        entry->max_output_tokens = (uint32_t)count;
        return r;
    }
    return cr_err_set(err, EINVAL,
                      "'%.*s' is none of input=, output=, temperature=, max-output= and thinking=, "
                      "or there twice",
                      (int)(word->size < 40 ? word->size : 40), word->text);
}

static int set_name(struct agt_catalog_entry *entry, const struct word *word, struct cr_err *err)
{
    size_t size = word->size;

    entry->is_prefix = word->text[size - 1] == '*';
    if (entry->is_prefix)
        size--;
    if (size >= sizeof(entry->name) || memchr(word->text, '=', size) ||
        memchr(word->text, '*', size))
        return cr_err_set(err, EINVAL,
                          "'%.*s' is no name of a model: the line begins with one, of at most 128 "
                          "characters, with '*' only at its end",
                          (int)(size < 40 ? size : 40), word->text);
    memcpy(entry->name, word->text, size);
    return 0;
}

/* Splits a line at blanks; what follows a '#' is a comment. More than there is room for: -1. */
static int split(const char *line, size_t size, struct word words[WORDS_MAX])
{
    const char *comment = memchr(line, '#', size);
    const char *end = comment ? comment : line + size;
    int count = 0;

    while (line < end) {
        size_t length = 0;

        if (*line == ' ' || *line == '\t' || *line == '\r') {
            line++;
            continue;
        }
        while (line + length < end && !strchr(" \t\r", line[length]))
            length++;
        if (count == WORDS_MAX)
            return -1;
        words[count++] = (struct word){line, length};
        line += length;
    }
    return count;
}

static int read_line(const char *line, size_t size, struct agt_catalog *catalog, struct cr_err *err)
{
    struct agt_catalog_entry entry = {.name = ""};
    struct word words[WORDS_MAX];
    int count = split(line, size, words);
    bool has_input = false;
    bool has_output = false;
    int r = 0;

    if (count == 0)
        return 0;
    if (count < 0)
        return cr_err_set(err, EINVAL, "too much in one line");
    if (catalog->count == ENTRIES_MAX)
        return cr_err_set(err, EINVAL, "more than %d models", ENTRIES_MAX);
    r = set_name(&entry, &words[0], err);
    for (int i = 1; i < count && r == 0; i++)
        r = set(&entry, &words[i], &has_input, &has_output, err);
    if (r == 0 && has_input != has_output)
        r = cr_err_set(err, EINVAL, "input= and output= belong together");
    if (r < 0)
        return r;
    entry.has_price = has_input;
    catalog->items[catalog->count++] = entry;
    return 0;
}

int agt_catalog_parse(const char *text, size_t size, struct agt_catalog **ret_catalog,
                      struct cr_err *err)
{
    struct agt_catalog *catalog = calloc(1, sizeof(*catalog));
    unsigned number = 0;
    int r = 0;

    if (!catalog)
        return cr_err_set(err, ENOMEM, "out of memory for the models");
    if (memchr(text, 0, size))
        r = cr_err_set(err, EINVAL, "it is no text");
    while (size > 0 && r == 0) {
        const char *newline = memchr(text, '\n', size);
        size_t line = newline ? (size_t)(newline - text) : size;

        number++;
        r = read_line(text, line, catalog, err);
        if (r < 0)
            (void)cr_err_wrap(err, "line %u", number);
        line += newline != NULL;
        text += line;
        size -= line;
    }
    if (r < 0) {
        free(catalog);
        return r;
    }
    *ret_catalog = catalog;
    return 0;
}

int agt_catalog_load(const char *path, struct agt_catalog **ret_catalog, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CR_AUTO_BUF struct cr_buf text;
    char block[4096];
    ssize_t size;
    int r = 0;

    cr_buf_init(&text, MAX_FILE);
    if (fd < 0)
        return cr_err_sys(err, errno, "model-file: open '%s'", path);
    while (r == 0 && (size = read(fd, block, sizeof(block))) != 0) {
        if (size < 0)
            return cr_err_sys(err, errno, "model-file: read '%s'", path);
        r = cr_buf_add(&text, block, (size_t)size);
    }
    if (r == -ENOSPC)
        return cr_err_set(err, EINVAL, "model-file: '%s' is larger than %zu bytes", path, MAX_FILE);
    if (r == 0)
        r = agt_catalog_parse(cr_buf_str(&text), text.size, ret_catalog, err);
    return r < 0 ? cr_err_wrap(err, "model-file: '%s'", path) : 0;
}

struct agt_catalog *agt_catalog_free(struct agt_catalog *catalog)
{
    free(catalog);
    return NULL;
}

const struct agt_catalog_entry *agt_catalog_find(const struct agt_catalog *catalog,
                                                 const char *model)
{
    for (size_t i = 0; catalog && i < catalog->count; i++) {
        const struct agt_catalog_entry *entry = &catalog->items[i];
        size_t size = strlen(entry->name);

        if (strncmp(model, entry->name, size) == 0 && (entry->is_prefix || model[size] == '\0'))
            return entry;
    }
    return NULL;
}

uint64_t agt_catalog_cost(const struct agt_catalog_entry *entry, uint32_t input_tokens,
                          uint32_t output_tokens)
{
    uint64_t sum = input_tokens * entry->input_price + output_tokens * entry->output_price;

    return sum / MICRO + (sum % MICRO != 0);
}
