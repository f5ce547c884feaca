/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "clients/crisol/view.h"
#include "common/auto.h"
#include "common/clock.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 3000
#define RUNS_ASKED 100
#define RUNS_SHOWN 20
#define TASK_SHOWN 50
#define STATUSES 8 /* more than there are */

static const char help[] =
    "Usage: crisol top [OPTIONS]\n"
    "\n"
    "Shows what both services do, anew every few seconds until Ctrl-C: slots, queue and pool of\n"
    "sandboxd; your runs, of the last 100, in the orchestrator. Exits 0, or 1 when one of the two\n"
    "did not answer the last time.\n"
    "\n"
    "  --once                  once, and end\n"
    "  --json                  one line of JSON each time\n"
    "  --interval SECONDS      1 to 3600, default 2\n"
    "  --sandbox ADDRESS       sandboxd [CRISOL_SANDBOX, default " CLI_DEFAULT_SANDBOX "]\n"
    "  --orchestrator ADDRESS  orchestrator [CRISOL_ORCHESTRATOR, default " CLI_DEFAULT_ORCHESTRATOR
    "]\n";

struct options {
    const char *sandbox;
    const char *orchestrator;
    unsigned long long interval_s;
    bool is_once;
    bool is_json;
};

/* What one look has found. */
struct look {
    struct rpc_status sandbox_status;
    struct rpc_status runs_status;
    ProtobufCMessage *sandbox; /* GetCapabilitiesResponse; NULL: no answer */
    ProtobufCMessage *runs;    /* ListRunsResponse; NULL: no answer */
    uint32_t by_status[STATUSES];
};

static const Crisol__Sandbox__V1__GetCapabilitiesResponse *sandbox_of(const struct look *look)
{
    return (const void *)look->sandbox;
}

static const Crisol__Agent__V1__ListRunsResponse *runs_of(const struct look *look)
{
    return (const void *)look->runs;
}

/* ---- asking ---- */

static void ask(struct rpc_channel *channel, const struct rpc_client_method *method,
                const ProtobufCMessage *request, ProtobufCMessage **ret_response,
                struct rpc_status *ret_status)
{
    *ret_response = NULL;
    (void)rpc_call_blocking(channel, method, request, CALL_TIMEOUT_MS, ret_response, ret_status);
}

static void take_look(struct rpc_channel *sandbox, struct rpc_channel *orchestrator,
                      struct look *look)
{
    Crisol__Sandbox__V1__GetCapabilitiesRequest capabilities =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    Crisol__Agent__V1__ListRunsRequest list = CRISOL__AGENT__V1__LIST_RUNS_REQUEST__INIT;

    *look = (struct look){.sandbox = NULL};
    list.page_size = RUNS_ASKED;
    ask(sandbox, &cli_method_get_capabilities, &capabilities.base, &look->sandbox,
        &look->sandbox_status);
    ask(orchestrator, &cli_method_list_runs, &list.base, &look->runs, &look->runs_status);
    for (size_t i = 0; look->runs && i < runs_of(look)->n_runs; i++) {
        int status = (int)runs_of(look)->runs[i]->status;

        look->by_status[status > 0 && status < STATUSES ? status : 0]++;
    }
}

static void drop_look(struct look *look)
{
    rpc_message_free(look->sandbox);
    rpc_message_free(look->runs);
}

/* ---- for a person ---- */

static void print_status(const char *name, const struct rpc_status *status)
{
    (void)printf("%-12s  %s: ", name, rpc_code_name(status->code));
    cli_print_untrusted(stdout, status->message, strlen(status->message));
    (void)putchar('\n');
}

static void print_sandbox(const struct look *look)
{
    const Crisol__Sandbox__V1__GetCapabilitiesResponse *response = sandbox_of(look);
    const Crisol__Sandbox__V1__Load *load;
    const Crisol__Sandbox__V1__Pool *pool;

    if (!response) {
        print_status("sandboxd", &look->sandbox_status);
        return;
    }
    load = response->load;
    pool = response->pool;
    (void)printf("sandboxd      slots %u/%u  queue %u/%u", load ? load->running : 0,
                 response->slots, load ? load->waiting : 0, response->queue_length);
    if (load && load->memory_maximum_bytes > 0)
        (void)printf("  memory %" PRIu64 "/%" PRIu64 " MiB", load->memory_bytes >> 20,
                     load->memory_maximum_bytes >> 20);
    if (pool)
        (void)printf("  pool %u/%u ready, %" PRIu64 " hits, %" PRIu64 " misses", pool->ready,
                     pool->slots, pool->hits, pool->misses);
    (void)printf("  ");
    cli_print_untrusted(stdout, response->version, strlen(response->version));
    (void)putchar('\n');
}

static bool is_live(const Crisol__Agent__V1__RunResult *run)
{
    return run->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING ||
           run->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_INTERRUPTED;
}

static void print_runs(const struct look *look)
{
    const Crisol__Agent__V1__ListRunsResponse *response = runs_of(look);
    size_t shown = 0;

    if (!response) {
        print_status("orchestrator", &look->runs_status);
        return;
    }
    (void)printf("orchestrator  runs");
    for (int status = 1; status < STATUSES; status++) {
        if (look->by_status[status] > 0)
            (void)printf("  %s %u", cli_status_name(status), look->by_status[status]);
    }
    (void)printf("%s\n", response->n_runs == 0 ? "  none" : "");
    for (size_t i = 0; i < response->n_runs && shown < RUNS_SHOWN; i++) {
        const Crisol__Agent__V1__RunResult *run = response->runs[i];
        size_t size = strcspn(run->task, "\r\n");

        if (!is_live(run))
            continue;
        shown++;
        (void)printf("  ");
        cli_print_untrusted(stdout, run->run_id, strlen(run->run_id));
        (void)printf("  %-11s  attempts %d  %6.1f s  ", cli_status_name((int)run->status),
                     (int)run->iterations, (double)run->elapsed_ms / 1e3);
        cli_print_untrusted(stdout, run->task, size < TASK_SHOWN ? size : TASK_SHOWN);
        (void)putchar('\n');
    }
}

/* ---- for a program: numbers and names of ours only, so that nothing needs an escape ---- */

static void print_json_sandbox(const struct look *look)
{
    static const Crisol__Sandbox__V1__Load no_load = CRISOL__SANDBOX__V1__LOAD__INIT;
    static const Crisol__Sandbox__V1__Pool no_pool = CRISOL__SANDBOX__V1__POOL__INIT;
    const Crisol__Sandbox__V1__GetCapabilitiesResponse *response = sandbox_of(look);
    const Crisol__Sandbox__V1__Load *load;
    const Crisol__Sandbox__V1__Pool *pool;

    if (!response) {
        (void)printf("\"sandboxd\":{\"error\":\"%s\"}", rpc_code_name(look->sandbox_status.code));
        return;
    }
    load = response->load ? response->load : &no_load;
    pool = response->pool ? response->pool : &no_pool;
    (void)printf(
        "\"sandboxd\":{\"slots\":%u,\"running\":%u,\"queue_length\":%u,\"waiting\":%u,"
        "\"memory_bytes\":%" PRIu64 ",\"memory_maximum_bytes\":%" PRIu64
        ",\"pool\":{\"slots\":%u,\"ready\":%u,\"hits\":%" PRIu64 ",\"misses\":%" PRIu64 "}}",
        response->slots, load->running, response->queue_length, load->waiting, load->memory_bytes,
        load->memory_maximum_bytes, pool->slots, pool->ready, pool->hits, pool->misses);
}

static void print_json_runs(const struct look *look)
{
    const char *before = "";

    if (!look->runs) {
        (void)printf("\"orchestrator\":{\"error\":\"%s\"}", rpc_code_name(look->runs_status.code));
        return;
    }
    (void)printf("\"orchestrator\":{\"runs\":{");
    for (int status = 1; status < STATUSES; status++) {
        if (look->by_status[status] == 0)
            continue;
        (void)printf("%s\"%s\":%u", before, cli_status_name(status), look->by_status[status]);
        before = ",";
    }
    (void)printf("}}");
}

static void print_look(const struct options *options, const struct look *look)
{
    if (options->is_json) {
        (void)printf("{\"time_ms\":%" PRId64 ",", cr_clock_real_ms());
        print_json_sandbox(look);
        (void)putchar(',');
        print_json_runs(look);
        (void)printf("}\n");
    } else {
        if (!options->is_once && isatty(STDOUT_FILENO))
            (void)fputs("\033[H\033[J", stdout); /* home, and clear what is below */
        print_sandbox(look);
        print_runs(look);
    }
    (void)fflush(stdout);
}

/* ---- the command ---- */

/* False when the person has had enough. */
static bool wait_interval(const struct options *options, int cancel_fd)
{
    struct pollfd poll_fd = {.fd = cancel_fd, .events = POLLIN};

    return poll(&poll_fd, 1, (int)options->interval_s * 1000) == 0;
}

static int watch(const struct options *options, struct rpc_channel *sandbox,
                 struct rpc_channel *orchestrator, int cancel_fd)
{
    int code;

    do {
        struct look look;

        take_look(sandbox, orchestrator, &look);
        print_look(options, &look);
        code = look.sandbox && look.runs ? CLI_EXIT_OK : CLI_EXIT_FAILED;
        drop_look(&look);
    } while (!options->is_once && !ferror(stdout) && wait_interval(options, cancel_fd));
    return code;
}

static int top(const void *user, int cancel_fd)
{
    const struct options *options = user;
    struct rpc_channel *sandbox = cli_connect(options->sandbox);
    struct rpc_channel *orchestrator = sandbox ? cli_connect(options->orchestrator) : NULL;
    int code = CLI_EXIT_SERVICE;

    if (sandbox && orchestrator)
        code = watch(options, sandbox, orchestrator, cancel_fd);
    (void)rpc_channel_free(orchestrator);
    (void)rpc_channel_free(sandbox);
    return code;
}

int cli_top(int argc, char **argv)
{
    struct options options = {.interval_s = 2};
    const struct cli_option table[] = {
        CLI_FLAG("once", &options.is_once),
        CLI_FLAG("json", &options.is_json),
        CLI_NUMBER("interval", &options.interval_s, 1, 3600),
        CLI_TEXT("sandbox", &options.sandbox),
        CLI_TEXT("orchestrator", &options.orchestrator),
    };
    const struct cli_command command = {
        .name = "top",
        .help = help,
        .options = table,
        .option_count = CR_ARRAY_SIZE(table),
        .is_missing = "'crisol top' takes options only; see 'crisol top --help'",
    };
    int r = cli_parse(&command, argc, argv);

    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    options.sandbox = cli_address(options.sandbox, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX);
    options.orchestrator =
        cli_address(options.orchestrator, "CRISOL_ORCHESTRATOR", CLI_DEFAULT_ORCHESTRATOR);
    return cli_with_calls(top, &options);
}
