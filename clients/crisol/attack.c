/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/verdict.h"
#include "common/auto.h"
#include "common/clock.h"
#include "common/unconst.h"
#include "rpc/status.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define CODE(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/*
 * Each program tries something that must not work and exits 0 only when it
 * was stopped in the expected way; where the sandbox has to end it, `expected`
 * is the verdict. So a sandbox that lets one through shows as "NOT HELD".
 */
static const struct attack {
    const char *name;
    const char *code;
    uint32_t wall_time_ms; /* 0: default */
    int expected;
    const char *stopped_by;
} attacks[] = {
    {"fork bomb",
     "import os, sys\nn = 0\ntry:\n    while n < 500:\n        pid = os.fork()\n        if pid == 0:\n"
     "            import time; time.sleep(60)\n        n += 1\nexcept OSError:\n    pass\n"
     "sys.exit(0 if n < 64 else 1)\n",
     0, CODE(OK), "64 processes, then EAGAIN"},
    {"allocate 1 GiB", "b = bytearray(1 << 30)\nprint(len(b))\n", 0, CODE(MEMORY_LIMIT),
     "memory limit, all killed"},
    {"endless loop", "while True: pass\n", 500, CODE(WALL_TIME_LIMIT), "wall limit of 0.5 s"},
    {"output flood", "while True: print('A' * 10000)\n", 0, CODE(OUTPUT_LIMIT), "1 MiB per stream"},
    {"open a connection",
     "import socket, sys\ntry:\n    socket.create_connection(('192.0.2.1', 80), 2)\n"
     "except OSError as e:\n    sys.exit(0 if e.errno == 101 else 2)\nsys.exit(1)\n",
     0, CODE(OK), "no network: ENETUNREACH"},
    {"read /etc/shadow",
     "import sys\ntry:\n    open('/etc/shadow').read()\nexcept OSError:\n    sys.exit(0)\n"
     "sys.exit(1)\n",
     0, CODE(OK), "own root filesystem"},
    {"write to /usr",
     "import sys\ntry:\n    open('/usr/lib/x', 'w')\nexcept OSError as e:\n"
     "    sys.exit(0 if e.errno == 30 else 2)\nsys.exit(1)\n",
     0, CODE(OK), "read-only: EROFS"},
    {"become root",
     "import os, sys\ntry:\n    os.setuid(0)\nexcept OSError:\n    sys.exit(0)\nsys.exit(1)\n", 0,
     CODE(OK), "no capability"},
    {"trace another process",
     "import ctypes, os\nctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)\n", 0,
     CODE(SECURITY_VIOLATION), "seccomp kill"},
    {"daemon that stays",
     "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
     "        time.sleep(60)\n    os._exit(0)\n",
     0, CODE(OK), "killed with its sandbox"},
};

static const char help[] =
    "Usage: crisol attack [--sandbox ADDRESS]\n"
    "\n"
    "Runs ten hostile programs, each in a sandbox with the default limits, and prints what became\n"
    "of them. Exits 0 when every one was stopped as it should be.\n";

struct outcome {
    struct rpc_channel *channel;
    const struct attack *attack;
    struct rpc_status status;
    int verdict;
    int64_t took_ns;
};

static void run_attack(struct outcome *outcome)
{
    const struct attack *attack = outcome->attack;
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    static char python[] = "python";
    ProtobufCMessage *base = NULL;
    const Crisol__Sandbox__V1__RunResponse *response;
    int64_t begin_ns = cr_clock_mono_ns();

    request.runtime = python;
    request.code = cr_unconst(attack->code);
    limits.wall_time_ms = attack->wall_time_ms;
    request.limits = &limits;
    if (rpc_call_blocking(outcome->channel, &cli_method_run, &request.base, 60000, &base,
                          &outcome->status) != RPC_OK)
        return;
    outcome->took_ns = cr_clock_mono_ns() - begin_ns;
    response = (const void *)base;
    if (response->result && response->result->verdict)
        outcome->verdict = (int)response->result->verdict->code;
    rpc_message_free(base);
}

static void *run_in_thread(void *argument)
{
    run_attack(argument);
    return NULL;
}

/* An attack that only waits for its own wall limit runs beside the others. */
static void run_each(struct outcome outcomes[], size_t count)
{
    pthread_t threads[CR_ARRAY_SIZE(attacks)];
    bool has_thread[CR_ARRAY_SIZE(attacks)] = {false};

    for (size_t i = 0; i < count; i++)
        if (outcomes[i].attack->wall_time_ms > 0)
            has_thread[i] = pthread_create(&threads[i], NULL, run_in_thread, &outcomes[i]) == 0;
    for (size_t i = 0; i < count; i++)
        if (!has_thread[i])
            run_attack(&outcomes[i]);
    for (size_t i = 0; i < count; i++)
        if (has_thread[i])
            (void)pthread_join(threads[i], NULL);
}

/* True when it was stopped as expected. */
static bool print_outcome(const struct outcome *outcome)
{
    const struct attack *attack = outcome->attack;
    bool is_held = outcome->verdict == attack->expected;

    (void)printf("  %-22s %-19s %5" PRId64 " ms  %s%s\n", attack->name,
                 cli_verdict_name(outcome->verdict), outcome->took_ns / CR_NS_PER_MS,
                 is_held ? "" : "NOT HELD: ", attack->stopped_by);
    return is_held;
}

static int run_all(const char *address)
{
    struct outcome outcomes[CR_ARRAY_SIZE(attacks)];
    struct rpc_channel *channel = cli_connect(address);
    size_t held = 0;

    if (!channel)
        return CLI_EXIT_SERVICE;
    for (size_t i = 0; i < CR_ARRAY_SIZE(attacks); i++)
        outcomes[i] =
            (struct outcome){.channel = channel, .attack = &attacks[i], .status = RPC_STATUS_INIT};
    run_each(outcomes, CR_ARRAY_SIZE(attacks));
    (void)rpc_channel_free(channel);
    for (size_t i = 0; i < CR_ARRAY_SIZE(attacks); i++) {
        if (outcomes[i].status.code != RPC_OK)
            return cli_report(address, &outcomes[i].status);
        held += print_outcome(&outcomes[i]);
    }
    (void)printf("  %zu of %zu held\n", held, CR_ARRAY_SIZE(attacks));
    return held == CR_ARRAY_SIZE(attacks) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

int cli_attack(int argc, char **argv)
{
    static const struct option options[] = {
        {"sandbox", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *sandbox = NULL;
    int cancel_fd;
    int option;
    int code;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            sandbox = optarg;
            break;
        case 'h':
            (void)fputs(help, stdout);
            return CLI_EXIT_OK;
        default:
            return cli_fail("see 'crisol attack --help'");
        }
    }
    if (optind < argc)
        return cli_fail("'%s' is not an option of attack", argv[optind]);
    cancel_fd = cli_begin_calls();
    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    code = run_all(cli_address(sandbox, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX));
    cli_end_calls(cancel_fd);
    return code;
}
