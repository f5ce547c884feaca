/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a sandboxed `true` cost? Interleaves, in one run: Run over the
 * socket of sandboxd, and a bare posix_spawn of the same program. Asserts
 * every sample. Prints one JSON object: p50 and p99 of both in microseconds,
 * and the ratio of the medians.
 *
 * Usage: exec_bench ADDRESS SAMPLES
 */
#include "common/auto.h"
#include "common/clock.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/wait.h>

#define PROGRAM "/usr/bin/true"
#define WARM_UP 20
#define SAMPLES_MAX 10000

static const struct rpc_client_method method_run = {
    "/crisol.sandbox.v1.SandboxService/Run",
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__run_response__descriptor,
};

/* Microseconds of one sandboxed run; -1 when it did not end with OK. */
static int64_t sample_sandbox(struct rpc_channel *channel)
{
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    static char shell[] = "shell";
    static char program[] = PROGRAM;
    char *command[] = {program};
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *base = NULL;
    const Crisol__Sandbox__V1__RunResponse *response;
    int64_t begin_ns = cr_clock_mono_ns();
    int64_t elapsed_us;
    bool is_ok;

    request.runtime = shell;
    request.command = command;
    request.n_command = 1;
    if (rpc_call_blocking(channel, &method_run, &request.base, 30000, &base, &status) != RPC_OK) {
        (void)fprintf(stderr, "exec_bench: %s\n", status.message);
        return -1;
    }
    elapsed_us = (cr_clock_mono_ns() - begin_ns) / CR_NS_PER_US;
    response = (const void *)base;
    is_ok = response->result && response->result->verdict &&
            response->result->verdict->code == CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK;
    rpc_message_free(base);
    return is_ok ? elapsed_us : -1;
}

static int64_t sample_bare(void)
{
    static char program[] = PROGRAM;
    char *argv[] = {program, NULL};
    char *envp[] = {NULL};
    int64_t begin_ns = cr_clock_mono_ns();
    int status = -1;
    pid_t pid;

    if (posix_spawn(&pid, PROGRAM, NULL, NULL, argv, envp) != 0)
        return -1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return -1;
    return (cr_clock_mono_ns() - begin_ns) / CR_NS_PER_US;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int measure(struct rpc_channel *channel, int64_t *sandbox_us, int64_t *bare_us, size_t count)
{
    for (size_t i = 0; i < WARM_UP; i++) {
        if (sample_sandbox(channel) < 0 || sample_bare() < 0)
            return -1;
    }
    for (size_t i = 0; i < count; i++) {
        sandbox_us[i] = sample_sandbox(channel);
        bare_us[i] = sample_bare();
        if (sandbox_us[i] < 0 || bare_us[i] < 0)
            return -1;
    }
    qsort(sandbox_us, count, sizeof(*sandbox_us), compare);
    qsort(bare_us, count, sizeof(*bare_us), compare);
    return 0;
}

int main(int argc, char **argv)
{
    const struct rpc_channel_options options = {.target = argc > 1 ? argv[1] : ""};
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    CR_AUTO_FREE int64_t *sandbox_us = NULL;
    CR_AUTO_FREE int64_t *bare_us = NULL;
    struct rpc_channel *channel = NULL;
    int r;

    if (count < 1 || count > SAMPLES_MAX) {
        (void)fprintf(stderr, "usage: exec_bench ADDRESS SAMPLES (1 to %d)\n", SAMPLES_MAX);
        return 2;
    }
    sandbox_us = calloc(count, sizeof(*sandbox_us));
    bare_us = calloc(count, sizeof(*bare_us));
    rpc_init();
    r = sandbox_us && bare_us ? rpc_channel_new(&options, &channel, NULL) : -1;
    if (r == 0)
        r = measure(channel, sandbox_us, bare_us, count);
    (void)rpc_channel_free(channel);
    rpc_fini();
    if (r < 0) {
        (void)fprintf(stderr, "exec_bench: a sample did not end as it must\n");
        return 1;
    }
    (void)printf("{\"bench\":\"exec_true\",\"samples\":%zu,"
                 "\"sandbox_us\":{\"p50\":%" PRId64 ",\"p99\":%" PRId64 "},"
                 "\"bare_exec_us\":{\"p50\":%" PRId64 ",\"p99\":%" PRId64 "},\"ratio_p50\":%.2f}\n",
                 count, sandbox_us[count / 2], sandbox_us[count * 99 / 100], bare_us[count / 2],
                 bare_us[count * 99 / 100],
                 (double)sandbox_us[count / 2] / (double)bare_us[count / 2]);
    return 0;
}
