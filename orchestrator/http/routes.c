/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/routes.h"

#include "common/auto.h"
#include "orchestrator/http/json_out.h"

#include <string.h>

#define ALLOW_GET "GET, HEAD, OPTIONS"
#define ALLOW_POST "POST, OPTIONS"

/* A task has at most 64 KiB; the rest is room for escapes. Execute takes files. */
#define GENERATE_BODY_CAP ((size_t)1 << 20)
#define EXECUTE_BODY_CAP ((size_t)4 << 20)

#define PROBE .method = "GET", .allow = ALLOW_GET, .is_open = true, .is_probe = true
#define RUN .method = "POST", .allow = ALLOW_POST, .is_costly = true

static const struct agt_route routes[] = {
    {.id = AGT_ROUTE_INDEX, .path = "/", PROBE, .help = "this list"},
    {.id = AGT_ROUTE_LIVEZ, .path = "/livez", PROBE, .help = "the process is alive"},
    {.id = AGT_ROUTE_READYZ, .path = "/readyz", PROBE, .help = "ready for work: 200 or 503"},
    {.id = AGT_ROUTE_HEALTH, .path = "/api/v1/health", PROBE, .help = "what is available"},
    {.id = AGT_ROUTE_RUNTIMES,
     .path = "/api/v1/runtimes",
     .method = "GET",
     .allow = ALLOW_GET,
     .help = "what /api/v1/execute can run"},
    {.id = AGT_ROUTE_GENERATE,
     .path = "/api/v1/generate",
     RUN,
     .body_cap = GENERATE_BODY_CAP,
     .help = "{\"task\",\"max_iterations\"}: plans, writes, runs and repairs code; answers at the "
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
};

_Static_assert(CR_ARRAY_SIZE(routes) == AGT_ROUTE_COUNT, "one row per route, in order");

const struct agt_route *agt_route_find(const char *path, size_t size)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(routes); i++) {
        if (strlen(routes[i].path) == size && memcmp(routes[i].path, path, size) == 0)
            return &routes[i];
    }
    return NULL;
}

const struct agt_route *agt_route_get(enum agt_route_id id)
{
    return &routes[id];
}

bool agt_route_allows(const struct agt_route *route, const char *method)
{
    if (strcmp(method, route->method) == 0 || strcmp(method, "OPTIONS") == 0)
        return true;
    return strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0;
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

const char *agt_routes_summary(void)
{
    return "GET /, GET /livez, GET /readyz, GET /api/v1/health, GET /api/v1/runtimes, "
           "POST /api/v1/generate, POST /api/v1/stream, POST /api/v1/execute";
}
