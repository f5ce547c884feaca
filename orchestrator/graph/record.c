/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/journal.h"
#include "rpc/pack.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Crisol__Journal__V1__CallRecord call_record;

/* The record borrows from the call. */
static void fill_model(const struct agt_call *call, call_record *record)
{
    record->model_end = (int32_t)call->model_end;
    if (call->text)
        record->text = call->text;
    if (call->message)
        record->message = call->message;
    if (call->model_requested)
        record->model_requested = call->model_requested;
    if (call->model_served)
        record->model_served = call->model_served;
    if (call->finish_reason)
        record->finish_reason = call->finish_reason;
    if (call->call_name)
        record->call_name = call->call_name;
    if (call->call_arguments)
        record->call_arguments = call->call_arguments;
    if (call->call_id)
        record->call_id = call->call_id;
    if (call->call_signature)
        record->call_signature = call->call_signature;
    record->prompt_tokens = call->usage.prompt_tokens;
    record->answer_tokens = call->usage.answer_tokens;
    record->thought_tokens = call->usage.thought_tokens;
    record->total_tokens = call->usage.total_tokens;
    record->calls = call->calls;
    record->elapsed_ms = call->elapsed_ms;
}

/* The messages of the calls behind the first one, which borrow from the call. */
struct more_calls {
    Crisol__Journal__V1__CalledFunction items[AGT_MODEL_CALLS_MAX];
    Crisol__Journal__V1__CalledFunction *list[AGT_MODEL_CALLS_MAX];
};

static void fill_more_calls(const struct agt_call *call, struct more_calls *more,
                            call_record *record)
{
    for (size_t i = 0; i < call->more_call_count && i < AGT_MODEL_CALLS_MAX; i++) {
        Crisol__Journal__V1__CalledFunction *item = &more->items[i];

        crisol__journal__v1__called_function__init(item);
        item->name = call->more_calls[i].name;
        item->arguments = call->more_calls[i].arguments;
        item->id = call->more_calls[i].id;
        item->signature = call->more_calls[i].signature;
        more->list[record->n_more_calls++] = item;
    }
    record->more_calls = more->list;
}

static void fill_sandbox(const struct agt_call *call, call_record *record)
{
    record->stdout_data = (ProtobufCBinaryData){call->out.size, call->out.data};
    record->stderr_data = (ProtobufCBinaryData){call->err.size, call->err.data};
    record->stdout_omitted = call->out_omitted;
    record->stderr_omitted = call->err_omitted;
    record->status_code = (int32_t)call->status.code;
    if (call->status.message)
        record->status_message = call->status.message;
    record->retry_after_ms = call->status.retry_after_ms;
}

/* Packed messages behind each other are one message. */
static int add_record(call_record *record, struct cr_buf *buf)
{
    call_record *list[] = {record};
    Crisol__Journal__V1__CallRecords records = CRISOL__JOURNAL__V1__CALL_RECORDS__INIT;

    records.records = list;
    records.n_records = 1;
    return rpc_pack_into(&records.base, buf);
}

static int add_text(const char *key, const char *text, struct cr_buf *buf)
{
    call_record record = CRISOL__JOURNAL__V1__CALL_RECORD__INIT;

    record.key = cr_unconst(key);
    record.text = cr_unconst(text);
    return add_record(&record, buf);
}

int agt_record_add_draw(const char *digits, struct cr_buf *buf)
{
    return add_text(AGT_RECORD_DRAW, digits, buf);
}

int agt_record_add_note(const char *warning, struct cr_buf *buf)
{
    return add_text(AGT_RECORD_NOTE, warning, buf);
}

/* Journals that were written before there was such a thing keep their digests. */
static void mix(char digest[AGT_RECEIPT_DIGEST_SIZE], const char *first, const char *second)
{
    char parts[3 * AGT_RECEIPT_DIGEST_SIZE];

    memcpy(parts, digest, AGT_RECEIPT_DIGEST_SIZE);
    agt_receipt_digest(first, first ? strlen(first) : 0, parts + AGT_RECEIPT_DIGEST_SIZE);
    agt_receipt_digest(second, second ? strlen(second) : 0,
                       parts + (ptrdiff_t)(2 * AGT_RECEIPT_DIGEST_SIZE));
    agt_receipt_digest(parts, sizeof(parts), digest);
}

void agt_record_digest(const struct agt_call *call, char digest[AGT_RECEIPT_DIGEST_SIZE])
{
    const struct agt_model_request *request = &call->held_request;
    char parts[3 * AGT_RECEIPT_DIGEST_SIZE];

    if (!call->model) {
        agt_receipt_digest(call->held_packed, call->held_size, digest);
        return;
    }
    /* Each by itself, so that nothing can move from one into the other. */
    agt_receipt_digest(request->model, request->model ? strlen(request->model) : 0, parts);
    agt_receipt_digest(request->system, request->system ? strlen(request->system) : 0,
                       parts + AGT_RECEIPT_DIGEST_SIZE);
    agt_receipt_digest(request->prompt, request->prompt ? strlen(request->prompt) : 0,
                       parts + (ptrdiff_t)(2 * AGT_RECEIPT_DIGEST_SIZE));
    agt_receipt_digest(parts, sizeof(parts), digest);
    for (size_t i = 0; i < request->turn_count; i++)
        mix(digest, request->turns[i].arguments, request->turns[i].output);
    if (request->schema || request->must_call)
        mix(digest, request->schema, request->must_call ? "call" : "");
}

int agt_record_add(const struct agt_call *call, struct cr_buf *buf)
{
    call_record record = CRISOL__JOURNAL__V1__CALL_RECORD__INIT;
    CR_AUTO_FREE uint8_t *result = NULL;
    char digest[AGT_RECEIPT_DIGEST_SIZE];
    struct more_calls more;
    int r;

    record.key = cr_unconst(call->key);
    agt_record_digest(call, digest);
    record.request_sha256 = digest;
    if (call->model)
        fill_model(call, &record);
    else
        fill_sandbox(call, &record);
    fill_more_calls(call, &more, &record);
    if (call->result) {
        r = rpc_pack(&call->result->base, &result, &record.result.len);
        if (r < 0)
            return r;
        record.result.data = result;
    }
    return add_record(&record, buf);
}

static int restore_more_calls(struct agt_call *call, const call_record *record)
{
    size_t count = record->n_more_calls;

    if (count >= AGT_MODEL_CALLS_MAX)
        count = AGT_MODEL_CALLS_MAX - 1;
    if (agt_call_add_functions(call, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const Crisol__Journal__V1__CalledFunction *from = record->more_calls[i];
        struct agt_called *to = &call->more_calls[i];

        *to = (struct agt_called){strdup(from->name), strdup(from->arguments), strdup(from->id),
                                  strdup(from->signature)};
        if (!to->name || !to->arguments || !to->id || !to->signature)
            return -ENOMEM;
    }
    return 0;
}

static int restore_model(struct agt_call *call, const call_record *record)
{
    call->model_end = record->model_end >= 0 && record->model_end < AGT_MODEL_END_COUNT
                          ? (enum agt_model_end)record->model_end
                          : AGT_MODEL_BAD_ANSWER;
    call->text = strdup(record->text);
    call->message = strdup(record->message);
    call->model_requested = strdup(record->model_requested);
    call->model_served = strdup(record->model_served);
    call->finish_reason = strdup(record->finish_reason);
    call->call_name = strdup(record->call_name);
    call->call_arguments = strdup(record->call_arguments);
    call->call_id = strdup(record->call_id);
    call->call_signature = strdup(record->call_signature);
    call->usage = (struct agt_model_usage){
        .prompt_tokens = record->prompt_tokens,
        .answer_tokens = record->answer_tokens,
        .thought_tokens = record->thought_tokens,
        .total_tokens = record->total_tokens,
    };
    call->calls = record->calls;
    call->elapsed_ms = record->elapsed_ms;
    if (restore_more_calls(call, record) < 0)
        return -ENOMEM;
    return call->text && call->call_name && call->call_arguments ? 0 : -ENOMEM;
}

static int restore_sandbox(struct agt_call *call, const call_record *record)
{
    int r = cr_buf_add(&call->out, record->stdout_data.data, record->stdout_data.len);

    if (r == 0)
        r = cr_buf_add(&call->err, record->stderr_data.data, record->stderr_data.len);
    call->out_omitted = record->stdout_omitted;
    call->err_omitted = record->stderr_omitted;
    agt_call_set_status(call, (enum rpc_code)record->status_code, record->status_message);
    call->status.retry_after_ms = record->retry_after_ms;
    if (record->result.len > 0) {
        call->result = crisol__sandbox__v1__execute_result__unpack(NULL, record->result.len,
                                                                   record->result.data);
        if (!call->result || !call->result->verdict)
            r = -EBADMSG;
    }
    if (r < 0 && call->result) {
        crisol__sandbox__v1__execute_result__free_unpacked(call->result, NULL);
        call->result = NULL;
    }
    /* As on_sandbox_end(): whoever reads an OK may rely on a result. */
    if (call->status.code == RPC_OK && !call->result)
        agt_call_set_status(call, RPC_INTERNAL, "the recorded result cannot be read");
    return r;
}

int agt_record_restore(struct agt_call *call, const void *record)
{
    return call->model ? restore_model(call, record) : restore_sandbox(call, record);
}
