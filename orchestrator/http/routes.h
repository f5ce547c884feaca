/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;

enum agt_route_id {
    AGT_ROUTE_INDEX,
    AGT_ROUTE_LIVEZ,
    AGT_ROUTE_READYZ,
    AGT_ROUTE_HEALTH,
    AGT_ROUTE_RUNTIMES,
    AGT_ROUTE_GENERATE,
    AGT_ROUTE_STREAM,
    AGT_ROUTE_EXECUTE,
    AGT_ROUTE_COUNT,
};

/* What is served, as data: checks, 404 and 405 answers all read this table. */
struct agt_route {
    const char *path;
    const char *method; /* "GET" (then HEAD too) or "POST" */
    const char *allow;  /* for Allow */
    const char *help;   /* one line for GET / */
    size_t body_cap;    /* bytes; 0: takes no body */
    enum agt_route_id id;
    bool is_open;   /* asks for no token: probes */
    bool is_probe;  /* answered while draining too */
    bool is_costly; /* a client that leaves cancels it, half-closed counts as left */
};

/* `path` is the raw path, without a query, not terminated. NULL when nothing is there. */
const struct agt_route *agt_route_find(const char *path, size_t size);

/* Borrowed row; `id` < AGT_ROUTE_COUNT. */
const struct agt_route *agt_route_get(enum agt_route_id id);

bool agt_route_allows(const struct agt_route *route, const char *method);

/* Appends {"routes":[{"method":…,"path":…,"help":…}…]}. Returns 0, or as cr_buf_add(). */
int agt_routes_write(struct cr_buf *buf);

/* "GET /livez, GET /readyz, …" for a 404. Static storage. */
const char *agt_routes_summary(void);
