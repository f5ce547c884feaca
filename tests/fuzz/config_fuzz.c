/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"
#include "common/edge.h"
#include "common/err.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 16

struct values {
    char *text;
    char *list;
    char *secret;
    uint64_t number;
    bool flag;
    struct cr_edge_settings edge;
};

#define EDGE_NUMBER(name, variable, member, least, most, standard, text_of_help)                   \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_UINT,                                                                      \
     .offset = offsetof(struct values, edge.member),                                               \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (standard),                                                                       \
     .help = (text_of_help)},
#define EDGE_TEXT(name, variable, member, standard, text_of_help)                                  \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_STRING,                                                                    \
     .offset = offsetof(struct values, edge.member),                                               \
     .fallback = (standard),                                                                       \
     .help = (text_of_help)},

/* One of each kind, and what sandboxd and the orchestrator share. */
static const struct cr_setting table[] = {
    {.flag = "text", .offset = offsetof(struct values, text), .fallback = "x", .help = "Text."},
    {.flag = "list", .offset = offsetof(struct values, list), .is_list = true, .help = "List."},
    {.flag = "secret", .offset = offsetof(struct values, secret), .is_secret = true, .help = "S."},
    {.flag = "number",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct values, number),
     .min = 3,
     .max = 4000,
     .fallback = "7",
     .help = "Number."},
    {.flag = "flag",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct values, flag),
     .help = "B."},
    CR_EDGE_SETTINGS_TABLE(EDGE_NUMBER, EDGE_TEXT)};

#define COUNT (sizeof(table) / sizeof(table[0]))

static void check(const struct values *values)
{
    struct cr_edge edge;
    struct cr_err err = CR_ERR_INIT;

    FUZZ_CHECK(values->number >= 3 && values->number <= 4000);
    FUZZ_CHECK(values->text && !values->secret); /* a secret is never taken from a command line */
    if (cr_edge_parse(&values->edge, &edge, &err) < 0)
        FUZZ_CHECK(strstr(err.text, "--grpc-")); /* names the flag that is wrong */
}

/* Answered on stdout; and `--config=` would read any file of this machine. */
static bool is_answered(const char *word)
{
    return strncmp(word, "--help", strlen("--help")) == 0 || strcmp(word, "--version") == 0 ||
           strcmp(word, "--print-config") == 0 ||
           strncmp(word, "--config", strlen("--config")) == 0;
}

/* One argument per line. What is refused says why. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *argv[ARGUMENTS_MAX + 1] = {(char[]){"fuzz"}};
    struct values values = {0};
    struct cr_err err = CR_ERR_INIT;
    int argc = 1;
    int r;

    for (char *line = text; line && argc < ARGUMENTS_MAX;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = '\0';
        if (!is_answered(line))
            argv[argc++] = line;
        line = end;
    }
    r = cr_config_load(table, COUNT, "fuzz", "Reads settings.", argc, argv, &values, &err);
    FUZZ_CHECK(r <= 0);
    if (r == 0)
        check(&values);
    else
        FUZZ_CHECK(err.text[0] != '\0');
    cr_config_done(table, COUNT, &values);
    free(text);
    return 0;
}
