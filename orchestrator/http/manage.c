/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_start.h"
#include "orchestrator/runs/runs.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void agt_run_refuse(struct agt_exchange *exchange, const struct rpc_status *status)
{
    struct agt_problem problem;

    if (status->code == RPC_FAILED_PRECONDITION)
        agt_problem_set(&problem, 409, status->code, "%s", status->message);
    else
        agt_problem_from_status(&problem, status);
    agt_exchange_fail(exchange, &problem);
}

/* The body as a message; "" is one without members. NULL when the exchange was answered instead. */
static void *read_body(struct agt_exchange *exchange, const ProtobufCMessageDescriptor *descriptor)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct agt_problem problem;
    bool is_empty = exchange->body.size == 0;

    if (rpc_json_read(descriptor, is_empty ? "{}" : cr_buf_str(&exchange->body),
                      is_empty ? 2 : exchange->body.size, &message, &status) == 0)
        return message;
    agt_problem_from_status(&problem, &status);
    problem.place = "body";
    agt_exchange_fail(exchange, &problem);
    return NULL;
}

static void answer(struct agt_exchange *exchange, int written, int http_status)
{
    if (written < 0)
        agt_exchange_fail_internal(exchange, "write the answer", written);
    else
        agt_exchange_answer(exchange, http_status);
}

/* ---- cancelling and taking up: may wait for the store ---- */

struct asked {
    bool is_found;   /* of a cancel */
    char run_id[33]; /* of a resume; "": it is a cancel */
    uint32_t seq;    /* likewise: the interrupt */
    int error;       /* written by the store's thread before is_stored */
    atomic_bool is_stored;
    struct agt_watch *watch; /* of a run that goes on here, behind the interrupt; NULL: none */
};

static void on_notify(void *user)
{
    agt_exchange_wake(user);
}

/* The store's thread. */
static void on_stored(void *user, int error)
{
    struct agt_exchange *exchange = user;
    struct asked *asked = exchange->user;

    asked->error = error;
    atomic_store(&asked->is_stored, true);
    agt_exchange_wake(exchange);
    (void)agt_exchange_unref(exchange);
}

static void answer_asked(struct agt_exchange *exchange)
{
    const struct asked *asked = exchange->user;
    int r;

    if (asked->run_id[0])
        r = cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\",\"seq\":%u}", asked->run_id,
                          asked->seq);
    else
        r = cr_buf_printf(&exchange->out, "{\"found\":%s}", asked->is_found ? "true" : "false");
    answer(exchange, r, MHD_HTTP_OK);
}

/* What becomes readable is durable. */
static bool has_gone_on(struct asked *asked)
{
    struct agt_event *event = NULL;
    int r = asked->watch ? agt_watch_next(asked->watch, &event) : 0;

    (void)agt_event_unref(event);
    if (r < 0)
        asked->error = r;
    return r != 0;
}

static void answer_stored(struct agt_exchange *exchange)
{
    struct asked *asked = exchange->user;
    struct rpc_status status = RPC_STATUS_INIT;

    if (exchange->http_status != 0 || (!atomic_load(&asked->is_stored) && !has_gone_on(asked)))
        return;
    if (asked->error == 0) {
        answer_asked(exchange);
        return;
    }
    agt_runs_stored_status(asked->error, &status);
    agt_run_refuse(exchange, &status);
}

/* The client is gone: what was asked for is done all the same. */
static void leave_asked(struct agt_exchange *exchange)
{
    struct asked *asked = exchange->user;

    asked->watch = agt_watch_free(asked->watch);
}

static const struct agt_operation asked_operation = {
    .on_wake = answer_stored,
    .stop = leave_asked,
    .free = free,
};

/* NULL when the exchange was answered instead. */
static struct asked *begin_asking(struct agt_exchange *exchange)
{
    struct asked *asked = calloc(1, sizeof(*asked));

    if (!asked) {
        agt_exchange_fail_internal(exchange, "keep what is asked of the run", -ENOMEM);
        return NULL;
    }
    exchange->user = asked;
    exchange->operation = &asked_operation;
    agt_exchange_await_store(exchange);
    return asked;
}

void agt_handle_run_cancel(struct agt_exchange *exchange)
{
    struct agt_run *run = agt_run_find_by_path(exchange);
    struct asked *asked = run ? begin_asking(exchange) : NULL;
    struct rpc_status status = RPC_STATUS_INIT;
    int r = 1;

    if (asked) {
        asked->is_found = !agt_run_has_ended(run);
        (void)agt_exchange_ref(exchange);
        r = agt_runs_cancel(exchange->http->options.runs, run, on_stored, exchange, &status);
    }
    if (r < 0)
        agt_run_refuse(exchange, &status);
    else if (r == 0)
        answer_asked(exchange);
    if (r <= 0)
        (void)agt_exchange_unref(exchange);
    (void)agt_run_unref(run);
}

static int resume(struct agt_exchange *exchange, struct agt_run *run,
                  const Crisol__Agent__V1__ResumeRunRequest *request, struct rpc_status *status)
{
    struct agt_edits edits = {.plan = request->plan, .file_count = request->n_files};
    struct asked *asked = exchange->user;
    int r;

    if (request->n_files > AGT_EDIT_FILES_MAX) {
        rpc_status_add_violation(status, "files", "has more than %d", AGT_EDIT_FILES_MAX);
        return -EINVAL;
    }
    for (size_t i = 0; i < request->n_files; i++) {
        edits.files[i].path = request->files[i]->path;
        edits.files[i].text = request->files[i]->text;
    }
    (void)memccpy(asked->run_id, agt_run_id(run), '\0', sizeof(asked->run_id) - 1);
    r = agt_runs_resume(exchange->http->options.runs, run, &edits, &asked->seq, on_stored, exchange,
                        status);
    if (r == 0)
        r = agt_watch_new(run, asked->seq + 1, on_notify, exchange, &asked->watch);
    if (r == -ENOMEM)
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    return r;
}

/* ---- forking: waits for the store ---- */

struct fork {
    uint32_t resumed_seq; /* of a run that goes on with a hint: the last event of the one before; 0:
                             it is a fork */
    char run_id[33];      /* written by the store's thread before is_there */
    struct rpc_status status;
    atomic_bool is_there;
};

/* The store's thread. */
static void on_forked(void *user, const char *run_id, const struct rpc_status *status)
{
    struct agt_exchange *exchange = user;
    struct fork *fork = exchange->user;

    if (run_id)
        (void)memccpy(fork->run_id, run_id, '\0', sizeof(fork->run_id) - 1);
    else
        fork->status = *status;
    atomic_store(&fork->is_there, true);
    agt_exchange_wake(exchange);
    (void)agt_exchange_unref(exchange);
}

static void answer_fork(struct agt_exchange *exchange)
{
    const struct fork *fork = exchange->user;

    if (exchange->http_status != 0 || !atomic_load(&fork->is_there))
        return;
    if (!fork->run_id[0])
        agt_run_refuse(exchange, &fork->status);
    else if (fork->resumed_seq > 0)
        answer(exchange,
               cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\",\"seq\":%u}", fork->run_id,
                             fork->resumed_seq),
               MHD_HTTP_OK);
    else
        answer(exchange, cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\"}", fork->run_id),
               MHD_HTTP_ACCEPTED);
}

static void leave_fork(struct agt_exchange *exchange)
{
    (void)exchange; /* the new run is there all the same, in the list of runs */
}

static const struct agt_operation fork_operation = {
    .on_wake = answer_fork,
    .stop = leave_fork,
    .free = free,
};

/* The run that `from` is of may have a hint, whose resumed_seq is in the answer. */
static void begin_fork(struct agt_exchange *exchange, const struct agt_runs_fork *from)
{
    struct fork *fork = calloc(1, sizeof(*fork));
    struct rpc_status status = RPC_STATUS_INIT;

    if (!fork) {
        agt_exchange_fail_internal(exchange, "fork the run", -ENOMEM);
        return;
    }
    fork->resumed_seq = from->hint ? from->seq : 0;
    exchange->user = fork;
    exchange->operation = &fork_operation;
    agt_exchange_await_store(exchange);
    (void)agt_exchange_ref(exchange);
    if (agt_runs_fork(exchange->http->options.runs, exchange->caller, from, on_forked, exchange,
                      &status) < 0) {
        agt_run_refuse(exchange, &status);
        (void)agt_exchange_unref(exchange);
    }
}

void agt_handle_run_fork(struct agt_exchange *exchange)
{
    Crisol__Agent__V1__ForkRunRequest *request =
        read_body(exchange, &crisol__agent__v1__fork_run_request__descriptor);
    struct agt_run *run = request ? agt_run_find_by_path(exchange) : NULL;

    if (run) {
        const struct agt_runs_fork from = {.run_id = agt_run_id(run), .seq = request->seq};

        begin_fork(exchange, &from);
    }
    (void)agt_run_unref(run);
    crisol__agent__v1__fork_run_request__free_unpacked(request, NULL);
}

/* ---- taking up ---- */

/* A run that waits, as it is or with what takes the place of its own. */
static void resume_interrupted(struct agt_exchange *exchange, struct agt_run *run,
                               const Crisol__Agent__V1__ResumeRunRequest *request)
{
    struct asked *asked = begin_asking(exchange);
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!asked)
        return;
    (void)agt_exchange_ref(exchange);
    r = resume(exchange, run, request, &status);
    if (r < 0)
        agt_run_refuse(exchange, &status);
    else if (r == 0)
        answer_stored(exchange); /* or later */
    if (r <= 0)
        (void)agt_exchange_unref(exchange);
}

/* One that ended STALLED. */
static void resume_stalled(struct agt_exchange *exchange, struct agt_run *run,
                           const Crisol__Agent__V1__ResumeRunRequest *request)
{
    struct agt_runs_fork from = {.run_id = agt_run_id(run), .hint = request->hint};
    struct rpc_status status = RPC_STATUS_INIT;

    if (request->plan[0] || request->n_files > 0)
        rpc_status_add_violation(&status, "hint", AGT_RUNS_HINT_ALONE);
    if (status.code == RPC_OK && agt_run_check_hint(run, request->hint, &from.seq, &status) == 0)
        begin_fork(exchange, &from);
    else
        agt_run_refuse(exchange, &status);
}

void agt_handle_run_resume(struct agt_exchange *exchange)
{
    Crisol__Agent__V1__ResumeRunRequest *request =
        read_body(exchange, &crisol__agent__v1__resume_run_request__descriptor);
    struct agt_run *run = request ? agt_run_find_by_path(exchange) : NULL;

    if (run && request->hint[0])
        resume_stalled(exchange, run, request);
    else if (run)
        resume_interrupted(exchange, run, request);
    crisol__agent__v1__resume_run_request__free_unpacked(request, NULL);
    (void)agt_run_unref(run);
}

/* ---- deleting ---- */

void agt_handle_run_forget(struct agt_exchange *exchange)
{
    ProtobufCMessage *request =
        read_body(exchange, &crisol__agent__v1__delete_run_request__descriptor);
    struct agt_run *run = request ? agt_run_find_by_path(exchange) : NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    if (request)
        protobuf_c_message_free_unpacked(request, NULL);
    if (!run)
        return;
    if (agt_runs_delete(exchange->http->options.runs, exchange->caller, agt_run_id(run), &status) <
        0)
        agt_run_refuse(exchange, &status);
    else
        answer(exchange, cr_buf_add_str(&exchange->out, "{}"), MHD_HTTP_OK);
    (void)agt_run_unref(run);
}
