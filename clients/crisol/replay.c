/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
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
    (void)printf("ok run=%s events=%zu compared=%zu%s\n", result->run_id, result->events,
                 result->compared,
                 result->was_stopped ? " (then it was stopped from outside)" : "");
    return CLI_EXIT_OK;
}

int cli_replay(int argc, char **argv)
{
    CR_AUTO_BUF struct cr_buf data = {0};
    struct cr_err err = CR_ERR_INIT;
    struct agt_replay_report result;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(replay_help, stdout);
        return CLI_EXIT_OK;
    }
    if (argc != 2)
        return cli_fail("name one FILE; see 'crisol replay --help'");
    cr_buf_init(&data, EXPORT_MAX);
    if (cli_read_file(argv[1], &data) < 0)
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

/* Returns 0, 1 when --help was answered, -EINVAL. */
static int parse(int argc, char **argv, struct export_options *options)
{
    static const struct option table[] = {
        {"out", required_argument, NULL, 'o'},
        {"orchestrator", required_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (option) {
        case 'o':
            options->out = optarg;
            break;
        case 'a':
            options->address = optarg;
            break;
        case 'h':
            (void)fputs(export_help, stdout);
            return 1;
        default:
            (void)cli_fail("see 'crisol export --help'");
            return -EINVAL;
        }
    }
    if (optind + 1 != argc) {
        (void)cli_fail("name one RUN by its id; 'crisol runs' lists them");
        return -EINVAL;
    }
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

static int export_run(const struct export_options *options, int cancel_fd)
{
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
                                 : cli_report(options->address, &status);
}

int cli_export(int argc, char **argv)
{
    struct export_options options = {
        .request = CRISOL__AGENT__V1__EXPORT_RUN_REQUEST__INIT,
    };
    int cancel_fd;
    int code;
    int r = parse(argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    cancel_fd = cli_begin_calls();
    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    code = export_run(&options, cancel_fd);
    cli_end_calls(cancel_fd);
    return code;
}
