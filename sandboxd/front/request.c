/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/request.h"

#include "common/auto.h"
#include "rpc/status.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/request_parts.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GRACE_DEFAULT_MS 30000U
#define GRACE_MIN_MS 100U
#define GRACE_MAX_MS 600000U
#define RING_DEFAULT_BYTES (256U << 10)
#define RING_MIN_BYTES (64U << 10) /* a chunk */
#define RING_MAX_BYTES (1U << 20)
#define CONTAINER_MEMORY_MIN (UINT64_C(6) << 20)

const struct sbx_runtime *sbx_request_runtime(const struct sbx_request *request)
{
    size_t count;

    return &sbx_runtimes(&count)[request->runtime];
}

static bool is_set(const char *text)
{
    return text && *text;
}

static bool is_request_id_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool sbx_request_id_is_valid(const char *id)
{
    size_t length = strnlen(id, SBX_REQUEST_ID_MAX + 1);

    for (size_t i = 0; i < length; i++) {
        if (!is_request_id_character(id[i]))
            return false;
    }
    return length <= SBX_REQUEST_ID_MAX;
}

static void check_request_id(struct sbx_checker *check)
{
    const char *id = check->message->request_id;
    size_t length = strlen(id);

    if (length > SBX_REQUEST_ID_MAX) {
        rpc_status_add_violation(check->status, "request_id",
                                 "%zu characters are more than the maximum of %u", length,
                                 SBX_REQUEST_ID_MAX);
        return;
    }
    if (!sbx_request_id_is_valid(id))
        rpc_status_add_violation(check->status, "request_id",
                                 "only letters, digits, '.', '_' and '-' are allowed");
}

/* Names of the runtimes of this host, for a person. */
static void list_runtimes(const struct sbx_request_rules *rules, char *text, size_t size)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        int n;

        if (!(rules->runtimes & (UINT32_C(1) << i)))
            continue;
        n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", runtimes[i].name);
        if (n < 0 || (size_t)n >= size - used)
            return;
        used += (size_t)n;
    }
}

int sbx_request_find_runtime(const char *name, const struct sbx_request_rules *rules,
                             uint32_t *ret_runtime, struct rpc_status *status)
{
    char known[256];
    int index;

    list_runtimes(rules, known, sizeof(known));
    if (!is_set(name)) {
        rpc_status_add_violation(status, "runtime", "is required: one of %s", known);
        return -EINVAL;
    }
    index = sbx_runtime_find(name);
    if (index < 0 || !(rules->runtimes & (UINT32_C(1) << index))) {
        rpc_status_set(status, RPC_NOT_FOUND,
                       "runtime: '%.65s' is not known here; this host has %s", name, known);
        return -EINVAL;
    }
    *ret_runtime = (uint32_t)index;
    return 0;
}

/* Everything else depends on the runtime, so an unknown one ends the check. */
static int check_runtime(struct sbx_checker *check)
{
    int r = sbx_request_find_runtime(check->message->runtime, check->rules,
                                     &check->request->runtime, check->status);

    if (r == 0)
        check->runtime = sbx_request_runtime(check->request);
    return r;
}

/* Controls that do not exist here are refused by name, never ignored. */
static int check_unimplemented(struct sbx_checker *check)
{
    Crisol__Sandbox__V1__Backend backend = check->message->backend;

    if (check->message->network) {
        rpc_status_set(check->status, RPC_UNIMPLEMENTED,
                       "network: network rules are not implemented; leave the field out, and the "
                       "program runs without a network");
        return -EINVAL;
    }
    if (backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_UNSPECIFIED ||
        backend == check->rules->backend)
        return 0;
    if (backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER ||
        backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE) {
        rpc_status_set(check->status, RPC_UNIMPLEMENTED,
                       "backend: %s is not offered by this service; GetCapabilities names the "
                       "backend in use",
                       backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER ? "BACKEND_DOCKER"
                                                                               : "BACKEND_NATIVE");
        return -EINVAL;
    }
    rpc_status_add_violation(check->status, "backend", "%d is not a backend", (int)backend);
    return 0;
}

/* The engine refuses less memory than this, which would look like a failure of the sandbox. */
static void check_container(const struct sbx_checker *check)
{
    uint64_t memory = check->request->limits.value[SBX_LIMIT_MEMORY];

    if (check->rules->backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER &&
        memory < CONTAINER_MEMORY_MIN)
        rpc_status_add_violation(check->status, "limits.memory_bytes",
                                 "%" PRIu64 " is less than the docker engine's minimum of %" PRIu64,
                                 memory, CONTAINER_MEMORY_MIN);
}

static void check_compiled(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    ProtobufCBinaryData compiled = sbx_request_compiled(check->rules->contents, message);

    if (is_set(message->code) || message->n_command > 0) {
        rpc_status_add_violation(check->status, "compiled",
                                 "set one of code, command and compiled");
    } else if (!compiled.data) {
        rpc_status_set(check->status, RPC_NOT_FOUND,
                       "compiled: '%.64s' is not stored here, or no longer: compile again",
                       message->compiled);
        (void)snprintf(check->status->reason, sizeof(check->status->reason), "NO_ARTIFACT");
    } else if (sbx_compiled_check(compiled.data, compiled.len, check->runtime) < 0) {
        rpc_status_add_violation(check->status, "compiled",
                                 "is not what a compile stage of runtime '%s' made",
                                 check->runtime->name);
    }
}

/* Which stages there are. A command is run as it is. */
static void check_compile(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    struct sbx_request *request = check->request;
    const bool has_stage = check->runtime->compile[0] && message->n_command == 0;

    request->has_compile = has_stage && !is_set(message->compiled);
    request->phase = has_stage ? SBX_PHASE_RUN : SBX_PHASE_ONLY;
    if (is_set(message->compiled) && check->runtime->compile[0])
        check_compiled(check);
    else if (is_set(message->compiled))
        rpc_status_add_violation(check->status, "compiled", "runtime '%s' has no compile stage",
                                 check->runtime->name);
    if (request->has_compile)
        sbx_limits_read_compile(message->compile_limits, &check->rules->maximum, check->runtime,
                                &request->compile_limits, &request->compile_requested,
                                check->status);
    else if (message->compile_limits || message->keep_compiled)
        rpc_status_add_violation(check->status,
                                 message->keep_compiled ? "keep_compiled" : "compile_limits",
                                 "this request has no compile stage");
}

static void check_code(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    bool has_code = is_set(message->code);
    bool has_command = message->n_command > 0 || is_set(message->compiled);

    if (has_code && message->n_command > 0) {
        rpc_status_add_violation(check->status, "command", "set code or command, not both");
    } else if (has_code && !check->runtime->entry_file) {
        rpc_status_add_violation(check->status, "code", "runtime '%s' takes files, not code",
                                 check->runtime->name);
    } else if (!has_code && !has_command && message->n_files == 0 && check->runtime->needs_files &&
               !check->rules->is_files_only) {
        rpc_status_add_violation(check->status, check->runtime->entry_file ? "code" : "files",
                                 "is required: runtime '%s' needs code, a command, or files",
                                 check->runtime->name);
    }
}

static void check_resume(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ResumeOptions *resume = check->message->resume;
    struct sbx_request *request = check->request;

    if (!resume)
        return;
    if (!check->rules->can_resume) {
        rpc_status_add_violation(check->status, "resume", "is for Execute and ExecuteInSandbox");
        return;
    }
    if (request->has_compile)
        rpc_status_add_violation(
            check->status, "resume",
            "is not for requests with a compile stage: keep_compiled, and then "
            "run it as `compiled`");
    if (is_set(check->message->request_id))
        rpc_status_add_violation(check->status, "resume",
                                 "set it or request_id: what would be repeated is taken up");
    if (request->on_overflow == CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_HEAD_TAIL)
        rpc_status_add_violation(check->status, "resume",
                                 "output.on_overflow may be KILL or TRUNCATE with it");
    request->grace_ms = resume->grace_ms ? resume->grace_ms : GRACE_DEFAULT_MS;
    request->ring_bytes = resume->ring_bytes ? resume->ring_bytes : RING_DEFAULT_BYTES;
    if (request->grace_ms < GRACE_MIN_MS || request->grace_ms > GRACE_MAX_MS)
        rpc_status_add_violation(check->status, "resume.grace_ms",
                                 "%" PRIu32 " is not between %u and %u", request->grace_ms,
                                 GRACE_MIN_MS, GRACE_MAX_MS);
    if (request->ring_bytes < RING_MIN_BYTES || request->ring_bytes > RING_MAX_BYTES)
        rpc_status_add_violation(check->status, "resume.ring_bytes",
                                 "%" PRIu32 " is not between %u and %u", request->ring_bytes,
                                 RING_MIN_BYTES, RING_MAX_BYTES);
}

static uint32_t read_flags(const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    uint32_t flags = message->n_args > 0 ? SBX_RUN_HAS_ARGS : 0;

    if (message->n_args == 1 && strcmp(message->args[0], SBX_RUN_STOP_ARG) == 0)
        flags |= SBX_RUN_STOPS_EARLY;
    for (size_t i = 0; i < message->n_files; i++) {
        if (message->files[i]->read_only)
            flags |= SBX_RUN_HAS_READ_ONLY;
    }
    return message->n_command > 0 || message->n_env > 0 ? flags | SBX_RUN_HAS_OWN : flags;
}

int sbx_request_check(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request_rules *rules, struct sbx_request *ret_request,
                      struct rpc_status *status)
{
    struct sbx_request request = {0};
    struct sbx_checker check = {
        .message = message, .rules = rules, .request = &request, .status = status};

    check_request_id(&check);
    if (check_runtime(&check) < 0 || check_unimplemented(&check) < 0)
        return -EINVAL;
    sbx_limits_read(message->limits, &rules->maximum, check.runtime, &request.limits,
                    &request.requested, status);
    check_container(&check);
    check_compile(&check);
    check_code(&check);
    sbx_request_check_parts(&check);
    check_resume(&check);
    if (status->code != RPC_OK)
        return -EINVAL;
    request.flags = read_flags(message);
    request.contents = rules->contents;
    *ret_request = request;
    return 0;
}

void sbx_request_name_part(struct rpc_status *status, const char *part)
{
    char field[sizeof(status->violations[0].field)];

    for (size_t i = 0; i < status->violation_count; i++) {
        (void)snprintf(field, sizeof(field), "%.16s.%.100s", part, status->violations[i].field);
        memcpy(status->violations[i].field, field, sizeof(field));
    }
}

bool sbx_request_wants_report(const Crisol__Sandbox__V1__ExecuteRequest *message,
                              const struct sbx_request *request)
{
    return sbx_request_runtime(request)->report_file && message->n_command == 0;
}

uint32_t sbx_collect_max_bytes(const Crisol__Sandbox__V1__CollectSpec *spec)
{
    return spec->max_bytes ? spec->max_bytes : SBX_COLLECT_BYTES_MAX;
}

uint32_t sbx_collect_max_files(const Crisol__Sandbox__V1__CollectSpec *spec)
{
    if (!is_set(spec->glob))
        return 0;
    return spec->max_files ? spec->max_files : SBX_COLLECT_FILES_DEFAULT;
}

const char *sbx_collect_name(const Crisol__Sandbox__V1__CollectSpec *spec)
{
    return is_set(spec->glob) ? spec->glob : spec->path;
}

static ProtobufCBinaryData choose(char *text, ProtobufCBinaryData data)
{
    if (!is_set(text))
        return data;
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

ProtobufCBinaryData sbx_request_stdin(const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    return choose(message->stdin_text, message->stdin_data);
}

static ProtobufCBinaryData find_stored(const struct sbx_contents *contents, const char *digest)
{
    return contents ? contents->find(contents->user, digest)
                    : (ProtobufCBinaryData){.len = 0, .data = NULL};
}

ProtobufCBinaryData sbx_file_content(const struct sbx_contents *contents,
                                     const Crisol__Sandbox__V1__InputFile *file)
{
    return is_set(file->artifact) ? find_stored(contents, file->artifact)
                                  : choose(file->text, file->data);
}

ProtobufCBinaryData sbx_request_compiled(const struct sbx_contents *contents,
                                         const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    return find_stored(contents, message->compiled);
}

uint32_t sbx_compile_max_files(const struct sbx_runtime *runtime)
{
    uint32_t count = 0;

    while (runtime->compile_output[count])
        count++;
    return count > 0 ? SBX_COLLECT_FILES_MAX / count : 0;
}

struct sbx_request sbx_request_compile(const struct sbx_request *request)
{
    return (struct sbx_request){
        .runtime = request->runtime,
        .limits = request->compile_limits,
        .requested = request->compile_requested,
        .flags = SBX_RUN_HAS_OWN | (request->flags & SBX_RUN_HAS_READ_ONLY),
        .on_overflow = CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_HEAD_TAIL,
        .as_text = request->as_text,
        .phase = SBX_PHASE_COMPILE,
        .contents = request->contents,
    };
}
