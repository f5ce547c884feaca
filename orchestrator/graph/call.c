/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/call.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/spans.h"
#include "orchestrator/graph/tool.h"
#include "rpc/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct agt_mail *agt_mail_new(enum agt_mail_kind kind, struct agt_run *run, const void *data,
                              size_t size)
{
    struct agt_mail *mail = calloc(1, sizeof(*mail) + size + 1);

    if (!mail)
        return NULL;
    mail->kind = kind;
    mail->run = run ? agt_run_ref(run) : NULL;
    mail->size = size;
    if (size > 0)
        memcpy(mail->data, data, size);
    return mail;
}

struct agt_mail *agt_mail_free(struct agt_mail *mail)
{
    if (!mail)
        return NULL;
    (void)agt_run_unref(mail->run);
    free(mail);
    return NULL;
}

static struct agt_call *new_call(struct agt_run *run)
{
    struct agt_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->end = agt_mail_new(AGT_MAIL_CALL_END, run, NULL, 0);
    if (!call->end) {
        free(call);
        return NULL;
    }
    call->end->call = call;
    call->engine = run->engine;
    call->run = agt_run_ref(run);
    cr_buf_init(&call->out, AGT_OUTPUT_KEPT_MAX);
    cr_buf_init(&call->err, AGT_OUTPUT_KEPT_MAX);
    return call;
}

static void free_more_calls(struct agt_call *call)
{
    for (size_t i = 0; i < call->more_call_count; i++) {
        free(call->more_calls[i].name);
        free(call->more_calls[i].arguments);
        free(call->more_calls[i].id);
        free(call->more_calls[i].signature);
    }
    free(call->more_calls);
}

int agt_call_add_functions(struct agt_call *call, size_t count)
{
    if (count == 0)
        return 0;
    call->more_calls = calloc(count, sizeof(*call->more_calls));
    if (!call->more_calls)
        return -ENOMEM;
    call->more_call_count = count;
    return 0;
}

struct agt_call *agt_call_free(struct agt_call *call)
{
    if (!call)
        return NULL;
    if (call->model_call)
        call->model->ops->unref(call->model_call);
    if (call->sandbox_call)
        call->sandbox->ops->unref(call->sandbox_call);
    free(call->held_prompt);
    free(call->held_packed);
    free(call->text);
    free(call->message);
    free(call->model_requested);
    free(call->model_served);
    free(call->finish_reason);
    free(call->call_name);
    free(call->call_arguments);
    free(call->call_id);
    free(call->call_signature);
    free_more_calls(call);
    free(call->status.message);
    cr_buf_done(&call->out);
    cr_buf_done(&call->err);
    if (call->result)
        crisol__sandbox__v1__execute_result__free_unpacked(call->result, NULL);
    (void)agt_mail_free(call->end);
    (void)agt_run_unref(call->run);
    free(call);
    return NULL;
}

/* A state event: never dropped for its size, only when there is no memory for it. */
static void post(struct agt_call *call, struct agt_mail *mail)
{
    if (!mail)
        return;
    mail->dropped = call->dropped;
    call->dropped = 0;
    agt_engine_post(call->engine, mail);
}

static void try_post(struct agt_call *call, struct agt_mail *mail)
{
    if (mail)
        mail->dropped = call->dropped;
    if (mail && agt_engine_try_post(call->engine, mail))
        call->dropped = 0;
    else
        call->dropped++;
}

/* The last thing that a handler does: the engine may free the call from here on. */
static void post_end(struct agt_call *call)
{
    post(call, cr_take_ptr(&call->end));
}

static void on_model_delta(void *user, uint32_t offset, const char *text, size_t size,
                           bool is_thought)
{
    struct agt_call *call = user;
    struct agt_mail *mail = agt_mail_new(AGT_MAIL_MODEL_DELTA, call->run, text, size);

    if (mail) {
        mail->offset = offset;
        mail->flag = is_thought;
    }
    try_post(call, mail);
}

static void on_model_retry(void *user, const struct agt_model_retry *retry)
{
    struct agt_call *call = user;
    struct agt_mail *mail =
        agt_mail_new(AGT_MAIL_MODEL_RETRY, call->run, retry->reason, strlen(retry->reason));

    if (mail) {
        mail->attempt = retry->attempt;
        mail->delay_ms = retry->delay_ms;
        mail->flag = retry->is_restart;
    }
    post(call, mail);
}

/* Providers without functions leave these out. */
static char *dup_or_empty(const char *text)
{
    return strdup(text ? text : "");
}

/* False: out of memory. */
static bool copy_more_calls(struct agt_call *call, const struct agt_model_answer *answer)
{
    if (agt_call_add_functions(call, answer->more_call_count) < 0)
        return false;
    for (size_t i = 0; i < answer->more_call_count; i++) {
        const struct agt_model_called *from = &answer->more_calls[i];
        struct agt_called *to = &call->more_calls[i];

        *to = (struct agt_called){strdup(from->name), strdup(from->arguments), strdup(from->id),
                                  strdup(from->signature)};
        if (!to->name || !to->arguments || !to->id || !to->signature)
            return false;
    }
    return true;
}

static void on_model_end(void *user, const struct agt_model_answer *answer)
{
    struct agt_call *call = user;

    call->model_end = answer->end;
    call->text = strndup(answer->text, answer->text_size);
    call->message = strdup(answer->message);
    call->model_requested = strdup(answer->model_requested);
    call->model_served = strdup(answer->model_served);
    call->finish_reason = strdup(answer->finish_reason);
    call->call_name = dup_or_empty(answer->call_name);
    call->call_arguments = dup_or_empty(answer->call_arguments);
    call->call_id = dup_or_empty(answer->call_id);
    call->call_signature = dup_or_empty(answer->call_signature);
    call->usage = answer->usage;
    call->calls = answer->calls;
    call->elapsed_ms = answer->elapsed_ms;
    if (!copy_more_calls(call, answer) ||
        (call->model_end == AGT_MODEL_OK &&
         (!call->text || !call->call_name || !call->call_arguments)))
        call->model_end = AGT_MODEL_BAD_ANSWER;
    post_end(call);
}

static int go_model(struct agt_call *call, const struct agt_model_request *request,
                    struct cr_err *err)
{
    struct agt_model_handlers handlers = {
        .on_delta = on_model_delta,
        .on_retry = on_model_retry,
        .on_end = on_model_end,
        .user = call,
    };

    agt_spans_begin_call(call);
    return call->model->ops->start(call->model, request, &handlers, &call->model_call, err);
}

/* A durable run has no other reason than memory. The journal would tell of what came next and have
 * no end of the call: a restart, which has the memory, would wait for one. */
static int fail_start(struct agt_run *run, int r)
{
    if (run->journal)
        agt_journal_lose(run);
    return r;
}

static int hold_model(struct agt_call *call, const struct agt_model_request *request)
{
    call->held_prompt = strdup(request->prompt);
    if (!call->held_prompt)
        return -ENOMEM;
    call->held_request = *request;
    call->held_request.prompt = call->held_prompt;
    agt_journal_hold(call->run, call);
    return 0;
}

int agt_call_start_model(struct agt_run *run, const struct agt_model_request *request,
                         struct cr_err *err)
{
    struct agt_call *call = new_call(run);
    int r;

    if (!call)
        return fail_start(run, cr_err_set(err, ENOMEM, "out of memory for a model call"));
    call->model = agt_engine_options(run->engine)->model;
    (void)snprintf(call->key, sizeof(call->key), "model.%u", run->steps);
    if (agt_tools_asked(run) > 0) /* a question of the same step */
        (void)snprintf(call->key, sizeof(call->key), "model.%u.%u", run->steps,
                       agt_tools_asked(run));
    run->call = call; /* before the start: its end may be on its way when that returns */
    run->calls_in_flight++;
    r = run->journal ? hold_model(call, request) : go_model(call, request, err);
    if (r < 0) {
        run->calls_in_flight--;
        run->call = agt_call_free(call);
    }
    return r < 0 ? fail_start(run, r) : r;
}

/* Keeps the first bytes; counts the others. */
static void keep(struct cr_buf *buf, uint64_t *omitted, const ProtobufCBinaryData *data)
{
    size_t room = AGT_OUTPUT_KEPT_MAX - buf->size;
    size_t size = data->len < room ? data->len : room;

    if (cr_buf_add(buf, data->data, size) < 0)
        size = 0;
    *omitted += data->len - size;
}

static void on_output(struct agt_call *call, const Crisol__Sandbox__V1__Output *output)
{
    bool is_err = output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    CR_AUTO_BUF struct cr_buf text = {0};
    struct agt_mail *mail = NULL;

    if (is_err)
        keep(&call->err, &call->err_omitted, &output->data);
    else
        keep(&call->out, &call->out_omitted, &output->data);
    if (call->output != AGT_CALL_TOLD)
        return;
    cr_buf_init(&text, 4 * (output->data.len + 1));
    /* The text is there because it was asked for; a sandboxd that left it out is helped. */
    if (output->text[0] != '\0')
        mail = agt_mail_new(AGT_MAIL_SANDBOX_OUTPUT, call->run, output->text, strlen(output->text));
    else if (cr_utf8_add_lossy(&text, output->data.data, output->data.len) == 0)
        mail = agt_mail_new(AGT_MAIL_SANDBOX_OUTPUT, call->run, cr_buf_str(&text), text.size);
    if (mail) {
        mail->stream = (int)output->stream;
        mail->offset = output->offset;
    }
    try_post(call, mail);
}

static void on_started(struct agt_call *call, const Crisol__Sandbox__V1__ExecuteResponse *response)
{
    CR_AUTO_FREE uint8_t *packed = NULL;
    size_t size = 0;

    if (rpc_pack(&response->base, &packed, &size) < 0)
        return;
    post(call, agt_mail_new(AGT_MAIL_SANDBOX_STARTED, call->run, packed, size));
}

static void on_result(struct agt_call *call, const Crisol__Sandbox__V1__ExecuteResult *result)
{
    ProtobufCMessage *copy;

    if (!call->result && rpc_pack_copy(&result->base, &copy) == 0)
        call->result = (Crisol__Sandbox__V1__ExecuteResult *)(void *)copy;
}

static void on_sandbox_event(void *user, const ProtobufCMessage *event)
{
    const Crisol__Sandbox__V1__ExecuteResponse *response = (const void *)event;
    struct agt_call *call = user;

    switch (response->event_case) {
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED:
        if (call->output == AGT_CALL_TOLD)
            on_started(call, response);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT:
        if (call->output != AGT_CALL_DROPPED)
            on_output(call, response->output);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT:
        on_result(call, response->result);
        break;
    default: /* `truncated` is in the result as well */
        break;
    }
}

void agt_call_set_status(struct agt_call *call, enum rpc_code code, const char *message)
{
    call->status.code = code;
    free(call->status.message);
    call->status.message = message[0] ? strdup(message) : NULL;
}

static void on_sandbox_end(void *user, const struct rpc_status *status)
{
    struct agt_call *call = user;

    agt_call_set_status(call, status->code, status->message);
    call->status.retry_after_ms = status->retry_after_ms;
    if (status->code == RPC_OK && !call->result)
        agt_call_set_status(call, RPC_INTERNAL, "sandboxd ended the call without a result");
    post_end(call);
}

static int go_sandbox(struct agt_call *call, const Crisol__Sandbox__V1__ExecuteRequest *request,
                      int deadline_ms, struct cr_err *err)
{
    struct agt_sandbox_handlers handlers = {
        .on_event = on_sandbox_event,
        .on_end = on_sandbox_end,
        .user = call,
    };
    struct cr_trace before;
    int r;

    agt_spans_begin_call(call);
    before = cr_trace_enter(&call->trace); /* which is what sandboxd is told */
    r = call->sandbox->ops->execute(call->sandbox, &request->base, deadline_ms, &handlers,
                                    &call->sandbox_call, err);
    (void)cr_trace_enter(&before);
    return r;
}

static int hold_sandbox(struct agt_call *call, const Crisol__Sandbox__V1__ExecuteRequest *request,
                        int deadline_ms)
{
    int r = rpc_pack(&request->base, &call->held_packed, &call->held_size);

    if (r < 0)
        return r;
    call->held_deadline_ms = deadline_ms;
    agt_journal_hold(call->run, call);
    return 0;
}

int agt_call_start_sandbox(struct agt_run *run, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           int deadline_ms, enum agt_call_output output, struct agt_call **ret_call,
                           struct cr_err *err)
{
    struct agt_call *call = new_call(run);
    int r;

    if (!call)
        return fail_start(run, cr_err_set(err, ENOMEM, "out of memory for a sandbox call"));
    call->sandbox = agt_engine_options(run->engine)->sandbox;
    call->output = output;
    (void)snprintf(call->key, sizeof(call->key), "%s", request->request_id);
    *ret_call = call; /* before the start: its end may be on its way when that returns */
    run->calls_in_flight++;
    r = run->journal ? hold_sandbox(call, request, deadline_ms)
                     : go_sandbox(call, request, deadline_ms, err);
    if (r < 0) {
        run->calls_in_flight--;
        *ret_call = agt_call_free(call);
    }
    return r < 0 ? fail_start(run, r) : r;
}

/* The end of a call that never began. */
static void end_unstarted(struct agt_call *call, enum agt_model_end model_end, enum rpc_code code)
{
    call->model_end = model_end;
    if (call->model)
        call->message = strdup("the call could not be made");
    agt_call_set_status(call, code, "the call could not be made");
    post_end(call);
}

static int go(struct agt_call *call, struct cr_err *err)
{
    Crisol__Sandbox__V1__ExecuteRequest *request;
    int r;

    if (call->model)
        return go_model(call, &call->held_request, err);
    request =
        crisol__sandbox__v1__execute_request__unpack(NULL, call->held_size, call->held_packed);
    if (!request)
        return -ENOMEM;
    r = go_sandbox(call, request, call->held_deadline_ms, err);
    crisol__sandbox__v1__execute_request__free_unpacked(request, NULL);
    return r;
}

void agt_call_go(struct agt_call *call)
{
    struct cr_err err = CR_ERR_INIT;

    if (go(call, &err) < 0)
        end_unstarted(call, AGT_MODEL_UNAVAILABLE, RPC_UNAVAILABLE);
}

void agt_call_cancel(struct agt_call *call)
{
    if (agt_journal_drop(call->run, call)) {
        end_unstarted(call, AGT_MODEL_CANCELLED, RPC_CANCELLED);
        return;
    }
    if (call->model_call)
        call->model->ops->cancel(call->model_call);
    if (call->sandbox_call)
        call->sandbox->ops->cancel(call->sandbox_call);
}
