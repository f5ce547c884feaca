/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/exchange.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/service/agent.h"
#include "rpc/pack.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a field header with its length, at most. */
#define HEADER_MAX 6

/* The run that goes on with a hint. Written by the store's thread before is_stored. */
struct hinted {
    char run_id[33];          /* "": there is none … */
    struct rpc_status status; /* … because of this */
};

struct exchange {
    struct agt_run *run;     /* a reference */
    struct agt_watch *watch; /* NULL once the call has been answered */
    struct agt_event *ahead; /* read already, the next to be passed on; NULL: none */
    bool is_stream;
    bool is_submit;        /* is answered with the run's id */
    bool is_owner;         /* has started the run, and ends it when the client leaves */
    uint32_t resumed_seq;  /* of a run that was taken up: the interrupt */
    struct hinted *hinted; /* NULL: nobody gave a hint. Owned */
    int stored_error;      /* written by the store's thread before is_stored */
    atomic_bool is_stored; /* the holder of that run will find what it is to do; taken once */
};

static void on_notify(void *user)
{
    rpc_call_wake(user);
}

/* Ends the call. The watch holds a reference to the call, so it goes first of all. */
static void answer(struct rpc_call *call, const struct rpc_status *status,
                   const ProtobufCMessage *last)
{
    struct exchange *exchange = rpc_call_user(call);

    rpc_call_finish(call, status, last);
    if (exchange->watch) {
        exchange->watch = agt_watch_free(exchange->watch);
        (void)rpc_call_unref(call);
    }
}

static void answer_error(struct rpc_call *call, enum rpc_code code, const char *message)
{
    struct exchange *exchange = rpc_call_user(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (exchange->is_owner)
        agt_run_cancel(exchange->run);
    rpc_status_set(&status, code, "%s", message);
    answer(call, &status, NULL);
}

/* What is no node gives the bit of none, which is refused. */
static uint32_t node_bits(const struct agt_ask *ask)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < ask->interrupt_count; i++)
        bits |= agt_node_bit((int)ask->interrupts[i]);
    return bits;
}

int agt_exchange_start_run(struct rpc_call *call, const struct agt_ask *ask,
                           struct agt_run **ret_run, struct rpc_status *ret_status)
{
    const struct agt_service *service = rpc_call_context(call);
    CR_AUTO_FREE uint8_t *limits = NULL;
    CR_AUTO_FREE uint8_t *terms = NULL;
    struct agt_run_spec spec = {
        .task = ask->task,
        .max_iterations = ask->max_iterations,
        .verify = ask->verify,
        .model = ask->model,
        .interrupts = node_bits(ask),
        .is_waited_for = !ask->is_stream,
    };

    if ((ask->limits && rpc_pack(&ask->limits->base, &limits, &spec.sandbox_limits_size) < 0) ||
        (ask->terms && rpc_pack(&ask->terms->base, &terms, &spec.terms_size) < 0)) {
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return -ENOMEM;
    }
    spec.sandbox_limits = limits;
    spec.terms = terms;
    return agt_runs_start(service->runs, rpc_call_peer(call)->caller, ask->key, &spec, ret_run,
                          ret_status);
}

/* NULL when memory is gone; then the call has been answered. */
static struct exchange *new_exchange(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange) {
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        rpc_call_finish(call, &status, NULL);
        return NULL;
    }
    rpc_call_set_user(call, exchange); /* agt_exchange_free() has it from here on */
    return exchange;
}

static void follow(struct rpc_call *call, uint32_t from_seq)
{
    struct exchange *exchange = rpc_call_user(call);

    if (agt_watch_new(exchange->run, from_seq, on_notify, call, &exchange->watch) < 0) {
        answer_error(call, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return;
    }
    if (!exchange->is_stream && !exchange->is_submit)
        agt_watch_only_last(exchange->watch);
    (void)rpc_call_ref(call);
    agt_exchange_pump(call);
}

void agt_exchange_start(struct rpc_call *call, const struct agt_ask *ask)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct exchange *exchange = new_exchange(call);

    if (!exchange)
        return;
    exchange->is_stream = ask->is_stream;
    if (agt_runs_check_disconnect(ask->on_disconnect, false, &exchange->is_owner, &status) < 0 ||
        agt_exchange_start_run(call, ask, &exchange->run, &status) < 0)
        rpc_call_finish(call, &status, NULL);
    else
        follow(call, 0);
}

/* A call that leaves the run alone. */
static void attend(struct rpc_call *call, struct agt_run *take_run, bool is_submit,
                   uint32_t from_seq)
{
    struct exchange *exchange = new_exchange(call);

    if (!exchange) {
        (void)agt_run_unref(take_run);
        return;
    }
    exchange->run = take_run;
    exchange->is_submit = is_submit;
    exchange->is_stream = !is_submit;
    follow(call, from_seq);
}

void agt_exchange_submit(struct rpc_call *call, struct agt_run *take_run)
{
    attend(call, take_run, true, 0);
}

void agt_exchange_watch(struct rpc_call *call, struct agt_run *take_run, uint32_t from_seq)
{
    attend(call, take_run, false, from_seq);
}

/* The store's thread. */
static void on_stored(void *user, int error)
{
    struct rpc_call *call = user;
    struct exchange *exchange = rpc_call_user(call);

    exchange->stored_error = error;
    atomic_store(&exchange->is_stored, true);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

/* The store's thread. */
static void on_hinted(void *user, const char *run_id, const struct rpc_status *status)
{
    const struct exchange *exchange = rpc_call_user(user);

    if (run_id)
        (void)memccpy(exchange->hinted->run_id, run_id, '\0', sizeof(exchange->hinted->run_id) - 1);
    else
        exchange->hinted->status = *status;
    on_stored(user, 0);
}

/* From here on it is the new run. False when the call has been answered instead. */
static bool turn_to_hinted(struct rpc_call *call)
{
    const struct agt_service *service = rpc_call_context(call);
    struct exchange *exchange = rpc_call_user(call);
    struct hinted *hinted = exchange->hinted;
    struct agt_run *run = NULL;

    if (!hinted)
        return true;
    if (hinted->run_id[0])
        run = agt_runs_find(service->runs, rpc_call_peer(call)->caller, hinted->run_id,
                            &hinted->status);
    if (!run) {
        rpc_call_finish(call, &hinted->status, NULL);
        return false;
    }
    (void)agt_run_unref(exchange->run);
    exchange->run = run;
    return true;
}

static void follow_resumed(struct rpc_call *call)
{
    const struct exchange *exchange = rpc_call_user(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (rpc_call_is_cancelled(call) || !turn_to_hinted(call))
        return;
    if (exchange->stored_error == 0) {
        follow(call, exchange->resumed_seq + 1);
        return;
    }
    agt_runs_stored_status(exchange->stored_error, &status);
    rpc_call_finish(call, &status, NULL);
}

void agt_exchange_resume(struct rpc_call *call, struct agt_run *take_run,
                         const struct agt_edits *edits)
{
    const struct agt_service *service = rpc_call_context(call);
    struct exchange *exchange = new_exchange(call);
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!exchange) {
        (void)agt_run_unref(take_run);
        return;
    }
    exchange->run = take_run;
    exchange->is_stream = true;
    (void)rpc_call_ref(call);
    r = agt_runs_resume(service->runs, take_run, edits, &exchange->resumed_seq, on_stored, call,
                        &status);
    if (r > 0)
        return;
    if (r == 0)
        follow(call, exchange->resumed_seq + 1);
    else
        rpc_call_finish(call, &status, NULL);
    (void)rpc_call_unref(call);
}

void agt_exchange_resume_hinted(struct rpc_call *call, struct agt_run *take_run, const char *hint)
{
    const struct agt_service *service = rpc_call_context(call);
    struct exchange *exchange = new_exchange(call);
    struct agt_runs_fork from = {.run_id = agt_run_id(take_run), .hint = hint};
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!exchange) {
        (void)agt_run_unref(take_run);
        return;
    }
    exchange->run = take_run;
    exchange->is_stream = true;
    exchange->hinted = calloc(1, sizeof(*exchange->hinted));
    if (!exchange->hinted) {
        answer_error(call, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return;
    }
    r = agt_run_check_hint(take_run, hint, &from.seq, &status);
    exchange->resumed_seq = from.seq;
    (void)rpc_call_ref(call);
    if (r == 0)
        r = agt_runs_fork(service->runs, rpc_call_peer(call)->caller, &from, on_hinted, call,
                          &status);
    if (r == 0)
        return;
    rpc_call_finish(call, &status, NULL);
    (void)rpc_call_unref(call);
}

static size_t put_varint(uint8_t *at, uint32_t value)
{
    size_t size = 0;

    for (; value >= 0x80; value >>= 7)
        at[size++] = (uint8_t)(value | 0x80);
    at[size++] = (uint8_t)value;
    return size;
}

/*
 * GenerateStreamResponse and WatchRunResponse are one field, number 1, with
 * the event: their packed form is that of the event behind a header, so
 * nothing is unpacked.
 */
static bool send_event(struct rpc_call *call, const struct agt_event *event, bool has_more)
{
    uint8_t header[HEADER_MAX] = {1 << 3 | 2}; /* field 1, length-delimited */
    size_t size = 1 + put_varint(header + 1, event->size);

    return rpc_call_send_pieces(call, header, size, event->packed, event->size, has_more);
}

static void answer_result(struct rpc_call *call, const struct agt_event *last)
{
    Crisol__Agent__V1__GenerateResponse response = CRISOL__AGENT__V1__GENERATE_RESPONSE__INIT;
    Crisol__Agent__V1__RunEvent *event =
        crisol__agent__v1__run_event__unpack(NULL, last->size, last->packed);

    if (!event) {
        answer_error(call, RPC_RESOURCE_EXHAUSTED, "no memory for the result of the run");
        return;
    }
    response.result = event->result;
    answer(call, NULL, &response.base);
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
}

static void answer_submitted(struct rpc_call *call, const char *run_id)
{
    Crisol__Agent__V1__SubmitRunResponse response = CRISOL__AGENT__V1__SUBMIT_RUN_RESPONSE__INIT;

    response.run_id = cr_unconst(run_id);
    answer(call, NULL, &response.base);
}

/* Handles one event; `has_more`: the next one is there. False when the call has been answered. */
static bool pass_on(struct rpc_call *call, const struct agt_event *event, bool has_more)
{
    const struct exchange *exchange = rpc_call_user(call);

    if (exchange->is_submit) {
        answer_submitted(call, agt_run_id(exchange->run));
        return false;
    }
    if (!exchange->is_stream) {
        if (event->is_last)
            answer_result(call, event);
        return !event->is_last;
    }
    if (!send_event(call, event, has_more || event->is_last)) {
        answer_error(call, RPC_RESOURCE_EXHAUSTED, "no memory for an event of the run");
        return false;
    }
    if (event->is_last)
        answer(call, NULL, NULL); /* follows the event that is on its way */
    return !event->is_last;
}

/* Nothing more will come. */
static void answer_end(struct rpc_call *call)
{
    const struct exchange *exchange = rpc_call_user(call);
    struct agt_event *last = agt_run_last_event(exchange->run);
    bool is_same = false;
    const char *twin = exchange->is_submit ? agt_run_twin(exchange->run, &is_same) : NULL;

    if (twin && is_same)
        answer_submitted(call, twin);
    else if (twin)
        answer_error(call, RPC_ALREADY_EXISTS, AGT_RUNS_KEY_TAKEN);
    else if (last) /* the reader asked for what is behind the result: that is nothing */
        answer(call, NULL, NULL);
    else if (agt_run_is_left(exchange->run))
        answer_error(call, RPC_UNAVAILABLE, AGT_RUNS_LEFT);
    else
        answer_error(call, RPC_INTERNAL, "the run ended without a result");
    (void)agt_event_unref(last);
}

/* The next event, as agt_watch_next(). */
static int next_event(struct exchange *exchange, struct agt_event **ret_event)
{
    if (!exchange->ahead)
        return agt_watch_next(exchange->watch, ret_event);
    *ret_event = exchange->ahead;
    exchange->ahead = NULL;
    return 1;
}

/* True when another one follows at once: then it is read, and core may write both together. */
static bool read_ahead(struct exchange *exchange, const struct agt_event *event)
{
    return exchange->is_stream && !event->is_last &&
           agt_watch_next(exchange->watch, &exchange->ahead) == 1;
}

void agt_exchange_pump(struct rpc_call *call)
{
    struct exchange *exchange = rpc_call_user(call);
    bool goes_on;

    if (exchange && atomic_exchange(&exchange->is_stored, false))
        follow_resumed(call); /* comes back here */
    goes_on = exchange && exchange->watch;
    while (goes_on && rpc_call_can_send(call)) {
        struct agt_event *event = NULL;
        int r = next_event(exchange, &event);

        if (r == 0)
            return; /* on_notify() will wake the call */
        if (r < 0) {
            answer_end(call);
            return;
        }
        goes_on = pass_on(call, event, read_ahead(exchange, event));
        (void)agt_event_unref(event);
    }
}

void agt_exchange_cancel(struct rpc_call *call)
{
    struct exchange *exchange = rpc_call_user(call);

    if (!exchange || !exchange->run)
        return;
    if (exchange->is_owner)
        agt_run_cancel(exchange->run);
    if (exchange->watch) {
        exchange->watch = agt_watch_free(exchange->watch);
        (void)rpc_call_unref(call);
    }
}

void agt_exchange_free(struct rpc_call *call)
{
    struct exchange *exchange = rpc_call_user(call);

    if (!exchange)
        return;
    (void)agt_event_unref(exchange->ahead);
    (void)agt_run_unref(exchange->run);
    free(exchange->hinted);
    free(exchange);
    rpc_call_set_user(call, NULL);
}
