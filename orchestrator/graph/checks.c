/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/checks.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/check_judge.h"
#include "orchestrator/graph/check_plan.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/verify/oracle.h"
#include "orchestrator/verify/score.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* Sandboxes of one run at one time: of many runs, each gets its turn. */
#define IN_FLIGHT_MAX 4
/* A busy machine may let a check run into the time limit: run again. On stubs, an endless loop does
 * so as well, and once more, with the whole limit, is enough to tell. */
#define RERUNS_MAX 2
#define STUB_RERUNS_MAX 1
/* Emptied functions may make a loop of the tests endless: they get what the tests took, and more.
 */
#define STUB_WALL_BASE_MS 2000U
#define STUB_WALL_FACTOR 3U
/* Of all mutants of an attempt together; those that are left then are not run. */
#define MUTANTS_WALL_MAX_MS 60000U

/* What a check goes through, beside its result. */
struct item {
    struct agt_call *call; /* in flight. Owned until its end */
    struct agt_tries tries;
    uint32_t number; /* among those that run; 0: it does not */
    uint32_t starts;
    uint32_t reruns;
    int64_t retry_at_ns; /* 0: not waiting */
};

struct agt_checks {
    struct agt_check_plan plan;
    struct item items[AGT_CHECKS_MAX];
    uint32_t starts;   /* of all */
    size_t refuted_by; /* index; AGT_CHECKS_MAX: none. Those behind it are not made any more */
    struct agt_evidence refutation;
    struct agt_witness witness; /* owned */
};

static struct agt_verification *verification_of(const struct agt_checks *checks)
{
    return checks->plan.verification;
}

static enum agt_check_kind kind_of(const struct agt_checks *checks, size_t index)
{
    return checks->plan.files[index].kind;
}

static bool is_open(const struct agt_checks *checks, size_t index)
{
    return verification_of(checks)->checks[index].outcome == OUTCOME(UNSPECIFIED);
}

static void emit(struct agt_run *run, struct agt_check_result *result)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__VerificationCheck check;

    agt_check_fill(result, &check);
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_VERIFICATION_CHECK;
    event.verification_check = &check;
    agt_run_emit(run, &event);
}

static void book(struct agt_run *run, struct agt_check_result *result)
{
    Crisol__Agent__V1__VerificationCheck check;

    agt_check_fill(result, &check);
    agt_receipt_add_message(&run->receipt, AGT_RECEIPT_CHECK, run->iteration, &check.base);
}

/* The run that the feedback shows in place of that of the tests, which passed. */
static void keep_witness(struct agt_checks *checks, enum agt_check_kind kind, struct agt_call *call)
{
    bool is_flaky = kind == AGT_CHECK_CANARY && checks->refutation.cause == CAUSE(FLAKY);

    if (!is_flaky && kind != AGT_CHECK_OWN)
        return;
    checks->witness.result = cr_take_ptr(&call->result);
    if (kind == AGT_CHECK_CANARY)
        return;
    checks->witness.stdout_text = agt_sandbox_text(&call->out);
    checks->witness.stderr_text = agt_sandbox_text(&call->err);
}

static void cancel_from(struct agt_checks *checks, size_t index)
{
    for (; checks && index < AGT_CHECKS_MAX; index++) {
        if (checks->items[index].call)
            agt_call_cancel(checks->items[index].call);
        checks->items[index].retry_at_ns = 0;
    }
}

/*
 * Checks of a lower level go on: when the runner is patched, it is not the
 * tests that are to blame, whichever comes out first.
 */
static void refute(struct agt_checks *checks, size_t index, const struct agt_evidence *refutation)
{
    verification_of(checks)->checks[index].outcome = OUTCOME(REFUTED);
    checks->refuted_by = index;
    checks->refutation = *refutation;
    cancel_from(checks, index);
}

/* Before anything has run: the numbers depend on the plan alone. */
static void number_items(struct agt_checks *checks)
{
    uint32_t number = 0;

    for (size_t i = 0; i < verification_of(checks)->check_count; i++) {
        if (is_open(checks, i) && kind_of(checks, i) != AGT_CHECK_MUTANTS)
            checks->items[i].number = ++number;
    }
}

int agt_checks_new(struct agt_run *run, struct agt_checks **ret_checks)
{
    struct agt_checks *checks = calloc(1, sizeof(*checks));
    struct agt_evidence refutation;
    int r;

    if (!checks)
        return -ENOMEM;
    checks->refuted_by = AGT_CHECKS_MAX;
    agt_journal_draw(run, checks->plan.seed, sizeof(checks->plan.seed));
    checks->plan.has_older_names = run->format < 2;
    r = agt_check_plan_make(&run->files, run->verify, run->terms, &checks->plan);
    if (r < 0) {
        (void)agt_checks_free(checks);
        return r;
    }
    checks->plan.may_stop = run->has_numbered_checks;
    for (size_t i = 0; i < verification_of(checks)->check_count; i++) {
        struct agt_check_result *result = &verification_of(checks)->checks[i];

        if (result->outcome == OUTCOME(REFUTED)) {
            agt_check_refute(&checks->plan, i, CAUSE(VACUOUS_TESTS), AGT_PROVE_NOTHING,
                             &refutation);
            refute(checks, i, &refutation);
        }
        if (result->outcome != OUTCOME(UNSPECIFIED))
            emit(run, result);
    }
    number_items(checks);
    *ret_checks = checks;
    return 0;
}

struct agt_checks *agt_checks_free(struct agt_checks *checks)
{
    if (!checks)
        return NULL;
    agt_check_plan_done(&checks->plan);
    if (checks->witness.result)
        crisol__sandbox__v1__execute_result__free_unpacked(checks->witness.result, NULL);
    free(checks->witness.stdout_text);
    free(checks->witness.stderr_text);
    free(checks);
    return NULL;
}

static uint32_t wall_ms(const Crisol__Sandbox__V1__ExecuteResult *result)
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
    uint32_t wanted_ms = STUB_WALL_BASE_MS + STUB_WALL_FACTOR * wall_ms(run->execution);
    uint32_t limit_ms = wall_limit_ms(run);

    return limit_ms > 0 && limit_ms < wanted_ms ? 0 : wanted_ms;
}

static void wait_for(struct item *item, int64_t wait_ms)
{
    if (wait_ms >= 0)
        item->retry_at_ns = cr_clock_mono_ns() + wait_ms * CR_NS_PER_MS;
}

/*
 * sandboxd answers a request that it knows from memory: each try has an id of
 * its own. By its id a recorded end is found again, too: so it says which try
 * of which check it is, whatever the clocks let begin first.
 */
static void name_try(const struct agt_run *run, struct agt_checks *checks, struct item *item,
                     char suffix[static 24])
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
    struct item *item = &checks->items[index];
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
        wait_for(item, agt_fault_wait_ms(run, &item->tries, AGT_FAULT_FAILED, 0,
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

static bool needs_run(const struct agt_checks *checks, size_t index)
{
    return is_open(checks, index) && !checks->items[index].call &&
           kind_of(checks, index) != AGT_CHECK_MUTANTS;
}

void agt_checks_advance(struct agt_run *run, struct agt_checks *checks)
{
    int64_t now_ns = cr_clock_mono_ns();

    for (size_t i = 0; i < verification_of(checks)->check_count; i++) {
        const struct item *item = &checks->items[i];

        if (i >= checks->refuted_by || run->outcome != AGT_OUTCOME_NONE ||
            run->stop != AGT_STOP_NONE || count_in_flight(checks) >= IN_FLIGHT_MAX)
            return;
        if (needs_run(checks, i) && item->retry_at_ns <= now_ns)
            start(run, checks, i);
    }
}

/* Too little time says nothing yet. True when the check will be run again. */
static bool is_run_again(const struct agt_run *run, struct item *item, uint32_t most,
                         const Crisol__Sandbox__V1__ExecuteResult *result)
{
    if (result->verdict->code != VERDICT(WALL_TIME_LIMIT) &&
        result->verdict->code != VERDICT(CPU_TIME_LIMIT))
        return false;
    if (item->reruns >= most)
        return false;
    item->reruns++;
    wait_for(item, agt_engine_options(run->engine)->retry_base_ms);
    return true;
}

static void come_out(struct agt_run *run, struct agt_check_result *result)
{
    book(run, result);
    emit(run, result);
}

/* Those that would cost more time than mutants may. */
static void leave_out_mutants(struct agt_run *run, struct agt_checks *checks)
{
    for (size_t i = 0; i < verification_of(checks)->check_count; i++) {
        struct agt_check_result *result = &verification_of(checks)->checks[i];

        if (kind_of(checks, i) != AGT_CHECK_MUTANT || !needs_run(checks, i))
            continue;
        checks->items[i].retry_at_ns = 0;
        result->outcome = OUTCOME(NOT_APPLICABLE);
        (void)snprintf(result->summary, sizeof(result->summary),
                       "left out: the others took the %u s that mutants may take",
                       MUTANTS_WALL_MAX_MS / 1000);
        come_out(run, result);
    }
}

/* The check that counts the mutants comes out with the last of them. */
static void settle_mutants(struct agt_run *run, struct agt_checks *checks)
{
    struct agt_verification *verification = verification_of(checks);
    struct agt_mutant_score score;
    struct agt_check_result *result;
    struct agt_evidence refutation;
    size_t index = 0;

    while (index < verification->check_count && kind_of(checks, index) != AGT_CHECK_MUTANTS)
        index++;
    if (index == verification->check_count || index >= checks->refuted_by ||
        !is_open(checks, index))
        return;
    agt_mutant_score(verification, &score);
    if (score.wall_ms > MUTANTS_WALL_MAX_MS) {
        leave_out_mutants(run, checks);
        agt_mutant_score(verification, &score);
    }
    if (score.open > 0)
        return;
    result = &verification->checks[index];
    agt_mutant_score_judge(&score, checks->plan.tests_only_data, result);
    if (result->outcome == OUTCOME(REFUTED)) {
        agt_check_refute(&checks->plan, index, CAUSE(WEAK_TESTS),
                         "the tests notice too little: ", &refutation);
        refute(checks, index, &refutation);
    }
    come_out(run, result);
}

static size_t find_item(const struct agt_checks *checks, const struct agt_call *call)
{
    size_t index = 0;

    while (index < AGT_CHECKS_MAX - 1 && checks->items[index].call != call)
        index++;
    return index;
}

/* How often a check that ran out of time is run again. */
static uint32_t most_reruns(enum agt_check_kind kind)
{
    switch (kind) {
    case AGT_CHECK_CANARY:
        return RERUNS_MAX;
    case AGT_CHECK_MUTANT:
        return 0;
    default:
        return STUB_RERUNS_MAX;
    }
}

static void judge(struct agt_run *run, struct agt_checks *checks, size_t index,
                  struct agt_call *call)
{
    const struct agt_check_result *result = &verification_of(checks)->checks[index];
    enum agt_check_kind kind = kind_of(checks, index);
    struct agt_evidence refutation;

    if (is_run_again(run, &checks->items[index], most_reruns(kind), call->result))
        return;
    if (agt_check_judge(&checks->plan, index, run->execution->test_report, call, &refutation) < 0) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for a check.");
        agt_checks_cancel(checks);
    } else if (result->outcome == OUTCOME(REFUTED)) {
        refute(checks, index, &refutation);
        keep_witness(checks, kind, call);
    }
}

void agt_checks_on_end(struct agt_run *run, struct agt_checks *checks, struct agt_call *call)
{
    size_t index = find_item(checks, call);
    struct item *item = &checks->items[index];
    struct agt_check_result *result = &verification_of(checks)->checks[index];
    const char *message;
    enum agt_fault fault;

    item->call = NULL;
    if (index > checks->refuted_by || run->stop != AGT_STOP_NONE ||
        run->outcome != AGT_OUTCOME_NONE)
        return; /* it was cancelled, and is not asked any more */
    fault = agt_fault_of_call(call, &message);
    if (fault != AGT_FAULT_NONE) {
        wait_for(item,
                 agt_fault_wait_ms(run, &item->tries, fault, call->status.retry_after_ms, message));
        if (run->outcome != AGT_OUTCOME_NONE)
            agt_checks_cancel(checks);
        return;
    }
    result->wall_ms = wall_ms(call->result);
    judge(run, checks, index, call);
    if (is_open(checks, index))
        return;
    come_out(run, result);
    settle_mutants(run, checks);
}

static bool is_wanted(const struct agt_run *run, const struct agt_checks *checks, size_t index)
{
    return needs_run(checks, index) && index < checks->refuted_by &&
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

bool agt_checks_are_over(const struct agt_checks *checks)
{
    if (agt_checks_are_in_flight(checks))
        return false;
    for (size_t i = 0; i < verification_of(checks)->check_count && i < checks->refuted_by; i++) {
        if (is_open(checks, i))
            return false;
    }
    return true;
}

const struct agt_evidence *agt_checks_refutation(const struct agt_checks *checks)
{
    return checks->refuted_by < AGT_CHECKS_MAX ? &checks->refutation : NULL;
}

const struct agt_witness *agt_checks_witness(const struct agt_checks *checks)
{
    return &checks->witness;
}

struct agt_verification *agt_checks_take_verification(struct agt_checks *checks)
{
    return cr_take_ptr(&checks->plan.verification);
}

bool agt_checks_are_in_flight(const struct agt_checks *checks)
{
    return checks && count_in_flight(checks) > 0;
}

void agt_checks_cancel(struct agt_checks *checks)
{
    cancel_from(checks, 0);
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
