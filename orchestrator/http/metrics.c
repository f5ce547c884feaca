/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include "common/auto.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/meter/meter.h"
#include "orchestrator/runs/runs.h"

#include <sys/resource.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void write_gauge(struct cr_metrics *metrics, const char *name, const char *help,
                        uint64_t value)
{
    cr_metrics_family(metrics, name, "gauge", help);
    cr_metrics_count(metrics, NULL, value);
}

/* The names that Prometheus' own clients give them. */
static void write_process(const struct agt_http *http, struct cr_metrics *metrics)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    cr_metrics_family(metrics, "process_cpu_seconds_total", "counter",
                      "User and system CPU time in seconds.");
    cr_metrics_value(metrics, NULL, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    cr_metrics_family(metrics, "process_start_time_seconds", "gauge",
                      "Start of the service, in seconds since 1970.");
    cr_metrics_value(metrics, NULL, (double)http->started_ms / 1e3);
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

            if (count > 0)
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
    write_process(http, &metrics);
    write_gauge(&metrics, "crisol_runs_live", "Runs that go on, those that wait included.",
                agt_runs_live(http->options.runs));
    if (http->options.meter)
        agt_meter_write(http->options.meter, &metrics);
    write_gauge(&metrics, "crisol_http_connections", "HTTP connections that are open.",
                atomic_load(&http->connection_count));
    write_answers(http, &metrics);
    r = cr_metrics_end(&metrics);
    if (r < 0) {
        agt_exchange_fail_internal(exchange, "write the answer", r);
        return;
    }
    exchange->type = "text/plain; version=0.0.4; charset=utf-8";
    agt_exchange_answer(exchange, MHD_HTTP_OK);
}
