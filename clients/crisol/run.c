/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/follow.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "clients/crisol/terms.h"
#include "clients/crisol/view.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sys/stat.h>

#define JSON_BYTES_MAX (64U << 20)
#define SUBMIT_TIMEOUT_MS 30000

static const char help[] =
    "Usage: crisol run [OPTIONS] TASK\n"
    "\n"
    "Has a task planned, written, tested in a sandbox and repaired until its tests pass. Progress\n"
    "goes to stderr, the answer to stdout. Exits 0 on SUCCESS, 1 otherwise, 125 when the service\n"
    "could not do it.\n"
    "\n"
    "  --max-iterations N      attempts, 1 to 10 (default 3)\n"
    "  --model NAME            model to ask for\n"
    "  --verify LEVEL          how success has to be shown: off, evidence, canary, stubs (default),\n"
    "                          mutants, oracle (default when the terms have cases)\n" CLI_TERMS_HELP
    "  --out FOLDER            write the files of the answer there\n"
    "  --json                  print the whole result as one JSON document\n"
    "  --pause-after NODE      planner or generator: wait behind it for 'crisol resume'. Repeatable\n"
    "  --detach                start the run, print its id and leave it alone\n"
    "  --key KEY               with --detach: the same KEY starts the run once\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char watch_help[] =
    "Usage: crisol watch [OPTIONS] RUN\n"
    "\n"
    "Follows a run that was started with 'crisol run --detach', or by any other client of yours,\n"
    "from its beginning to its end. Ctrl-C leaves the run alone. Exits as 'crisol run' does.\n"
    "\n"
    "  --from SEQ              begin at this state event\n"
    "  --out FOLDER            write the files of the answer there\n"
    "  --json                  print the whole result as one JSON document\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

struct run_options {
    Crisol__Agent__V1__GenerateStreamRequest request;
    Crisol__Agent__V1__WatchRunRequest watch;
    const char *address;
    const char *out;
    const char *model;
    const char *key; /* NULL: none */
    struct cli_terms terms;
    unsigned long long max_iterations;
    unsigned long long from_seq;
    Crisol__Agent__V1__Node pauses[2];
    bool is_json;
    bool is_detached;
};

struct run_state {
    const struct run_options *options;
    struct cli_view view;
    int exit_code;
    bool has_result;
};

#define PATH_DEPTH_MAX 8

/* Opens a folder below another one, and makes it if need be. Symbolic links are not followed. */
static int open_folder(int parent_fd, const char *name)
{
    if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
        return -1;
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* The next part of a path. False for one that could lead elsewhere. */
static bool take_part(const char **path, char part[static NAME_MAX + 1])
{
    size_t size = strcspn(*path, "/");

    if (size == 0 || size > NAME_MAX || (*path)[0] == '.')
        return false;
    memcpy(part, *path, size);
    part[size] = '\0';
    *path += size + ((*path)[size] == '/');
    return true;
}

/* Writes one file below the folder, whose descriptor it closes. */
static int write_below(int take_folder_fd, const Crisol__Agent__V1__File *file)
{
    CR_AUTO_CLOSE int folder_fd = take_folder_fd;
    CR_AUTO_CLOSE int fd = -1;
    const char *rest = file->path;
    char part[NAME_MAX + 1];
    int r;

    for (int depth = 0;; depth++) {
        int next_fd;

        if (depth > PATH_DEPTH_MAX || !take_part(&rest, part))
            return cli_fail("the service sent a file name that is not plain");
        if (*rest == '\0')
            break;
        next_fd = open_folder(folder_fd, part);
        if (next_fd < 0)
            return cli_fail("cannot make the folder '%s': %s", part, strerrordesc_np(errno));
        (void)close(folder_fd);
        folder_fd = next_fd;
    }
    fd = openat(folder_fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return cli_fail("cannot write '%s': %s", file->path, strerrordesc_np(errno));
    r = cli_write_all(fd, file->text, strlen(file->text));
    if (r < 0)
        return cli_fail("cannot write '%s': %s", file->path, strerrordesc_np(-r));
    return CLI_EXIT_OK;
}

/* Opens the folder of --out, and makes it if need be. Prints what is wrong and returns -1. */
static int open_out(const char *folder)
{
    int fd;

    if (mkdir(folder, 0755) < 0 && errno != EEXIST) {
        (void)cli_fail("--out: cannot make '%s': %s", folder, strerrordesc_np(errno));
        return -1;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        (void)cli_fail("--out: cannot open '%s': %s", folder, strerrordesc_np(errno));
    return fd;
}

static int write_files(const char *folder, const Crisol__Agent__V1__RunResult *result)
{
    CR_AUTO_CLOSE int folder_fd = open_out(folder);

    if (folder_fd < 0)
        return CLI_EXIT_SERVICE;
    for (size_t i = 0; i < result->n_files; i++) {
        int own_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);
        int code;

        if (own_fd < 0)
            return cli_fail("cannot open '%s': %s", folder, strerrordesc_np(errno));
        code = write_below(own_fd, result->files[i]);
        if (code != CLI_EXIT_OK)
            return code;
    }
    return CLI_EXIT_OK;
}

static int print_json(const Crisol__Agent__V1__RunResult *result)
{
    const struct rpc_json_style style = {.use_snake_case = true,
                                         .with_defaults = true,
                                         .int64_as_number = true,
                                         .strip_enum_prefix = true};
    CR_AUTO_BUF struct cr_buf json = {0};

    cr_buf_init(&json, JSON_BYTES_MAX);
    if (rpc_json_write(&result->base, &style, &json) < 0 || cr_buf_add_char(&json, '\n') < 0)
        return cli_fail("out of memory for the JSON document");
    return cli_write_all(STDOUT_FILENO, json.data, json.size) < 0 ? CLI_EXIT_SERVICE : CLI_EXIT_OK;
}

static void on_result(struct run_state *state, const Crisol__Agent__V1__RunResult *result)
{
    int code = CLI_EXIT_OK;

    cli_view_result(&state->view, result);
    state->has_result = true;
    state->exit_code = result->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS
                           ? CLI_EXIT_OK
                           : CLI_EXIT_FAILED;
    if (state->options->is_json) {
        code = print_json(result);
    } else if (result->final_response[0] != '\0') {
        cli_print_untrusted(stdout, result->final_response, strlen(result->final_response));
        (void)putchar('\n');
    }
    if (code == CLI_EXIT_OK && state->options->out)
        code = write_files(state->options->out, result);
    if (code != CLI_EXIT_OK)
        state->exit_code = code;
}

static bool on_message(void *user, const ProtobufCMessage *base)
{
    struct run_state *state = user;
    /* WatchRunResponse is the same, field for field. */
    const Crisol__Agent__V1__RunEvent *event =
        ((const Crisol__Agent__V1__GenerateStreamResponse *)(const void *)base)->event;

    if (!event)
        return true;
    if (event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT)
        on_result(state, event->result);
    else
        cli_view_event(&state->view, event);
    return true;
}

/* The name of a level, in any case. Prints what is wrong. */
static int take_level(void *user, const char *text)
{
    Crisol__Agent__V1__VerificationLevel *level = user;
    const ProtobufCEnumDescriptor *levels = &crisol__agent__v1__verification_level__descriptor;

    for (unsigned i = 1; i < levels->n_values; i++) { /* 0 is the unspecified one */
        if (strcasecmp(levels->values[i].name + strlen("VERIFICATION_LEVEL_"), text) == 0) {
            *level = (Crisol__Agent__V1__VerificationLevel)levels->values[i].value;
            return 0;
        }
    }
    (void)cli_fail("--verify: '%s' is no level; see 'crisol run --help'", text);
    return -EINVAL;
}

/* Prints what is wrong. */
static int take_pause(void *user, const char *name)
{
    struct run_options *options = user;
    Crisol__Agent__V1__Node node = CRISOL__AGENT__V1__NODE__NODE_UNSPECIFIED;

    if (strcmp(name, "planner") == 0)
        node = CRISOL__AGENT__V1__NODE__NODE_PLANNER;
    else if (strcmp(name, "generator") == 0)
        node = CRISOL__AGENT__V1__NODE__NODE_GENERATOR;
    if (node == CRISOL__AGENT__V1__NODE__NODE_UNSPECIFIED ||
        options->request.n_interrupt_after == CR_ARRAY_SIZE(options->pauses)) {
        (void)cli_fail("--pause-after: planner or generator, each once");
        return -EINVAL;
    }
    options->pauses[options->request.n_interrupt_after++] = node;
    options->request.interrupt_after = options->pauses;
    return 0;
}

/* As cli_parse(). */
static int parse(struct run_options *options, int argc, char **argv)
{
    const struct cli_option table[] = {
        CLI_NUMBER("max-iterations", &options->max_iterations, 1, 10),
        CLI_TEXT("model", &options->model),
        CLI_TAKEN("verify", &options->request.verify, take_level),
        CLI_TERMS_OPTIONS(&options->terms),
        CLI_TEXT("out", &options->out),
        CLI_FLAG("json", &options->is_json),
        CLI_FLAG("detach", &options->is_detached),
        CLI_TAKEN("pause-after", options, take_pause),
        CLI_TEXT("key", &options->key),
        CLI_TEXT("orchestrator", &options->address),
    };
    const struct cli_command command = {
        .name = "run",
        .help = help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .arguments = 1,
        .is_missing = "name a TASK in quotes; see 'crisol run --help'",
        .is_too_many = "more than one TASK: put it in quotes",
    };
    int r;

    crisol__agent__v1__generate_stream_request__init(&options->request);
    r = cli_parse(&command, argc, argv);
    if (r != 0)
        return r;
    if (options->is_detached ? options->out || options->is_json : options->key != NULL) {
        (void)cli_fail(options->is_detached
                           ? "--detach prints the id only: give --out and --json to 'crisol watch'"
                           : "--key goes with --detach");
        return -EINVAL;
    }
    r = cli_terms_make(&options->terms, &options->request.terms);
    if (r < 0)
        return r;
    options->request.task = argv[optind];
    options->request.max_iterations = (int32_t)options->max_iterations;
    if (options->model)
        options->request.model = cr_unconst(options->model);
    options->address =
        cli_address(options->address, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return 0;
}

static int parse_watch(struct run_options *options, int argc, char **argv)
{
    const struct cli_option table[] = {
        CLI_NUMBER("from", &options->from_seq, 1, UINT32_MAX),
        CLI_TEXT("out", &options->out),
        CLI_FLAG("json", &options->is_json),
        CLI_TEXT("orchestrator", &options->address),
    };
    const struct cli_command command = {
        .name = "watch",
        .help = watch_help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .arguments = 1,
        .is_missing = CLI_NAME_ONE_RUN,
    };
    int r = cli_parse(&command, argc, argv);

    if (r != 0)
        return r;
    crisol__agent__v1__watch_run_request__init(&options->watch);
    options->watch.from_seq = (uint32_t)options->from_seq;
    options->watch.run_id = argv[optind];
    options->address =
        cli_address(options->address, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return 0;
}

/* Follows the events of a call to their end. */
static int follow(const struct run_options *options, const struct rpc_client_method *method,
                  const ProtobufCMessage *request, int cancel_fd)
{
    struct run_state state = {.options = options, .exit_code = CLI_EXIT_SERVICE};
    struct rpc_channel *channel = NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    /* A folder that cannot be had is told before the run has cost anything. */
    if (options->out) {
        CR_AUTO_CLOSE int folder_fd = open_out(options->out);

        if (folder_fd < 0)
            return CLI_EXIT_SERVICE;
    }
    channel = cli_connect(options->address);
    if (!channel)
        return CLI_EXIT_SERVICE;
    cli_view_init(&state.view);
    (void)rpc_stream_blocking(channel, method, request, 0, cancel_fd, on_message, &state, &status);
    (void)rpc_channel_free(channel);
    return state.has_result ? state.exit_code
                            : cli_explain_end(options->address, cancel_fd, &status);
}

int cli_follow(const char *address, const struct rpc_client_method *method,
               const ProtobufCMessage *request, int cancel_fd)
{
    const struct run_options options = {.address = address};

    return follow(&options, method, request, cancel_fd);
}

static int submit(const struct run_options *options)
{
    Crisol__Agent__V1__SubmitRunRequest request = CRISOL__AGENT__V1__SUBMIT_RUN_REQUEST__INIT;
    Crisol__Agent__V1__GenerateRequest task = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    struct rpc_channel *channel = cli_connect(options->address);
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    int code = CLI_EXIT_OK;

    if (!channel)
        return CLI_EXIT_SERVICE;
    task.task = options->request.task;
    task.max_iterations = options->request.max_iterations;
    task.model = options->request.model;
    task.verify = options->request.verify;
    task.terms = options->request.terms;
    task.interrupt_after = options->request.interrupt_after;
    task.n_interrupt_after = options->request.n_interrupt_after;
    request.request = &task;
    if (options->key)
        request.idempotency_key = cr_unconst(options->key);
    if (rpc_call_blocking(channel, &cli_method_submit_run, &request.base, SUBMIT_TIMEOUT_MS,
                          &response, &status) == RPC_OK) {
        const Crisol__Agent__V1__SubmitRunResponse *started = (const void *)response;

        cli_print_untrusted(stdout, started->run_id, strlen(started->run_id));
        (void)putchar('\n');
    } else {
        code = cli_report(options->address, &status);
    }
    rpc_message_free(response);
    (void)rpc_channel_free(channel);
    return code;
}

static int run(const void *user, int cancel_fd)
{
    const struct run_options *options = user;

    if (options->is_detached)
        return submit(options);
    return follow(options, &cli_method_generate_stream, &options->request.base, cancel_fd);
}

int cli_run(int argc, char **argv)
{
    struct run_options options = {0};
    int r = parse(&options, argc, argv);
    int code = r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;

    if (r == 0)
        code = cli_with_calls(run, &options);
    cli_terms_done(&options.terms);
    return code;
}

static int watch(const void *user, int cancel_fd)
{
    const struct run_options *options = user;

    return follow(options, &cli_method_watch_run, &options->watch.base, cancel_fd);
}

int cli_watch(int argc, char **argv)
{
    struct run_options options = {0};
    int r = parse_watch(&options, argc, argv);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return cli_with_calls(watch, &options);
}
