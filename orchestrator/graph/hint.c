/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/graph/run.h"
#include "rpc/status.h"

#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name

static void check_text(const char *hint, struct rpc_status *status)
{
    size_t size = strnlen(hint, AGT_HINT_MAX + 1);

    if (size > AGT_HINT_MAX)
        rpc_status_add_violation(status, "hint", "is longer than %u bytes; shorten it",
                                 AGT_HINT_MAX);
    else if (strspn(hint, " \t\r\n") == size)
        rpc_status_add_violation(status, "hint", "is blank: say what the model should do");
}

/* Returns 1 for one, 0, or -ENOMEM. */
static int is_stalled_edge(const struct agt_event *packed)
{
    Crisol__Agent__V1__RunEvent *event;
    bool is;

    if (!packed->is_state)
        return 0;
    event = crisol__agent__v1__run_event__unpack(NULL, packed->size, packed->packed);
    if (!event)
        return -ENOMEM;
    is = event->event_case == EVENT(EDGE_TAKEN) &&
         strcmp(event->edge_taken->outcome, agt_outcome_name(AGT_OUTCOME_STALLED)) == 0;
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    return is;
}

static void notify_nobody(void *user)
{
    (void)user;
}

/* The last event before that end in *ret_seq; 0: it did not end so. */
static int find_stall(struct agt_run *run, uint32_t *ret_seq)
{
    struct agt_watch *watch = NULL;
    struct agt_event *packed = NULL;
    int r = agt_watch_new(run, 0, notify_nobody, NULL, &watch);

    *ret_seq = 0;
    while (r == 0 && agt_watch_next(watch, &packed) == 1) {
        r = is_stalled_edge(packed);
        if (r == 1)
            *ret_seq = packed->seq - 1;
        r = r < 0 ? r : 0;
        packed = agt_event_unref(packed);
    }
    (void)agt_watch_free(watch);
    return r;
}

int agt_run_check_hint(struct agt_run *run, const char *hint, uint32_t *ret_seq,
                       struct rpc_status *ret_status)
{
    uint32_t seq = 0;

    check_text(hint, ret_status);
    if (ret_status->code != RPC_OK)
        return -EINVAL;
    if (find_stall(run, &seq) < 0) {
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return -ENOMEM;
    }
    if (seq == 0 || !agt_run_has_ended(run)) {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "run_id: a hint is for a run that ended STALLED, which this one did not; "
                       "ForkRun starts another from its events");
        return -EBUSY;
    }
    if (run->hints.count >= AGT_HINTS_MAX) {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "run_id: the run has had %d hints, which is the most", AGT_HINTS_MAX);
        return -EBUSY;
    }
    *ret_seq = seq;
    return 0;
}
