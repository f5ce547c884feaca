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
    AGT_ROUTE_METRICS,
    AGT_ROUTE_OPENAPI,
    AGT_ROUTE_DOCS,
    AGT_ROUTE_DOCS_SCRIPT,
    AGT_ROUTE_DOCS_STYLE,
    AGT_ROUTE_RUNTIMES,
    AGT_ROUTE_MODELS,
    AGT_ROUTE_GENERATE,
    AGT_ROUTE_STREAM,
    AGT_ROUTE_EXECUTE,
    AGT_ROUTE_JUDGE_EXECUTE,
    AGT_ROUTE_JUDGE_RUNTIMES,
    AGT_ROUTE_JUDGE_PACKAGES,
    AGT_ROUTE_RUN_SUBMIT,
    AGT_ROUTE_RUN_LIST,
    AGT_ROUTE_RUN_GET,
    AGT_ROUTE_RUN_CANCEL,
    AGT_ROUTE_RUN_EVENTS,
    AGT_ROUTE_RUN_RESUME,
    AGT_ROUTE_RUN_FORK,
    AGT_ROUTE_RUN_FORGET,
    AGT_ROUTE_RUN_EXPORT,
    AGT_ROUTE_RUN_RECEIPT,
    AGT_ROUTE_GRAPH,
    AGT_ROUTE_GRAPH_MERMAID,
    AGT_ROUTE_GRAPH_DOT,
    AGT_ROUTE_COUNT,
};

/* What is served, as data: checks, 404 and 405 answers all read this table. */
struct agt_route {
    const char *path;   /* "{id}" stands for one segment that is not empty */
    const char *method; /* "GET" (then HEAD too), "POST" or "DELETE" */
    const char *allow;  /* for Allow */
    const char *help;   /* one line for GET / */
    size_t body_cap;    /* bytes; 0: takes no body */
    const char *query;  /* names of its query parameters, each with a space before and behind it;
                           NULL: none. "*": any, which are ignored */
    enum agt_route_id id;
    bool is_open;   /* asks for no token: probes, and what describes the interface */
    bool is_probe;  /* answered while draining too */
    bool is_costly; /* a client that leaves cancels it, half-closed counts as left */
};

/* True below /api/v2/, known or not: problems are told there in the judge's shape. Pure. */
bool agt_route_is_judge(const char *path);

/*
 * `path` is the raw path, without a query, not terminated. The row whose
 * method fits, where there are several for a path, else the first of them
 * (agt_route_allows() tells). NULL when nothing is there.
 */
const struct agt_route *agt_route_find(const char *path, size_t size, const char *method);

/* What stands for "{id}" in the path, not terminated; its length in *ret_size, 0 without one. */
const char *agt_route_id(const struct agt_route *route, const char *path, size_t *ret_size);

/* Borrowed row; `id` < AGT_ROUTE_COUNT. */
const struct agt_route *agt_route_get(enum agt_route_id id);

bool agt_route_allows(const struct agt_route *route, const char *method);

/* Appends {"routes":[{"method":…,"path":…,"help":…}…]}. Returns 0, or as cr_buf_add(). */
int agt_routes_write(struct cr_buf *buf);
