/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include "common/auto.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/meter/meter.h"
#include "orchestrator/runs/runs.h"

static void write_gauge(struct cr_metrics *metrics, const char *name, const char *help,
                        uint64_t value)
{
    cr_metrics_family(metrics, name, "gauge", help);
    cr_metrics_count(metrics, NULL, value);
}

static void write_build(const struct agt_http *http, struct cr_metrics *metrics)
{
    const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {
        {"version", http->options.version},
    };

    cr_metrics_family(metrics, "crisol_build_info", "gauge", "Always 1; the label tells.");
    cr_metrics_count(metrics, labels, 1);
}

static void write_answers(const struct agt_http *http, struct cr_metrics *metrics)
{
    static const char *const hundreds[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};

    cr_metrics_family(metrics, "crisol_http_requests_total", "counter",
                      "HTTP requests that were answered.");
    for (int id = 0; id <= AGT_ROUTE_COUNT; id++) {
        const struct agt_route *route =
            id < AGT_ROUTE_COUNT ? agt_route_get((enum agt_route_id)id) : NULL;

        for (size_t i = 0; i < CR_ARRAY_SIZE(hundreds); i++) {
            const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {
                {"route", route ? route->path : "none"},
                {"method", route ? route->method : "none"},
                {"code", hundreds[i]},
            };
            uint64_t count = atomic_load_explicit(&http->answers[id][i], memory_order_relaxed);

            cr_metrics_count(metrics, labels, count);
        }
    }
}

void agt_handle_metrics(struct agt_exchange *exchange)
{
    const struct agt_http *http = exchange->http;
    struct cr_metrics metrics;
    int r;

    cr_metrics_begin(&metrics, &exchange->out);
    write_build(http, &metrics);
    cr_metrics_process(&metrics, http->started_ms);
    write_gauge(&metrics, "crisol_runs_live", "Runs that go on, those that wait included.",
                agt_runs_live(http->options.runs));
    if (http->options.meter)
        agt_meter_write(http->options.meter, &metrics);
    write_gauge(&metrics, "crisol_http_connections", "HTTP connections that are open.",
                atomic_load(&http->connection_count));
    write_answers(http, &metrics);
    if (http->options.write_metrics)
        http->options.write_metrics(http->options.write_user, &metrics);
    r = cr_metrics_end(&metrics);
    if (r < 0) {
        agt_exchange_fail_internal(exchange, "write the answer", r);
        return;
    }
    exchange->type = "text/plain; version=0.0.4; charset=utf-8";
    agt_exchange_answer(exchange, MHD_HTTP_OK);
}
