/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/request.h"

#include "clients/crisol/cli.h"
#include "common/auto.h"
#include "common/unconst.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX (4U << 20) /* what the service takes in one message */

static const char help[] =
    "Usage: crisol exec [OPTIONS] FILE [-- ARGUMENT…]\n"
    "       crisol exec [OPTIONS] --runtime NAME -- CODE [ARGUMENT…]\n"
    "\n"
    "Runs a program in a fresh sandbox. Standard input (unless it is a terminal), standard output,\n"
    "standard error and the exit code are the program's own.\n"
    "\n"
    "  --runtime NAME      python, pytest, shell, …; else told by the name of FILE\n"
    "  --file PATH[=NAME]  put a file into /workspace (may be repeated)\n"
    "  --env NAME=VALUE    set an environment variable (may be repeated)\n"
    "  --wall-ms N         wall clock limit in ms\n"
    "  --cpu-ms N          CPU time limit in ms\n"
    "  --memory-mib N      memory limit in MiB\n"
    "  --processes N       limit of processes and threads\n"
    "  --millicores N      CPU bandwidth in thousandths of a core\n"
    "  --output-kib N      output limit per stream in KiB\n"
    "  --json              print one JSON document with result and output\n"
    "  --sandbox ADDRESS   sandboxd [CRISOL_SANDBOX, default " CLI_DEFAULT_SANDBOX "]\n"
    "\n"
    "Exit codes: the program's own; 124 ended for a limit; 125 the service could not do it;\n"
    "126 and 127 the program could not be started or found; 128+N ended by signal N.\n";

enum {
    OPTION_RUNTIME = 1,
    OPTION_FILE,
    OPTION_ENV,
    OPTION_WALL,
    OPTION_CPU,
    OPTION_MEMORY,
    OPTION_PROCESSES,
    OPTION_MILLICORES,
    OPTION_OUTPUT,
    OPTION_JSON,
    OPTION_SANDBOX,
    OPTION_HELP,
};

static const struct option options[] = {
    {"runtime", required_argument, NULL, OPTION_RUNTIME},
    {"file", required_argument, NULL, OPTION_FILE},
    {"env", required_argument, NULL, OPTION_ENV},
    {"wall-ms", required_argument, NULL, OPTION_WALL},
    {"cpu-ms", required_argument, NULL, OPTION_CPU},
    {"memory-mib", required_argument, NULL, OPTION_MEMORY},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"millicores", required_argument, NULL, OPTION_MILLICORES},
    {"output-kib", required_argument, NULL, OPTION_OUTPUT},
    {"json", no_argument, NULL, OPTION_JSON},
    {"sandbox", required_argument, NULL, OPTION_SANDBOX},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Reads the file at `path` into the request under `name`. */
static int add_file(struct cli_request *request, const char *path, const char *name)
{
    size_t at = request->message.n_files;
    Crisol__Sandbox__V1__InputFile *file = &request->files[at];

    if (at == CLI_MAX_ITEMS) {
        (void)cli_fail("--file: at most %d files", CLI_MAX_ITEMS);
        return -EINVAL;
    }
    cr_buf_init(&request->file_contents[at], REQUEST_BYTES_MAX);
    request->message.n_files++;
    crisol__sandbox__v1__input_file__init(file);
    request->file_pointers[at] = file;
    file->path = cr_unconst(name);
    if (cli_read_file(path, &request->file_contents[at]) < 0)
        return -EINVAL;
    file->data.data = request->file_contents[at].data;
    file->data.len = request->file_contents[at].size;
    return 0;
}

static int add_file_option(struct cli_request *request, char *text)
{
    char *equals = strrchr(text, '=');

    if (!equals)
        return add_file(request, text, base_name(text));
    *equals = '\0';
    return add_file(request, text, equals + 1);
}

static int add_env(struct cli_request *request, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t at = request->message.n_env;
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *entry = &request->env[at];

    if (!equals || equals == text) {
        (void)cli_fail("--env: '%s' is not NAME=VALUE", text);
        return -EINVAL;
    }
    if (at == CLI_MAX_ITEMS) {
        (void)cli_fail("--env: at most %d variables", CLI_MAX_ITEMS);
        return -EINVAL;
    }
    request->env_names[at] = strndup(text, (size_t)(equals - text));
    if (!request->env_names[at])
        return -ENOMEM;
    crisol__sandbox__v1__execute_request__env_entry__init(entry);
    entry->key = request->env_names[at];
    entry->value = cr_unconst(equals + 1);
    request->env_pointers[at] = entry;
    request->message.n_env++;
    return 0;
}

/* Options that set a limit: 0 is refused here because the service would take it for the default. */
static int set_limit(struct cli_request *request, int option, const char *text)
{
    Crisol__Sandbox__V1__Limits *limits = &request->limits;
    unsigned long long value;
    char name[32] = "";

    for (size_t i = 0; options[i].name; i++) {
        if (options[i].val == option)
            (void)snprintf(name, sizeof(name), "--%s", options[i].name);
    }
    if (cli_parse_number(name, text, 1, UINT32_MAX, &value) < 0)
        return -EINVAL;
    request->message.limits = limits;
    switch (option) {
    case OPTION_WALL:
        limits->wall_time_ms = (uint32_t)value;
        break;
    case OPTION_CPU:
        limits->cpu_time_ms = (uint32_t)value;
        break;
    case OPTION_MEMORY:
        limits->memory_bytes = (uint64_t)value << 20;
        break;
    case OPTION_PROCESSES:
        limits->processes = (uint32_t)value;
        break;
    case OPTION_MILLICORES:
        limits->cpu_millicores = (uint32_t)value;
        break;
    default:
        limits->output_bytes = (uint64_t)value << 10;
        break;
    }
    return 0;
}

static int set_option(struct cli_request *request, int option, char *text)
{
    switch (option) {
    case OPTION_RUNTIME:
        request->message.runtime = text;
        return 0;
    case OPTION_FILE:
        return add_file_option(request, text);
    case OPTION_ENV:
        return add_env(request, text);
    case OPTION_JSON:
        request->is_json = true;
        return 0;
    case OPTION_SANDBOX:
        request->address = text;
        return 0;
    case OPTION_HELP:
        (void)fputs(help, stdout);
        return 1;
    case '?':
        (void)cli_fail("see 'crisol exec --help'");
        return -EINVAL;
    default:
        return set_limit(request, option, text);
    }
}

/* A test file goes to pytest as a file, every other file is the program itself. */
static int set_program_file(struct cli_request *request, const char *path)
{
    const char *name = base_name(path);
    const char *dot = strrchr(name, '.');
    Crisol__Sandbox__V1__ExecuteRequest *message = &request->message;
    static char python[] = "python";
    static char pytest[] = "pytest";
    static char shell[] = "shell";

    if (*message->runtime == '\0') {
        if (dot && strcmp(dot, ".sh") == 0)
            message->runtime = shell;
        else if (strncmp(name, "test_", 5) == 0 && dot && strcmp(dot, ".py") == 0)
            message->runtime = pytest;
        else
            message->runtime = python;
    }
    if (strcmp(message->runtime, "pytest") == 0)
        return add_file(request, path, name);
    if (cli_read_text(path, &request->code) < 0)
        return -EINVAL;
    message->code = cr_unconst(cr_buf_str(&request->code));
    return 0;
}

/* What is left of the command line: FILE or, with a runtime, CODE; then arguments. */
static int set_program(struct cli_request *request, int argc, char **argv, bool has_separator)
{
    Crisol__Sandbox__V1__ExecuteRequest *message = &request->message;
    int used = 0;

    if (argc > 0 && has_separator && *message->runtime != '\0') {
        message->code = argv[0];
        used = 1;
    } else if (argc > 0 && !has_separator) {
        if (set_program_file(request, argv[0]) < 0)
            return -EINVAL;
        used = 1;
        if (used < argc && strcmp(argv[used], "--") == 0)
            used++;
    }
    if (used == 0 && message->n_files == 0) {
        (void)cli_fail("nothing to run: name a FILE, or --runtime NAME -- CODE");
        return -EINVAL;
    }
    message->args = argv + used;
    message->n_args = (size_t)(argc - used);
    return 0;
}

int cli_request_parse(struct cli_request *request, int argc, char **argv)
{
    bool has_separator;
    int option;

    memset(request, 0, sizeof(*request));
    crisol__sandbox__v1__execute_request__init(&request->message);
    crisol__sandbox__v1__limits__init(&request->limits);
    request->message.files = request->file_pointers;
    request->message.env = request->env_pointers;
    cr_buf_init(&request->code, REQUEST_BYTES_MAX);
    cr_buf_init(&request->stdin_data, REQUEST_BYTES_MAX);
    /* "+": stop at the first word that is no option, it is the program's. */
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        int r = set_option(request, option, optarg);

        if (r != 0)
            return r;
    }
    has_separator = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
    if (set_program(request, argc - optind, argv + optind, has_separator) < 0)
        return -EINVAL;
    request->address = cli_address(request->address, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX);
    if (!isatty(STDIN_FILENO)) {
        if (cli_read_file("-", &request->stdin_data) < 0)
            return -EINVAL;
        request->message.stdin_data.data = request->stdin_data.data;
        request->message.stdin_data.len = request->stdin_data.size;
    }
    return 0;
}

void cli_request_done(struct cli_request *request)
{
    for (size_t i = 0; i < request->message.n_files; i++)
        cr_buf_done(&request->file_contents[i]);
    for (size_t i = 0; i < request->message.n_env; i++)
        free(request->env_names[i]);
    cr_buf_done(&request->code);
    cr_buf_done(&request->stdin_data);
}
