/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/compare.h"

#include "common/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name
#define OUTCOME(name) CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_##name

static bool is_canary(const Crisol__Sandbox__V1__TestCase *test, const char *name)
{
    size_t id_size = strlen(test->id);
    size_t size = strlen(name);

    return id_size > size && strcmp(test->id + id_size - size, name) == 0 &&
           test->id[id_size - size - 1] == ':';
}

/* For "%.*s": as much as fits, and no half character. */
static int shown_size(const char *text, size_t max)
{
    return (int)cr_utf8_complete_prefix(text, strnlen(text, max));
}

/* True when the canary of every file is among the failures, with its own text. */
static bool has_failed(const Crisol__Sandbox__V1__TestReport *report,
                       const struct agt_canary *canary)
{
    uint32_t failed = 0;

    for (size_t i = 0; i < report->n_cases; i++) {
        const Crisol__Sandbox__V1__TestCase *test = report->cases[i];

        if (!is_canary(test, canary->name))
            continue;
        if (test->outcome != OUTCOME(FAILED) ||
            (!strstr(test->message, canary->text) && !strstr(test->details, canary->text)))
            return false;
        failed++;
    }
    return failed == canary->count;
}

/* The first failure that is not the canary's, or NULL. */
static const Crisol__Sandbox__V1__TestCase *
other_failure(const Crisol__Sandbox__V1__TestReport *report, const char *name)
{
    for (size_t i = 0; i < report->n_cases; i++) {
        const Crisol__Sandbox__V1__TestCase *test = report->cases[i];

        if (test->outcome != OUTCOME(PASSED) && !is_canary(test, name))
            return test;
    }
    return NULL;
}

static enum agt_canary_finding judge_report(const Crisol__Sandbox__V1__TestReport *before,
                                            const Crisol__Sandbox__V1__TestReport *report,
                                            const struct agt_canary *canary, char *summary,
                                            size_t summary_size)
{
    const Crisol__Sandbox__V1__TestCase *other = other_failure(report, canary->name);

    if (other || report->failed + report->errors + report->skipped != canary->count) {
        (void)snprintf(summary, summary_size, "passed, and failed when run again: %.*s",
                       other ? shown_size(other->id, 120) : 0, other ? other->id : "");
        return AGT_CANARY_UNSTABLE;
    }
    if (report->tests != before->tests + canary->count) {
        (void)snprintf(summary, summary_size, "%u tests were found, and %u when run again",
                       before->tests,
                       report->tests > canary->count ? report->tests - canary->count : 0);
        return AGT_CANARY_UNSTABLE;
    }
    (void)snprintf(summary, summary_size, "a test that must fail did fail, and nothing else");
    return AGT_CANARY_SHOWN;
}

enum agt_canary_finding agt_canary_judge(const Crisol__Sandbox__V1__TestReport *before,
                                         const Crisol__Sandbox__V1__ExecuteResult *result,
                                         const struct agt_canary *canary, char *summary,
                                         size_t summary_size)
{
    const Crisol__Sandbox__V1__TestReport *report = result->test_report;
    Crisol__Sandbox__V1__VerdictCode code = result->verdict ? result->verdict->code : 0;

    if (code != VERDICT(OK) && code != VERDICT(NONZERO_EXIT)) {
        (void)snprintf(summary, summary_size, "passed, and ended by a limit when run again: %.*s",
                       result->verdict ? shown_size(result->verdict->message, 160) : 0,
                       result->verdict ? result->verdict->message : "");
        return AGT_CANARY_UNSTABLE;
    }
    if (!report || !report->is_present) {
        (void)snprintf(summary, summary_size,
                       "the report is missing once a test is added that must fail");
        return AGT_CANARY_TAMPERED;
    }
    if (!has_failed(report, canary) || code == VERDICT(OK)) {
        (void)snprintf(summary, summary_size,
                       "a test that must fail was added and did not fail (%u failures, exit code "
                       "%d): the test runner does not report failures",
                       report->failed + report->errors, result->exit_code);
        return AGT_CANARY_TAMPERED;
    }
    return judge_report(before, report, canary, summary, summary_size);
}
