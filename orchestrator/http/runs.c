/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/runs/runs.h"

#include "orchestrator/graph/engine.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_start.h"
#include "orchestrator/http/shape.h"
#include "orchestrator/runs/view.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The caller cannot be wrong about more than these. */
#define ID_SIZE 64

static void fail(struct agt_exchange *exchange, const struct rpc_status *status)
{
    struct agt_problem problem;

    agt_problem_from_status(&problem, status);
    agt_exchange_fail(exchange, &problem);
}

/* What is wrong stands behind the path. */
static void fail_query(struct agt_exchange *exchange, const struct rpc_status *status)
{
    struct agt_problem problem;

    agt_problem_from_status(&problem, status);
    problem.place = "query";
    agt_exchange_fail(exchange, &problem);
}

static void answer_written(struct agt_exchange *exchange, int written, int http_status)
{
    if (written < 0)
        agt_exchange_fail_internal(exchange, "write the answer", written);
    else
        agt_exchange_answer(exchange, http_status);
}

struct agt_run *agt_run_find_by_path(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    size_t size = 0;
    const char *at = agt_route_id(exchange->route, exchange->raw_url, &size);
    struct agt_run *run;
    char id[ID_SIZE];

    (void)snprintf(id, sizeof(id), "%.*s", size < sizeof(id) ? (int)size : 0, at);
    run = agt_runs_find(exchange->http->options.runs, exchange->caller, id, &status);
    if (!run)
        fail(exchange, &status);
    return run;
}

void agt_handle_run_submit(struct agt_exchange *exchange)
{
    bool cancels = false;
    struct agt_run *run = agt_run_start_from_body(exchange, exchange->key, &cancels);

    if (run)
        agt_run_submit(exchange, run);
}

static int write_page(struct agt_exchange *exchange, const struct agt_runs_page *page)
{
    struct cr_buf *out = &exchange->out;
    int r = cr_buf_add_str(out, "{\"runs\":[");

    for (size_t i = 0; r >= 0 && i < page->count; i++) {
        Crisol__Agent__V1__RunResult *result = agt_view_result(page->runs[i]);

        if (!result)
            return -ENOMEM;
        agt_view_shorten(result);
        if (i > 0)
            r = cr_buf_add_char(out, ',');
        if (r >= 0)
            r = agt_shape_write_result(result, out);
        crisol__agent__v1__run_result__free_unpacked(result, NULL);
    }
    if (r >= 0)
        r = cr_buf_printf(out, "],\"next_page_token\":\"%s\"}", page->next_token);
    return r;
}

void agt_handle_run_list(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_runs_page page;
    uint64_t page_size = 0;
    char token[32];
    char text[16];

    if (!agt_request_query(exchange->raw_url, "page_size", text, sizeof(text)) ||
        !agt_request_number(text, AGT_RUNS_PAGE_MAX, &page_size))
        rpc_status_add_violation(&status, "page_size", "must be a number up to %d",
                                 AGT_RUNS_PAGE_MAX);
    if (!agt_request_query(exchange->raw_url, "page_token", token, sizeof(token)))
        rpc_status_add_violation(&status, "page_token", "must be a next_page_token of an answer");
    if (status.code != RPC_OK || agt_runs_list(exchange->http->options.runs, exchange->caller,
                                               (uint32_t)page_size, token, &page, &status) < 0) {
        fail_query(exchange, &status);
        return;
    }
    answer_written(exchange, write_page(exchange, &page), MHD_HTTP_OK);
    agt_runs_page_done(&page);
}

void agt_handle_run_get(struct agt_exchange *exchange)
{
    struct agt_run *run = agt_run_find_by_path(exchange);
    Crisol__Agent__V1__RunResult *result;

    if (!run)
        return;
    result = agt_view_result(run);
    answer_written(exchange, result ? agt_shape_write_result(result, &exchange->out) : -ENOMEM,
                   MHD_HTTP_OK);
    crisol__agent__v1__run_result__free_unpacked(result, NULL);
    agt_run_unref(run);
}

void agt_handle_run_events(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    uint64_t last_seq = 0;
    struct agt_run *run;

    if (!agt_request_number(exchange->last_id, UINT32_MAX - 1, &last_seq)) {
        rpc_status_add_violation(&status, "Last-Event-ID", "must be the id of an event of the run");
        fail(exchange, &status);
        return;
    }
    run = agt_run_find_by_path(exchange);
    if (run)
        agt_run_stream(exchange, run, last_seq > 0 ? (uint32_t)last_seq + 1 : 0);
}

/* ---- the graph ---- */

static void write_graph(void *user, const Crisol__Agent__V1__DescribeGraphResponse *response)
{
    struct agt_exchange *exchange = user;
    int r;

    switch (exchange->route->id) {
    case AGT_ROUTE_GRAPH_MERMAID:
        exchange->type = "text/plain; charset=utf-8";
        r = cr_buf_add_str(&exchange->out, response->mermaid);
        break;
    case AGT_ROUTE_GRAPH_DOT:
        exchange->type = "text/plain; charset=utf-8";
        r = cr_buf_add_str(&exchange->out, response->dot);
        break;
    default:
        r = agt_json_add_message(&exchange->out, &response->base, true);
        break;
    }
    answer_written(exchange, r, MHD_HTTP_OK);
}

void agt_handle_graph(struct agt_exchange *exchange)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;
    char id[ID_SIZE];

    /* An id that does not fit is none: "?" is refused as such. */
    if (!agt_request_query(exchange->raw_url, "run_id", id, sizeof(id)))
        (void)snprintf(id, sizeof(id), "?");
    if (id[0] != '\0') {
        run = agt_runs_find(exchange->http->options.runs, exchange->caller, id, &status);
        if (!run) {
            fail_query(exchange, &status);
            return;
        }
    }
    if (agt_view_graph(run, write_graph, exchange) < 0)
        agt_exchange_fail_internal(exchange, "draw the graph", -ENOMEM);
    agt_run_unref(run);
}
