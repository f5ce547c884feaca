/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/http/routes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_problem;
struct rpc_tokens;

/* A header as it came: how often, and the first value (borrowed). */
struct agt_header {
    uint32_t count;
    const char *value; /* NULL when absent */
};

/* A request line and the headers that decide about a request. All borrowed. */
struct agt_request {
    const char *method;
    const char *raw_url; /* the request target, undecoded */
    struct agt_header host;
    struct agt_header content_length;
    struct agt_header transfer_encoding;
    struct agt_header content_type;
    struct agt_header content_encoding;
    struct agt_header authorization;
    struct agt_header accept;
    struct agt_header idempotency_key;
    struct agt_header last_event_id;
    struct agt_header origin;
    bool is_certified; /* the connection has shown a certificate that is allowed: no token needed */
    char *caller;      /* 64 bytes: of the connection; becomes the token's */
    struct agt_header traceparent;
};

/* Notes one header; unknown names are ignored. `value` is NUL-terminated. */
void agt_request_note(struct agt_request *request, const char *name, const char *value);

struct agt_request_rules {
    const char *allowed_hosts;   /* comma separated, lower case, without port; "*": any */
    struct rpc_tokens *tokens;   /* NULL: none asked for */
    const char *allowed_origins; /* comma separated; "*": any; NULL: none */
};

/*
 * Pure. Decides what libmicrohttpd leaves to us: two Host or Content-Length
 * headers, Transfer-Encoding other than "chunked" or beside Content-Length
 * (request smuggling), absolute-form and encoded NUL or slash in the target,
 * foreign Host names (DNS rebinding), token, method, content type, length.
 * On success *ret_route is the row to serve. On failure *ret_problem is filled
 * in; the connection is then closed, because its framing is not trusted.
 */
bool agt_request_check(const struct agt_request *request, const struct agt_request_rules *rules,
                       const struct agt_route **ret_route, struct agt_problem *ret_problem);

/* How a Content-Length is answered that nobody can read a body by: 400, it is no number; 413, it is
 * one that cannot be counted; 0: it can, or there is none. */
int agt_request_length_status(const struct agt_request *request);

/* The value for Access-Control-Allow-Origin, borrowed; NULL: this page may not read the answer. */
const char *agt_request_origin(const struct agt_request *request,
                               const struct agt_request_rules *rules);

/* The client asks for server-sent events. */
bool agt_request_wants_events(const char *accept);

/* Copies the value of a query parameter, undecoded. "" without it; false when it does not fit. */
bool agt_request_query(const char *raw_url, const char *name, char *value, size_t size);

/* A whole number of digits alone, up to `max`. NULL counts as 0. */
bool agt_request_number(const char *text, uint64_t max, uint64_t *ret_number);
