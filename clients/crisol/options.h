/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Command lines as tables: each option says where its value goes. */

enum cli_option_kind {
    CLI_OPTION_TEXT,   /* `value` is a const char ** */
    CLI_OPTION_FLAG,   /* `value` is a bool * */
    CLI_OPTION_NUMBER, /* `value` is an unsigned long long *; min and max are allowed */
    CLI_OPTION_TAKEN,  /* take(value, text) says what is wrong and returns -EINVAL, or returns 0 */
};

struct cli_option {
    const char *name; /* without the dashes */
    enum cli_option_kind kind;
    void *value;
    unsigned long long min;
    unsigned long long max;
    int (*take)(void *value, const char *text);
};

#define CLI_TEXT(name_, place)                                                                     \
    {                                                                                              \
        .name = (name_), .kind = CLI_OPTION_TEXT, .value = (place)                                 \
    }
#define CLI_FLAG(name_, place)                                                                     \
    {                                                                                              \
        .name = (name_), .kind = CLI_OPTION_FLAG, .value = (place)                                 \
    }
#define CLI_NUMBER(name_, place, least, most)                                                      \
    {                                                                                              \
        .name = (name_), .kind = CLI_OPTION_NUMBER, .value = (place), .min = (least),              \
        .max = (most)                                                                              \
    }
#define CLI_TAKEN(name_, place, taker)                                                             \
    {                                                                                              \
        .name = (name_), .kind = CLI_OPTION_TAKEN, .value = (place), .take = (taker)               \
    }

#define CLI_OPTIONS_MAX 24
#define CLI_NAME_ONE_RUN "name one RUN by its id; 'crisol runs' lists them"

struct cli_command {
    const char *name;
    const char *help; /* printed for --help, which every command has */
    const struct cli_option *options;
    size_t option_count;     /* up to CLI_OPTIONS_MAX */
    int arguments;           /* how many there have to be behind the options */
    const char *is_missing;  /* what to say when there are fewer */
    const char *is_too_many; /* … more; NULL: the same */
};

/*
 * Reads the options and counts the arguments, the first of which is then
 * argv[optind]. Prints what is wrong. Returns 0, 1 when --help was answered,
 * or -EINVAL.
 */
int cli_parse(const struct cli_command *command, int argc, char **argv);

/* Runs `calls` between cli_begin_calls() and cli_end_calls(). Returns its exit code. */
int cli_with_calls(int (*calls)(const void *options, int cancel_fd), const void *options);
