/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/runs/private.h"
#include "rpc/callers.h"
#include "rpc/status.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID_SIZE 32

static void refuse_unknown(struct rpc_status *status)
{
    rpc_status_set(status, RPC_NOT_FOUND,
                   "run_id: you have no run of this id, or it was forgotten after its end");
}

struct agt_run *agt_runs_find(struct agt_runs *runs, const char *caller, const char *run_id,
                              struct rpc_status *ret_status)
{
    struct agt_run *run = NULL;
    const struct agt_runs_entry *entry;
    bool is_known;

    if (strlen(run_id) != RUN_ID_SIZE || strspn(run_id, "0123456789abcdef") != RUN_ID_SIZE) {
        rpc_status_add_violation(ret_status, "run_id",
                                 "must be the 32 hexadecimal digits of a run");
        return NULL;
    }
    (void)pthread_mutex_lock(&runs->lock);
    entry = agt_runs_find_entry(runs, run_id);
    is_known = entry && strcmp(entry->caller, caller) == 0;
    if (is_known && !agt_run_is_left(entry->run))
        run = agt_run_ref(entry->run);
    (void)pthread_mutex_unlock(&runs->lock);
    if (is_known && !run) {
        rpc_status_set(ret_status, RPC_UNAVAILABLE, "run_id: " AGT_RUNS_LEFT);
        ret_status->retry_after_ms = 1000;
    } else if (!run) {
        refuse_unknown(ret_status);
    }
    return run;
}

int agt_runs_export(struct agt_runs *runs, const char *caller, const char *run_id,
                    void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                    void *user, struct rpc_status *ret_status)
{
    struct agt_run *run = agt_runs_find(runs, caller, run_id, ret_status);
    int r;

    if (!run)
        return -ENOENT;
    if (runs->options.store) {
        r = rpc_callers_enter(runs->exports, caller, "exports", cr_clock_mono_ns(), ret_status);
        if (r == 0 && agt_run_export(runs->options.store, run, on_done, user) < 0) {
            agt_runs_export_done(runs, caller);
            r = agt_runs_out_of_memory(ret_status);
        }
    } else {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "the service keeps no journal of runs; its operator has to name a store");
        r = -ENOENT;
    }
    (void)agt_run_unref(run);
    return r;
}

void agt_runs_export_done(struct agt_runs *runs, const char *caller)
{
    rpc_callers_leave(runs->exports, caller);
}

int agt_runs_list_models(struct agt_runs *runs,
                         void (*on_models)(void *user, const struct rpc_status *status,
                                           const char *const *names, size_t count),
                         void *user, struct rpc_status *ret_status)
{
    return agt_engine_list_models(runs->options.engine, on_models, user, ret_status);
}

void agt_runs_export_status(int error, struct rpc_status *ret_status)
{
    if (error == -ENOMEM)
        (void)agt_runs_out_of_memory(ret_status);
    else if (error == -EFBIG)
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "the run is too large to be given out");
    else if (error == -ENOENT)
        refuse_unknown(ret_status);
    else
        rpc_status_set(ret_status, RPC_UNAVAILABLE, "the journal cannot be read now; try again");
}

int agt_runs_check_disconnect(int on_disconnect, bool is_submit, bool *ret_cancels,
                              struct rpc_status *ret_status)
{
    switch (on_disconnect) {
    case CRISOL__AGENT__V1__ON_DISCONNECT__ON_DISCONNECT_UNSPECIFIED:
        *ret_cancels = !is_submit;
        return 0;
    case CRISOL__AGENT__V1__ON_DISCONNECT__ON_DISCONNECT_CONTINUE:
        *ret_cancels = false;
        return 0;
    case CRISOL__AGENT__V1__ON_DISCONNECT__ON_DISCONNECT_CANCEL:
        if (!is_submit) {
            *ret_cancels = true;
            return 0;
        }
        rpc_status_add_violation(ret_status, "on_disconnect",
                                 "cannot be CANCEL: nobody waits for a run that is submitted");
        return -EINVAL;
    default:
        rpc_status_add_violation(ret_status, "on_disconnect",
                                 "is %d; allowed are CANCEL and "
                                 "CONTINUE",
                                 on_disconnect);
        return -EINVAL;
    }
}

/* 0 for "": everything is older than nothing. */
static int parse_token(const char *token, uint64_t *ret_number)
{
    char *end = NULL;

    *ret_number = UINT64_MAX;
    if (token[0] == '\0')
        return 0;
    if (strspn(token, "0123456789") != strlen(token) || strlen(token) > 19)
        return -EINVAL;
    *ret_number = strtoull(token, &end, 10);
    return 0;
}

int agt_runs_list(struct agt_runs *runs, const char *caller, uint32_t page_size,
                  const char *page_token, struct agt_runs_page *ret_page,
                  struct rpc_status *ret_status)
{
    uint64_t before = 0;
    uint64_t last = 0;

    ret_page->count = 0;
    ret_page->next_token[0] = '\0';
    if (parse_token(page_token, &before) < 0)
        rpc_status_add_violation(ret_status, "page_token",
                                 "must be empty or the next_page_token of an answer");
    if (page_size > AGT_RUNS_PAGE_MAX)
        rpc_status_add_violation(ret_status, "page_size", "must be at most %d", AGT_RUNS_PAGE_MAX);
    if (ret_status->code != RPC_OK)
        return -EINVAL;
    if (page_size == 0)
        page_size = AGT_RUNS_PAGE_MAX;
    (void)pthread_mutex_lock(&runs->lock);
    for (const struct agt_runs_entry *entry = runs->newest; entry; entry = entry->older) {
        if (entry->number >= before || strcmp(entry->caller, caller) != 0 ||
            agt_run_is_left(entry->run))
            continue;
        if (ret_page->count == page_size) {
            (void)snprintf(ret_page->next_token, sizeof(ret_page->next_token), "%" PRIu64, last);
            break;
        }
        ret_page->runs[ret_page->count++] = agt_run_ref(entry->run);
        last = entry->number;
    }
    (void)pthread_mutex_unlock(&runs->lock);
    return 0;
}

void agt_runs_page_done(struct agt_runs_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        (void)agt_run_unref(page->runs[i]);
    page->count = 0;
}

int agt_runs_delete(struct agt_runs *runs, const char *caller, const char *run_id,
                    struct rpc_status *ret_status)
{
    struct agt_run *run = agt_runs_find(runs, caller, run_id, ret_status);
    struct agt_runs_entry *entry;
    int r = 0;

    if (!run)
        return -ENOENT;
    (void)pthread_mutex_lock(&runs->lock);
    entry = agt_runs_find_entry(runs, run_id);
    if (!agt_run_has_ended(run)) {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "run_id: the run goes on; cancel it first, and delete it when it has ended");
        r = -EBUSY;
    } else if (entry) { /* else somebody else was faster */
        agt_runs_forget_entry(runs, entry);
    }
    (void)pthread_mutex_unlock(&runs->lock);
    (void)agt_run_unref(run);
    return r;
}
