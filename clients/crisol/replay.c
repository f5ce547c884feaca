/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/replay/replay_run.h"
#include "rpc/status.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT_MAX (65U << 20)

static const char replay_help[] =
    "Usage: crisol replay FILE\n"
    "\n"
    "Repeats a run from what 'crisol export' wrote (FILE; '-': standard input), without any service:\n"
    "the graph goes through it again, with the recorded answers in place of model and sandbox.\n"
    "Prompts, requests and events have to be the same. Exits 0 when they are, 1 when something is\n"
    "different, 125 when FILE is no export or was changed.\n";

static const char export_help[] =
    "Usage: crisol export [OPTIONS] RUN\n"
    "\n"
    "Writes all that is stored of a run to standard output, for 'crisol replay'.\n"
    "\n"
    "  --out FILE              write it there\n"
    "  --orchestrator ADDRESS  [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR "]\n";

/* ---- replay ---- */

static int report(const struct agt_replay_report *result)
{
    if (result->different_at != 0) {
        (void)cli_fail("the run is different at event %u: %s", result->different_at,
                       result->difference);
        return CLI_EXIT_FAILED;
    }
    (void)fputs("ok run=", stdout);
    cli_print_untrusted(stdout, result->run_id, strcspn(result->run_id, "\n"));
    (void)printf(" events=%zu compared=%zu%s\n", result->events, result->compared,
                 result->was_stopped ? " (then it was stopped from outside)" : "");
    return CLI_EXIT_OK;
}

int cli_replay(int argc, char **argv)
{
    CR_AUTO_BUF struct cr_buf data = {0};
    struct cr_err err = CR_ERR_INIT;
    struct agt_replay_report result;

    const struct cli_command command = {
        .name = "replay",
        .help = replay_help,
        .arguments = 1,
        .is_missing = "name one FILE; see 'crisol replay --help'",
    };
    int r = cli_parse(&command, argc, argv);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    cr_buf_init(&data, EXPORT_MAX);
    if (cli_read_file(argv[optind], &data) < 0)
        return CLI_EXIT_SERVICE;
    if (agt_replay_run(data.data, data.size, &result, &err) < 0)
        return cli_fail("cannot repeat it: %s", err.text);
    return report(&result);
}

/* ---- export ---- */

struct export_options {
    const char *address;
    const char *out;
    Crisol__Agent__V1__ExportRunRequest request;
};

/* As cli_parse(). */
static int parse(int argc, char **argv, struct export_options *options)
{
    const struct cli_option table[] = {
        CLI_TEXT("out", &options->out),
        CLI_TEXT("orchestrator", &options->address),
    };
    const struct cli_command command = {
        .name = "export",
        .help = export_help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .arguments = 1,
        .is_missing = CLI_NAME_ONE_RUN,
    };
    int r = cli_parse(&command, argc, argv);

    if (r != 0)
        return r;
    options->request.run_id = argv[optind];
    options->address =
        cli_address(options->address, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return 0;
}

static bool on_piece(void *user, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ExportRunResponse *piece = (const void *)message;

    return cr_buf_add(user, piece->data.data, piece->data.len) == 0;
}

static int write_out(const char *path, const struct cr_buf *data)
{
    CR_AUTO_CLOSE int fd = -1;
    int r;

    if (!path)
        return cli_write_all(STDOUT_FILENO, data->data, data->size) < 0 ? CLI_EXIT_SERVICE
                                                                        : CLI_EXIT_OK;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return cli_fail("cannot write '%s': %s", path, strerrordesc_np(errno));
    r = cli_write_all(fd, data->data, data->size);
    return r < 0 ? cli_fail("cannot write '%s': %s", path, strerrordesc_np(-r)) : CLI_EXIT_OK;
}

static int export_run(const void *user, int cancel_fd)
{
    const struct export_options *options = user;
    CR_AUTO_BUF struct cr_buf data = {0};
    struct rpc_channel *channel = cli_connect(options->address);
    struct rpc_status status = RPC_STATUS_INIT;

    if (!channel)
        return CLI_EXIT_SERVICE;
    cr_buf_init(&data, EXPORT_MAX);
    (void)rpc_stream_blocking(channel, &cli_method_export_run, &options->request.base, 0, cancel_fd,
                              on_piece, &data, &status);
    (void)rpc_channel_free(channel);
    return status.code == RPC_OK ? write_out(options->out, &data)
                                 : cli_explain_end(options->address, cancel_fd, &status);
}

int cli_export(int argc, char **argv)
{
    struct export_options options = {
        .request = CRISOL__AGENT__V1__EXPORT_RUN_REQUEST__INIT,
    };
    int r = parse(argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return cli_with_calls(export_run, &options);
}
