/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_body.h"
#include "orchestrator/http/run_start.h"
#include "orchestrator/http/shape.h"
#include "orchestrator/runs/runs.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdlib.h>

/* Frames made ahead of the reader; what more there is stays with the engine, which bounds it. */
#define FILL_SIZE ((size_t)64 << 10)

/* A run that an exchange follows. Loop thread only. */
struct run {
    struct agt_run *run;
    bool is_submit;          /* is answered with the run's id */
    bool is_owner;           /* the run ends with the exchange */
    struct agt_watch *watch; /* NULL once stopped */
    bool has_result;
};

static void on_notify(void *user)
{
    agt_exchange_wake(user);
}

static Crisol__Agent__V1__RunEvent *unpack(const struct agt_event *event)
{
    return crisol__agent__v1__run_event__unpack(NULL, event->size, event->packed);
}

static void free_event(Crisol__Agent__V1__RunEvent *event)
{
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
}

/* Answers with the result that a last event carries. */
static void answer_result(struct agt_exchange *exchange, const struct agt_event *last)
{
    Crisol__Agent__V1__RunEvent *event = unpack(last);
    int r = -EINVAL;

    if (event && event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT)
        r = agt_shape_write_result(event->result, &exchange->out);
    free_event(event);
    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the result of the run", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

/* The first event is there, and with it the run will not be lost. */
static void answer_id(struct agt_exchange *exchange, const char *run_id)
{
    int r = cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\"}", run_id);

    if (r < 0)
        agt_exchange_fail_internal(exchange, "write the answer", r);
    else
        agt_exchange_answer(exchange, MHD_HTTP_ACCEPTED);
}

/* Nothing more will come, and there was no answer yet. */
static void answer_end(struct agt_exchange *exchange)
{
    const struct run *run = exchange->user;
    struct rpc_status status = RPC_STATUS_INIT;
    bool is_same = false;
    const char *twin = run->is_submit ? agt_run_twin(run->run, &is_same) : NULL;

    if (twin && is_same) {
        answer_id(exchange, twin);
        return;
    }
    if (twin)
        rpc_status_set(&status, RPC_ALREADY_EXISTS, AGT_RUNS_KEY_TAKEN);
    else if (agt_run_is_left(run->run))
        rpc_status_set(&status, RPC_UNAVAILABLE, AGT_RUNS_LEFT);
    else
        rpc_status_set(&status, RPC_INTERNAL, "the run ended without a result");
    agt_run_refuse(exchange, &status);
}

static void wait_for_result(struct agt_exchange *exchange)
{
    struct run *run = exchange->user;

    while (exchange->http_status == 0) {
        struct agt_event *event = NULL;
        int r = agt_watch_next(run->watch, &event);

        if (r == 0)
            return;
        if (r < 0) {
            answer_end(exchange);
            return;
        }
        if (run->is_submit) {
            answer_id(exchange, agt_run_id(run->run));
        } else if (event->is_last) {
            run->has_result = true;
            answer_result(exchange, event);
        }
        agt_event_unref(event);
    }
}

static void add_event(struct agt_exchange *exchange, struct agt_event *event)
{
    struct run *run = exchange->user;

    /* An event that cannot be shown ends the stream: a silent hole would look like a whole. */
    if (agt_frames_add(&exchange->http->frames, event, &exchange->out) < 0)
        exchange->is_ended = true;
    if (event->is_last) {
        run->has_result = true;
        exchange->is_ended = true;
    }
}

static void fill(struct agt_exchange *exchange)
{
    struct run *run = exchange->user;

    while (!exchange->is_ended && exchange->out.size < FILL_SIZE) {
        struct agt_event *event = NULL;
        int r = agt_watch_next(run->watch, &event);

        if (r == 0)
            return;
        if (r < 0) {
            exchange->is_ended = true;
            return;
        }
        add_event(exchange, event);
        agt_event_unref(event);
    }
}

static void stop(struct agt_exchange *exchange)
{
    struct run *run = exchange->user;

    if (run->is_owner && !run->has_result)
        agt_run_cancel(run->run);
    run->watch = agt_watch_free(run->watch);
}

static void free_run(void *user)
{
    struct run *run = user;

    agt_run_unref(run->run);
    free(run);
}

static const struct agt_operation operation = {
    .on_wake = wait_for_result,
    .fill = fill,
    .stop = stop,
    .free = free_run,
};

static bool start_run(struct agt_exchange *exchange,
                      const Crisol__Agent__V1__GenerateRequest *request, const char *key,
                      struct agt_run **ret_run, bool *ret_cancels)
{
    bool is_submit = exchange->route->id == AGT_ROUTE_RUN_SUBMIT;
    struct agt_run_spec spec = {
        .task = request->task,
        .max_iterations = request->max_iterations,
        .model = request->model,
        .verify = (int)request->verify,
        .is_waited_for = exchange->route->id == AGT_ROUTE_GENERATE,
    };
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;
    uint8_t *limits = NULL;
    uint8_t *terms = NULL;
    int r;

    for (size_t i = 0; i < request->n_interrupt_after; i++)
        spec.interrupts |= agt_node_bit((int)request->interrupt_after[i]);
    if ((request->sandbox_limits &&
         rpc_pack(&request->sandbox_limits->base, &limits, &spec.sandbox_limits_size) < 0) ||
        (request->terms && rpc_pack(&request->terms->base, &terms, &spec.terms_size) < 0)) {
        free(limits);
        agt_exchange_fail_internal(exchange, "start the run", -ENOMEM);
        return false;
    }
    spec.sandbox_limits = limits;
    spec.terms = terms;
    r = agt_runs_check_disconnect((int)request->on_disconnect, is_submit, ret_cancels, &status);
    if (r == 0)
        r = agt_runs_start(exchange->http->options.runs, exchange->caller, key, &spec, ret_run,
                           &status);
    free(limits);
    free(terms);
    if (r < 0) {
        agt_problem_from_status(&problem, &status);
        agt_exchange_fail(exchange, &problem);
    }
    return r >= 0;
}

struct agt_run *agt_run_start_from_body(struct agt_exchange *exchange, const char *key,
                                        bool *ret_cancels)
{
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem;
    struct agt_run *run = NULL;

    if (agt_run_body_read(cr_buf_str(&exchange->body), exchange->body.size, &request, &problem) <
        0) {
        agt_exchange_fail(exchange, &problem);
        return NULL;
    }
    (void)start_run(exchange, request, key, &run, ret_cancels);
    crisol__agent__v1__generate_request__free_unpacked(request, NULL);
    return run;
}

static int follow(struct agt_exchange *exchange, struct agt_run *run, uint32_t from_seq,
                  bool is_owner)
{
    struct run *state = calloc(1, sizeof(*state));
    int r;

    if (!state)
        return -ENOMEM;
    r = agt_watch_new(run, from_seq, on_notify, exchange, &state->watch);
    if (r < 0) {
        free(state);
        return r;
    }
    state->run = run;
    state->is_owner = is_owner;
    exchange->user = state;
    exchange->operation = &operation;
    return 0;
}

void agt_run_stream(struct agt_exchange *exchange, struct agt_run *take_run, uint32_t from_seq)
{
    int r = follow(exchange, take_run, from_seq, false);

    if (r == 0) {
        agt_exchange_begin_stream(exchange);
        return;
    }
    agt_run_unref(take_run);
    agt_exchange_fail_internal(exchange, "follow the run", r);
}

void agt_run_submit(struct agt_exchange *exchange, struct agt_run *take_run)
{
    int r = follow(exchange, take_run, 0, false);

    if (r == 0) {
        ((struct run *)exchange->user)->is_submit = true;
        agt_exchange_await_store(exchange);
        wait_for_result(exchange);
        return;
    }
    agt_run_unref(take_run);
    agt_exchange_fail_internal(exchange, "follow the run", r);
}

/* True when the exchange follows a run of its own now. */
static bool begin_run(struct agt_exchange *exchange)
{
    bool cancels = true;
    struct agt_run *run = agt_run_start_from_body(exchange, NULL, &cancels);
    int r;

    if (!run)
        return false;
    r = follow(exchange, run, 0, cancels);
    if (r < 0) {
        agt_run_cancel(run);
        agt_run_unref(run);
        agt_exchange_fail_internal(exchange, "follow the run", r);
        return false;
    }
    return true;
}

void agt_handle_generate(struct agt_exchange *exchange)
{
    if (!begin_run(exchange))
        return;
    agt_watch_only_last(((struct run *)exchange->user)->watch);
    wait_for_result(exchange);
}

void agt_handle_stream(struct agt_exchange *exchange)
{
    if (begin_run(exchange))
        agt_exchange_begin_stream(exchange);
}
