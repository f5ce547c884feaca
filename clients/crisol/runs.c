/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "clients/crisol/view.h"
#include "common/auto.h"
#include "common/utf8.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIST_TIMEOUT_MS 30000
#define TASK_SHOWN 60

static const char help[] =
    "Usage: crisol runs [OPTIONS]\n"
    "\n"
    "Lists your runs, newest first: id, status, attempts, task.\n"
    "\n"
    "  --count N               at most so many (default 20)\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

struct options {
    const char *address;
    unsigned long long count;
};

/* As cli_parse(). */
static int parse(int argc, char **argv, struct options *options)
{
    const struct cli_option table[] = {
        CLI_NUMBER("count", &options->count, 1, 100000),
        CLI_TEXT("orchestrator", &options->address),
    };
    const struct cli_command command = {
        .name = "runs",
        .help = help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .is_missing = "'crisol runs' takes options only; see 'crisol runs --help'",
    };
    int r = cli_parse(&command, argc, argv);

    options->address =
        cli_address(options->address, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return r;
}

static void print_run(const Crisol__Agent__V1__RunResult *run)
{
    size_t size = strcspn(run->task, "\r\n");

    if (size > TASK_SHOWN)
        size = cr_utf8_complete_prefix(run->task, TASK_SHOWN);
    cli_print_untrusted(stdout, run->run_id, strlen(run->run_id));
    (void)printf("  %-9s  %d  ", cli_status_name((int)run->status), (int)run->iterations);
    cli_print_untrusted(stdout, run->task, size);
    (void)puts(run->task[size] ? "…" : "");
}

/* Prints one page; leaves what follows in *token. Returns the code of the call. */
static int print_page(struct rpc_channel *channel, uint32_t *left, char **token,
                      struct rpc_status *status)
{
    Crisol__Agent__V1__ListRunsRequest request = CRISOL__AGENT__V1__LIST_RUNS_REQUEST__INIT;
    const Crisol__Agent__V1__ListRunsResponse *response;
    ProtobufCMessage *message = NULL;
    int code;

    request.page_size = *left < 100 ? *left : 100;
    if (*token)
        request.page_token = *token;
    code = rpc_call_blocking(channel, &cli_method_list_runs, &request.base, LIST_TIMEOUT_MS,
                             &message, status);
    free(*token);
    *token = NULL;
    if (code != RPC_OK)
        return code;
    response = (const void *)message;
    for (size_t i = 0; i < response->n_runs; i++)
        print_run(response->runs[i]);
    *left -= response->n_runs < *left ? (uint32_t)response->n_runs : *left;
    if (response->next_page_token[0] != '\0')
        *token = strdup(response->next_page_token);
    rpc_message_free(message);
    return code;
}

static int list(const void *user, int cancel_fd)
{
    const struct options *options = user;
    struct rpc_channel *channel = cli_connect(options->address);
    uint32_t count = (uint32_t)options->count;
    struct rpc_status status = RPC_STATUS_INIT;
    char *token = NULL;
    int code = RPC_OK;

    (void)cancel_fd; /* each call has a deadline of its own */
    if (!channel)
        return CLI_EXIT_SERVICE;
    do
        code = print_page(channel, &count, &token, &status);
    while (code == RPC_OK && token && count > 0);
    free(token);
    (void)rpc_channel_free(channel);
    return code == RPC_OK ? CLI_EXIT_OK : cli_report(options->address, &status);
}

int cli_runs(int argc, char **argv)
{
    struct options options = {.count = 20};
    int r = parse(argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return cli_with_calls(list, &options);
}
