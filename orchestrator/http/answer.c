/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/answer.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/log.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libmicrohttpd asks of a stream at a time. Bounds its buffer per stream. */
#define STREAM_BLOCK_SIZE 4096
/* A reader of one large answer must take at least so many bytes in a second. */
#define MIN_READ_RATE 65536

struct header {
    const char *name;
    const char *value;
};

/* Answers hold code and program output: they are data, never a page, and never cached. */
static const struct header common_headers[] = {
    {"X-Content-Type-Options", "nosniff"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
};

static const char data_policy[] = "default-src 'none'; frame-ancestors 'none'";

/* For pages of the origins that the operator has named. */
static const struct header cross_origin[] = {
    {"Vary", "Origin"},
    {"Access-Control-Expose-Headers", "Retry-After"},
};

/* The answer to a browser that asks whether it may. */
static const struct header preflight[] = {
    {"Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"},
    {"Access-Control-Max-Age", "600"},
};

static const struct header no_store[] = {
    {"Cache-Control", "no-store"},
};

/* X-Accel-Buffering: nginx must not hold events back. */
static const struct header stream_headers[] = {
    {"Content-Type", "text/event-stream"},
    {"Cache-Control", "no-cache, no-transform"},
    {"X-Accel-Buffering", "no"},
};

static bool add_headers(struct MHD_Response *response, const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (MHD_add_response_header(response, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    }
    return true;
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_origin_headers(struct MHD_Response *response, const struct agt_exchange *exchange)
{
    if (!exchange->origin)
        return true;
    if (!add_header(response, "Access-Control-Allow-Origin", exchange->origin) ||
        !add_headers(response, cross_origin, CR_ARRAY_SIZE(cross_origin)))
        return false;
    return !exchange->is_options ||
           (add_header(response, "Access-Control-Allow-Methods", exchange->allow) &&
            add_headers(response, preflight, CR_ARRAY_SIZE(preflight)));
}

static bool add_own_headers(struct MHD_Response *response, const struct agt_exchange *exchange)
{
    char seconds[16];

    if (!add_header(response, MHD_HTTP_HEADER_ALLOW, exchange->allow) ||
        !add_header(response, "Content-Disposition", exchange->file) ||
        !add_header(response, "Content-Security-Policy",
                    exchange->policy ? exchange->policy : data_policy) ||
        !add_origin_headers(response, exchange))
        return false;
    if (exchange->http_status == MHD_HTTP_UNAUTHORIZED &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer") != MHD_YES)
        return false;
    if (exchange->retry_after_s <= 0)
        return true;
    (void)snprintf(seconds, sizeof(seconds), "%d", exchange->retry_after_s);
    return MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds) == MHD_YES;
}

/* MHD_ContentReaderCallback. */
static ssize_t read_stream(void *cls, uint64_t position, char *buffer, size_t max)
{
    struct agt_exchange *exchange = cls;
    struct cr_buf *out = &exchange->out;
    size_t size;

    (void)position;
    if (exchange->has_stopped && !exchange->is_ended)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (exchange->out_sent == out->size && !exchange->is_ended) {
        cr_buf_clear(out);
        exchange->out_sent = 0;
        exchange->operation->fill(exchange);
    }
    size = out->size - exchange->out_sent;
    if (size > 0) {
        size = size < max ? size : max;
        memcpy(buffer, out->data + exchange->out_sent, size);
        exchange->out_sent += size;
        exchange->last_sent_ns = cr_clock_mono_ns();
        /* Met when the reader is called again: then the client has taken these bytes. */
        agt_connection_set_deadline(exchange->connection, exchange->http->options.write_timeout_ms);
        return (ssize_t)size;
    }
    if (exchange->is_ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    agt_connection_clear_deadline(exchange->connection);
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->mhd);
    return 0;
}

static struct MHD_Response *new_stream_response(struct agt_exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_SIZE, read_stream, exchange, NULL);

    if (response && !add_headers(response, stream_headers, CR_ARRAY_SIZE(stream_headers))) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}

static struct MHD_Response *new_whole_response(struct agt_exchange *exchange)
{
    size_t size = exchange->out.size;
    struct header type = {"Content-Type", NULL};
    char *text = cr_buf_take_str(&exchange->out);
    struct MHD_Response *response;

    if (!text)
        return NULL;
    response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return NULL;
    }
    type.value = exchange->type ? exchange->type : "application/json";
    if (size > 0 && (!add_headers(response, &type, 1) ||
                     !add_headers(response, no_store, CR_ARRAY_SIZE(no_store)))) {
        MHD_destroy_response(response);
        return NULL;
    }
    agt_connection_set_deadline(exchange->connection,
                                (int64_t)exchange->http->options.write_timeout_ms +
                                    (int64_t)(size / MIN_READ_RATE) * 1000);
    return response;
}

static void count(const struct agt_exchange *exchange)
{
    unsigned hundreds = (unsigned)exchange->http_status / 100;
    unsigned route = exchange->route ? (unsigned)exchange->route->id : AGT_ROUTE_COUNT;

    atomic_fetch_add_explicit(&exchange->http->answers[route][hundreds < 6 ? hundreds : 5], 1,
                              memory_order_relaxed);
}

enum MHD_Result agt_answer_queue(struct agt_exchange *exchange)
{
    struct MHD_Response *response =
        exchange->is_stream ? new_stream_response(exchange) : new_whole_response(exchange);
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    count(exchange);
    cr_log_debug("http answer path=%s status=%d",
                 exchange->route ? exchange->route->path : "unknown", exchange->http_status);
    if (add_headers(response, common_headers, CR_ARRAY_SIZE(common_headers)) &&
        add_own_headers(response, exchange))
        result = MHD_queue_response(exchange->mhd, (unsigned)exchange->http_status, response);
    MHD_destroy_response(response);
    exchange->phase = AGT_EXCHANGE_ANSWERING;
    return result;
}
