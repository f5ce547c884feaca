/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/follow.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
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
    "Takes up a run that waits (crisol run --pause-after), or goes on with one that ended STALLED,\n"
    "and follows it to its end. Exits as 'crisol run' does.\n"
    "\n"
    "  --hint TEXT             tell this to the model: a run that ended STALLED goes on with its best\n"
    "                          attempt, as a new run with what is left of its attempts\n"
    "  --plan FILE             put this plan in place of the run's; behind the planner\n"
    "  --solution FILE         put this solution.py in its place; behind the generator\n"
    "  --tests FILE            put this test_solution.py in its place; behind the generator\n"
    "  --file PATH=FILE        the same for a further file of the answer (crisol run --output-file,\n"
    "                          --more-files). Repeatable\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char fork_help[] =
    "Usage: crisol fork [OPTIONS] RUN SEQ\n"
    "\n"
    "Starts a new run with the beginning of RUN, up to state event SEQ, and prints its id; 'crisol\n"
    "watch' follows it. What was recorded up to there counts, what comes after is done anew.\n"
    "\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char cancel_help[] =
    "Usage: crisol cancel [OPTIONS] RUN\n"
    "\n"
    "Ends a run that goes on or waits. One that had ended stays as it is, which is said.\n"
    "\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

static const char forget_help[] =
    "Usage: crisol forget [OPTIONS] RUN\n"
    "\n"
    "Deletes a run that has ended, from the service's journal, too.\n"
    "\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

/* A file that takes the place of one of the run's. */
struct edit {
    char *path; /* in the answer; owned */
    struct cr_buf text;
};

#define EDITS_MAX 16 /* as the service takes */

struct options {
    const char *address;
    const char *plan;
    const char *hint;
    struct edit edits[EDITS_MAX];
    size_t edit_count;
    char *run_id; /* borrowed from the command line */
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

/* One call with one answer. */
struct once {
    const char *address;
    const struct rpc_client_method *method;
    const ProtobufCMessage *request;
    void (*show)(const ProtobufCMessage *response); /* NULL: there is nothing to show */
};

static int call_once(const void *user, int cancel_fd)
{
    const struct once *once = user;
    struct rpc_channel *channel = cli_connect(once->address);
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    int code = CLI_EXIT_OK;

    (void)cancel_fd; /* the call has a deadline of its own */
    if (!channel)
        return CLI_EXIT_SERVICE;
    if (rpc_call_blocking(channel, once->method, once->request, CALL_TIMEOUT_MS, &response,
                          &status) != RPC_OK)
        code = cli_report(once->address, &status);
    else if (once->show)
        once->show(response);
    rpc_message_free(response);
    (void)rpc_channel_free(channel);
    return code;
}

/* ---- resume ---- */

/* Reads what takes the place of `path`. Prints what is wrong. */
static int take_edit(struct options *options, const char *path, size_t path_size, const char *file)
{
    struct edit *edit = &options->edits[options->edit_count];

    if (options->edit_count == EDITS_MAX) {
        (void)cli_fail("a run has at most %d files", EDITS_MAX);
        return -EINVAL;
    }
    cr_buf_init(&edit->text, EDIT_MAX);
    edit->path = strndup(path, path_size);
    options->edit_count++; /* so that it is freed */
    return edit->path ? cli_read_text(file, &edit->text) : -ENOMEM;
}

static int take_solution(void *user, const char *file)
{
    return take_edit(user, "solution.py", strlen("solution.py"), file);
}

static int take_tests(void *user, const char *file)
{
    return take_edit(user, "test_solution.py", strlen("test_solution.py"), file);
}

static int take_further(void *user, const char *text)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || equals[1] == '\0') {
        (void)cli_fail("--file: '%s' is not PATH=FILE", text);
        return -EINVAL;
    }
    return take_edit(user, text, (size_t)(equals - text), equals + 1);
}

static void free_edits(struct options *options)
{
    for (size_t i = 0; i < options->edit_count; i++) {
        cr_buf_done(&options->edits[i].text);
        free(options->edits[i].path);
    }
}

static int resume(const void *user, int cancel_fd)
{
    const struct options *options = user;
    Crisol__Agent__V1__ResumeRunRequest request = CRISOL__AGENT__V1__RESUME_RUN_REQUEST__INIT;
    Crisol__Agent__V1__File files[EDITS_MAX];
    Crisol__Agent__V1__File *list[EDITS_MAX];
    CR_AUTO_BUF struct cr_buf plan = {0};

    cr_buf_init(&plan, EDIT_MAX);
    if (options->plan && cli_read_text(options->plan, &plan) < 0)
        return CLI_EXIT_SERVICE;
    if (plan.size > 0)
        request.plan = cr_unconst(cr_buf_str(&plan));
    for (size_t i = 0; i < options->edit_count; i++) {
        crisol__agent__v1__file__init(&files[i]);
        files[i].path = options->edits[i].path;
        files[i].text = cr_unconst(cr_buf_str(&options->edits[i].text));
        list[i] = &files[i];
    }
    request.run_id = options->run_id;
    if (options->hint)
        request.hint = cr_unconst(options->hint);
    request.files = list;
    request.n_files = options->edit_count;
    return cli_follow(options->address, &cli_method_resume_run, &request.base, cancel_fd);
}

int cli_resume(int argc, char **argv)
{
    struct options options = {.address = NULL};
    const struct cli_option table[] = {
        CLI_TEXT("hint", &options.hint),
        CLI_TEXT("plan", &options.plan),
        CLI_TAKEN("solution", &options, take_solution),
        CLI_TAKEN("tests", &options, take_tests),
        CLI_TAKEN("file", &options, take_further),
        CLI_TEXT("orchestrator", &options.address),
    };
    struct cli_command command = {.name = "resume", .help = resume_help, .arguments = 1};
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);
    int code = r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;

    /* On the wire it would be none, and the run would go on without the words that were meant. */
    if (r == 0 && options.hint && options.hint[strspn(options.hint, " \t\r\n")] == '\0')
        code = cli_fail("--hint: is blank: say what the model should do");
    else if (r == 0)
        code = cli_with_calls(resume, &options);
    free_edits(&options);
    return code;
}

/* ---- fork, cancel and forget ---- */

static void show_fork(const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ForkRunResponse *response = (const void *)message;

    cli_print_untrusted(stdout, response->run_id, strlen(response->run_id));
    (void)putchar('\n');
}

int cli_fork(int argc, char **argv)
{
    Crisol__Agent__V1__ForkRunRequest request = CRISOL__AGENT__V1__FORK_RUN_REQUEST__INIT;
    struct options options = {.address = NULL};
    const struct cli_option table[] = {CLI_TEXT("orchestrator", &options.address)};
    struct cli_command command = {
        .name = "fork",
        .help = fork_help,
        .arguments = 2,
        .is_missing = "name a RUN and a SEQ; see 'crisol fork --help'",
    };
    struct once once = {
        .method = &cli_method_fork_run, .request = &request.base, .show = show_fork};
    unsigned long long seq = 0;
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);

    if (r == 0)
        r = cli_parse_number("SEQ", argv[optind + 1], 1, UINT32_MAX, &seq);
    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    request.run_id = options.run_id;
    request.seq = (uint32_t)seq;
    once.address = options.address;
    return cli_with_calls(call_once, &once);
}

/* A command that takes one RUN, which goes into the request, and no option of its own. */
static int manage_one(int argc, char **argv, const char *help, struct once *once, char **ret_run_id)
{
    struct options options = {.address = NULL};
    const struct cli_option table[] = {CLI_TEXT("orchestrator", &options.address)};
    struct cli_command command = {.name = argv[0], .help = help, .arguments = 1};
    int r = parse(&command, table, CR_ARRAY_SIZE(table), argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    *ret_run_id = options.run_id;
    once->address = options.address;
    return cli_with_calls(call_once, once);
}

static void show_cancel(const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__CancelRunResponse *response = (const void *)message;

    if (!response->found)
        (void)puts("the run had ended");
}

int cli_cancel(int argc, char **argv)
{
    Crisol__Agent__V1__CancelRunRequest request = CRISOL__AGENT__V1__CANCEL_RUN_REQUEST__INIT;
    struct once once = {
        .method = &cli_method_cancel_run, .request = &request.base, .show = show_cancel};

    return manage_one(argc, argv, cancel_help, &once, &request.run_id);
}

int cli_forget(int argc, char **argv)
{
    Crisol__Agent__V1__DeleteRunRequest request = CRISOL__AGENT__V1__DELETE_RUN_REQUEST__INIT;
    struct once once = {.method = &cli_method_delete_run, .request = &request.base};

    return manage_one(argc, argv, forget_help, &once, &request.run_id);
}
