/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/options.h"

#include "clients/crisol/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

/* Above every character that getopt_long() may give. */
#define FIRST_VALUE 256
#define HELP 'h'

static int take(const struct cli_option *option, const char *text)
{
    char name[64];

    switch (option->kind) {
    case CLI_OPTION_TEXT:
        *(const char **)option->value = text;
        return 0;
    case CLI_OPTION_FLAG:
        *(bool *)option->value = true;
        return 0;
    case CLI_OPTION_NUMBER:
        (void)snprintf(name, sizeof(name), "--%s", option->name);
        return cli_parse_number(name, text, option->min, option->max, option->value);
    case CLI_OPTION_TAKEN:
    default:
        return option->take(option->value, text);
    }
}

static int read_options(const struct cli_command *command, int argc, char **argv)
{
    struct option table[CLI_OPTIONS_MAX + 2] = {{"help", no_argument, NULL, HELP}};
    int found;

    for (size_t i = 0; i < command->option_count && i < CLI_OPTIONS_MAX; i++) {
        const struct cli_option *option = &command->options[i];

        table[i + 1] = (struct option){
            option->name, option->kind == CLI_OPTION_FLAG ? no_argument : required_argument, NULL,
            FIRST_VALUE + (int)i};
    }
    while ((found = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (found == HELP) {
            (void)fputs(command->help, stdout);
            return 1;
        }
        if (found < FIRST_VALUE) {
            (void)cli_fail("see 'crisol %s --help'", command->name);
            return -EINVAL;
        }
        if (take(&command->options[found - FIRST_VALUE], optarg) < 0)
            return -EINVAL;
    }
    return 0;
}

int cli_parse(const struct cli_command *command, int argc, char **argv)
{
    int r = read_options(command, argc, argv);
    int count = argc - optind;

    if (r != 0 || count == command->arguments)
        return r;
    (void)cli_fail("%s", count > command->arguments && command->is_too_many ? command->is_too_many
                                                                            : command->is_missing);
    return -EINVAL;
}

int cli_with_calls(int (*calls)(const void *options, int cancel_fd), const void *options)
{
    int cancel_fd = cli_begin_calls();
    int code;

    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    code = calls(options, cancel_fd);
    cli_end_calls(cancel_fd);
    return code;
}
