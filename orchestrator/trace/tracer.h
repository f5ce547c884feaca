/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/trace/span.h"

struct cr_err;
struct cr_metrics;

/*
 * Sends spans to a collector by OTLP/HTTP. Who adds one never waits: a bounded
 * queue, a thread of its own that sends what is there, and spans that are
 * dropped and counted when the collector does not keep up or is away.
 */
struct agt_tracer;

struct agt_tracer_options {
    const char *endpoint; /* "http://host:4318"; "/v1/traces" is put behind it. Copied */
    const char *headers;  /* "name=value,name=value", as for a bearer token; NULL: none. Copied */
    const char *service;  /* service.name. Copied */
    const char *ca_file;  /* NULL: the system's. Copied */
};

/* What the endpoint and the headers must look like. Pure. Returns 0 or -EINVAL. */
int agt_tracer_check(const char *endpoint, const char *headers, struct cr_err *err);

/* Behind the model client, whose memory functions curl is to use. */
int agt_tracer_new(const struct agt_tracer_options *options, struct agt_tracer **ret_tracer,
                   struct cr_err *err);

/* Copies the span when its trace is sampled. Any thread; NULL is allowed. */
void agt_tracer_add(struct agt_tracer *tracer, const struct agt_span *span);

/* crisol_trace_spans_total by what became of them. Any thread; NULL is allowed: all 0. */
void agt_tracer_write(struct agt_tracer *tracer, struct cr_metrics *metrics);

/* Sends what waits, for at most two seconds. NULL is allowed; returns NULL. */
struct agt_tracer *agt_tracer_free(struct agt_tracer *tracer);
