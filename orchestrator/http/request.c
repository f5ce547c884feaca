/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/request.h"

#include "common/auto.h"
#include "orchestrator/http/problem.h"
#include "rpc/tokens.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BAD_REQUEST 400
#define NOT_FOUND 404

static const struct {
    const char *name;
    size_t offset;
} noted_headers[] = {
    {"Host", offsetof(struct agt_request, host)},
    {"Content-Length", offsetof(struct agt_request, content_length)},
    {"Transfer-Encoding", offsetof(struct agt_request, transfer_encoding)},
    {"Content-Type", offsetof(struct agt_request, content_type)},
    {"Content-Encoding", offsetof(struct agt_request, content_encoding)},
    {"Authorization", offsetof(struct agt_request, authorization)},
    {"Accept", offsetof(struct agt_request, accept)},
    {"Idempotency-Key", offsetof(struct agt_request, idempotency_key)},
    {"Last-Event-ID", offsetof(struct agt_request, last_event_id)},
    {"Origin", offsetof(struct agt_request, origin)},
    {"traceparent", offsetof(struct agt_request, traceparent)},
};

void agt_request_note(struct agt_request *request, const char *name, const char *value)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(noted_headers); i++) {
        struct agt_header *header =
            (struct agt_header *)(void *)((char *)request + noted_headers[i].offset);

        if (strcasecmp(name, noted_headers[i].name) != 0)
            continue;
        if (header->count == 0)
            header->value = value ? value : "";
        header->count++;
    }
}

static bool refuse(struct agt_problem *problem, const char *text)
{
    agt_problem_set(problem, BAD_REQUEST, RPC_INVALID_ARGUMENT, "%s", text);
    return false;
}

/* Case-insensitive search for an encoded character that would change what the path means. */
static bool has_bad_escape(const char *url)
{
    for (const char *at = strchr(url, '%'); at; at = strchr(at + 1, '%')) {
        if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
            return true;
        if (strncasecmp(at, "%00", 3) == 0 || strncasecmp(at, "%2f", 3) == 0 ||
            strncasecmp(at, "%5c", 3) == 0)
            return true;
    }
    return false;
}

static bool check_target(const char *url, struct agt_problem *problem)
{
    if (!url || url[0] != '/')
        return refuse(problem, "the request target must be a path that begins with '/'");
    for (const char *at = url; *at; at++) {
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
            return refuse(problem, "the request target holds a character that must be encoded");
    }
    if (has_bad_escape(url))
        return refuse(problem, "the request target holds an escape that is refused");
    return true;
}

static bool check_framing(const struct agt_request *request, struct agt_problem *problem)
{
    const struct agt_header *coding = &request->transfer_encoding;

    if (request->host.count != 1)
        return refuse(problem, "exactly one Host header is needed");
    if (request->content_length.count > 1)
        return refuse(problem, "more than one Content-Length header");
    if (coding->count > 1 || (coding->count == 1 && strcasecmp(coding->value, "chunked") != 0))
        return refuse(problem, "Transfer-Encoding may only be one \"chunked\"");
    if (coding->count == 1 && request->content_length.count == 1)
        return refuse(problem, "Content-Length and Transfer-Encoding exclude each other");
    if (request->content_type.count > 1 || request->content_encoding.count > 1 ||
        request->authorization.count > 1)
        return refuse(problem, "a header that may come once came twice: Content-Type, "
                               "Content-Encoding or Authorization");
    return true;
}

/* Length of the name in "name:port" or "[::1]:port"; 0 when it is neither. */
static size_t host_name_size(const char *host)
{
    size_t size = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port;

    if (size > strlen(host))
        return 0;
    port = host + size;
    if (*port == '\0')
        return size;
    if (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))
        return 0;
    return size;
}

static bool list_has(const char *list, const char *name, size_t size)
{
    while (*list) {
        size_t item;

        list += strspn(list, " \t");
        item = strcspn(list, ", \t");
        if (item == size && strncasecmp(list, name, size) == 0)
            return true;
        list += item;
        list += strspn(list, ", \t");
    }
    return false;
}

static bool check_host(const char *host, const struct agt_request_rules *rules,
                       struct agt_problem *problem)
{
    size_t size = host_name_size(host);

    if (size == 0)
        return refuse(problem, "the Host header is not a name or an address with a port");
    if (strcmp(rules->allowed_hosts, "*") == 0 || list_has(rules->allowed_hosts, host, size))
        return true;
    agt_problem_set(problem, 421, RPC_PERMISSION_DENIED,
                    "this server does not answer for that Host; name it in --http-hosts "
                    "(CRISOL_HTTP_HOSTS) of the orchestrator");
    return false;
}

static bool check_token(const struct agt_request *request, const struct agt_request_rules *rules,
                        struct agt_problem *problem)
{
    const char *value = request->authorization.value;

    if (!rules->tokens || request->is_certified ||
        rpc_tokens_find(rules->tokens, value, value ? strlen(value) : 0, request->caller))
        return true;
    agt_problem_set(problem, 401, RPC_UNAUTHENTICATED,
                    "a bearer token is needed: Authorization: Bearer <token>");
    return false;
}

static bool has_param(const char *params, const char *allowed)
{
    params += strspn(params, "; \t");
    return *params == '\0' || strcasecmp(params, allowed) == 0;
}

/*
 * Only application/json: a form or text/plain can be posted by any web page
 * without asking first, application/json cannot (fetch.spec.whatwg.org, CORS).
 */
static bool check_content_type(const struct agt_request *request, struct agt_problem *problem)
{
    static const char json[] = "application/json";
    const char *type = request->content_type.value ? request->content_type.value : "";
    const char *params = type + sizeof(json) - 1;
    const char *coding = request->content_encoding.value;

    if (strncasecmp(type, json, sizeof(json) - 1) != 0 || !strchr("; \t", *params) ||
        (!has_param(params, "charset=utf-8") && !has_param(params, "charset=\"utf-8\""))) {
        agt_problem_set(problem, 415, RPC_INVALID_ARGUMENT,
                        "the body must be JSON in UTF-8: send Content-Type: application/json");
        return false;
    }
    if (coding && strcasecmp(coding, "identity") != 0) {
        agt_problem_set(problem, 415, RPC_INVALID_ARGUMENT,
                        "Content-Encoding is not supported: send the body as it is");
        return false;
    }
    return true;
}

/* Digits only, and small enough to count. */
static bool parse_length(const char *text, size_t *ret_length)
{
    size_t digits = strspn(text, "0123456789");
    char *end = NULL;

    if (digits == 0 || text[digits] != '\0')
        return false;
    errno = 0;
    *ret_length = (size_t)strtoull(text, &end, 10);
    if (errno == ERANGE)
        *ret_length = SIZE_MAX;
    return true;
}

int agt_request_length_status(const struct agt_request *request)
{
    size_t length = 0;

    if (request->content_length.value && !parse_length(request->content_length.value, &length))
        return BAD_REQUEST;
    return length == SIZE_MAX ? 413 : 0;
}

static bool check_body(const struct agt_request *request, const struct agt_route *route,
                       struct agt_problem *problem)
{
    bool is_chunked = request->transfer_encoding.count > 0;
    size_t length = 0;

    if (request->content_length.value && !parse_length(request->content_length.value, &length))
        return refuse(problem, "Content-Length is not a number");
    if (route->body_cap == 0 || strcmp(request->method, "OPTIONS") == 0) {
        if (is_chunked || length > 0)
            return refuse(problem, "this request takes no body");
        return true;
    }
    if (!is_chunked && request->content_length.count == 0) {
        agt_problem_set(problem, 411, RPC_INVALID_ARGUMENT,
                        "a JSON body is needed: send it with Content-Length or chunked");
        return false;
    }
    if (length > route->body_cap) {
        agt_problem_set(problem, 413, RPC_RESOURCE_EXHAUSTED,
                        "the body is larger than the %zu bytes that %s takes", route->body_cap,
                        route->path);
        return false;
    }
    return check_content_type(request, problem);
}

static bool find_route(const struct agt_request *request, const struct agt_route **ret_route,
                       struct agt_problem *problem)
{
    const struct agt_route *route =
        agt_route_find(request->raw_url, strcspn(request->raw_url, "?"), request->method);

    if (!route) {
        agt_problem_set(problem, NOT_FOUND, RPC_NOT_FOUND,
                        "no such path; GET / names those that there are");
        return false;
    }
    if (!agt_route_allows(route, request->method)) {
        agt_problem_set(problem, 405, RPC_UNIMPLEMENTED, "%s takes %s", route->path, route->allow);
        problem->allow = route->allow;
        return false;
    }
    *ret_route = route;
    return true;
}

#define PARAMETER_MAX 60 /* bytes of its name that are told */

/* Among names with a space on either side, which no target has. */
static bool is_known_parameter(const char *names, const char *name, size_t size)
{
    for (const char *at = names; at; at = strchr(at + 1, ' ')) {
        if (strncmp(at + 1, name, size) == 0 && at[size + 1] == ' ')
            return true;
    }
    return false;
}

/* In quotes it stays one name, whatever is in it. */
static void refuse_parameter(const char *name, int size, struct rpc_status *status)
{
    char field[PARAMETER_MAX + 4];

    (void)snprintf(field, sizeof(field), "\"%.*s\"]", size, name);
    rpc_status_add_violation(status, field, "is no parameter of this path");
}

/* What is asked for and ignored would be answered as if it had not been. */
static bool check_query(const struct agt_request *request, const struct agt_route *route,
                        struct agt_problem *problem)
{
    const char *at = strchr(request->raw_url, '?');
    struct rpc_status status = RPC_STATUS_INIT;

    if ((route->query && strcmp(route->query, "*") == 0) || strcmp(request->method, "OPTIONS") == 0)
        return true;
    while (at && *at) {
        const char *name = at + 1;
        size_t size = strcspn(name, "=&");
        int shown = size < PARAMETER_MAX ? (int)size : PARAMETER_MAX;

        at = name + strcspn(name, "&");
        if (size == 0 || is_known_parameter(route->query, name, size))
            continue;
        if (agt_route_is_judge(route->path)) {
            agt_problem_set(problem, BAD_REQUEST, RPC_INVALID_ARGUMENT,
                            "'%.*s' is no parameter of this path", shown, name);
            return false;
        }
        refuse_parameter(name, shown, &status);
    }
    if (status.code == RPC_OK)
        return true;
    agt_problem_from_status(problem, &status);
    problem->place = "query";
    problem->type = "extra_forbidden";
    return false;
}

bool agt_request_check(const struct agt_request *request, const struct agt_request_rules *rules,
                       const struct agt_route **ret_route, struct agt_problem *ret_problem)
{
    const struct agt_route *route = NULL;

    if (!check_target(request->raw_url, ret_problem) || !check_framing(request, ret_problem) ||
        !check_host(request->host.value, rules, ret_problem) ||
        !find_route(request, &route, ret_problem))
        return false;
    /* A browser asks without a token whether it may send one (fetch.spec.whatwg.org, preflight). */
    if (!route->is_open && strcmp(request->method, "OPTIONS") != 0 &&
        !check_token(request, rules, ret_problem))
        return false;
    if (!check_query(request, route, ret_problem) || !check_body(request, route, ret_problem))
        return false;
    *ret_route = route;
    return true;
}

const char *agt_request_origin(const struct agt_request *request,
                               const struct agt_request_rules *rules)
{
    const char *origin = request->origin.value;

    if (!rules->allowed_origins || request->origin.count != 1 || origin[0] == '\0')
        return NULL;
    if (strcmp(rules->allowed_origins, "*") == 0)
        return "*";
    return list_has(rules->allowed_origins, origin, strlen(origin)) ? origin : NULL;
}

bool agt_request_wants_events(const char *accept)
{
    static const char events[] = "text/event-stream";

    while (accept && *accept) {
        accept += strspn(accept, ", \t");
        if (strncasecmp(accept, events, sizeof(events) - 1) == 0 &&
            strchr(",; \t", accept[sizeof(events) - 1]))
            return true;
        accept += strcspn(accept, ",");
    }
    return false;
}

bool agt_request_query(const char *raw_url, const char *name, char *value, size_t size)
{
    const char *at = strchr(raw_url, '?');
    size_t name_size = strlen(name);

    value[0] = '\0';
    while (at && *at) {
        const char *item = at + 1;
        size_t length = strcspn(item, "&");

        if (length > name_size && item[name_size] == '=' && memcmp(item, name, name_size) == 0) {
            length -= name_size + 1;
            if (length >= size)
                return false;
            memcpy(value, item + name_size + 1, length);
            value[length] = '\0';
            return true;
        }
        at = item + length;
    }
    return true;
}

bool agt_request_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    size_t length = 0;

    *ret_number = 0;
    if (!text || !*text)
        return true;
    if (!parse_length(text, &length) || length > max)
        return false;
    *ret_number = length;
    return true;
}
