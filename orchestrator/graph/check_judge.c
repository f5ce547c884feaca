/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/check_judge.h"

#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/check_plan.h"
#include "orchestrator/verify/compare.h"
#include "orchestrator/verify/oracle.h"

#include <stdio.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* Untrusted text at its end may have been cut within a character. */
static void end_text(char *text)
{
    text[cr_utf8_complete_prefix(text, strlen(text))] = '\0';
}

void agt_check_refute(const struct agt_check_plan *plan, size_t index,
                      Crisol__Agent__V1__AttemptCause cause, const char *prefix,
                      struct agt_evidence *ret_refutation)
{
    *ret_refutation = (struct agt_evidence){.has_passed = false, .cause = cause};
    (void)snprintf(ret_refutation->summary, sizeof(ret_refutation->summary), "%s%s", prefix,
                   plan->verification->checks[index].summary);
    end_text(ret_refutation->summary);
}

static struct agt_check_result *result_of(struct agt_check_plan *plan, size_t index)
{
    return &plan->verification->checks[index];
}

static void judge_canary(struct agt_check_plan *plan, size_t index,
                         const Crisol__Sandbox__V1__TestReport *before, const struct agt_call *call,
                         struct agt_evidence *refutation)
{
    struct agt_check_result *result = result_of(plan, index);
    const struct agt_canary canary = {plan->name, plan->text, plan->canaries};

    switch (
        agt_canary_judge(before, call->result, &canary, result->summary, sizeof(result->summary))) {
    case AGT_CANARY_SHOWN:
        result->outcome = OUTCOME(SHOWN);
        break;
    case AGT_CANARY_UNSTABLE:
        result->outcome = OUTCOME(REFUTED);
        agt_check_refute(plan, index, CAUSE(FLAKY),
                         "the tests are not deterministic: ", refutation);
        break;
    default:
        result->outcome = OUTCOME(REFUTED);
        agt_check_refute(plan, index, CAUSE(TAMPER), "", refutation);
        break;
    }
}

/* True when the tests said in any way that something is wrong. */
static bool has_noticed(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    const Crisol__Sandbox__V1__TestReport *report = result->test_report;
    bool has_ended =
        result->verdict->code == VERDICT(OK) || result->verdict->code == VERDICT(NONZERO_EXIT);

    if (!has_ended)
        return true; /* a limit, which the same tests did not reach before */
    if (!report || !report->is_present)
        return result->exit_code != 0;
    return report->failed + report->errors > 0;
}

/* True when the changed solution was not even Python; then nothing is shown. */
static bool is_broken(const struct agt_evidence *evidence, struct agt_check_result *result)
{
    if (evidence->has_passed || evidence->cause != CAUSE(SYNTAX))
        return false;
    result->outcome = OUTCOME(NOT_APPLICABLE);
    (void)snprintf(result->summary, sizeof(result->summary),
                   "solution.py could not be changed so that it still is Python");
    return true;
}

/* `evidence` is of the same run, and says what there is to say when no test failed. */
static void tell_noticed(bool may_stop, const Crisol__Sandbox__V1__TestReport *before,
                         const Crisol__Sandbox__V1__TestReport *report,
                         const struct agt_evidence *evidence, struct agt_check_result *result)
{
    size_t size = sizeof(result->summary);

    if (!report || !report->is_present || report->failed + report->errors == 0)
        (void)snprintf(result->summary, size, "%.200s", evidence->summary);
    else if (may_stop && before && report->tests < before->tests)
        (void)snprintf(result->summary, size, "test %u of %u fails, those behind it were not run",
                       report->tests, before->tests);
    else
        (void)snprintf(result->summary, size, "%u of %u tests fail",
                       report->failed + report->errors, report->tests);
}

static void judge_stub(struct agt_check_plan *plan, size_t index,
                       const Crisol__Sandbox__V1__TestReport *before,
                       const Crisol__Sandbox__V1__ExecuteResult *execution,
                       struct agt_evidence *refutation)
{
    struct agt_check_result *result = result_of(plan, index);
    const Crisol__Sandbox__V1__TestReport *report = execution->test_report;
    struct agt_evidence evidence;

    agt_evidence_judge(execution, &evidence);
    if (is_broken(&evidence, result))
        return;
    if (has_noticed(execution)) {
        result->outcome = OUTCOME(SHOWN);
        tell_noticed(plan->may_stop, before, report, &evidence, result);
    } else if (plan->tests_only_data) {
        result->outcome = OUTCOME(NOT_APPLICABLE);
        (void)snprintf(result->summary, sizeof(result->summary),
                       "the tests are about data of solution.py, not about its functions");
    } else {
        result->outcome = OUTCOME(REFUTED);
        (void)snprintf(result->summary, sizeof(result->summary), "all %u tests pass when %s",
                       report && report->is_present ? report->passed : 0, plan->files[index].what);
        agt_check_refute(plan, index, CAUSE(VACUOUS_TESTS), AGT_PROVE_NOTHING, refutation);
    }
}

/* One that no test notices refutes nothing yet: it may do the same as the original. */
static void judge_mutant(struct agt_check_plan *plan, size_t index,
                         const Crisol__Sandbox__V1__ExecuteResult *execution)
{
    struct agt_check_result *result = result_of(plan, index);
    struct agt_evidence evidence;

    agt_evidence_judge(execution, &evidence);
    if (is_broken(&evidence, result))
        return;
    result->outcome = has_noticed(execution) ? OUTCOME(SHOWN) : OUTCOME(UNNOTICED);
    (void)snprintf(result->summary, sizeof(result->summary), "%.200s", evidence.summary);
}

static void judge_own(struct agt_check_plan *plan, size_t index, const struct agt_call *call,
                      struct agt_evidence *refutation)
{
    const Crisol__Sandbox__V1__Verdict *verdict = call->result->verdict;
    struct agt_check_result *result = result_of(plan, index);
    char prefix[160];

    result->outcome = OUTCOME(SHOWN);
    (void)snprintf(result->summary, sizeof(result->summary), "it succeeded");
    if (verdict->code == VERDICT(OK) && call->result->exit_code == 0)
        return;
    result->outcome = OUTCOME(REFUTED);
    if (verdict->code == VERDICT(NONZERO_EXIT))
        (void)snprintf(result->summary, sizeof(result->summary), "exit status %d",
                       call->result->exit_code);
    else
        (void)snprintf(result->summary, sizeof(result->summary), "%.200s", verdict->message);
    (void)snprintf(prefix, sizeof(prefix),
                   "the tests passed, but not the task's own check (%s): ", result->name);
    agt_check_refute(plan, index, CAUSE(CHECK), prefix, refutation);
}

static int judge_oracle(struct agt_check_plan *plan, size_t index, const struct agt_call *call,
                        struct agt_evidence *refutation)
{
    struct agt_check_result *result = result_of(plan, index);
    bool is_whole = call->result->verdict->code == VERDICT(OK) && call->out_omitted == 0;
    int finding = agt_oracle_judge(plan->terms->cases, plan->terms->n_cases, plan->mark,
                                   cr_buf_str(&call->out), is_whole, result->summary,
                                   sizeof(result->summary));

    if (finding < 0)
        return finding;
    result->outcome = finding == AGT_ORACLE_SHOWN ? OUTCOME(SHOWN) : OUTCOME(REFUTED);
    if (finding == AGT_ORACLE_TAMPERED)
        agt_check_refute(plan, index, CAUSE(TAMPER), "", refutation);
    else if (finding == AGT_ORACLE_WRONG)
        agt_check_refute(plan, index, CAUSE(ORACLE),
                         "the tests passed, but not the hidden cases of the task: ", refutation);
    return 0;
}

int agt_check_judge(struct agt_check_plan *plan, size_t index,
                    const Crisol__Sandbox__V1__TestReport *before, const struct agt_call *call,
                    struct agt_evidence *ret_refutation)
{
    int r = 0;

    switch (plan->files[index].kind) {
    case AGT_CHECK_CANARY:
        judge_canary(plan, index, before, call, ret_refutation);
        break;
    case AGT_CHECK_STUB:
        judge_stub(plan, index, before, call->result, ret_refutation);
        break;
    case AGT_CHECK_OWN:
        judge_own(plan, index, call, ret_refutation);
        break;
    case AGT_CHECK_ORACLE:
        r = judge_oracle(plan, index, call, ret_refutation);
        break;
    default:
        judge_mutant(plan, index, call->result);
        break;
    }
    end_text(result_of(plan, index)->summary);
    return r;
}
