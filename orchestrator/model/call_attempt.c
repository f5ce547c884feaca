/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/model/backoff.h"
#include "orchestrator/model/call_parts.h"
#include "orchestrator/model/dialect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t PROBE_MS = 5000;
static const uint64_t MAX_BODY = 32U << 20;
static const size_t MAX_EVENT = 8U << 20;
static const size_t MAX_ERROR_BODY = 64U << 10;

static int on_event(void *user, char *data, size_t size, bool is_cut)
{
    struct agt_model_call *call = user;

    agt_key_redact(call->key, data, size);
    return agt_reply_add(&call->reply, data, size, is_cut);
}

static int on_unframed(void *user, char *data, size_t size)
{
    return on_event(user, data, size, false);
}

void agt_attempt_init(struct agt_model_call *call)
{
    const struct agt_sse_handlers handlers = {
        .on_event = on_event, .on_unframed = on_unframed, .user = call};

    agt_sse_init(&call->sse, MAX_EVENT, &handlers);
    agt_reply_init(&call->reply, call->provider->dialect->read, call->handlers.on_delta,
                   call->handlers.user);
    cr_buf_init(&call->error_body, MAX_ERROR_BODY);
    call->stream_error = 0;
}

void agt_attempt_done(struct agt_model_call *call)
{
    agt_sse_done(&call->sse);
    agt_reply_done(&call->reply);
    cr_buf_done(&call->error_body);
}

static bool is_success(const struct agt_http_head *head)
{
    return head->status >= 200 && head->status <= 299;
}

static enum agt_http_take on_data(void *user, const struct agt_http_head *head, const void *data,
                                  size_t size)
{
    struct agt_model_call *call = user;
    uint64_t lines = call->sse.lines;

    if (!is_success(head)) {
        /* What does not fit is of no use; what is cut is not JSON and falls back on the status. */
        (void)cr_buf_add(&call->error_body, data, size);
        return AGT_HTTP_PROGRESS;
    }
    call->stream_error = agt_sse_feed(&call->sse, data, size);
    if (call->stream_error < 0)
        return AGT_HTTP_STOP;
    return call->sse.lines > lines ? AGT_HTTP_PROGRESS : AGT_HTTP_TAKEN;
}

/* The end of the request cannot be earlier than its place here: the lock is held over the start. */
static int hand_over(struct agt_model_call *call, const struct agt_http_spec *spec,
                     struct cr_err *err)
{
    int r;

    (void)pthread_mutex_lock(&call->lock);
    if (call->is_cancelled)
        r = cr_err_set(err, ECANCELED, "the call was cancelled");
    else
        r = agt_http_client_start(call->provider->http, spec, &call->request, err);
    (void)pthread_mutex_unlock(&call->lock);
    return r;
}

/* The calls behind the first one. Returns how many. */
static size_t list_more_calls(const struct agt_reply *reply,
                              struct agt_model_called list[AGT_MODEL_CALLS_MAX])
{
    for (size_t i = 0; i < reply->more_call_count; i++) {
        const struct agt_reply_call *more = &reply->more_calls[i];

        list[i] = (struct agt_model_called){
            .name = more->name,
            .arguments = cr_buf_str(&more->arguments),
            .id = more->id,
            .signature = cr_buf_str(&more->signature),
        };
    }
    return reply->more_call_count;
}

static uint32_t add(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static struct agt_model_usage all_usage(const struct agt_model_call *call)
{
    const struct agt_model_usage *last = &call->reply.usage;
    const struct agt_model_usage *spent = &call->spent;

    return (struct agt_model_usage){
        .prompt_tokens = add(spent->prompt_tokens, last->prompt_tokens),
        .answer_tokens = add(spent->answer_tokens, last->answer_tokens),
        .thought_tokens = add(spent->thought_tokens, last->thought_tokens),
        .total_tokens = add(spent->total_tokens, last->total_tokens),
    };
}

static void finish(struct agt_model_call *call, struct agt_verdict *verdict)
{
    struct agt_model_called more_calls[AGT_MODEL_CALLS_MAX];
    struct agt_reply *reply = &call->reply;
    bool is_ok = verdict->end == AGT_MODEL_OK;
    bool has_text = is_ok || verdict->end == AGT_MODEL_TRUNCATED;
    struct agt_model_answer answer = {
        .end = verdict->end,
        .text = has_text ? cr_buf_str(&reply->text) : "",
        .text_size = has_text ? reply->text.size : 0,
        .call_name = is_ok ? reply->call_name : "",
        .call_arguments = is_ok ? cr_buf_str(&reply->call_arguments) : "",
        .call_id = is_ok ? reply->call_id : "",
        .call_signature = is_ok ? cr_buf_str(&reply->call_signature) : "",
        .more_calls = more_calls,
        .more_call_count = is_ok ? list_more_calls(reply, more_calls) : 0,
        .message = verdict->message,
        .model_requested = call->model,
        .model_served = reply->model_served,
        .finish_reason = reply->finish_reason,
        .usage = all_usage(call),
        .calls = call->attempts,
        .elapsed_ms = (uint32_t)((cr_clock_mono_ns() - call->started_ns) / CR_NS_PER_MS),
    };

    agt_key_redact(call->key, verdict->message, strlen(verdict->message));
    call->handlers.on_end(call->handlers.user, &answer);
    agt_provider_call_unref(call);
}

static bool may_repeat(const struct agt_model_call *call, const struct agt_verdict *verdict)
{
    static const uint32_t max_faults[AGT_REPEAT_COUNT] = {
        [AGT_REPEAT_ONCE] = 1, [AGT_REPEAT_TWICE] = 2};

    if (call->attempts >= call->max_attempts)
        return false;
    return verdict->repeat == AGT_REPEAT_BUSY || call->model_faults < max_faults[verdict->repeat];
}

/* The same request may do better too, when no other can be made. */
static void replace_body(struct agt_model_call *call, char *take_body)
{
    if (!take_body)
        return;
    free(call->body);
    call->body = take_body;
}

static void relax(struct agt_model_call *call)
{
    const struct agt_dialect *dialect = call->provider->dialect;

    if (dialect->relax)
        replace_body(call, dialect->relax(call->body, call->model));
}

void agt_attempt_vary(struct agt_model_call *call)
{
    replace_body(call, call->provider->dialect->vary(call->body, agt_random_below(INT32_MAX)));
}

static void add_wait(struct agt_verdict *verdict, uint32_t delay_ms)
{
    size_t size = strlen(verdict->message);

    (void)snprintf(verdict->message + size, sizeof(verdict->message) - size,
                   " (another try after %u s would pass the deadline)", (delay_ms + 999) / 1000);
}

/* Sends the request again after a wait. False: it is over, with *verdict saying how. */
static bool repeat(struct agt_model_call *call, struct agt_verdict *verdict)
{
    uint32_t delay_ms =
        agt_backoff_ms(call->provider->first_retry_delay_ms, call->attempts, verdict->wait_ms);
    int64_t start_ns = cr_clock_mono_ns() + delay_ms * CR_NS_PER_MS;
    const struct agt_model_retry retry = {
        .reason = verdict->message,
        .delay_ms = delay_ms,
        .attempt = call->attempts + 1,
        .is_restart = call->reply.text.size > 0 || call->reply.thoughts_size > 0,
    };
    struct cr_err err = CR_ERR_INIT;

    if (start_ns >= call->deadline_ns) {
        add_wait(verdict, delay_ms);
        return false;
    }
    agt_key_redact(call->key, verdict->message, strlen(verdict->message));
    if (call->handlers.on_retry)
        call->handlers.on_retry(call->handlers.user, &retry);
    if (verdict->repeat != AGT_REPEAT_BUSY)
        call->model_faults++;
    if (verdict->is_varied)
        agt_attempt_vary(call);
    if (verdict->is_relaxed)
        relax(call);
    call->spent = all_usage(call);
    agt_attempt_done(call);
    agt_attempt_init(call);
    if (agt_attempt_send(call, start_ns, &err) < 0) {
        verdict->end = err.code == -ECANCELED || err.code == -ESHUTDOWN ? AGT_MODEL_CANCELLED
                                                                        : AGT_MODEL_UNAVAILABLE;
        (void)snprintf(verdict->message, sizeof(verdict->message), "%.200s", err.text);
        return false;
    }
    return true;
}

/* Once more behind the parser: what was escaped stands there plainly. */
static bool read_error(struct agt_model_call *call, struct agt_reply_error *error)
{
    bool is_read;

    agt_key_redact(call->key, (char *)call->error_body.data, call->error_body.size);
    is_read = agt_reply_error_parse(cr_buf_str(&call->error_body), call->error_body.size, error);
    agt_key_redact(call->key, error->message, strlen(error->message));
    return is_read;
}

/* What the stream held back, and the error that a failed request carries. */
static void end_stream(struct agt_model_call *call, const struct agt_http_result *result,
                       struct agt_reply_error *error)
{
    if (!is_success(&result->head)) {
        (void)read_error(call, error);
        return;
    }
    if (call->stream_error == 0)
        call->stream_error = agt_sse_end(&call->sse);
    if (call->stream_error == 0)
        call->stream_error = agt_reply_end(&call->reply);
}

static bool take_request(struct agt_model_call *call)
{
    struct agt_http_request *request;
    bool is_cancelled;

    (void)pthread_mutex_lock(&call->lock);
    request = call->request;
    call->request = NULL;
    is_cancelled = call->is_cancelled;
    (void)pthread_mutex_unlock(&call->lock);
    (void)agt_http_unref(request);
    return is_cancelled;
}

static enum agt_http_take on_probe_data(void *user, const struct agt_http_head *head,
                                        const void *data, size_t size)
{
    struct agt_model_call *call = user;

    if (!is_success(head))
        (void)cr_buf_add(&call->error_body, data, size);
    return AGT_HTTP_PROGRESS;
}

static void on_probe_end(void *user, const struct agt_http_result *result)
{
    struct agt_model_call *call = user;
    struct agt_reply_error error = AGT_REPLY_ERROR_INIT;
    const struct agt_model_attempt attempt = {.names = call->provider->dialect->names,
                                              .reply = &call->reply,
                                              .http = result,
                                              .error = &error,
                                              .model = call->model,
                                              .host = call->provider->host};

    (void)take_request(call);
    if (result->end == AGT_HTTP_DONE && result->head.status == 404 && read_error(call, &error))
        agt_verdict_judge(&attempt, &call->verdict);
    finish(call, &call->verdict);
}

/*
 * A model that was taken away may answer as if its quota were used up. Asking
 * for its entry costs nothing and tells. False: it was not asked.
 */
static bool probe_model(struct agt_model_call *call, const struct agt_verdict *verdict)
{
    const struct agt_dialect *dialect = call->provider->dialect;
    struct agt_http_spec spec = {
        .headers = call->key->headers,
        .deadline_ns = cr_clock_mono_ns() + PROBE_MS * CR_NS_PER_MS,
        .connect_timeout_ms = PROBE_MS,
        .max_body = MAX_ERROR_BODY,
        .on_data = on_probe_data,
        .on_end = on_probe_end,
        .user = call,
    };

    if (spec.deadline_ns > call->deadline_ns)
        spec.deadline_ns = call->deadline_ns;
    if (!dialect->has_entries)
        return false;
    free(call->url);
    call->url = NULL;
    if (dialect->url(call->provider->base_url, call->model, AGT_TARGET_ENTRY, &call->url) < 0)
        return false;
    spec.url = call->url;
    call->verdict = *verdict;
    cr_buf_clear(&call->error_body);
    return hand_over(call, &spec, NULL) == 0;
}

static void on_end(void *user, const struct agt_http_result *result)
{
    struct agt_model_call *call = user;
    struct agt_reply_error error = AGT_REPLY_ERROR_INIT;
    struct agt_verdict verdict;
    bool is_cancelled = take_request(call);
    struct agt_model_attempt attempt = {
        .names = call->provider->dialect->names,
        .reply = &call->reply,
        .http = result,
        .error = &error,
        .model = call->model,
        .host = call->provider->host,
        .now_s = cr_clock_real_ms() / 1000,
    };

    call->attempts += result->is_started;
    end_stream(call, result, &error);
    attempt.stream_error = call->stream_error;
    agt_verdict_judge(&attempt, &verdict);
    cr_log_debug("model attempt ended purpose=%s attempt=%u http_end=%d status=%d end=%d "
                 "received=%llu reused=%d json_flags=%u",
                 call->purpose, call->attempts, (int)result->end, result->head.status,
                 (int)verdict.end, (unsigned long long)result->received, result->is_reused,
                 call->reply.json_flags);
    if (is_cancelled && verdict.repeat != AGT_REPEAT_NO)
        verdict = (struct agt_verdict){.end = AGT_MODEL_CANCELLED, .message = "cancelled"};
    if (may_repeat(call, &verdict) && repeat(call, &verdict))
        return;
    if (verdict.end != AGT_MODEL_QUOTA || is_cancelled || !probe_model(call, &verdict))
        finish(call, &verdict);
}

int agt_attempt_send(struct agt_model_call *call, int64_t start_ns, struct cr_err *err)
{
    const struct agt_provider *provider = call->provider;
    const struct agt_http_spec spec = {
        .url = call->url,
        .headers = call->key->headers,
        .body = call->body,
        .body_size = strlen(call->body),
        .start_ns = start_ns,
        .deadline_ns = call->deadline_ns,
        .connect_timeout_ms = provider->connect_timeout_ms,
        .first_byte_timeout_ms = provider->first_byte_timeout_ms,
        .idle_timeout_ms = provider->idle_timeout_ms,
        .max_body = MAX_BODY,
        .on_data = on_data,
        .on_end = on_end,
        .user = call,
    };

    return hand_over(call, &spec, err);
}
