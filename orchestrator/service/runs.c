/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/runs.h"

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/runs/view.h"
#include "orchestrator/service/agent.h"
#include "orchestrator/service/exchange.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <stdatomic.h>
#include <stdlib.h>

static void out_of_memory(struct rpc_call *call)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    rpc_call_finish(call, &status, NULL);
}

/* A reference to the caller's run; NULL when the call has been answered instead. */
static struct agt_run *find(struct rpc_call *call, const char *run_id)
{
    const struct agt_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run =
        agt_runs_find(service->runs, rpc_call_peer(call)->caller, run_id, &status);

    if (!run)
        rpc_call_finish(call, &status, NULL);
    return run; // cppcheck-suppress returnDanglingLifetime ; it is no part of the status
}

void agt_service_submit_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__SubmitRunRequest *request = (const void *)message;
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;
    struct agt_ask ask = {.key = request->idempotency_key};
    bool cancels = false;

    if (!request->request) {
        rpc_status_add_violation(&status, "request", "is missing: say what to build in its task");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    ask.task = request->request->task;
    ask.max_iterations = request->request->max_iterations;
    ask.verify = (int)request->request->verify;
    ask.model = request->request->model;
    ask.limits = request->request->sandbox_limits;
    ask.terms = request->request->terms;
    ask.interrupts = request->request->interrupt_after;
    ask.interrupt_count = request->request->n_interrupt_after;
    ask.is_stream = true; /* whoever submits can watch */
    if (agt_runs_check_disconnect((int)request->request->on_disconnect, true, &cancels, &status) <
            0 ||
        agt_exchange_start_run(call, &ask, &run, &status) < 0) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    agt_exchange_submit(call, run);
}

void agt_service_get_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__GetRunRequest *request = (const void *)message;
    Crisol__Agent__V1__GetRunResponse response = CRISOL__AGENT__V1__GET_RUN_RESPONSE__INIT;
    struct agt_run *run = find(call, request->run_id);

    if (!run)
        return;
    response.result = agt_view_result(run);
    if (response.result)
        rpc_call_finish(call, NULL, &response.base);
    else
        out_of_memory(call);
    crisol__agent__v1__run_result__free_unpacked(response.result, NULL);
    (void)agt_run_unref(run);
}

void agt_service_list_runs(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ListRunsRequest *request = (const void *)message;
    const struct agt_service *service = rpc_call_context(call);
    Crisol__Agent__V1__ListRunsResponse response = CRISOL__AGENT__V1__LIST_RUNS_RESPONSE__INIT;
    Crisol__Agent__V1__RunResult *results[AGT_RUNS_PAGE_MAX];
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_runs_page page;

    if (agt_runs_list(service->runs, rpc_call_peer(call)->caller, request->page_size,
                      request->page_token, &page, &status) < 0) {
        rpc_call_finish(call, &status, NULL);
        return;
    }
    response.runs = results;
    response.next_page_token = page.next_token;
    while (response.n_runs < page.count) {
        results[response.n_runs] = agt_view_result(page.runs[response.n_runs]);
        if (!results[response.n_runs])
            break;
        agt_view_shorten(results[response.n_runs++]);
    }
    if (response.n_runs == page.count)
        rpc_call_finish(call, NULL, &response.base);
    else
        out_of_memory(call);
    for (size_t i = 0; i < response.n_runs; i++)
        crisol__agent__v1__run_result__free_unpacked(results[i], NULL);
    agt_runs_page_done(&page);
}

void agt_service_watch_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__WatchRunRequest *request = (const void *)message;
    struct agt_run *run = find(call, request->run_id);

    if (run)
        agt_exchange_watch(call, run, request->from_seq);
}

/* ---- cancelling: may wait for the store ---- */

struct cancelling {
    bool is_found;
    int error; /* written by the store's thread before is_stored */
    atomic_bool is_stored;
};

/* The store's thread. */
static void on_cancel_stored(void *user, int error)
{
    struct rpc_call *call = user;
    struct cancelling *cancelling = rpc_call_user(call);

    cancelling->error = error;
    atomic_store(&cancelling->is_stored, true);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
}

static void answer_cancel(struct rpc_call *call, bool is_found)
{
    Crisol__Agent__V1__CancelRunResponse response = CRISOL__AGENT__V1__CANCEL_RUN_RESPONSE__INIT;

    response.found = is_found;
    rpc_call_finish(call, NULL, &response.base);
}

void agt_service_cancel_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__CancelRunRequest *request = (const void *)message;
    const struct agt_service *service = rpc_call_context(call);
    struct agt_run *run = find(call, request->run_id);
    struct cancelling *cancelling = run ? calloc(1, sizeof(*cancelling)) : NULL;
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (run && !cancelling)
        out_of_memory(call);
    if (cancelling) {
        cancelling->is_found = !agt_run_has_ended(run);
        rpc_call_set_user(call, cancelling); /* agt_service_cancel_free() has it from here on */
        (void)rpc_call_ref(call);
        r = agt_runs_cancel(service->runs, run, on_cancel_stored, call, &status);
        if (r < 0)
            rpc_call_finish(call, &status, NULL);
        else if (r == 0)
            answer_cancel(call, cancelling->is_found);
        if (r <= 0)
            (void)rpc_call_unref(call);
    }
    (void)agt_run_unref(run);
}

void agt_service_cancel_answer(struct rpc_call *call)
{
    const struct cancelling *cancelling = rpc_call_user(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (!cancelling || !atomic_load(&cancelling->is_stored))
        return;
    if (cancelling->error == 0) {
        answer_cancel(call, cancelling->is_found);
        return;
    }
    agt_runs_stored_status(cancelling->error, &status);
    rpc_call_finish(call, &status, NULL);
}

void agt_service_cancel_free(struct rpc_call *call)
{
    free(rpc_call_user(call));
    rpc_call_set_user(call, NULL);
}

void agt_service_resume_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__ResumeRunRequest *request = (const void *)message;
    struct agt_run *run = find(call, request->run_id);
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_edits edits = {.plan = request->plan, .file_count = request->n_files};

    if (!run)
        return;
    if (request->n_files > AGT_EDIT_FILES_MAX)
        rpc_status_add_violation(&status, "files", "has more than %d", AGT_EDIT_FILES_MAX);
    if (request->hint[0] && (request->plan[0] || request->n_files > 0))
        rpc_status_add_violation(&status, "hint", AGT_RUNS_HINT_ALONE);
    if (status.code != RPC_OK) {
        rpc_call_finish(call, &status, NULL);
        (void)agt_run_unref(run);
        return;
    }
    if (request->hint[0]) {
        agt_exchange_resume_hinted(call, run, request->hint);
        return;
    }
    for (size_t i = 0; i < request->n_files; i++) {
        edits.files[i].path = request->files[i]->path;
        edits.files[i].text = request->files[i]->text;
    }
    agt_exchange_resume(call, run, &edits);
}

void agt_service_delete_run(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__DeleteRunRequest *request = (const void *)message;
    const Crisol__Agent__V1__DeleteRunResponse response =
        CRISOL__AGENT__V1__DELETE_RUN_RESPONSE__INIT;
    const struct agt_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (agt_runs_delete(service->runs, rpc_call_peer(call)->caller, request->run_id, &status) < 0)
        rpc_call_finish(call, &status, NULL);
    else
        rpc_call_finish(call, NULL, &response.base);
}

static void answer_graph(void *user, const Crisol__Agent__V1__DescribeGraphResponse *response)
{
    rpc_call_finish(user, NULL, &response->base);
}

void agt_service_describe_graph(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__DescribeGraphRequest *request = (const void *)message;
    struct agt_run *run = NULL;

    if (request->run_id[0] != '\0') {
        run = find(call, request->run_id);
        if (!run)
            return;
    }
    if (agt_view_graph(run, answer_graph, call) < 0)
        out_of_memory(call);
    (void)agt_run_unref(run);
}
