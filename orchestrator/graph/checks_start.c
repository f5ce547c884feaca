/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/checks_parts.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/verify/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sandboxes of one run at one time: of many runs, each gets its turn. */
#define IN_FLIGHT_MAX 4
/* Emptied functions may make a loop of the tests endless: they get what the tests took, and more.
 */
#define STUB_WALL_BASE_MS 2000U
#define STUB_WALL_FACTOR 3U

void agt_checks_number(struct agt_checks *checks)
{
    uint32_t number = 0;

    for (size_t i = 0; i < agt_checks_verification(checks)->check_count; i++) {
        if (agt_checks_is_open(checks, i) && agt_checks_kind(checks, i) != AGT_CHECK_MUTANTS)
            checks->items[i].number = ++number;
    }
}

uint32_t agt_check_wall_ms(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    return result->usage ? (uint32_t)(result->usage->wall_us / 1000) : 0;
}

/* What the tests were held to: sandboxd may refuse more. 0: not known. */
static uint32_t wall_limit_ms(const struct agt_run *run)
{
    const Crisol__Sandbox__V1__EffectivePolicy *policy = run->execution->policy;

    if (policy && policy->limits)
        return policy->limits->wall_time_ms;
    return run->limits ? run->limits->wall_time_ms : 0;
}

/* The limit for tests on emptied functions; 0: that of the run, which is lower. */
static uint32_t stub_wall_ms(const struct agt_run *run)
{
    uint32_t wanted_ms = STUB_WALL_BASE_MS + STUB_WALL_FACTOR * agt_check_wall_ms(run->execution);
    uint32_t limit_ms = wall_limit_ms(run);

    return limit_ms > 0 && limit_ms < wanted_ms ? 0 : wanted_ms;
}

void agt_check_wait(struct agt_check_item *item, int64_t wait_ms)
{
    if (wait_ms >= 0)
        item->retry_at_ns = cr_clock_mono_ns() + wait_ms * CR_NS_PER_MS;
}

/*
 * sandboxd answers a request that it knows from memory: each try has an id of
 * its own. By its id a recorded end is found again, too: so it says which try
 * of which check it is, whatever the clocks let begin first.
 */
static void name_try(const struct agt_run *run, struct agt_checks *checks,
                     struct agt_check_item *item, char suffix[static 24])
{
    checks->starts++;
    item->starts++;
    if (!run->has_numbered_checks)
        (void)snprintf(suffix, 24, ".%u", checks->starts);
    else if (item->starts == 1)
        (void)snprintf(suffix, 24, ".%u", item->number);
    else
        (void)snprintf(suffix, 24, ".%u.%u", item->number, item->starts);
}

static void start(struct agt_run *run, struct agt_checks *checks, size_t index)
{
    const struct agt_check_files *files = &checks->plan.files[index];
    struct agt_check_item *item = &checks->items[index];
    struct agt_execution execution = {
        .solution = files->solution ? files->solution : run->files.solution,
        .tests = files->tests ? files->tests : run->files.tests,
        .files = &run->files,
        .more = files->more,
        .own = files->own,
        .is_quiet = true,
    };
    char suffix[24];

    name_try(run, checks, item, suffix);
    execution.suffix = suffix;
    if (files->kind == AGT_CHECK_CANARY)
        execution.acceptance = checks->plan.acceptance;
    /* Of one that is emptied, or a mutant: one test that notices is enough. */
    if (files->solution || files->more) {
        execution.may_stop = checks->plan.may_stop;
        execution.wall_time_ms = item->reruns == 0 ? stub_wall_ms(run) : 0;
    }
    if (files->kind == AGT_CHECK_ORACLE) {
        execution.tests = NULL;
        execution.code = agt_oracle_driver;
        execution.stdin_text = checks->plan.questions;
    }
    item->retry_at_ns = 0;
    if (agt_sandbox_execute(run, &execution, &item->call, NULL) < 0)
        agt_check_wait(item, agt_fault_wait_ms(run, &item->tries, AGT_FAULT_FAILED, 0,
                                               "the call could not be started"));
    if (run->outcome != AGT_OUTCOME_NONE)
        agt_checks_cancel(checks);
}

static size_t count_in_flight(const struct agt_checks *checks)
{
    size_t count = 0;

    for (size_t i = 0; i < AGT_CHECKS_MAX; i++)
        count += checks->items[i].call != NULL;
    return count;
}

bool agt_checks_needs_run(const struct agt_checks *checks, size_t index)
{
    return agt_checks_is_open(checks, index) && !checks->items[index].call &&
           agt_checks_kind(checks, index) != AGT_CHECK_MUTANTS;
}

void agt_checks_advance(struct agt_run *run, struct agt_checks *checks)
{
    int64_t now_ns = cr_clock_mono_ns();

    for (size_t i = 0; i < agt_checks_verification(checks)->check_count; i++) {
        const struct agt_check_item *item = &checks->items[i];

        if (i >= checks->refuted_by || run->outcome != AGT_OUTCOME_NONE ||
            run->stop != AGT_STOP_NONE || count_in_flight(checks) >= IN_FLIGHT_MAX)
            return;
        if (agt_checks_needs_run(checks, i) && item->retry_at_ns <= now_ns)
            start(run, checks, i);
    }
}

static bool is_wanted(const struct agt_run *run, const struct agt_checks *checks, size_t index)
{
    return agt_checks_needs_run(checks, index) && index < checks->refuted_by &&
           run->outcome == AGT_OUTCOME_NONE && run->stop == AGT_STOP_NONE;
}

/* The check of a number, and in *ret_number that of the try. False: the key is of no such. */
static bool read_key(const struct agt_checks *checks, const char *suffix, size_t *ret_index,
                     unsigned long *ret_number)
{
    char *end;
    unsigned long number = *suffix == '.' ? strtoul(suffix + 1, &end, 10) : 0;

    *ret_number = number > 0 && *end == '.' ? strtoul(end + 1, &end, 10) : 1;
    for (*ret_index = 0; number > 0 && *end == '\0' && *ret_index < AGT_CHECKS_MAX; ++*ret_index) {
        if (checks->items[*ret_index].number == number)
            return true;
    }
    return false;
}

enum agt_demand agt_checks_demand(struct agt_run *run, const char *key)
{
    struct agt_checks *checks = run->checks;
    size_t length = strlen(run->id);
    unsigned long number;
    unsigned long step;
    size_t index;
    char *end;

    if (strncmp(key, run->id, length) != 0 || key[length] != '.')
        return AGT_DEMAND_UNKNOWN;
    step = strtoul(key + length + 1, &end, 10);
    if (step < run->steps)
        return AGT_DEMAND_UNWANTED;
    if (step > run->steps || !checks || !run->has_numbered_checks ||
        !read_key(checks, end, &index, &number))
        return AGT_DEMAND_UNKNOWN;
    if (!is_wanted(run, checks, index))
        return AGT_DEMAND_UNWANTED;
    if (checks->items[index].starts + 1 != number)
        return AGT_DEMAND_UNKNOWN;
    start(run, checks, index);
    return AGT_DEMAND_STARTED;
}

bool agt_checks_are_in_flight(const struct agt_checks *checks)
{
    return checks && count_in_flight(checks) > 0;
}

int64_t agt_checks_due_ns(const struct agt_checks *checks)
{
    int64_t due_ns = INT64_MAX;

    for (size_t i = 0; checks && i < AGT_CHECKS_MAX; i++) {
        int64_t retry_at_ns = checks->items[i].retry_at_ns;

        if (retry_at_ns != 0 && retry_at_ns < due_ns)
            due_ns = retry_at_ns;
    }
    return due_ns;
}
