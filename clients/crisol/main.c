/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "common/auto.h"
#include "common/config.h"
#include "common/log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", cli_run, "turn a task into code that passed its tests"},
    {"watch", cli_watch, "follow a run that was started before"},
    {"runs", cli_runs, "list the runs"},
    {"resume", cli_resume, "take up a run that waits"},
    {"fork", cli_fork, "start a new run with the beginning of another"},
    {"forget", cli_forget, "delete a run that has ended"},
    {"export", cli_export, "write all that is stored of a run"},
    {"replay", cli_replay, "repeat a run that was exported, and compare"},
    {"verify-receipt", cli_verify_receipt, "check the result of a run against its receipt"},
    {"exec", cli_exec, "run a program in a sandbox"},
    {"batch", cli_batch, "run many programs, one in each line of a file"},
    {"attack", cli_attack, "run hostile programs in sandboxes and show what became of them"},
    {"health", cli_health, "ask both services whether they serve"},
};

static void print_usage(FILE *file)
{
    (void)fputs("Usage: crisol COMMAND [OPTIONS]\n\nCommands:\n", file);
    for (size_t i = 0; i < CR_ARRAY_SIZE(commands); i++)
        (void)fprintf(file, "  %-14s %s\n", commands[i].name, commands[i].help);
    (void)fputs("\n'crisol COMMAND --help' tells more; 'crisol --version' prints the version.\n",
                file);
}

int main(int argc, char **argv)
{
    /* A closed pipe is an error of write(2), not the end of this process. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    cr_log_setup("crisol", CR_LOG_ERROR, CR_LOG_TEXT);
    if (argc < 2) {
        print_usage(stderr);
        return CLI_EXIT_SERVICE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("crisol %s\n", CR_VERSION);
        return CLI_EXIT_OK;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].function(argc - 1, argv + 1);
    }
    (void)cli_fail("there is no command '%s'", argv[1]);
    print_usage(stderr);
    return CLI_EXIT_SERVICE;
}
