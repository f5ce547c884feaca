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
    bool is_empty = exchange->body.size == 0;

    if (rpc_json_read(descriptor, is_empty ? "{}" : cr_buf_str(&exchange->body),
                      is_empty ? 2 : exchange->body.size, &message, &status) == 0)
        return message;
    agt_run_refuse(exchange, &status);
    return NULL;
}

static void answer(struct agt_exchange *exchange, int written, int http_status)
{
    if (written < 0)
        agt_exchange_fail_internal(exchange, "write the answer", written);
    else
        agt_exchange_answer(exchange, http_status);
}

/* ---- taking up ---- */

static int resume(struct agt_runs *runs, struct agt_run *run,
                  const Crisol__Agent__V1__ResumeRunRequest *request, uint32_t *ret_seq,
                  struct rpc_status *status)
{
    struct agt_edits edits = {.plan = request->plan, .file_count = request->n_files};

    if (request->n_files > AGT_EDIT_FILES_MAX) {
        rpc_status_add_violation(status, "files", "has more than %d", AGT_EDIT_FILES_MAX);
        return -EINVAL;
    }
    for (size_t i = 0; i < request->n_files; i++) {
        edits.files[i].path = request->files[i]->path;
        edits.files[i].text = request->files[i]->text;
    }
    return agt_runs_resume(runs, run, &edits, ret_seq, status);
}

void agt_handle_run_resume(struct agt_exchange *exchange)
{
    Crisol__Agent__V1__ResumeRunRequest *request;
    struct agt_run *run = agt_run_find_by_path(exchange);
    struct rpc_status status = RPC_STATUS_INIT;
    uint32_t seq = 0;

    if (!run)
        return;
    request = read_body(exchange, &crisol__agent__v1__resume_run_request__descriptor);
    if (request && resume(exchange->http->options.runs, run, request, &seq, &status) < 0)
        agt_run_refuse(exchange, &status);
    else if (request)
        answer(
            exchange,
            cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\",\"seq\":%u}", agt_run_id(run), seq),
            MHD_HTTP_OK);
    crisol__agent__v1__resume_run_request__free_unpacked(request, NULL);
    (void)agt_run_unref(run);
}

/* ---- forking: waits for the store ---- */

struct fork {
    char run_id[33]; /* written by the store's thread before is_there */
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
    if (fork->run_id[0])
        answer(exchange, cr_buf_printf(&exchange->out, "{\"run_id\":\"%s\"}", fork->run_id),
               MHD_HTTP_ACCEPTED);
    else
        agt_run_refuse(exchange, &fork->status);
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

void agt_handle_run_fork(struct agt_exchange *exchange)
{
    Crisol__Agent__V1__ForkRunRequest *request =
        read_body(exchange, &crisol__agent__v1__fork_run_request__descriptor);
    struct agt_run *run = request ? agt_run_find_by_path(exchange) : NULL;
    struct fork *fork = run ? calloc(1, sizeof(*fork)) : NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    if (run && !fork)
        agt_exchange_fail_internal(exchange, "fork the run", -ENOMEM);
    if (fork) {
        exchange->user = fork;
        exchange->operation = &fork_operation;
        (void)agt_exchange_ref(exchange);
        if (agt_runs_fork(exchange->http->options.runs, exchange->caller, agt_run_id(run),
                          request->seq, on_forked, exchange, &status) < 0) {
            agt_run_refuse(exchange, &status);
            (void)agt_exchange_unref(exchange);
        }
    }
    (void)agt_run_unref(run);
    crisol__agent__v1__fork_run_request__free_unpacked(request, NULL);
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
