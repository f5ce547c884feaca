/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "common/auto.h"
#include "common/config.h"
#include "common/log.h"
#include "common/trace.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
    {"cancel", cli_cancel, "end a run that goes on"},
    {"forget", cli_forget, "delete a run that has ended"},
    {"export", cli_export, "write all that is stored of a run"},
    {"replay", cli_replay, "repeat a run that was exported, and compare"},
    {"verify-receipt", cli_verify_receipt, "check the result of a run against its receipt"},
    {"exec", cli_exec, "run a program in a sandbox"},
    {"shell", cli_shell, "run a program in a sandbox with your terminal"},
    {"batch", cli_batch, "run many programs, one in each line of a file"},
    {"attack", cli_attack, "run hostile programs in sandboxes and show what became of them"},
    {"health", cli_health, "ask both services whether they serve"},
    {"top", cli_top, "show what both services do"},
};

static void print_usage(FILE *file)
{
    (void)fputs("Usage: crisol COMMAND [OPTIONS]\n\nCommands:\n", file);
    for (size_t i = 0; i < CR_ARRAY_SIZE(commands); i++)
        (void)fprintf(file, "  %-14s %s\n", commands[i].name, commands[i].help);
    (void)fputs(
        "\n'crisol COMMAND --help' tells more; 'crisol --version' prints the version.\n"
        "\nLinks, before the command, or in the environment as CRISOL_CLIENT_TLS_CA and so "
        "on:\n"
        "  --tls-ca=FILE    speak TLS by TCP; who signs the certificates of services\n"
        "  --tls-cert=FILE  certificate to show, with\n"
        "  --tls-key=FILE   its key\n"
        "  --tls-name=NAME  of the service's certificate, if not the host of the address\n\n"
        "In the environment: CRISOL_SANDBOX and CRISOL_ORCHESTRATOR, where the services are;\n"
        "CRISOL_TOKEN, for one that asks for a token; NO_COLOR; TRACEPARENT.\n",
        file);
}

/*
 * Takes the settings of links in front of the command and keeps them in the
 * environment, where cli_connect() looks for them. Returns the index of the
 * command, or -EINVAL.
 */
static int take_links(int argc, char **argv)
{
    static const struct option options[] = {
        {"tls-ca", required_argument, NULL, 0},
        {"tls-cert", required_argument, NULL, 1},
        {"tls-key", required_argument, NULL, 2},
        {"tls-name", required_argument, NULL, 3},
        {NULL, 0, NULL, 0},
    };
    static const char *const variables[] = {CLI_TLS_CA, CLI_TLS_CERTIFICATE, CLI_TLS_KEY,
                                            CLI_TLS_NAME};
    int found;

    if (strncmp(argv[1], "--tls-", 6) != 0)
        return 1;
    while ((found = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): before the first thread */
        if (found > 3 || setenv(variables[found], optarg, 1) < 0)
            return -EINVAL;
    }
    found = optind;
    optind = 0; /* the command begins anew */
    return found;
}

static int run_command(int argc, char **argv)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(commands); i++) {
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].function(argc, argv);
    }
    (void)cli_fail("there is no command '%s'", argv[0]);
    print_usage(stderr);
    return CLI_EXIT_SERVICE;
}

/* All that this command does is one trace: that of $TRACEPARENT, or a new one. */
static void begin_trace(void)
{
    const char *text = secure_getenv("TRACEPARENT");
    struct cr_trace trace = cr_trace_new(true);

    if (text)
        (void)cr_trace_parse(text, strlen(text), &trace);
    (void)cr_trace_enter(&trace);
}

int main(int argc, char **argv)
{
    /* A closed pipe is an error of write(2), not the end of this process. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int first;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    cr_log_setup("crisol", CR_LOG_ERROR, CR_LOG_TEXT);
    begin_trace();
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
    first = take_links(argc, argv);
    if (first < 0 || first >= argc) {
        if (first >= argc)
            (void)cli_fail("name a COMMAND behind the options");
        print_usage(stderr);
        return CLI_EXIT_SERVICE;
    }
    return run_command(argc - first, argv + first);
}
