/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/batch_options.h"

#include "clients/crisol/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: crisol batch [OPTIONS] [FILE] > ANSWERS\n"
    "\n"
    "Runs many programs, each in a fresh sandbox. Every line of FILE (default: standard input) is a\n"
    "request in JSON, {\"id\":\"…\",\"request\":{\"runtime\":\"python\",\"code\":\"…\",\"stdin_text\":\"…\"}},\n"
    "with the fields of ExecuteRequest in crisol/sandbox/v1/sandbox.proto; every line of the output\n"
    "is the answer to one of them, with 'response' or 'error', under its id; under the number of the\n"
    "line when it has none or cannot be read. What is refused for want of room is sent again; after\n"
    "a broken connection nothing is run twice that has ended.\n"
    "\n"
    "  --program FILE      the code of every line that has none\n"
    "  --runtime NAME      the runtime of every line that has none (default: python)\n"
    "  --wall-ms N         wall clock limit of every line that has none (default: 5000)\n"
    "  --ordered           answer in the order of the lines, not as they are ready\n"
    "  --window N          lines in hand at one time, 1 to 256 (default: 32)\n"
    "  --give-up-s N       give up when no line got its answer for so long (default: 60)\n"
    "  --sandbox ADDRESS   sandboxd [CRISOL_SANDBOX, default " CLI_DEFAULT_SANDBOX "]\n"
    "\n"
    "Exit codes: 0 every line ran, whatever its verdict; 1 some did not, their answers say why;\n"
    "125 the service could not do it; 128+N stopped by signal N.\n";

static int read_program(struct cli_batch_options *options, const char *path)
{
    if (cli_read_text(path, &options->program) < 0)
        return -EINVAL;
    options->defaults.code = cr_buf_str(&options->program);
    return 0;
}

static int set_number(const char *name, uint32_t max, uint32_t *ret_value)
{
    unsigned long long number;

    if (cli_parse_number(name, optarg, 1, max, &number) < 0)
        return -EINVAL;
    *ret_value = (uint32_t)number;
    return 0;
}

static int set_option(struct cli_batch_options *options, int option)
{
    switch (option) {
    case 'p':
        return read_program(options, optarg);
    case 'r':
        options->defaults.runtime = optarg;
        return 0;
    case 'w':
        return set_number("--wall-ms", UINT32_MAX, &options->defaults.wall_time_ms);
    case 'o':
        options->is_ordered = true;
        return 0;
    case 'n':
        return set_number("--window", CLI_BATCH_WINDOW_MAX, &options->window);
    case 'g':
        return set_number("--give-up-s", 86400, &options->give_up_s);
    case 'a':
        options->address = optarg;
        return 0;
    case 'h':
        (void)fputs(help, stdout);
        return 1;
    default:
        (void)cli_fail("see 'crisol batch --help'");
        return -EINVAL;
    }
}

int cli_batch_options_parse(struct cli_batch_options *options, int argc, char **argv)
{
    static const struct option table[] = {
        {"program", required_argument, NULL, 'p'},
        {"runtime", required_argument, NULL, 'r'},
        {"wall-ms", required_argument, NULL, 'w'},
        {"ordered", no_argument, NULL, 'o'},
        {"window", required_argument, NULL, 'n'},
        {"give-up-s", required_argument, NULL, 'g'},
        {"sandbox", required_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    *options =
        (struct cli_batch_options){.defaults.runtime = "python", .window = 32, .give_up_s = 60};
    cr_buf_init(&options->program, CLI_BATCH_LINE_MAX);
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        int r = set_option(options, option);

        if (r != 0)
            return r;
    }
    if (argc - optind > 1) {
        (void)cli_fail("more than one FILE; see 'crisol batch --help'");
        return -EINVAL;
    }
    options->path = optind < argc ? argv[optind] : "-";
    options->address = cli_address(options->address, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX);
    return 0;
}

void cli_batch_options_done(struct cli_batch_options *options)
{
    cr_buf_done(&options->program);
}
