/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/follow.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "common/auto.h"
#include "common/buf.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/status.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define CALL_TIMEOUT_MS 30000
#define EDIT_MAX (1U << 20)

static const char resume_help[] =
    "Usage: crisol resume [OPTIONS] RUN\n"
    "\n"
    "Takes up a run that waits (crisol run --pause-after), and follows it to its end. Exits as\n"
    "'crisol run' does.\n"
    "\n"
    "  --plan FILE             put this plan in place of the run's; behind the planner\n"
    "  --solution FILE         put this solution.py in its place; behind the generator\n"
    "  --tests FILE            put this test_solution.py in its place; behind the generator\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char fork_help[] =
    "Usage: crisol fork [OPTIONS] RUN SEQ\n"
    "\n"
    "Starts a new run with the beginning of RUN, up to state event SEQ, and prints its id; 'crisol\n"
    "watch' follows it. What was recorded up to there counts, what comes after is done anew.\n"
    "\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char forget_help[] =
    "Usage: crisol forget [OPTIONS] RUN\n"
    "\n"
    "Deletes a run that has ended, from the service's journal, too.\n"
    "\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

struct options {
    const char *address;
    const char *plan;
    const char *solution;
    const char *tests;
    char *run_id; /* borrowed from the command line */
    uint32_t seq;
};

/* As cli_parse(). */
static int parse(struct cli_command *command, const struct cli_option *table, size_t count,
                 int argc, char **argv, struct options *options)
{
    int r;

    command->options = table;
    command->option_count = count;
    if (!command->is_missing)
        command->is_missing = CLI_NAME_ONE_RUN;
    r = cli_parse(command, argc, argv);
    if (r != 0)
        return r;
    options->run_id = argv[optind];
    options->address =
        cli_address(options->address, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return 0;
}

/* One call with one answer, which is shown by `show` (may be NULL). */
static int call(const char *address, const struct rpc_client_method *method,
                const ProtobufCMessage *request, void (*show)(const ProtobufCMessage *response))
{
    struct rpc_channel *channel = cli_connect(address);
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    int code = CLI_EXIT_OK;

    if (!channel)
        return CLI_EXIT_SERVICE;
    if (rpc_call_blocking(channel, method, request, CALL_TIMEOUT_MS, &response, &status) != RPC_OK)
        code = cli_report(address, &status);
    else if (show)
        show(response);
    rpc_message_free(response);
    (void)rpc_channel_free(channel);
    return code;
}

/* ---- resume ---- */

struct edits {
    struct cr_buf plan;
    struct cr_buf texts[2];
    Crisol__Agent__V1__File files[2];
    Crisol__Agent__V1__File *list[2];
};

static int read_edit(const char *path, struct cr_buf *buf)
{
    cr_buf_init(buf, EDIT_MAX);
    return path ? cli_read_file(path, buf) : 0;
}

static void add_file(struct edits *edits, size_t from, char *path,
                     Crisol__Agent__V1__ResumeRunRequest *request)
{
    Crisol__Agent__V1__File *file = &edits->files[request->n_files];

    if (edits->texts[from].size == 0)
        return;
    crisol__agent__v1__file__init(file);
    file->path = path;
    file->text = (char *)edits->texts[from].data; /* a NUL stands behind it */
    edits->list[request->n_files++] = file;
}

static int resume(const void *user, int cancel_fd)
{
    const struct options *options = user;
    Crisol__Agent__V1__ResumeRunRequest request = CRISOL__AGENT__V1__RESUME_RUN_REQUEST__INIT;
    char solution[] = "solution.py";
    char tests[] = "test_solution.py";
    struct edits edits;
    int code = CLI_EXIT_SERVICE;
    int r = read_edit(options->plan, &edits.plan);

    if (read_edit(options->solution, &edits.texts[0]) < 0 ||
        read_edit(options->tests, &edits.texts[1]) < 0)
        r = -EINVAL;
    request.run_id = options->run_id;
    request.files = edits.list;
    if (edits.plan.size > 0)
        request.plan = (char *)edits.plan.data;
    add_file(&edits, 0, solution, &request);
    add_file(&edits, 1, tests, &request);
    if (r == 0)
        code = cli_follow(options->address, &cli_method_resume_run, &request.base, cancel_fd);
    cr_buf_done(&edits.plan);
    cr_buf_done(&edits.texts[0]);
    cr_buf_done(&edits.texts[1]);
    return code;
}

int cli_resume(int argc, char **argv)
{
    struct options options = {.address = NULL};
    const struct cli_option table[] = {
        CLI_TEXT("plan", &options.plan),
        CLI_TEXT("solution", &options.solution),
        CLI_TEXT("tests", &options.tests),
        CLI_TEXT("orchestrator", &options.address),
    };
    struct cli_command command = {.name = "resume", .help = resume_help, .arguments = 1};
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return cli_with_calls(resume, &options);
}

/* ---- fork and forget ---- */

static void show_fork(const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ForkRunResponse *response = (const void *)message;

    cli_print_untrusted(stdout, response->run_id, strlen(response->run_id));
    (void)putchar('\n');
}

static int fork_run(const void *user, int cancel_fd)
{
    Crisol__Agent__V1__ForkRunRequest request = CRISOL__AGENT__V1__FORK_RUN_REQUEST__INIT;
    const struct options *options = user;

    (void)cancel_fd; /* the call has a deadline of its own */
    request.run_id = options->run_id;
    request.seq = options->seq;
    return call(options->address, &cli_method_fork_run, &request.base, show_fork);
}

int cli_fork(int argc, char **argv)
{
    struct options options = {.address = NULL};
    const struct cli_option table[] = {CLI_TEXT("orchestrator", &options.address)};
    struct cli_command command = {
        .name = "fork",
        .help = fork_help,
        .arguments = 2,
        .is_missing = "name a RUN and a SEQ; see 'crisol fork --help'",
    };
    unsigned long long seq = 0;
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);

    if (r == 0)
        r = cli_parse_number("SEQ", argv[optind + 1], 1, UINT32_MAX, &seq);
    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    options.seq = (uint32_t)seq;
    return cli_with_calls(fork_run, &options);
}

static int forget(const void *user, int cancel_fd)
{
    Crisol__Agent__V1__DeleteRunRequest request = CRISOL__AGENT__V1__DELETE_RUN_REQUEST__INIT;
    const struct options *options = user;

    (void)cancel_fd; /* the call has a deadline of its own */
    request.run_id = options->run_id;
    return call(options->address, &cli_method_delete_run, &request.base, NULL);
}

int cli_forget(int argc, char **argv)
{
    struct options options = {.address = NULL};
    const struct cli_option table[] = {CLI_TEXT("orchestrator", &options.address)};
    struct cli_command command = {.name = "forget", .help = forget_help, .arguments = 1};
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return cli_with_calls(forget, &options);
}
