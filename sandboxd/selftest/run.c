/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/run.h"

#include "common/auto.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "rpc/client.h"
#include "rpc/status.h"
#include "sandboxd/selftest/tester.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>

#define DEADLINE_MS 30000
#define WALL_MS 10000U
#define HEAR_MS 20000
#define COLLECT_BYTES (1U << 20)
#define PROBE_NAME "sbprobe"

static const struct rpc_client_method method_run = {
    "/crisol.sandbox.v1.SandboxService/Run",
    &crisol__sandbox__v1__execute_request__descriptor, /* RunRequest has the same fields */
    &crisol__sandbox__v1__run_response__descriptor,
};
static const struct rpc_client_method method_execute = {
    "/crisol.sandbox.v1.SandboxService/Execute",
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__execute_response__descriptor,
};
static const struct rpc_client_method method_capabilities = {
    "/crisol.sandbox.v1.SandboxService/GetCapabilities",
    &crisol__sandbox__v1__get_capabilities_request__descriptor,
    &crisol__sandbox__v1__get_capabilities_response__descriptor,
};

/* A request and everything it points to; must not move. */
struct request {
    Crisol__Sandbox__V1__ExecuteRequest message;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__InputFile files[2];
    Crisol__Sandbox__V1__InputFile *file_list[2];
    Crisol__Sandbox__V1__CollectSpec collect[SBX_SPEC_COLLECT_MAX];
    Crisol__Sandbox__V1__CollectSpec *collect_list[SBX_SPEC_COLLECT_MAX];
    char *command[4];
};

/* A slow host gets more of the time that a program has by default; limits that are set stay. */
static void stretch_time(Crisol__Sandbox__V1__Limits *message)
{
    if (cr_patience() > 1 && message->wall_time_ms == 0)
        message->wall_time_ms = WALL_MS * cr_patience();
}

static void copy_limits(Crisol__Sandbox__V1__Limits *message, const uint64_t *limits)
{
    message->wall_time_ms = (uint32_t)limits[SBX_LIMIT_WALL_TIME];
    message->cpu_time_ms = (uint32_t)limits[SBX_LIMIT_CPU_TIME];
    message->memory_bytes = limits[SBX_LIMIT_MEMORY];
    message->processes = (uint32_t)limits[SBX_LIMIT_PROCESSES];
    message->cpu_millicores = (uint32_t)limits[SBX_LIMIT_CPU_MILLICORES];
    message->open_files = (uint32_t)limits[SBX_LIMIT_OPEN_FILES];
    message->file_size_bytes = limits[SBX_LIMIT_FILE_SIZE];
    message->workspace_bytes = limits[SBX_LIMIT_WORKSPACE_BYTES];
    message->workspace_inodes = (uint32_t)limits[SBX_LIMIT_WORKSPACE_INODES];
    message->stack_bytes = limits[SBX_LIMIT_STACK];
    message->output_bytes = limits[SBX_LIMIT_OUTPUT];
}

static void set_limits(struct request *request, const uint64_t *limits)
{
    crisol__sandbox__v1__limits__init(&request->limits);
    request->message.limits = &request->limits;
    if (limits)
        copy_limits(&request->limits, limits);
    stretch_time(&request->limits);
}

static void set_command(struct request *request, const struct sbx_tester *tester,
                        const struct sbx_spec *spec)
{
    const char *const shell[] = {"/bin/sh", "-c", spec->shell};
    const char *const probe[] = {"/workspace/" PROBE_NAME, spec->behaviour,
                                 spec->argument ? spec->argument : "-", tester->stack->token};
    const char *const *words = spec->shell ? shell : probe;

    request->message.n_command = spec->shell ? CR_ARRAY_SIZE(shell) : CR_ARRAY_SIZE(probe);
    for (size_t i = 0; i < request->message.n_command; i++)
        request->command[i] = cr_unconst(words[i]);
    request->message.command = request->command;
}

static Crisol__Sandbox__V1__InputFile *add_file(struct request *request, const char *path)
{
    Crisol__Sandbox__V1__InputFile *file = &request->files[request->message.n_files];

    crisol__sandbox__v1__input_file__init(file);
    file->path = cr_unconst(path);
    request->file_list[request->message.n_files++] = file;
    request->message.files = request->file_list;
    return file;
}

static void set_files(struct request *request, const struct sbx_tester *tester,
                      const struct sbx_spec *spec)
{
    if (!spec->shell) {
        Crisol__Sandbox__V1__InputFile *file = add_file(request, PROBE_NAME);

        file->data.data = cr_unconst(tester->program);
        file->data.len = tester->program_size;
        file->mode = 0755;
    }
    if (spec->read_only_path) {
        Crisol__Sandbox__V1__InputFile *file = add_file(request, spec->read_only_path);

        file->text = cr_unconst(spec->read_only_text);
        file->read_only = 1;
    }
}

static void set_collect(struct request *request, const struct sbx_spec *spec)
{
    for (size_t i = 0; spec->collect[i]; i++) {
        crisol__sandbox__v1__collect_spec__init(&request->collect[i]);
        request->collect[i].path = cr_unconst(spec->collect[i]);
        request->collect[i].max_bytes = COLLECT_BYTES;
        request->collect_list[i] = &request->collect[i];
        request->message.n_collect = i + 1;
    }
    request->message.collect = request->collect_list;
}

static void make_request(struct request *request, const struct sbx_tester *tester,
                         const struct sbx_spec *spec)
{
    crisol__sandbox__v1__execute_request__init(&request->message);
    request->message.runtime = cr_unconst("shell");
    set_limits(request, spec->limits);
    set_command(request, tester, spec);
    set_files(request, tester, spec);
    set_collect(request, spec);
}

/* The bytes of stdout become a string: the response is ours, and a run's output ends with '\n'. */
static void observe(const Crisol__Sandbox__V1__RunResponse *response,
                    struct sbx_observed *ret_observed, char *text, size_t size)
{
    const Crisol__Sandbox__V1__ExecuteResult *result = response->result;
    size_t kept = response->stdout_data.len < size - 1 ? response->stdout_data.len : size - 1;

    if (kept > 0)
        memcpy(text, response->stdout_data.data, kept);
    text[kept] = '\0';
    *ret_observed = (struct sbx_observed){
        .verdict = result->verdict ? (uint32_t)result->verdict->code : 0,
        .exit_code = result->exit_code,
        .signal = result->signal,
        .has_hit = result->limit_hit != NULL,
        .out = text,
        .out_size = response->stdout_data.len,
        .err_size = response->stderr_data.len,
    };
    if (!result->usage)
        return;
    ret_observed->wall_us = result->usage->wall_us;
    ret_observed->cpu_us = result->usage->cpu_total_us;
    ret_observed->memory_peak_bytes = result->usage->memory_peak_bytes;
    ret_observed->oom_kills = result->usage->oom_kills;
    ret_observed->process_limit_hits = result->usage->process_limit_hits;
    ret_observed->killed_leftovers = result->usage->killed_leftovers;
}

int sbx_run(struct sbx_tester *tester, const struct sbx_spec *spec, struct sbx_reply *ret_reply,
            char *ret_problem, size_t size)
{
    static char text[1U << 16]; /* one run at a time; a flood is counted, not kept */
    struct rpc_status status = RPC_STATUS_INIT;
    struct request request = {0};
    const Crisol__Sandbox__V1__RunResponse *response;

    *ret_reply = (struct sbx_reply){0};
    make_request(&request, tester, spec);
    if (rpc_call_blocking(tester->channel, &method_run, &request.message.base,
                          spec->deadline_ms > 0 ? spec->deadline_ms : cr_patience_ms(DEADLINE_MS),
                          &ret_reply->base, &status) != RPC_OK) {
        (void)snprintf(ret_problem, size, "%s", status.message);
        return status.code == RPC_DEADLINE_EXCEEDED ? -ETIMEDOUT : -EIO;
    }
    response = (const void *)ret_reply->base;
    if (!response->result) {
        (void)snprintf(ret_problem, size, "an answer without a result");
        sbx_reply_done(ret_reply);
        return -EPROTO;
    }
    ret_reply->result = response->result;
    observe(response, &ret_reply->observed, text, sizeof(text));
    return 0;
}

void sbx_reply_done(struct sbx_reply *reply)
{
    rpc_message_free(reply->base);
    reply->base = NULL;
}

static void ring(int fd)
{
    const uint64_t one = 1;

    (void)!write(fd, &one, sizeof(one));
}

static bool on_event(void *user, const ProtobufCMessage *message)
{
    const struct sbx_background *background = user;
    const Crisol__Sandbox__V1__ExecuteResponse *event = (const void *)message;

    if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT)
        ring(background->heard_fd);
    return true;
}

static void *run_in_background(void *user)
{
    struct sbx_background *background = user;
    struct rpc_status status = RPC_STATUS_INIT;
    struct request request = {0};

    make_request(&request, background->tester, background->spec);
    (void)rpc_stream_blocking(background->tester->channel, &method_execute, &request.message.base,
                              cr_patience_ms(DEADLINE_MS), background->cancel_fd, on_event,
                              background, &status);
    background->is_over = true;
    ring(background->heard_fd);
    return NULL;
}

int sbx_background_start(struct sbx_tester *tester, const struct sbx_spec *spec,
                         struct sbx_background *background)
{
    struct pollfd watch;

    *background = (struct sbx_background){.tester = tester, .spec = spec};
    background->heard_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    background->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (background->heard_fd < 0 || background->cancel_fd < 0 ||
        pthread_create(&background->thread, NULL, run_in_background, background) != 0) {
        cr_close_fd(&background->heard_fd);
        cr_close_fd(&background->cancel_fd);
        return -EAGAIN;
    }
    watch = (struct pollfd){.fd = background->heard_fd, .events = POLLIN};
    if (poll(&watch, 1, cr_patience_ms(HEAR_MS)) == 1 && !background->is_over)
        return 0;
    sbx_background_stop(background);
    return -EIO;
}

void sbx_background_stop(struct sbx_background *background)
{
    ring(background->cancel_fd);
    (void)pthread_join(background->thread, NULL);
    cr_close_fd(&background->heard_fd);
    cr_close_fd(&background->cancel_fd);
}

static bool is_gap(const struct sbx_tester *tester, const Crisol__Sandbox__V1__Control *control)
{
    return control->enforcement == CRISOL__SANDBOX__V1__ENFORCEMENT__ENFORCEMENT_GAP ||
           (tester->stack->is_rootless &&
            control->enforcement == CRISOL__SANDBOX__V1__ENFORCEMENT__ENFORCEMENT_PARTIAL);
}

int sbx_ask_gaps(struct sbx_tester *tester, bool ret_gaps[SBX_CONTROL_COUNT])
{
    Crisol__Sandbox__V1__GetCapabilitiesRequest request =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *base = NULL;
    const Crisol__Sandbox__V1__GetCapabilitiesResponse *response;

    if (rpc_call_blocking(tester->channel, &method_capabilities, &request.base,
                          cr_patience_ms(DEADLINE_MS), &base, &status) != RPC_OK)
        return -EIO;
    response = (const void *)base;
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        ret_gaps[i] = false;
        for (size_t j = 0; j < response->n_controls; j++) {
            if (strcmp(response->controls[j]->name, sbx_control_name(i)) == 0)
                ret_gaps[i] = is_gap(tester, response->controls[j]);
        }
    }
    rpc_message_free(base);
    return 0;
}
