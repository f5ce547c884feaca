/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/exchange.h"

#include "common/clock.h"
#include "orchestrator/http/answer.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/sse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * An answer, or what of a stream waits for its reader. The largest is an
 * execution with both streams at their largest and base64 beside the text.
 */
#define OUT_CAP ((size_t)96 << 20)

static void (*const handlers[AGT_ROUTE_COUNT])(struct agt_exchange *exchange) = {
    [AGT_ROUTE_INDEX] = agt_handle_index,
    [AGT_ROUTE_LIVEZ] = agt_handle_livez,
    [AGT_ROUTE_READYZ] = agt_handle_readyz,
    [AGT_ROUTE_HEALTH] = agt_handle_health,
    [AGT_ROUTE_METRICS] = agt_handle_metrics,
    [AGT_ROUTE_OPENAPI] = agt_handle_openapi,
    [AGT_ROUTE_DOCS] = agt_handle_page,
    [AGT_ROUTE_DOCS_SCRIPT] = agt_handle_page,
    [AGT_ROUTE_DOCS_STYLE] = agt_handle_page,
    [AGT_ROUTE_RUN_EXPORT] = agt_handle_run_export,
    [AGT_ROUTE_RUN_RECEIPT] = agt_handle_run_receipt,
    [AGT_ROUTE_MODELS] = agt_handle_models,
    [AGT_ROUTE_RUNTIMES] = agt_handle_runtimes,
    [AGT_ROUTE_GENERATE] = agt_handle_generate,
    [AGT_ROUTE_STREAM] = agt_handle_stream,
    [AGT_ROUTE_EXECUTE] = agt_handle_execute,
    [AGT_ROUTE_JUDGE_EXECUTE] = agt_handle_judge_execute,
    [AGT_ROUTE_JUDGE_RUNTIMES] = agt_handle_judge_list,
    [AGT_ROUTE_JUDGE_PACKAGES] = agt_handle_judge_list,
    [AGT_ROUTE_RUN_SUBMIT] = agt_handle_run_submit,
    [AGT_ROUTE_RUN_LIST] = agt_handle_run_list,
    [AGT_ROUTE_RUN_GET] = agt_handle_run_get,
    [AGT_ROUTE_RUN_CANCEL] = agt_handle_run_cancel,
    [AGT_ROUTE_RUN_RESUME] = agt_handle_run_resume,
    [AGT_ROUTE_RUN_FORK] = agt_handle_run_fork,
    [AGT_ROUTE_RUN_FORGET] = agt_handle_run_forget,
    [AGT_ROUTE_RUN_EVENTS] = agt_handle_run_events,
    [AGT_ROUTE_GRAPH] = agt_handle_graph,
    [AGT_ROUTE_GRAPH_MERMAID] = agt_handle_graph,
    [AGT_ROUTE_GRAPH_DOT] = agt_handle_graph,
};

/* ---- life ---- */

struct agt_exchange *agt_exchange_ref(struct agt_exchange *exchange)
{
    atomic_fetch_add(&exchange->refs, 1);
    return exchange;
}

struct agt_exchange *agt_exchange_unref(struct agt_exchange *exchange)
{
    struct agt_http *http;

    if (!exchange || atomic_fetch_sub(&exchange->refs, 1) != 1)
        return NULL;
    http = exchange->http;
    if (exchange->operation)
        exchange->operation->free(exchange->user);
    cr_buf_done(&exchange->body);
    cr_buf_done(&exchange->out);
    free(exchange->raw_url);
    free(exchange->key);
    free(exchange->last_id);
    free(exchange->origin);
    free(exchange);
    /* Last: the server may be gone after it. */
    atomic_fetch_sub(&http->exchange_count, 1);
    return NULL;
}

void *agt_exchange_on_url(void *cls, const char *url, struct MHD_Connection *mhd)
{
    struct agt_http *http = cls;
    struct agt_connection *connection = agt_connection_of(mhd);
    struct agt_exchange *exchange;

    if (!connection)
        return NULL;
    agt_exchange_end(connection);
    exchange = calloc(1, sizeof(*exchange));
    if (!exchange)
        return NULL;
    atomic_init(&exchange->refs, 1);
    atomic_fetch_add(&http->exchange_count, 1);
    exchange->http = http;
    exchange->connection = connection;
    exchange->mhd = mhd;
    exchange->raw_url = strdup(url);
    cr_buf_init(&exchange->body, 0);
    cr_buf_init(&exchange->out, OUT_CAP);
    connection->exchange = exchange;
    return exchange;
}

static void release_body(struct agt_exchange *exchange)
{
    exchange->http->body_memory -= exchange->body.size;
    cr_buf_done(&exchange->body);
}

static void stop(struct agt_exchange *exchange)
{
    if (exchange->has_stopped)
        return;
    exchange->has_stopped = true;
    if (exchange->operation)
        exchange->operation->stop(exchange);
}

void agt_exchange_end(struct agt_connection *connection)
{
    struct agt_exchange *exchange = connection->exchange;

    if (!exchange)
        return;
    connection->exchange = NULL;
    stop(exchange);
    release_body(exchange);
    exchange->connection = NULL;
    exchange->mhd = NULL;
    agt_exchange_unref(exchange);
}

void agt_exchange_on_completed(void *cls, struct MHD_Connection *mhd, void **request_context,
                               enum MHD_RequestTerminationCode code)
{
    struct agt_http *http = cls;
    struct agt_connection *connection = agt_connection_of(mhd);

    (void)code;
    *request_context = NULL;
    if (!connection)
        return;
    agt_exchange_end(connection);
    agt_connection_await_request(connection, http->options.header_timeout_ms);
}

/* ---- reading ---- */

static enum MHD_Result note_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                   size_t key_size, const char *value, size_t value_size)
{
    (void)kind;
    (void)key_size;
    (void)value_size;
    agt_request_note(cls, key, value);
    return MHD_YES;
}

/* The headers are libmicrohttpd's, and the handler runs later. */
static bool keep_header(const struct agt_header *header, char **ret_value)
{
    if (header->count == 0)
        return true;
    *ret_value = strdup(header->value);
    return *ret_value;
}

/* What cannot be read, or is there twice, counts as not sent. */
static void take_trace(struct agt_exchange *exchange, const struct agt_header *header)
{
    if (header->count != 1 ||
        !cr_trace_parse(header->value, strlen(header->value), &exchange->trace))
        exchange->trace = cr_trace_new(true);
    (void)cr_trace_enter(&exchange->trace);
}

static bool check(struct agt_exchange *exchange, const char *method, struct agt_problem *problem)
{
    struct agt_request request = {.method = method, .raw_url = exchange->raw_url};
    const char *origin;

    memcpy(exchange->caller, exchange->connection->caller, AGT_CALLER_SIZE);
    request.caller = exchange->caller;
    request.is_certified = exchange->connection->is_certified;
    if (exchange->connection->is_surplus || !exchange->raw_url) {
        agt_problem_set(problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_UNAVAILABLE,
                        "too many connections; try again");
        return false;
    }
    (void)MHD_get_connection_values_n(exchange->mhd, MHD_HEADER_KIND, note_header, &request);
    take_trace(exchange, &request.traceparent);
    origin = agt_request_origin(&request, &exchange->http->rules);
    if (origin)
        exchange->origin = strdup(origin); /* without memory the page cannot read the answer */
    if (!agt_request_check(&request, &exchange->http->rules, &exchange->route, problem))
        return false;
    exchange->wants_events = agt_request_wants_events(request.accept.value);
    exchange->is_options = strcmp(method, "OPTIONS") == 0;
    if (!keep_header(&request.idempotency_key, &exchange->key) ||
        !keep_header(&request.last_event_id, &exchange->last_id)) {
        agt_problem_set(problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_RESOURCE_EXHAUSTED,
                        "out of memory; try again");
        return false;
    }
    exchange->body.cap = exchange->route->body_cap;
    return true;
}

static enum MHD_Result begin(struct agt_exchange *exchange, const char *method)
{
    struct agt_problem problem;

    /* An answer within this first call makes libmicrohttpd close the connection behind it. */
    if (!check(exchange, method, &problem)) {
        agt_exchange_fail(exchange, &problem);
        return agt_answer_queue(exchange);
    }
    exchange->phase = AGT_EXCHANGE_READING;
    agt_connection_await_request(exchange->connection, exchange->http->options.body_timeout_ms);
    return MHD_YES;
}

/* Swallows what it may not keep, so that the client reads the answer behind its body. */
static void take_body(struct agt_exchange *exchange, const char *data, size_t size)
{
    struct agt_http *http = exchange->http;
    size_t cap = exchange->route->body_cap;

    exchange->body_seen += size;
    if (exchange->body_seen > cap)
        exchange->body_problem = MHD_HTTP_CONTENT_TOO_LARGE;
    else if (http->body_memory + size > http->options.max_body_memory ||
             (exchange->body_problem == 0 && cr_buf_add(&exchange->body, data, size) < 0))
        exchange->body_problem = MHD_HTTP_SERVICE_UNAVAILABLE;
    else if (exchange->body_problem == 0)
        http->body_memory += size;
    if (exchange->body_problem != 0)
        release_body(exchange);
    if (exchange->body_seen > 2 * cap)
        agt_connection_shut(exchange->connection);
}

static void fail_body(struct agt_exchange *exchange)
{
    struct agt_problem problem;

    if (exchange->body_problem == MHD_HTTP_CONTENT_TOO_LARGE)
        agt_problem_set(&problem, exchange->body_problem, RPC_RESOURCE_EXHAUSTED,
                        "the body is larger than the %zu bytes that %s takes",
                        exchange->route->body_cap, exchange->route->path);
    else
        agt_problem_set(&problem, exchange->body_problem, RPC_RESOURCE_EXHAUSTED,
                        "too many large requests at one time; try again");
    agt_exchange_fail(exchange, &problem);
}

/* ---- handling ---- */

static void fail_draining(struct agt_exchange *exchange)
{
    struct agt_problem problem;

    agt_problem_set(&problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_UNAVAILABLE,
                    "the server is shutting down; try again");
    agt_exchange_fail(exchange, &problem);
}

static void resume(struct agt_exchange *exchange)
{
    if (!exchange->is_suspended)
        return;
    exchange->is_suspended = false;
    MHD_resume_connection(exchange->mhd);
}

/* Answers when there is an answer, else waits for one. */
static enum MHD_Result settle(struct agt_exchange *exchange)
{
    if (exchange->http_status != 0)
        return agt_answer_queue(exchange);
    if (exchange->has_stopped || (exchange->connection->has_left && exchange->route->is_costly))
        return MHD_NO;
    /* The loop ends soon, and libmicrohttpd aborts when it is stopped with a suspended connection.
     */
    if (exchange->http->has_cancelled) {
        stop(exchange);
        fail_draining(exchange);
        return agt_answer_queue(exchange);
    }
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->mhd);
    return MHD_YES;
}

static enum MHD_Result dispatch(struct agt_exchange *exchange)
{
    exchange->phase = AGT_EXCHANGE_HANDLING;
    agt_connection_clear_deadline(exchange->connection);
    if (exchange->is_options) {
        exchange->http_status = MHD_HTTP_NO_CONTENT;
        exchange->allow = exchange->route->allow;
    } else if (exchange->body_problem != 0) {
        fail_body(exchange);
    } else if (atomic_load(&exchange->http->must_quiesce) && !exchange->route->is_probe) {
        fail_draining(exchange);
    } else {
        handlers[exchange->route->id](exchange);
    }
    release_body(exchange);
    return settle(exchange);
}

static enum MHD_Result move_on(struct agt_exchange *exchange, const char *method,
                               const char *upload_data, size_t *upload_data_size)
{
    switch (exchange->phase) {
    case AGT_EXCHANGE_NEW:
        return begin(exchange, method);
    case AGT_EXCHANGE_READING:
        if (*upload_data_size == 0)
            return dispatch(exchange);
        take_body(exchange, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return MHD_YES;
    case AGT_EXCHANGE_HANDLING:
        return settle(exchange);
    case AGT_EXCHANGE_ANSWERING:
    default:
        return MHD_NO;
    }
}

enum MHD_Result agt_exchange_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                        const char *method, const char *version,
                                        const char *upload_data, size_t *upload_data_size,
                                        void **request_context)
{
    struct agt_exchange *exchange = *request_context;
    enum MHD_Result result;

    (void)cls;
    (void)mhd;
    (void)url;
    (void)version;
    if (!exchange)
        return MHD_NO;
    (void)cr_trace_enter(&exchange->trace);
    result = move_on(exchange, method, upload_data, upload_data_size);
    (void)cr_trace_enter(NULL);
    return result;
}

void agt_exchange_hang_up(struct agt_exchange *exchange)
{
    if (!exchange->route || !exchange->route->is_costly)
        return;
    if (exchange->phase == AGT_EXCHANGE_HANDLING) {
        stop(exchange);
        resume(exchange);
    } else if (exchange->phase == AGT_EXCHANGE_ANSWERING && exchange->is_stream) {
        stop(exchange);
        agt_connection_shut(exchange->connection);
        resume(exchange);
    }
}

bool agt_exchange_is_reading(const struct agt_exchange *exchange)
{
    return exchange->phase == AGT_EXCHANGE_NEW || exchange->phase == AGT_EXCHANGE_READING;
}

int agt_exchange_length_status(const struct agt_exchange *exchange)
{
    struct agt_request request = {.method = ""};

    if (exchange->phase != AGT_EXCHANGE_NEW)
        return 0;
    (void)MHD_get_connection_values_n(exchange->mhd, MHD_HEADER_KIND, note_header, &request);
    return agt_request_length_status(&request);
}

void agt_exchange_await_store(struct agt_exchange *exchange)
{
    exchange->give_up_ns =
        cr_clock_mono_ns() + exchange->http->options.store_timeout_ms * CR_NS_PER_MS;
}

static bool is_store_late(const struct agt_exchange *exchange, int64_t now_ns)
{
    return exchange->phase == AGT_EXCHANGE_HANDLING && exchange->is_suspended &&
           exchange->http_status == 0 && exchange->give_up_ns != 0 &&
           now_ns >= exchange->give_up_ns;
}

static void give_up_store(struct agt_exchange *exchange)
{
    struct agt_problem problem;

    stop(exchange);
    agt_problem_set(&problem, MHD_HTTP_GATEWAY_TIMEOUT, RPC_DEADLINE_EXCEEDED,
                    "the journal has not taken the request within %u ms; it may still do so, so "
                    "look at the runs before you ask again",
                    exchange->http->options.store_timeout_ms);
    agt_exchange_fail(exchange, &problem);
    resume(exchange);
}

void agt_exchange_tick(struct agt_exchange *exchange, int64_t now_ns)
{
    int64_t silence_ns = (int64_t)exchange->http->options.heartbeat_ms * CR_NS_PER_MS;

    if (is_store_late(exchange, now_ns)) {
        give_up_store(exchange);
        return;
    }
    if (exchange->phase != AGT_EXCHANGE_ANSWERING || !exchange->is_suspended ||
        now_ns - exchange->last_sent_ns < silence_ns)
        return;
    if (agt_sse_add_heartbeat(&exchange->out) == 0)
        resume(exchange);
}

void agt_exchange_wake(struct agt_exchange *exchange)
{
    if (atomic_exchange(&exchange->is_posted, true))
        return;
    agt_exchange_ref(exchange);
    /* Urgent: at most one per exchange, whose number the connection cap bounds. */
    (void)cr_mailbox_post(exchange->http->mailbox, &exchange->mail, true);
}

void agt_exchange_on_mail(struct agt_exchange *exchange)
{
    /* First, so that a wake from now on posts again. */
    atomic_store(&exchange->is_posted, false);
    if (exchange->connection && !exchange->has_stopped) {
        (void)cr_trace_enter(&exchange->trace);
        if (exchange->phase == AGT_EXCHANGE_HANDLING && exchange->http_status == 0)
            exchange->operation->on_wake(exchange);
        (void)cr_trace_enter(NULL);
        if (exchange->http_status != 0)
            resume(exchange);
    }
    agt_exchange_unref(exchange);
}

void agt_exchange_shut_down(struct agt_exchange *exchange)
{
    bool has_answer = exchange->http_status != 0;

    stop(exchange);
    if (exchange->is_stream && !exchange->is_ended) {
        (void)agt_sse_add_event(&exchange->out, 0, "shutdown", "{}");
        exchange->is_ended = true;
    } else if (exchange->phase == AGT_EXCHANGE_HANDLING && !has_answer) {
        fail_draining(exchange);
    } else if (!has_answer) {
        agt_connection_shut(exchange->connection);
    }
    resume(exchange);
}
