/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/receipt/receipt.h"

#include "clients/crisol/cli.h"
#include "clients/crisol/options.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/receipt/sign.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT_MAX (4U << 20) /* as rpc_json_read() */

static const char help[] =
    "Usage: crisol verify-receipt [OPTIONS] FILE\n"
    "\n"
    "Checks the result of a run against its receipt, without any service. FILE ('-': standard\n"
    "input) is what 'crisol run --json' or 'crisol watch --json' printed, or an answer of GetRun or\n"
    "Generate. Exits 0 when everything fits, 1 when something was changed, 125 when FILE is none.\n"
    "\n"
    "  --head HEX              and the head of the receipt is this one, which was kept apart\n"
    "  --key FILE              and it is signed with the private key of this public one (PEM)\n";

struct options {
    const char *path;
    const char *head;
    const char *key;
};

/* As cli_parse(). */
static int parse(int argc, char **argv, struct options *options)
{
    const struct cli_option table[] = {
        CLI_TEXT("head", &options->head),
        CLI_TEXT("key", &options->key),
    };
    const struct cli_command command = {
        .name = "verify-receipt",
        .help = help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .arguments = 1,
        .is_missing = "name one FILE; see 'crisol verify-receipt --help'",
    };
    int r = cli_parse(&command, argc, argv);

    if (r == 0)
        options->path = argv[optind];
    return r;
}

/* A result, or an answer that has one as its only member. NULL when the text is neither. */
static Crisol__Agent__V1__RunResult *read_result(const struct cr_buf *text)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_status second = RPC_STATUS_INIT; /* the first one tells more */
    ProtobufCMessage *message = NULL;
    Crisol__Agent__V1__GetRunResponse *response;
    Crisol__Agent__V1__RunResult *result;

    if (rpc_json_read(&crisol__agent__v1__run_result__descriptor, cr_buf_str(text), text->size,
                      &message, &status) == 0)
        return (void *)message;
    if (rpc_json_read(&crisol__agent__v1__get_run_response__descriptor, cr_buf_str(text),
                      text->size, &message, &second) < 0) {
        (void)cli_fail("it is no result of a run: %s", status.message);
        return NULL;
    }
    response = (void *)message;
    result = response->result;
    response->result = NULL;
    protobuf_c_message_free_unpacked(message, NULL);
    if (!result)
        (void)cli_fail("there is no result in it");
    return result;
}

/* The run's id is whatever the file says: it must not look like a line of ours. */
static void print_ok(const struct options *options, const Crisol__Agent__V1__RunResult *result)
{
    (void)fputs("ok run=", stdout);
    cli_print_untrusted(stdout, result->run_id, strcspn(result->run_id, "\n"));
    (void)printf(" links=%zu head=%s%s%s\n", result->receipt->n_links, result->receipt->head,
                 options->key ? " signed_by=" : "", options->key ? result->receipt->key_id : "");
}

static int verify(const struct options *options)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    struct cr_err err = CR_ERR_INIT;
    Crisol__Agent__V1__RunResult *result;
    int r;

    cr_buf_init(&text, DOCUMENT_MAX);
    if (cli_read_file(options->path, &text) < 0)
        return CLI_EXIT_SERVICE;
    result = read_result(&text);
    if (!result)
        return CLI_EXIT_SERVICE;
    r = agt_receipt_verify(result, options->head, &err);
    if (r == 0 && options->key)
        r = agt_receipt_check_signature(result->receipt, options->key, &err);
    if (r == 0)
        print_ok(options, result);
    else
        (void)cli_fail("the receipt does not fit: %s", err.text);
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    if (r == 0)
        return CLI_EXIT_OK;
    return r == -EBADMSG ? CLI_EXIT_FAILED : CLI_EXIT_SERVICE;
}

int cli_verify_receipt(int argc, char **argv)
{
    struct options options = {.path = NULL};
    int r = parse(argc, argv, &options);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    return verify(&options);
}
