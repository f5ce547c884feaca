/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/verdict.h"

#include "common/auto.h"

#include <errno.h>
#include <signal.h>

#include <sys/wait.h>

/* Verdicts that name a limit, in the order that decides when several are seen at one time. */
static const struct {
    enum sbx_verdict verdict;
    enum sbx_limit limit;
    enum sbx_killed_by killed_by;
} limit_verdicts[] = {
    {SBX_VERDICT_MEMORY_LIMIT, SBX_LIMIT_MEMORY, SBX_KILLED_BY_OOM_KILLER},
    {SBX_VERDICT_OUTPUT_LIMIT, SBX_LIMIT_OUTPUT, SBX_KILLED_BY_SANDBOXD},
    {SBX_VERDICT_CPU_TIME_LIMIT, SBX_LIMIT_CPU_TIME, SBX_KILLED_BY_SANDBOXD},
    {SBX_VERDICT_WALL_TIME_LIMIT, SBX_LIMIT_WALL_TIME, SBX_KILLED_BY_SANDBOXD},
    {SBX_VERDICT_FILE_SIZE_LIMIT, SBX_LIMIT_FILE_SIZE, SBX_KILLED_BY_NOBODY},
    {SBX_VERDICT_PROCESS_LIMIT, SBX_LIMIT_PROCESSES, SBX_KILLED_BY_NOBODY},
    {SBX_VERDICT_DISK_LIMIT, SBX_LIMIT_WORKSPACE_BYTES, SBX_KILLED_BY_NOBODY},
};

void sbx_facts_add(struct sbx_facts *facts, enum sbx_verdict verdict, uint64_t observed)
{
    for (uint32_t i = 0; i < facts->event_count; i++) {
        if (facts->events[i].verdict == verdict)
            return;
    }
    if (facts->event_count < SBX_EVENTS_MAX)
        facts->events[facts->event_count++] =
            (struct sbx_event){.verdict = verdict, .observed = observed};
}

bool sbx_facts_leader_failed(const struct sbx_facts *facts)
{
    return facts->has_leader && facts->wait_status != 0;
}

static int leader_signal(const struct sbx_facts *facts)
{
    return facts->has_leader && WIFSIGNALED(facts->wait_status) ? WTERMSIG(facts->wait_status) : 0;
}

/* True when the counters at the end say so; *ret_observed in the unit of the limit. */
static bool holds_at_end(const struct sbx_facts *facts, enum sbx_verdict verdict,
                         uint64_t *ret_observed)
{
    uint64_t cpu_limit_us = facts->limits->value[SBX_LIMIT_CPU_TIME] * 1000;

    switch (verdict) {
    case SBX_VERDICT_MEMORY_LIMIT:
        *ret_observed = facts->usage.memory_peak_bytes;
        return facts->usage.oom_kills > 0;
    case SBX_VERDICT_OUTPUT_LIMIT:
        *ret_observed = facts->output_observed;
        return facts->is_output_over;
    case SBX_VERDICT_CPU_TIME_LIMIT:
        *ret_observed = facts->usage.cpu_total_us / 1000;
        return facts->usage.cpu_total_us > cpu_limit_us;
    case SBX_VERDICT_FILE_SIZE_LIMIT:
        *ret_observed = facts->limits->value[SBX_LIMIT_FILE_SIZE];
        return leader_signal(facts) == SIGXFSZ ||
               (facts->is_file_at_limit && sbx_facts_leader_failed(facts)) ||
               (facts->stage == SBX_STAGE_PAYLOAD && facts->error == EFBIG);
    case SBX_VERDICT_PROCESS_LIMIT:
        *ret_observed = facts->usage.processes_peak;
        return facts->usage.process_limit_hits > 0 && sbx_facts_leader_failed(facts);
    case SBX_VERDICT_DISK_LIMIT:
        *ret_observed = facts->workspace_bytes;
        return (facts->is_workspace_full && sbx_facts_leader_failed(facts)) ||
               (facts->stage == SBX_STAGE_PAYLOAD && facts->error == ENOSPC);
    default:
        return false;
    }
}

static enum sbx_killed_by killer(const struct sbx_facts *facts, size_t row)
{
    enum sbx_killed_by killed_by = limit_verdicts[row].killed_by;

    return killed_by == SBX_KILLED_BY_OOM_KILLER && facts->is_sandboxd_killing
               ? SBX_KILLED_BY_SANDBOXD
               : killed_by;
}

static struct sbx_limit_hit make_hit(const struct sbx_facts *facts, size_t row, uint64_t observed)
{
    enum sbx_limit limit = limit_verdicts[row].limit;

    /* Two limits share one verdict: the folder may be out of bytes or out of inodes. */
    if (limit == SBX_LIMIT_WORKSPACE_BYTES &&
        (facts->is_out_of_inodes ||
         facts->workspace_inodes >= facts->limits->value[SBX_LIMIT_WORKSPACE_INODES])) {
        limit = SBX_LIMIT_WORKSPACE_INODES;
        observed = facts->workspace_inodes;
    }
    return (struct sbx_limit_hit){.limit = limit,
                                  .killed_by = killer(facts, row),
                                  .value = facts->limits->value[limit],
                                  .observed = observed};
}

static bool has_event(const struct sbx_facts *facts, enum sbx_verdict verdict)
{
    for (uint32_t i = 0; i < facts->event_count; i++) {
        if (facts->events[i].verdict == verdict)
            return true;
    }
    return false;
}

/* The first hit decides, unless something else did; the others are listed. */
static void add_hit(struct sbx_msg_result *result, size_t row, const struct sbx_limit_hit *hit)
{
    if (result->verdict == SBX_VERDICT_NONE) {
        result->verdict = limit_verdicts[row].verdict;
        result->has_hit = 1;
        result->hit = *hit;
    } else if (result->other_hit_count < SBX_OTHER_HITS_MAX) {
        result->other_hits[result->other_hit_count++] = *hit;
    }
}

static void add_event(const struct sbx_facts *facts, const struct sbx_event *event,
                      struct sbx_msg_result *result)
{
    if ((event->verdict == SBX_VERDICT_CANCELLED ||
         event->verdict == SBX_VERDICT_SECURITY_VIOLATION) &&
        result->verdict == SBX_VERDICT_NONE)
        result->verdict = event->verdict;
    for (size_t row = 0; row < CR_ARRAY_SIZE(limit_verdicts); row++) {
        struct sbx_limit_hit hit;

        if (limit_verdicts[row].verdict != event->verdict)
            continue;
        hit = make_hit(facts, row, event->observed);
        /* The peak is only known at the end. */
        if (event->verdict == SBX_VERDICT_MEMORY_LIMIT)
            hit.observed = facts->usage.memory_peak_bytes;
        add_hit(result, row, &hit);
    }
}

/* May turn the program's own end into a limit verdict, never one limit into another. */
static void add_findings(const struct sbx_facts *facts, struct sbx_msg_result *result)
{
    for (size_t row = 0; row < CR_ARRAY_SIZE(limit_verdicts); row++) {
        enum sbx_verdict verdict = limit_verdicts[row].verdict;
        uint64_t observed = 0;
        struct sbx_limit_hit hit;

        if (has_event(facts, verdict) || !holds_at_end(facts, verdict, &observed))
            continue;
        hit = make_hit(facts, row, observed);
        if (verdict != SBX_VERDICT_MEMORY_LIMIT)
            hit.killed_by = SBX_KILLED_BY_NOBODY; /* it had ended by itself */
        add_hit(result, row, &hit);
    }
}

/* What is left when no limit was met. */
static uint32_t own_end(const struct sbx_facts *facts)
{
    if (facts->stage == SBX_STAGE_EXEC)
        return SBX_VERDICT_EXEC_FAILED;
    if (facts->stage != SBX_STAGE_NONE || !facts->has_leader)
        return SBX_VERDICT_SANDBOX_ERROR;
    if (WIFSIGNALED(facts->wait_status))
        return SBX_VERDICT_SIGNALED;
    if (WEXITSTATUS(facts->wait_status) != 0)
        return SBX_VERDICT_NONZERO_EXIT;
    return facts->is_collect_failed ? SBX_VERDICT_COLLECT_FAILED : SBX_VERDICT_OK;
}

/* A call that was held back, and its process killed: as if the kernel had done so itself. */
static void add_forbidden_call(const struct sbx_facts *facts, struct sbx_msg_result *result)
{
    if (result->verdict != SBX_VERDICT_SECURITY_VIOLATION || !facts->has_forbidden_call)
        return;
    result->has_forbidden_call = 1;
    result->forbidden_call = facts->forbidden_call;
    if (!facts->has_leader)
        result->signal = SIGSYS;
}

void sbx_verdict_decide(const struct sbx_facts *facts, struct sbx_msg_result *result)
{
    result->verdict = SBX_VERDICT_NONE;
    result->has_hit = 0;
    result->has_forbidden_call = 0;
    result->forbidden_call = 0;
    result->other_hit_count = 0;
    result->stage = facts->stage;
    result->stage_errno = facts->error;
    result->signal = leader_signal(facts);
    if (facts->has_leader && WIFEXITED(facts->wait_status))
        result->exit_code = WEXITSTATUS(facts->wait_status);
    /* A program that never started has neither. */
    if (!facts->has_leader && facts->stage == SBX_STAGE_NONE &&
        (facts->is_killed || facts->usage.oom_kills > 0))
        result->signal = SIGKILL;

    for (uint32_t i = 0; i < facts->event_count; i++)
        add_event(facts, &facts->events[i], result);
    add_forbidden_call(facts, result);
    /* Where nobody was told of calls, nothing says whether the filter or the program itself sent
     * the signal. */
    if (result->verdict == SBX_VERDICT_NONE && leader_signal(facts) == SIGSYS && !facts->is_watched)
        result->verdict = SBX_VERDICT_SECURITY_VIOLATION;
    add_findings(facts, result);
    if (result->verdict == SBX_VERDICT_NONE)
        result->verdict = own_end(facts);
    if (result->verdict != SBX_VERDICT_EXEC_FAILED &&
        result->verdict != SBX_VERDICT_SANDBOX_ERROR) {
        result->stage = SBX_STAGE_NONE;
        result->stage_errno = 0;
    } else if (result->stage == SBX_STAGE_NONE) {
        result->stage = SBX_STAGE_MEASURE; /* sandbox-init ended without a word */
    }
}
