/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/result.h"
#include "sandboxd/front/sandbox_calls.h"
#include "sandboxd/front/sandbox_request.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MAX (64U << 10)
#define WRITE_BYTES_MAX (7U << 20)    /* all files of a call: less than SBX_PAYLOAD_MAX */
#define WRITES_BYTES_MAX (64U << 20)  /* of all calls that are not at their end */
#define WRITES_CALLER_MAX (16U << 20) /* of those of one caller: nobody keeps the others out */
#define RETRY_MS 1000

static const char id_too_long[] = "is longer than 32 digits";

/* One file that comes in chunks. */
struct part {
    Crisol__Sandbox__V1__InputFile message;
    struct cr_buf data;
};

/* A WriteFiles or ReadFiles call: a run in the sandbox that starts no program. */
struct transfer {
    struct sbx_write_entry entry; /* first: in the list of the service, of WriteFiles */
    bool is_read;
    char sandbox_id[SBX_EXECUTION_ID_SIZE];
    struct part *parts; /* of WriteFiles */
    size_t part_count;
    size_t part_room;
    size_t bytes;
    struct sbx_execution *execution; /* once it was submitted */
    struct sbx_policy policy;
    struct sbx_result *result; /* of ReadFiles, while it is sent */
    size_t sent;               /* of its files */
};

static void refuse(struct rpc_call *call, const char *field, const char *text)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_add_violation(&status, field, "%s", text);
    rpc_call_finish(call, &status, NULL);
}

static void finish_without_memory(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    sbx_call_no_memory(&status);
    rpc_call_finish(call, &status, NULL);
}

/* Gives the call its state, or ends it for want of memory. */
static void add_transfer(struct rpc_call *call)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer)
        finish_without_memory(call);
    rpc_call_set_user(call, transfer);
}

/* ---- the run ---- */

static void wake_call(void *user)
{
    rpc_call_wake(user);
}

static void release_call(void *user)
{
    (void)rpc_call_unref(user);
}

static int check(struct rpc_call *call, const Crisol__Sandbox__V1__ExecuteRequest *message,
                 const struct sbx_sandbox *sandbox, struct sbx_msg_hello *hello,
                 struct sbx_request *ret_request, struct rpc_status *status)
{
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_request_rules rules;

    if (!sbx_backend_hello(service->backend, hello)) {
        sbx_call_no_backend(status);
        return -EINVAL;
    }
    rules = (struct sbx_request_rules){.runtimes = hello->runtimes,
                                       .backend = (Crisol__Sandbox__V1__Backend)hello->backend};
    return sbx_request_check_files(message, &rules, sandbox, ret_request, status);
}

/* Begins it in the sandbox, which it has then. Returns 0 or -EINVAL. */
static int begin(struct rpc_call *call, struct transfer *transfer,
                 const Crisol__Sandbox__V1__ExecuteRequest *message, struct sbx_sandbox *sandbox,
                 struct rpc_status *status)
{
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_waker waker = {wake_call, release_call, call};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_request request;
    struct sbx_msg_hello hello;

    if (check(call, message, sandbox, &hello, &request, status) < 0)
        return -EINVAL;
    if (sbx_execution_new(message, &request, sandbox->caller, &waker, &transfer->execution, &err) <
        0) {
        cr_log_error("make an execution error=%s", err.text);
        sbx_call_no_memory(status);
        return -EINVAL;
    }
    sbx_policy_fill(&transfer->policy, &request, &hello, NULL);
    sbx_execution_set_policy(transfer->execution, transfer->policy.digest);
    sbx_execution_set_sandbox(transfer->execution, sandbox);
    (void)rpc_call_ref(call); /* the waker's, until the stream thread is done with it */
    sbx_execution_submit(transfer->execution, service->backend);
    return 0;
}

static void run(struct rpc_call *call, struct transfer *transfer,
                const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    const struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_sandbox *sandbox;

    sandbox = sbx_sandboxes_enter(service->sandboxes, rpc_call_peer(call)->caller,
                                  transfer->sandbox_id, &status);
    if (sandbox && begin(call, transfer, message, sandbox, &status) == 0)
        return;
    (void)sbx_sandbox_leave(sandbox);
    rpc_call_finish(call, &status, NULL);
}

/* ---- its end ---- */

/* What a run without a program can come to. */
static void say_failed(const struct sbx_msg_result *result, struct rpc_status *status)
{
    const char *reason = strerrordesc_np(result->stage_errno);

    switch (result->verdict) {
    case SBX_VERDICT_DISK_LIMIT:
        rpc_status_set(status, RPC_FAILED_PRECONDITION,
                       "the workspace is full: limits.workspace_bytes or workspace_inodes of the "
                       "sandbox");
        (void)snprintf(status->reason, sizeof(status->reason), "WORKSPACE_FULL");
        break;
    case SBX_VERDICT_EXEC_FAILED:
    case SBX_VERDICT_FILE_SIZE_LIMIT:
        rpc_status_set(status, RPC_FAILED_PRECONDITION,
                       "a file cannot be written as the workspace is now: %s",
                       reason && result->stage_errno ? reason : "it is too large");
        (void)snprintf(status->reason, sizeof(status->reason), "WORKSPACE_OBSTACLE");
        break;
    case SBX_VERDICT_SANDBOX_LOST:
    case SBX_VERDICT_CANCELLED:
        rpc_status_set(status, RPC_NOT_FOUND, "sandbox_id: this sandbox ended during the call");
        (void)snprintf(status->reason, sizeof(status->reason), "SANDBOX_LOST");
        break;
    default:
        rpc_status_set(status, RPC_UNAVAILABLE, "the sandbox failed: %s",
                       sbx_verdict_name(result->verdict));
        status->retry_after_ms = RETRY_MS;
        break;
    }
}

static void finish_write(struct rpc_call *call, const struct transfer *transfer)
{
    Crisol__Sandbox__V1__WriteFilesResponse response =
        CRISOL__SANDBOX__V1__WRITE_FILES_RESPONSE__INIT;

    response.files = (uint32_t)transfer->part_count;
    response.size_bytes = transfer->bytes;
    rpc_call_finish(call, NULL, &response.base);
}

/* One file for each message. */
static void send_files(struct rpc_call *call, struct transfer *transfer)
{
    const Crisol__Sandbox__V1__ExecuteResult *result = &transfer->result->message;

    while (transfer->sent < result->n_files && rpc_call_can_send(call)) {
        Crisol__Sandbox__V1__ReadFilesResponse response =
            CRISOL__SANDBOX__V1__READ_FILES_RESPONSE__INIT;

        response.file = result->files[transfer->sent++];
        (void)rpc_call_send(call, &response.base);
    }
    if (transfer->sent == result->n_files)
        rpc_call_finish(call, NULL, NULL);
}

static void on_ended(struct rpc_call *call, struct transfer *transfer)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(transfer->execution);
    struct rpc_status status = RPC_STATUS_INIT;

    if (outcome->refusal != RPC_OK) {
        sbx_call_refusal(outcome, &status);
        rpc_call_finish(call, &status, NULL);
    } else if (outcome->result.verdict != SBX_VERDICT_OK) {
        say_failed(&outcome->result, &status);
        rpc_call_finish(call, &status, NULL);
    } else if (!transfer->is_read) {
        finish_write(call, transfer);
    } else {
        transfer->result = calloc(1, sizeof(*transfer->result));
        if (!transfer->result ||
            sbx_result_fill(transfer->result, transfer->execution, &transfer->policy) < 0)
            finish_without_memory(call);
        else
            send_files(call, transfer);
    }
}

void sbx_sandbox_files_pump(struct rpc_call *call)
{
    struct transfer *transfer = rpc_call_user(call);
    CR_AUTO_BUF struct cr_buf chunk;
    struct sbx_event event;

    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    if (!transfer || !transfer->execution || rpc_call_is_cancelled(call))
        return;
    if (transfer->result) {
        send_files(call, transfer);
        return;
    }
    do {
        event = sbx_execution_take(transfer->execution, &chunk);
        if (event.type == SBX_EVENT_ENDED)
            on_ended(call, transfer);
    } while (event.type != SBX_EVENT_NONE && event.type != SBX_EVENT_ENDED);
}

void sbx_sandbox_files_cancel(struct rpc_call *call)
{
    const struct transfer *transfer = rpc_call_user(call);

    if (transfer && transfer->execution)
        sbx_execution_cancel(transfer->execution, true);
}

/* One that only reads is in no list. */
static void forget_write(struct sbx_service *service, const struct sbx_write_entry *entry)
{
    struct sbx_write_entry **slot = &service->writes;

    while (*slot && *slot != entry)
        slot = &(*slot)->next;
    if (*slot)
        *slot = entry->next;
}

void sbx_sandbox_files_free(struct rpc_call *call)
{
    struct sbx_service *service = rpc_call_context(call);
    struct transfer *transfer = rpc_call_user(call);

    if (!transfer)
        return;
    for (size_t i = 0; i < transfer->part_count; i++) {
        free(transfer->parts[i].message.path);
        cr_buf_done(&transfer->parts[i].data);
    }
    free(transfer->parts);
    forget_write(service, &transfer->entry);
    if (transfer->result)
        sbx_result_done(transfer->result);
    free(transfer->result);
    (void)sbx_execution_unref(transfer->execution);
    free(transfer);
}

/* ---- ReadFiles ---- */

void sbx_sandbox_read(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__ReadFilesRequest *message =
        (const Crisol__Sandbox__V1__ReadFilesRequest *)(const void *)base;
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct transfer *transfer;

    if (!*message->sandbox_id) {
        refuse(call, "sandbox_id", "is required");
        return;
    }
    if (strlen(message->sandbox_id) >= SBX_EXECUTION_ID_SIZE) {
        refuse(call, "sandbox_id", id_too_long);
        return;
    }
    if (message->n_files == 0) {
        refuse(call, "files", "is required: name at least one");
        return;
    }
    add_transfer(call);
    transfer = rpc_call_user(call);
    if (!transfer)
        return;
    transfer->is_read = true;
    (void)snprintf(transfer->sandbox_id, sizeof(transfer->sandbox_id), "%s", message->sandbox_id);
    request.n_collect = message->n_files;
    request.collect = message->files;
    run(call, transfer, &request);
}

/* ---- WriteFiles ---- */

void sbx_sandbox_write_start(struct rpc_call *call)
{
    struct sbx_service *service = rpc_call_context(call);
    struct transfer *transfer;

    add_transfer(call);
    transfer = rpc_call_user(call);
    if (!transfer)
        return;
    (void)snprintf(transfer->entry.caller, sizeof(transfer->entry.caller), "%s",
                   rpc_call_peer(call)->caller);
    transfer->entry.next = service->writes;
    service->writes = &transfer->entry;
}

/* What one more message takes: a file needs memory for its name, too. */
static size_t cost_of(const Crisol__Sandbox__V1__WriteFilesRequest *message)
{
    const size_t path = strlen(message->path);

    return message->data.len + (path > 0 ? path + sizeof(struct part) : 0);
}

static bool has_room(const struct sbx_service *service, const struct transfer *transfer,
                     size_t more)
{
    size_t all = more;
    size_t own = more;

    for (const struct sbx_write_entry *at = service->writes; at; at = at->next) {
        all += at->bytes;
        own += strcmp(at->caller, transfer->entry.caller) == 0 ? at->bytes : 0;
    }
    return all <= WRITES_BYTES_MAX && own <= WRITES_CALLER_MAX;
}

static void finish_without_room(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED,
                   "files of calls that are not at their end have all the memory that is for them, "
                   "yours alone or those of all; try again later");
    status.retry_after_ms = RETRY_MS;
    (void)snprintf(status.reason, sizeof(status.reason), "WRITE_QUOTA");
    rpc_call_finish(call, &status, NULL);
}

static int begin_part(struct transfer *transfer,
                      const Crisol__Sandbox__V1__WriteFilesRequest *message)
{
    struct part *part;

    if (transfer->part_count == transfer->part_room) {
        size_t room = transfer->part_room ? 2 * transfer->part_room : 8;
        struct part *parts = realloc(transfer->parts, room * sizeof(*parts));

        if (!parts)
            return -ENOMEM;
        transfer->parts = parts;
        transfer->part_room = room;
    }
    part = &transfer->parts[transfer->part_count];
    crisol__sandbox__v1__input_file__init(&part->message);
    cr_buf_init(&part->data, WRITE_BYTES_MAX);
    part->message.mode = message->mode;
    part->message.path = strdup(message->path);
    if (!part->message.path)
        return -ENOMEM;
    transfer->part_count++;
    return 0;
}

/* What is wrong with a chunk where it stands; NULL: nothing. */
static const char *find_fault(const struct transfer *transfer,
                              const Crisol__Sandbox__V1__WriteFilesRequest *message,
                              const char **ret_field)
{
    *ret_field = "sandbox_id";
    if (!*transfer->sandbox_id && !*message->sandbox_id)
        return "is required with the first message";
    if (*transfer->sandbox_id && *message->sandbox_id)
        return "belongs to the first message alone";
    if (strlen(message->sandbox_id) >= SBX_EXECUTION_ID_SIZE)
        return id_too_long;
    *ret_field = "path";
    if (!*message->path && transfer->part_count == 0)
        return "is required with the first chunk of a file";
    if (*message->path && transfer->part_count == SBX_FILES_MAX)
        return "1,024 files are the maximum of one call";
    /* The rules of paths come with the run; until then each is kept. */
    if (strnlen(message->path, SBX_PAYLOAD_NAME_MAX + 1) > SBX_PAYLOAD_NAME_MAX)
        return "is longer than 1,024 bytes";
    *ret_field = "mode";
    if (!*message->path && message->mode != 0)
        return "belongs to the first chunk of a file";
    *ret_field = "data";
    if (message->data.len > CHUNK_MAX)
        return "is larger than 64 KiB";
    if (message->data.len > WRITE_BYTES_MAX - transfer->bytes)
        return "7 MiB are the maximum of one call; send the rest with another";
    return NULL;
}

void sbx_sandbox_write_message(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__WriteFilesRequest *message =
        (const Crisol__Sandbox__V1__WriteFilesRequest *)(const void *)base;
    const struct sbx_service *service = rpc_call_context(call);
    struct transfer *transfer = rpc_call_user(call);
    const char *field;
    const char *fault = find_fault(transfer, message, &field);

    if (fault) {
        refuse(call, field, fault);
        return;
    }
    if (*message->sandbox_id)
        (void)snprintf(transfer->sandbox_id, sizeof(transfer->sandbox_id), "%s",
                       message->sandbox_id);
    if (!has_room(service, transfer, cost_of(message))) {
        finish_without_room(call);
        return;
    }
    transfer->entry.bytes += cost_of(message);
    if ((*message->path && begin_part(transfer, message) < 0) ||
        cr_buf_add(&transfer->parts[transfer->part_count - 1].data, message->data.data,
                   message->data.len) < 0) {
        finish_without_memory(call);
        return;
    }
    transfer->bytes += message->data.len;
    rpc_call_read(call);
}

void sbx_sandbox_write_half_close(struct rpc_call *call)
{
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct transfer *transfer = rpc_call_user(call);
    Crisol__Sandbox__V1__InputFile **list;

    if (transfer->part_count == 0) {
        refuse(call, "path", "is required: no file came");
        return;
    }
    list = (Crisol__Sandbox__V1__InputFile **)calloc(transfer->part_count, sizeof(void *));
    if (!list) {
        finish_without_memory(call);
        return;
    }
    for (size_t i = 0; i < transfer->part_count; i++) {
        struct part *part = &transfer->parts[i];

        part->message.data = (ProtobufCBinaryData){.len = part->data.size, .data = part->data.data};
        list[i] = &part->message;
    }
    request.files = list;
    request.n_files = transfer->part_count;
    run(call, transfer, &request);
    free((void *)list);
}
