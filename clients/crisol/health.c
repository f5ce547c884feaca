/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/status.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define HEALTH_DEADLINE_MS 3000

static const char help[] =
    "Usage: crisol health [OPTIONS]\n"
    "\n"
    "Asks both services whether they serve (grpc.health.v1). Exits 0 when all that were asked do, 1\n"
    "when one does not or does not answer.\n"
    "\n"
    "  --only SERVICE          ask sandboxd or orchestrator alone, as the check of a container does\n"
    "  --sandbox ADDRESS       sandboxd [CRISOL_SANDBOX, default " CLI_DEFAULT_SANDBOX "]\n"
    "  --orchestrator ADDRESS  orchestrator [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR
    "]\n";

/* Prints one line about one service. True when it serves. */
static bool check(const char *name, const char *address)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_channel *channel = cli_connect(address);
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    bool is_serving = false;

    if (!channel)
        return false;
    if (rpc_call_blocking(channel, &cli_method_health_check, &request.base, HEALTH_DEADLINE_MS,
                          &response, &status) == RPC_OK) {
        is_serving = ((const Grpc__Health__V1__HealthCheckResponse *)(void *)response)->status ==
                     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
        (void)printf("%-12s %s at %s\n", name, is_serving ? "SERVING" : "NOT_SERVING", address);
    } else {
        (void)printf("%-12s %s at %s: ", name, rpc_code_name(status.code), address);
        cli_print_untrusted(stdout, status.message, strlen(status.message));
        (void)putchar('\n');
    }
    rpc_message_free(response);
    (void)rpc_channel_free(channel);
    return is_serving;
}

/* What to ask; NULL: the setting's default. */
struct wishes {
    const char *only; /* NULL: both */
    const char *sandbox;
    const char *orchestrator;
};

/* True unless the other one alone was asked for. */
static bool is_wanted(const struct wishes *wishes, const char *name)
{
    return !wishes->only || strcmp(wishes->only, name) == 0;
}

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, struct wishes *wishes)
{
    static const struct option options[] = {
        {"only", required_argument, NULL, 'n'},
        {"sandbox", required_argument, NULL, 's'},
        {"orchestrator", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            wishes->only = optarg;
            break;
        case 's':
            wishes->sandbox = optarg;
            break;
        case 'o':
            wishes->orchestrator = optarg;
            break;
        case 'h':
            (void)fputs(help, stdout);
            return CLI_EXIT_OK;
        default:
            return cli_fail("see 'crisol health --help'");
        }
    }
    if (optind < argc)
        return cli_fail("'%s' is not an option of health", argv[optind]);
    if (!is_wanted(wishes, "sandboxd") && !is_wanted(wishes, "orchestrator"))
        return cli_fail("--only: '%s' is neither sandboxd nor orchestrator", wishes->only);
    return -1;
}

int cli_health(int argc, char **argv)
{
    struct wishes wishes = {0};
    bool is_serving = true;
    int cancel_fd;
    int code = read_options(argc, argv, &wishes);

    if (code >= 0)
        return code;
    cancel_fd = cli_begin_calls();
    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    if (is_wanted(&wishes, "sandboxd"))
        is_serving =
            check("sandboxd", cli_address(wishes.sandbox, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX));
    if (is_wanted(&wishes, "orchestrator")) {
        const char *address =
            cli_address(wishes.orchestrator, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);

        is_serving = check("orchestrator", address) && is_serving;
    }
    cli_end_calls(cancel_fd);
    return is_serving ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
