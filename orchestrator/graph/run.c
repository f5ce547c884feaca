/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/run.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/spans.h"
#include "orchestrator/meter/meter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * More steps than any run can make by the rules of the nodes: a second wall,
 * should one of these rules have a hole. Per attempt: answers, tries and
 * waits in the sandbox, one judgement; plus the planner, what is done about
 * repetitions, and the end.
 */
static uint32_t max_steps(const struct agt_run *run)
{
    const uint32_t answers = 1 + agt_node_policy(AGT_NODE_GENERATOR)->retries;
    const uint32_t tries = 1 + agt_node_policy(AGT_NODE_SANDBOX)->retries + AGT_SANDBOX_WAITS_MAX;

    const uint32_t ladders = 1 + (uint32_t)run->hints.count;
    const uint32_t circles = ladders * AGT_STALL_STOP * 2 * answers;

    return answers + (uint32_t)run->max_iterations * (answers + tries + 1) + circles + 1;
}

static bool is_state(const Crisol__Agent__V1__RunEvent *event)
{
    switch (event->event_case) {
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_OUTPUT_DELTA:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_GAP:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_HEARTBEAT:
        return false;
    default:
        return true;
    }
}

static void count(struct agt_run *run, const Crisol__Agent__V1__RunEvent *event)
{
    struct agt_meter *meter = run->engine ? agt_engine_options(run->engine)->meter : NULL;

    if (meter)
        agt_meter_note(meter, event);
}

/*
 * Nobody reads it before its turn is durable. What a restart only repeats has
 * been counted; whether the journal has it, is known when it was looked for.
 */
static bool emit_durable(struct agt_run *run, const Crisol__Agent__V1__RunEvent *event,
                         struct agt_event *take_packed)
{
    bool is_taken = agt_journal_emit(run, take_packed);

    if (is_taken && !agt_journal_is_replaying(run))
        count(run, event);
    return is_taken;
}

/* There is no memory for an event. */
static void miss(struct agt_run *run, bool has_state, bool is_last)
{
    if (!has_state)
        agt_journal_skip(run, 1);
    else if (run->journal)
        agt_journal_lose(run); /* whoever takes it up has it again */
    else if (is_last)
        agt_event_log_end(run->log); /* the readers must not wait for ever */
}

void agt_run_emit(struct agt_run *run, Crisol__Agent__V1__RunEvent *event)
{
    bool has_state = is_state(event);
    bool is_last = event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    struct agt_event *packed;

    event->run_id = run->id;
    event->seq = run->seq + has_state;
    event->time_ms = (uint64_t)cr_clock_real_ms();
    event->iteration = run->iteration;
    event->node = (Crisol__Agent__V1__Node)run->node;
    run->last_event_ns = cr_clock_mono_ns();
    if (!run->journal)
        count(run, event); /* before anybody can have read it */
    packed = agt_event_new(event, has_state, is_last);
    if (packed && run->journal)
        run->seq += emit_durable(run, event, packed);
    else if (packed && agt_event_log_add(run->log, packed) == 0)
        run->seq += has_state;
    else
        miss(run, has_state, is_last);
}

void agt_run_set_outcome(struct agt_run *run, enum agt_outcome outcome)
{
    if (run->outcome == AGT_OUTCOME_NONE)
        run->outcome = outcome;
}

void agt_run_fail(struct agt_run *run, Crisol__Agent__V1__FailureCause cause, const char *format,
                  ...)
{
    va_list args;

    agt_run_set_outcome(run, AGT_OUTCOME_FAILED);
    if (run->failure)
        return; /* the first cause counts */
    run->cause = cause;
    va_start(args, format);
    if (vasprintf(&run->failure, format, args) < 0)
        run->failure = NULL;
    va_end(args);
}

static void emit_edge(struct agt_run *run, const struct agt_graph_edge *edge)
{
    Crisol__Agent__V1__EdgeTaken taken = CRISOL__AGENT__V1__EDGE_TAKEN__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char name[32];

    (void)snprintf(name, sizeof(name), "%s", agt_outcome_name(edge->outcome));
    taken.from = (Crisol__Agent__V1__Node)edge->from;
    taken.to = (Crisol__Agent__V1__Node)edge->to;
    taken.outcome = name;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_EDGE_TAKEN;
    event.edge_taken = &taken;
    agt_run_emit(run, &event);
}

static void emit_node_started(struct agt_run *run)
{
    Crisol__Agent__V1__NodeStarted started = CRISOL__AGENT__V1__NODE_STARTED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    started.visit = run->visits[run->node];
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED;
    event.node_started = &started;
    agt_run_emit(run, &event);
}

static void end_run(struct agt_run *run)
{
    agt_run_emit_result(run);
    agt_spans_end_run(run);
    run->has_ended = true;
    cr_log_info("run ended run=%s node=%s cause=%d attempts=%zu steps=%u elapsed_ms=%lld", run->id,
                agt_node_name(run->node), (int)run->cause, run->attempt_count, run->steps,
                (long long)((cr_clock_mono_ns() - run->started_ns) / CR_NS_PER_MS));
}

static void enter(struct agt_run *run, enum agt_node node)
{
    if (node == AGT_NODE_GENERATOR) /* only what reached a verdict has been an attempt */
        run->iteration = (int32_t)run->attempt_count + 1;
    run->node = node;
    run->outcome = AGT_OUTCOME_NONE;
    run->retry_at_ns = 0;
    run->node_deadline_ns = cr_clock_mono_ns() + agt_engine_node_timeout_ns(run->engine, node);
    run->has_passed_on = false;
    run->visits[node]++;
    run->steps++;
    emit_node_started(run);
    if (agt_graph_is_end(&agt_agent_graph, node)) {
        end_run(run);
        return;
    }
    if (run->stop != AGT_STOP_NONE) {
        agt_run_set_outcome(run, AGT_OUTCOME_CANCELLED);
        return;
    }
    if (run->steps >= max_steps(run)) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "The run made %u steps, more than any run may.", run->steps);
        return;
    }
    switch (node) {
    case AGT_NODE_PLANNER:
        agt_planner_enter(run);
        break;
    case AGT_NODE_GENERATOR:
        agt_generator_enter(run);
        break;
    case AGT_NODE_SANDBOX:
        agt_sandbox_enter(run);
        break;
    default:
        agt_evaluator_enter(run);
        break;
    }
}

/* What the stop means for a node that has come to its end. */
static enum agt_outcome stopped_outcome(const struct agt_run *run)
{
    if (run->stop == AGT_STOP_CANCEL)
        return AGT_OUTCOME_CANCELLED;
    if (run->stop == AGT_STOP_DEADLINE)
        return AGT_OUTCOME_FAILED;
    return run->outcome;
}

/* Takes edges until a node has to wait, or the run has ended. */
void agt_run_drive(struct agt_run *run)
{
    while (run->outcome != AGT_OUTCOME_NONE && !run->has_ended &&
           !agt_checks_are_in_flight(run->checks) && !agt_run_pauses(run)) {
        int edge;

        /* A verdict that is already there is not thrown away. */
        if (run->outcome != AGT_OUTCOME_PASSED)
            run->outcome = stopped_outcome(run);
        edge = agt_graph_find_edge(&agt_agent_graph, run->node, run->outcome);
        if (edge < 0) { /* a hole in a node, not in the table: that was checked */
            agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                         "Node '%s' ended with '%s', which it never does.",
                         agt_node_name(run->node), agt_outcome_name(run->outcome));
            edge = agt_graph_find_edge(&agt_agent_graph, run->node, AGT_OUTCOME_FAILED);
        }
        if (run->crossings)
            run->crossings[edge]++;
        emit_edge(run, &agt_agent_graph.edges[edge]);
        enter(run, agt_agent_graph.edges[edge].to);
    }
}

static void emit_run_started(struct agt_run *run)
{
    Crisol__Agent__V1__RunStarted started = CRISOL__AGENT__V1__RUN_STARTED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    started.task = run->task;
    started.max_iterations = run->max_iterations;
    started.model = run->model_requested;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RUN_STARTED;
    event.run_started = &started;
    agt_run_emit(run, &event);
}

void agt_run_begin(struct agt_run *run)
{
    cr_log_info("run started run=%s max_iterations=%d", run->id, run->max_iterations);
    agt_receipt_add_text(&run->receipt, AGT_RECEIPT_TASK, 0, run->task);
    if (run->limits)
        agt_receipt_add_message(&run->receipt, AGT_RECEIPT_LIMITS, 0, &run->limits->base);
    if (run->terms)
        agt_receipt_add_message(&run->receipt, AGT_RECEIPT_TERMS, 0, &run->terms->base);
    emit_run_started(run);
    enter(run, agt_agent_graph.nodes[0].node);
    agt_run_drive(run);
}

static void finish_suspend(struct agt_run *run)
{
    if (run->calls_in_flight == 0)
        run->has_ended = true;
}

void agt_run_suspend(struct agt_run *run)
{
    /* An end that will never be durable is none: whoever has the run now writes its own. */
    if (run->is_suspended || (run->has_ended && !agt_journal_is_lost(run->journal)))
        return;
    __atomic_store_n(&run->is_suspended, true, __ATOMIC_RELEASE);
    agt_checks_cancel(run->checks);
    if (run->call)
        agt_call_cancel(run->call);
    finish_suspend(run);
}

void agt_run_stop(struct agt_run *run, enum agt_stop stop)
{
    if (run->stop != AGT_STOP_NONE || run->has_ended || run->is_suspended)
        return;
    if (agt_journal_is_replaying(run)) { /* what is stored comes first, within the time */
        run->wants_cancel |= stop == AGT_STOP_CANCEL;
        if (stop == AGT_STOP_CANCEL)
            return;
        agt_journal_diverge(run);
    }
    run->stop = stop;
    if (stop == AGT_STOP_DEADLINE && !run->failure) {
        run->cause = run->has_wall_budget
                         ? CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_BUDGET
                         : CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_DEADLINE;
        run->failure = strdup(run->has_wall_budget ? "The budget is spent: the time of the run."
                                                   : "The time for the run is over.");
    }
    agt_run_end_pause(run);
    agt_checks_cancel(run->checks);
    if (run->call) {
        agt_call_cancel(run->call); /* the node ends when the call has */
    } else if (agt_checks_are_in_flight(run->checks)) {
        return; /* likewise */
    } else if (run->node != AGT_NODE_NONE) {
        agt_run_set_outcome(run, AGT_OUTCOME_CANCELLED);
        agt_run_drive(run);
    }
}

static void on_model_delta(struct agt_run *run, struct agt_mail *mail)
{
    Crisol__Agent__V1__ModelDelta delta = CRISOL__AGENT__V1__MODEL_DELTA__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    delta.offset = (uint32_t)mail->offset;
    delta.text = mail->data;
    delta.is_thought = mail->flag;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA;
    event.model_delta = &delta;
    agt_run_emit(run, &event);
}

static void on_model_retry(struct agt_run *run, struct agt_mail *mail)
{
    Crisol__Agent__V1__ModelRetry retry = CRISOL__AGENT__V1__MODEL_RETRY__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    retry.reason = mail->data;
    retry.delay_ms = mail->delay_ms;
    retry.attempt = mail->attempt;
    retry.is_restart = mail->flag;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_RETRY;
    event.model_retry = &retry;
    agt_run_emit(run, &event);
}

static void on_sandbox_started(struct agt_run *run, struct agt_mail *mail)
{
    Crisol__Agent__V1__SandboxStarted started = CRISOL__AGENT__V1__SANDBOX_STARTED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Sandbox__V1__ExecuteResponse *response;

    response = crisol__sandbox__v1__execute_response__unpack(NULL, mail->size,
                                                             (const uint8_t *)mail->data);
    if (!response)
        return;
    started.execution_id = response->execution_id;
    started.policy = response->started->policy;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_STARTED;
    event.sandbox_started = &started;
    agt_run_emit(run, &event);
    crisol__sandbox__v1__execute_response__free_unpacked(response, NULL);
}

static void on_sandbox_output(struct agt_run *run, struct agt_mail *mail)
{
    Crisol__Agent__V1__OutputDelta delta = CRISOL__AGENT__V1__OUTPUT_DELTA__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    delta.stream = (Crisol__Sandbox__V1__OutputStream)mail->stream;
    delta.offset = mail->offset;
    delta.text = mail->data;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_OUTPUT_DELTA;
    event.output_delta = &delta;
    agt_run_emit(run, &event);
}

static void on_call_end(struct agt_run *run, struct agt_call *call)
{
    if (run->call == call)
        run->call = NULL;
    switch (run->node) {
    case AGT_NODE_PLANNER:
        agt_planner_on_end(run, call);
        break;
    case AGT_NODE_GENERATOR:
        agt_generator_on_end(run, call);
        break;
    case AGT_NODE_SANDBOX:
        agt_sandbox_on_end(run, call);
        break;
    default:
        agt_evaluator_on_end(run, call);
        break;
    }
    (void)agt_call_free(call);
    if (run->stop != AGT_STOP_NONE) /* not even when the node would wait for another try */
        agt_run_set_outcome(run, AGT_OUTCOME_CANCELLED);
}

/* Of a run that is left, only an answer that was paid for is still taken. */
static bool is_wanted(const struct agt_run *run, const struct agt_call *call)
{
    return !run->is_suspended || (call->model && call->model_end == AGT_MODEL_OK);
}

void agt_run_on_call_end(struct agt_run *run, struct agt_call *call)
{
    run->calls_in_flight--;
    agt_spans_end_call(run, call);
    if (is_wanted(run, call)) {
        if (run->journal && !agt_journal_is_replaying(run))
            agt_journal_record(run, call);
        on_call_end(run, call);
        agt_run_drive(run);
    } else {
        if (run->call == call)
            run->call = NULL;
        (void)agt_call_free(call);
    }
    if (run->is_suspended) {
        agt_journal_drop_all(run);
        finish_suspend(run);
    }
}

void agt_run_on_mail(struct agt_run *run, struct agt_mail *mail)
{
    if (mail->dropped > 0)
        agt_journal_skip(run, mail->dropped);
    switch (mail->kind) {
    case AGT_MAIL_CANCEL:
        agt_run_stop(run, AGT_STOP_CANCEL);
        break;
    case AGT_MAIL_LEAVE:
        agt_journal_lose(run);
        break;
    case AGT_MAIL_MODEL_DELTA:
        on_model_delta(run, mail);
        break;
    case AGT_MAIL_MODEL_RETRY:
        on_model_retry(run, mail);
        break;
    case AGT_MAIL_SANDBOX_STARTED:
        on_sandbox_started(run, mail);
        break;
    case AGT_MAIL_SANDBOX_OUTPUT:
        on_sandbox_output(run, mail);
        break;
    case AGT_MAIL_CALL_END:
        agt_run_on_call_end(run, mail->call);
        break;
    case AGT_MAIL_RESUME:
        agt_run_on_resume(run, mail);
        break;
    case AGT_MAIL_DURABLE:
        agt_journal_on_durable(run, mail);
        break;
    default:
        break;
    }
}
