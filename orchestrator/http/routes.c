/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/routes.h"

#include "common/auto.h"
#include "orchestrator/http/json_out.h"

#include <string.h>

#define ALLOW_GET "GET, HEAD, OPTIONS"
#define ALLOW_POST "POST, OPTIONS"
#define ALLOW_RUNS "GET, HEAD, POST, OPTIONS"
#define ALLOW_RUN "GET, HEAD, DELETE, OPTIONS"
#define ID "{id}"

/* A task has at most 64 KiB; the rest is room for escapes. Execute takes files. */
#define GENERATE_BODY_CAP ((size_t)1 << 20)
#define EXECUTE_BODY_CAP ((size_t)4 << 20)

/* Browsers, monitors and what lies between add parameters of their own, so that no cache answers.
 */
#define ANY_QUERY "*"
#define RUN_QUERY " run_id "

#define PAGE .method = "GET", .allow = ALLOW_GET, .is_open = true, .query = ANY_QUERY
#define PROBE                                                                                      \
    .method = "GET", .allow = ALLOW_GET, .is_open = true, .is_probe = true, .query = ANY_QUERY
#define RUN .method = "POST", .allow = ALLOW_POST, .is_costly = true

static const struct agt_route routes[] = {
    {.id = AGT_ROUTE_INDEX, .path = "/", PROBE, .help = "this list"},
    {.id = AGT_ROUTE_LIVEZ, .path = "/livez", PROBE, .help = "the process is alive"},
    {.id = AGT_ROUTE_READYZ, .path = "/readyz", PROBE, .help = "ready for work: 200 or 503"},
    {.id = AGT_ROUTE_HEALTH, .path = "/api/v1/health", PROBE, .help = "what is available"},
    {.id = AGT_ROUTE_METRICS,
     .path = "/metrics",
     .method = "GET",
     .allow = ALLOW_GET,
     .is_probe = true,
     .query = ANY_QUERY,
     .help = "counts and durations, for Prometheus"},
    {.id = AGT_ROUTE_OPENAPI,
     .path = "/openapi.json",
     PAGE,
     .help = "this interface as OpenAPI 3.1"},
    {.id = AGT_ROUTE_DOCS, .path = "/docs", PAGE, .help = "this interface, to be tried out"},
    {.id = AGT_ROUTE_DOCS_SCRIPT, .path = "/docs/page.js", PAGE, .help = "a part of /docs"},
    {.id = AGT_ROUTE_DOCS_STYLE, .path = "/docs/page.css", PAGE, .help = "a part of /docs"},
    {.id = AGT_ROUTE_RUNTIMES,
     .path = "/api/v1/runtimes",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "what /api/v1/execute can run"},
    {.id = AGT_ROUTE_MODELS,
     .path = "/api/v1/models",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "models of the provider, for \"model\" of /api/v1/generate"},
    {.id = AGT_ROUTE_GENERATE,
     .path = "/api/v1/generate",
     RUN,
     .body_cap = GENERATE_BODY_CAP,
     .help =
         "{\"task\",\"max_iterations\",\"verify\"}: plans, writes, runs and repairs code; answers at the "
         "end"},
    {.id = AGT_ROUTE_STREAM,
     .path = "/api/v1/stream",
     RUN,
     .body_cap = GENERATE_BODY_CAP,
     .help = "the same as server-sent events; the last one is `result`"},
    {.id = AGT_ROUTE_EXECUTE,
     .path = "/api/v1/execute",
     RUN,
     .body_cap = EXECUTE_BODY_CAP,
     .help = "{\"runtime\",\"code\"}: runs a program in a sandbox; with Accept: "
             "text/event-stream live"},
    {.id = AGT_ROUTE_JUDGE_EXECUTE,
     .path = "/api/v2/execute",
     RUN,
     .body_cap = EXECUTE_BODY_CAP,
     .help = "{\"language\",\"version\",\"files\":[{\"content\"}]}: runs a program, in the shape "
             "of the Piston judge"},
    {.id = AGT_ROUTE_JUDGE_RUNTIMES,
     .path = "/api/v2/runtimes",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "what /api/v2/execute can run"},
    {.id = AGT_ROUTE_JUDGE_PACKAGES,
     .path = "/api/v2/packages",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "the same as packages, all of them installed"},
    {.id = AGT_ROUTE_RUN_SUBMIT,
     .path = "/api/v1/runs",
     .method = "POST",
     .allow = ALLOW_RUNS,
     .body_cap = GENERATE_BODY_CAP,
     .help = "{\"task\",\"max_iterations\",\"verify\"}: starts a run and answers with its run_id; "
             "Idempotency-Key starts it once"},
    {.id = AGT_ROUTE_RUN_LIST,
     .path = "/api/v1/runs",
     .method = "GET",
     .allow = ALLOW_RUNS,
     .query = " page_size page_token ",
     .help = "your runs, newest first; ?page_size=…&page_token=…"},
    {.id = AGT_ROUTE_RUN_GET,
     .path = "/api/v1/runs/" ID,
     .method = "GET",
     .allow = ALLOW_RUN,
     .help = "a run as it is now"},
    {.id = AGT_ROUTE_RUN_CANCEL,
     .path = "/api/v1/runs/" ID,
     .method = "DELETE",
     .allow = ALLOW_RUN,
     .help = "cancels a run"},
    {.id = AGT_ROUTE_RUN_EVENTS,
     .path = "/api/v1/runs/" ID "/events",
     .method = "GET",
     .allow = ALLOW_GET,
     .is_costly = true,
     .help = "its events as server-sent events, from behind Last-Event-ID on"},
    {.id = AGT_ROUTE_RUN_RESUME,
     .path = "/api/v1/runs/" ID "/resume",
     .method = "POST",
     .allow = ALLOW_POST,
     .body_cap = GENERATE_BODY_CAP,
     .help = "{\"plan\",\"files\":[{\"path\",\"text\"}]}: takes up a run that waits, perhaps "
             "with another plan or other files; {\"hint\"}: goes on with one that ended STALLED"},
    {.id = AGT_ROUTE_RUN_FORK,
     .path = "/api/v1/runs/" ID "/fork",
     .method = "POST",
     .allow = ALLOW_POST,
     .body_cap = GENERATE_BODY_CAP,
     .help = "{\"seq\"}: starts a new run with the beginning of this one"},
    {.id = AGT_ROUTE_RUN_FORGET,
     .path = "/api/v1/runs/" ID "/forget",
     .method = "POST",
     .allow = ALLOW_POST,
     .body_cap = GENERATE_BODY_CAP,
     .help = "deletes a run that has ended"},
    {.id = AGT_ROUTE_RUN_EXPORT,
     .path = "/api/v1/runs/" ID "/export",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "all that is stored of a run, a file for crisol replay"},
    {.id = AGT_ROUTE_RUN_RECEIPT,
     .path = "/api/v1/runs/" ID "/receipt",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "the receipt of a run that has ended"},
    {.id = AGT_ROUTE_GRAPH,
     .path = "/api/v1/graph",
     .method = "GET",
     .allow = ALLOW_GET,
     .query = RUN_QUERY,
     .help = "the graph; ?run_id=… marks the path of a run"},
    {.id = AGT_ROUTE_GRAPH_MERMAID,
     .path = "/api/v1/graph.mmd",
     .method = "GET",
     .allow = ALLOW_GET,
     .query = RUN_QUERY,
     .help = "the same as Mermaid"},
    {.id = AGT_ROUTE_GRAPH_DOT,
     .path = "/api/v1/graph.dot",
     .method = "GET",
     .allow = ALLOW_GET,
     .query = RUN_QUERY,
     .help = "the same as Graphviz DOT"},
};

_Static_assert(CR_ARRAY_SIZE(routes) == AGT_ROUTE_COUNT, "one row per route, in order");

bool agt_route_allows(const struct agt_route *route, const char *method)
{
    if (strcmp(method, route->method) == 0 || strcmp(method, "OPTIONS") == 0)
        return true;
    return strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0;
}

/* Compares with a row's path; "{id}" is one segment. */
static bool matches(const char *pattern, const char *path, size_t size)
{
    const char *hole = strstr(pattern, ID);
    size_t head = hole ? (size_t)(hole - pattern) : strlen(pattern);
    const char *tail = hole ? hole + strlen(ID) : "";
    size_t rest;

    if (size < head || memcmp(path, pattern, head) != 0)
        return false;
    if (!hole)
        return size == head;
    rest = size - head;
    return rest > strlen(tail) && memcmp(path + size - strlen(tail), tail, strlen(tail)) == 0 &&
           !memchr(path + head, '/', rest - strlen(tail));
}

bool agt_route_is_judge(const char *path)
{
    static const char prefix[] = "/api/v2/";

    return strncmp(path, prefix, sizeof(prefix) - 1) == 0;
}

const struct agt_route *agt_route_find(const char *path, size_t size, const char *method)
{
    const struct agt_route *first = NULL;

    for (size_t i = 0; i < CR_ARRAY_SIZE(routes); i++) {
        if (!matches(routes[i].path, path, size))
            continue;
        if (agt_route_allows(&routes[i], method) && strcmp(method, "OPTIONS") != 0)
            return &routes[i];
        if (!first)
            first = &routes[i];
    }
    return first;
}

const char *agt_route_id(const struct agt_route *route, const char *path, size_t *ret_size)
{
    const char *hole = strstr(route->path, ID);
    const char *id;

    *ret_size = 0;
    if (!hole)
        return path;
    id = path + (hole - route->path);
    *ret_size = strcspn(id, "/?");
    return id;
}

const struct agt_route *agt_route_get(enum agt_route_id id)
{
    return &routes[id];
}

int agt_routes_write(struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_open(&json, "routes", '[');
    for (size_t i = 0; i < CR_ARRAY_SIZE(routes); i++) {
        agt_json_open(&json, NULL, '{');
        agt_json_str(&json, "method", routes[i].method);
        agt_json_str(&json, "path", routes[i].path);
        agt_json_str(&json, "help", routes[i].help);
        agt_json_close(&json, '}');
    }
    agt_json_close(&json, ']');
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}
