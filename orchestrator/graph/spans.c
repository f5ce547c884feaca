/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/spans.h"

#include "common/auto.h"
#include "common/clock.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/trace/tracer.h"
#include "rpc/status.h"

#include <string.h>

void agt_spans_begin_run(struct agt_run *run)
{
    const struct cr_trace *current = cr_trace_current();

    run->began_ns = cr_clock_real_ns();
    if (!current) {
        run->trace = cr_trace_new(true);
    } else if (current->is_remote) {
        run->parent = *current;
        run->trace = cr_trace_child(current);
    } else {
        run->trace = *current; /* begun for the request that asks for the run */
    }
}

/* "MAX_ITERATIONS" of FAILURE_CAUSE_MAX_ITERATIONS; NULL for a number without a name. */
static const char *name_of(const ProtobufCEnumDescriptor *names, int value, const char *prefix)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(names, value);

    if (!found)
        return NULL;
    return strncmp(found->name, prefix, strlen(prefix)) == 0 ? found->name + strlen(prefix)
                                                             : found->name;
}

static struct agt_tracer *tracer_of(const struct agt_run *run)
{
    return run->engine ? agt_engine_options(run->engine)->tracer : NULL;
}

void agt_spans_end_run(struct agt_run *run)
{
    bool has_failed = run->cause != CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_UNSPECIFIED;
    struct agt_span span;

    if (!tracer_of(run))
        return;
    agt_span_begin(&span, "run", &run->trace, cr_trace_is_set(&run->parent) ? &run->parent : NULL);
    span.kind = AGT_SPAN_SERVER;
    span.is_error = has_failed;
    span.start_ns = run->began_ns;
    agt_span_add_text(&span, "crisol.run.id", run->id);
    agt_span_add_text(&span, "gen_ai.request.model", run->model_requested);
    agt_span_add_number(&span, "crisol.run.attempts", (int64_t)run->attempt_count);
    agt_span_add_number(&span, "crisol.run.steps", run->steps);
    agt_span_add_number(&span, "gen_ai.usage.input_tokens", run->usage.prompt_tokens);
    agt_span_add_number(&span, "gen_ai.usage.output_tokens", run->usage.answer_tokens);
    if (has_failed)
        agt_span_add_text(&span, "crisol.run.cause",
                          name_of(&crisol__agent__v1__failure_cause__descriptor, (int)run->cause,
                                  "FAILURE_CAUSE_"));
    agt_tracer_add(tracer_of(run), &span);
}

void agt_spans_begin_call(struct agt_call *call)
{
    call->trace = cr_trace_child(&call->run->trace);
    call->began_ns = cr_clock_real_ns();
}

static void fill_model(const struct agt_call *call, struct agt_span *span)
{
    span->is_error = call->model_end != AGT_MODEL_OK;
    agt_span_add_text(span, "gen_ai.operation.name", "chat");
    agt_span_add_text(span, "gen_ai.request.model", call->model_requested);
    agt_span_add_text(span, "gen_ai.response.model", call->model_served);
    agt_span_add_number(span, "gen_ai.usage.input_tokens", call->usage.prompt_tokens);
    agt_span_add_number(span, "gen_ai.usage.output_tokens", call->usage.answer_tokens);
    agt_span_add_number(span, "crisol.model.calls", call->calls);
}

static void fill_sandbox(const struct agt_call *call, struct agt_span *span)
{
    const Crisol__Sandbox__V1__Verdict *verdict = call->result ? call->result->verdict : NULL;

    span->is_error = call->status.code != RPC_OK;
    agt_span_add_text(span, "rpc.system", "grpc");
    agt_span_add_text(span, "rpc.service", "crisol.sandbox.v1.SandboxService");
    agt_span_add_text(span, "rpc.method", "Execute");
    agt_span_add_number(span, "rpc.grpc.status_code", (int64_t)call->status.code);
    if (verdict)
        agt_span_add_text(span, "crisol.verdict",
                          name_of(&crisol__sandbox__v1__verdict_code__descriptor,
                                  (int)verdict->code, "VERDICT_CODE_"));
}

/*
 * sandboxd connects to nobody, so it is from its result that its stages are
 * told. They followed each other and the last ended just before the result
 * came: that is where they are laid from, backwards, by our own clock.
 */
static void add_stages(const struct agt_run *run, const struct agt_call *call, int64_t end_ns)
{
    const Crisol__Sandbox__V1__Timing *timing = call->result ? call->result->timing : NULL;

    const struct {
        const char *name;
        int64_t us;
    } stages[] = {
        {"sandbox.collect", timing ? (int64_t)timing->collect_us : 0},
        {"sandbox.kill", timing ? (int64_t)timing->kill_us : 0},
        {"sandbox.run", timing ? (int64_t)timing->run_us : 0},
        {"sandbox.prepare", timing ? (int64_t)timing->prepare_us : 0},
        {"sandbox.queue", timing ? (int64_t)timing->queue_us : 0},
    };

    for (size_t i = 0; timing && i < CR_ARRAY_SIZE(stages); i++) {
        struct cr_trace trace = cr_trace_child(&call->trace);
        int64_t start_ns = end_ns - stages[i].us * CR_NS_PER_US;
        struct agt_span span;

        agt_span_begin(&span, stages[i].name, &trace, &call->trace);
        agt_span_set_time(&span, start_ns, end_ns);
        agt_tracer_add(tracer_of(run), &span);
        end_ns = start_ns;
    }
}

void agt_spans_end_call(struct agt_run *run, const struct agt_call *call)
{
    struct agt_span span;

    if (!tracer_of(run) || call->began_ns == 0)
        return;
    agt_span_begin(&span, call->model ? "model" : "sandbox", &call->trace, &run->trace);
    span.kind = AGT_SPAN_CLIENT;
    span.start_ns = call->began_ns;
    agt_span_add_text(&span, "crisol.node", agt_node_name(run->node));
    if (call->model)
        fill_model(call, &span);
    else
        fill_sandbox(call, &span);
    agt_tracer_add(tracer_of(run), &span);
    if (!call->model)
        add_stages(run, call, span.end_ns);
}
