/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/smoke.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/builder/tool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define START_MS 60000
#define STOP_MS 20000
#define CALL_MS 300000
#define PAUSE_MS 100
#define CODE_MAX (64U << 10)
#define OUTPUT_MAX (64U << 10) /* of what is looked at */
#define ARGS_MAX 16
#define SHOWN 300

/* ---- the service ---- */

struct service {
    pid_t pid;
    int pidfd;
    char address[PATH_MAX];
};

static int start(const struct sbx_smoke *smoke, struct service *service, struct cr_err *err)
{
    char path[PATH_MAX];
    char socket[PATH_MAX];
    char state[PATH_MAX];
    char gaps[PATH_MAX];
    char slow_host[32];
    /* Without the port of the metrics, which the service has that runs here. */
    const char *argv[ARGS_MAX] = {path,
                                  socket,
                                  state,
                                  "--backend=native",
                                  "--slots=1",
                                  "--pool=0",
                                  "--preload=off",
                                  "--log-level=warn",
                                  "--metrics=",
                                  slow_host,
                                  "--grace-ms=5000"};
    size_t count = 11;
    int r = cr_beside_find("sandboxd", path, err);

    if (r < 0)
        return r;
    (void)snprintf(service->address, sizeof(service->address), "unix:%s/socket", smoke->state_dir);
    (void)snprintf(socket, sizeof(socket), "--socket=%s/socket", smoke->state_dir);
    (void)snprintf(state, sizeof(state), "--state-dir=%s", smoke->state_dir);
    (void)snprintf(slow_host, sizeof(slow_host), "--slow-host=%" PRIu32, cr_patience());
    (void)snprintf(gaps, sizeof(gaps), "--accept-gap=%s",
                   smoke->accept_gaps ? smoke->accept_gaps : "");
    if (smoke->accept_gaps)
        argv[count++] = gaps;
    service->pid = fork();
    if (service->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)execv(path, cr_unconst(argv));
        _exit(127);
    }
    if (service->pid < 0)
        return cr_err_sys(err, errno, "fork for sandboxd");
    service->pidfd = pidfd_open(service->pid, 0);
    return 0;
}

static bool is_dead(const struct service *service)
{
    struct pollfd end = {.fd = service->pidfd, .events = POLLIN};

    return poll(&end, 1, 0) != 0;
}

static void stop(struct service *service)
{
    struct pollfd end = {.fd = service->pidfd, .events = POLLIN};

    if (service->pid <= 0)
        return;
    (void)kill(service->pid, SIGTERM);
    if (poll(&end, 1, cr_patience_ms(STOP_MS)) != 1)
        (void)kill(service->pid, SIGKILL);
    while (waitpid(service->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    cr_close_fd(&service->pidfd);
}

/* ---- the call ---- */

/* 1, 0, or -EAGAIN when the service cannot tell yet: its backend is not up. */
static int is_offered(struct rpc_channel *channel, const char *name)
{
    const struct rpc_client_method method = {
        .path = "/crisol.sandbox.v1.SandboxService/ListRuntimes",
        .request = &crisol__sandbox__v1__list_runtimes_request__descriptor,
        .response = &crisol__sandbox__v1__list_runtimes_response__descriptor,
    };
    Crisol__Sandbox__V1__ListRuntimesRequest request =
        CRISOL__SANDBOX__V1__LIST_RUNTIMES_REQUEST__INIT;
    const Crisol__Sandbox__V1__ListRuntimesResponse *response;
    ProtobufCMessage *base = NULL;
    struct rpc_status status = RPC_STATUS_INIT;
    int found = 0;

    if (rpc_call_blocking(channel, &method, &request.base, cr_patience_ms(CALL_MS), &base,
                          &status) != RPC_OK)
        return -EAGAIN;
    response = (const Crisol__Sandbox__V1__ListRuntimesResponse *)(const void *)base;
    for (size_t i = 0; i < response->n_runtimes; i++)
        found |= strcmp(response->runtimes[i]->name, name) == 0;
    rpc_message_free(base);
    return found;
}

static int wait_ready(const struct sbx_smoke *smoke, const struct service *service,
                      struct rpc_channel *channel, struct cr_err *err)
{
    const int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(START_MS * CR_NS_PER_MS);
    int found;

    while (!is_dead(service) && !sbx_tool_is_told_to_stop() && cr_clock_mono_ns() < deadline_ns) {
        if (rpc_channel_wait_ready(channel, PAUSE_MS) < 0)
            continue;
        found = is_offered(channel, smoke->runtime->name);
        if (found == 1)
            return 0;
        if (found == 0)
            return cr_err_set(err, ENOENT,
                              "sandboxd does not offer it: '%s', or what 'needs' names, is not in "
                              "its root file system",
                              smoke->runtime->version_path);
        (void)poll(NULL, 0, PAUSE_MS);
    }
    if (sbx_tool_is_told_to_stop())
        return cr_err_set(err, EINTR, "interrupted");
    if (is_dead(service))
        return cr_err_set(err, EIO, "sandboxd does not start with it; the lines above say why");
    return cr_err_set(err, ETIMEDOUT, "sandboxd is not ready with it in time");
}

/* One call, whose messages come one by one. */
struct trial {
    const struct sbx_runtime *runtime;
    struct cr_buf outputs[2];
    bool has_ended;
    int r;
    struct cr_err *err;
};

static int judge(struct trial *trial, const Crisol__Sandbox__V1__ExecuteResult *result)
{
    const char *wanted = trial->runtime->recipe.smoke_output;
    const char *output = cr_buf_str(&trial->outputs[0]);
    size_t size = trial->outputs[0].size;

    if (result->verdict->code != CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK)
        return cr_err_set(trial->err, EIO, "%s; it said: %.*s", result->summary, SHOWN,
                          result->compile && *result->compile->output_text
                              ? result->compile->output_text
                              : cr_buf_str(&trial->outputs[1]));
    while (size > 0 && output[size - 1] == '\n')
        size--;
    if (wanted && (size != strlen(wanted) || memcmp(output, wanted, size) != 0))
        return cr_err_set(trial->err, EIO, "it printed '%.*s' and not '%.*s'",
                          size < SHOWN ? (int)size : SHOWN, output, SHOWN, wanted);
    return 0;
}

static bool on_message(void *user, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__ExecuteResponse *message = (const void *)base;
    struct trial *trial = user;

    if (message->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT) {
        const Crisol__Sandbox__V1__Output *output = message->output;
        bool is_error = output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;

        (void)cr_buf_add(&trial->outputs[is_error], output->data.data, output->data.len);
    } else if (message->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT) {
        trial->has_ended = true;
        trial->r = judge(trial, message->result);
    }
    return true;
}

/* A program of its own, or the version. */
static int fill_request(const struct sbx_runtime *runtime, char *standard[2], struct cr_buf *code,
                        Crisol__Sandbox__V1__ExecuteRequest *request)
{
    int r = 0;

    for (size_t i = 0; r == 0 && runtime->recipe.smoke_code[i]; i++)
        r = cr_buf_printf(code, "%s\n", runtime->recipe.smoke_code[i]);
    request->runtime = cr_unconst(runtime->name);
    request->output_text = true;
    if (code->size > 0) {
        request->code = cr_unconst(cr_buf_str(code));
    } else {
        request->command = standard;
        request->n_command = 2;
    }
    return r;
}

static int call(const struct sbx_runtime *runtime, struct rpc_channel *channel, struct cr_err *err)
{
    const struct rpc_client_method method = {
        .path = "/crisol.sandbox.v1.SandboxService/Execute",
        .request = &crisol__sandbox__v1__execute_request__descriptor,
        .response = &crisol__sandbox__v1__execute_response__descriptor,
    };
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    char *standard[] = {cr_unconst(runtime->version_path), cr_unconst("--version")};
    struct trial trial = {.runtime = runtime, .err = err};
    struct rpc_status status = RPC_STATUS_INIT;
    CR_AUTO_BUF struct cr_buf code;

    cr_buf_init(&code, CODE_MAX);
    cr_buf_init(&trial.outputs[0], OUTPUT_MAX);
    cr_buf_init(&trial.outputs[1], OUTPUT_MAX);
    if (fill_request(runtime, standard, &code, &request) < 0) {
        trial.r = cr_err_set(err, ENOMEM, "out of memory for the smoke test");
    } else {
        (void)rpc_stream_blocking(channel, &method, &request.base, cr_patience_ms(CALL_MS),
                                  sbx_tool_stop_fd(), on_message, &trial, &status);
        if (!trial.has_ended && sbx_tool_is_told_to_stop())
            trial.r = cr_err_set(err, EINTR, "interrupted");
        else if (!trial.has_ended)
            trial.r = cr_err_set(err, EIO, "%s: %s", rpc_code_name(status.code), status.message);
    }
    cr_buf_done(&trial.outputs[0]);
    cr_buf_done(&trial.outputs[1]);
    return trial.r;
}

int sbx_smoke_run(const struct sbx_smoke *smoke, struct cr_err *err)
{
    struct service service = {.pid = 0, .pidfd = -1};
    struct rpc_channel *channel = NULL;
    int r = start(smoke, &service, err);

    if (r < 0)
        return r;
    rpc_init();
    r = rpc_channel_new(&(struct rpc_channel_options){.target = service.address}, &channel, err);
    if (r == 0)
        r = wait_ready(smoke, &service, channel, err);
    if (r == 0)
        r = call(smoke->runtime, channel, err);
    (void)rpc_channel_free(channel);
    rpc_fini();
    stop(&service);
    return r < 0 ? cr_err_wrap(err, "smoke test") : 0;
}
