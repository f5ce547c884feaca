/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"

#include <stdint.h>
#include <stdio.h>

static int64_t first_deadline_ns(const struct agt_run *run)
{
    return run->node_deadline_ns < run->deadline_ns ? run->node_deadline_ns : run->deadline_ns;
}

/* The run ends, with the best attempt so far: a node that hangs would only hang again. */
static void stop_in_time(struct agt_run *run, int64_t now_ns)
{
    if (agt_run_is_paused(run) || run->stop != AGT_STOP_NONE || now_ns < first_deadline_ns(run))
        return;
    if (now_ns < run->deadline_ns && !run->failure) {
        run->cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_DEADLINE;
        if (asprintf(&run->failure, "Node '%s' took longer than it may.",
                     agt_node_name(run->node)) < 0)
            run->failure = NULL;
    }
    agt_run_stop(run, AGT_STOP_DEADLINE);
}

int64_t agt_run_due_ns(const struct agt_run *run)
{
    /* Nobody is told that a run lives while it only repeats what was told. */
    int64_t due_ns =
        agt_journal_is_replaying(run) ? INT64_MAX : run->last_event_ns + run->heartbeat_ns;

    if (run->has_ended || run->is_suspended)
        return INT64_MAX; /* its last events are on their way into the journal */
    if (run->stop == AGT_STOP_NONE && !agt_run_is_paused(run) && first_deadline_ns(run) < due_ns)
        due_ns = first_deadline_ns(run);
    if (run->retry_at_ns != 0 && run->retry_at_ns < due_ns)
        due_ns = run->retry_at_ns;
    if (agt_checks_due_ns(run->checks) < due_ns)
        due_ns = agt_checks_due_ns(run->checks);
    return due_ns;
}

void agt_run_on_time(struct agt_run *run, int64_t now_ns)
{
    Crisol__Agent__V1__Heartbeat heartbeat = CRISOL__AGENT__V1__HEARTBEAT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    stop_in_time(run, now_ns);
    if (run->has_ended)
        return;
    if (run->retry_at_ns != 0 && now_ns >= run->retry_at_ns) {
        run->retry_at_ns = 0;
        agt_run_set_outcome(run, AGT_OUTCOME_TRY_AGAIN);
        agt_run_drive(run);
    }
    if (!run->has_ended && now_ns >= agt_checks_due_ns(run->checks)) {
        agt_evaluator_on_time(run, now_ns);
        agt_run_drive(run);
    }
    if (!run->has_ended && !agt_journal_is_replaying(run) &&
        now_ns >= run->last_event_ns + run->heartbeat_ns) {
        event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_HEARTBEAT;
        event.heartbeat = &heartbeat;
        agt_run_emit(run, &event);
    }
}
