/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/evidence.h"

#include "common/auto.h"
#include "common/utf8.h"
#include "orchestrator/graph/fenced.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name
#define OUTCOME(name) CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_##name

/* How pytest shows the assertion with the values that it saw. */
#define ASSERT_LINE "\nE       assert "

static const char *const cause_names[] = {
    [CAUSE(UNSPECIFIED)] = "NONE",    [CAUSE(SYNTAX)] = "SYNTAX",
    [CAUSE(IMPORT)] = "IMPORT",       [CAUSE(COLLECTION)] = "COLLECTION",
    [CAUSE(ASSERTION)] = "ASSERTION", [CAUSE(EXCEPTION)] = "EXCEPTION",
    [CAUSE(TIMEOUT)] = "TIMEOUT",     [CAUSE(MEMORY)] = "MEMORY",
    [CAUSE(PROCESSES)] = "PROCESSES", [CAUSE(OUTPUT_LIMIT)] = "OUTPUT_LIMIT",
    [CAUSE(NO_TESTS)] = "NO_TESTS",   [CAUSE(TAMPER)] = "TAMPER",
    [CAUSE(OTHER)] = "OTHER",         [CAUSE(VACUOUS_TESTS)] = "VACUOUS_TESTS",
    [CAUSE(FLAKY)] = "FLAKY",         [CAUSE(WEAK_TESTS)] = "WEAK_TESTS",
    [CAUSE(ORACLE)] = "ORACLE",       [CAUSE(CHECK)] = "CHECK",
};

const char *agt_cause_name(Crisol__Agent__V1__AttemptCause cause)
{
    return (unsigned)cause < CR_ARRAY_SIZE(cause_names) ? cause_names[cause] : "OTHER";
}

/* Limits that have a cause of their own; the verdict names the limit. */
static const struct {
    Crisol__Sandbox__V1__VerdictCode code;
    Crisol__Agent__V1__AttemptCause cause;
    const char *text;
} limits[] = {
    {VERDICT(WALL_TIME_LIMIT), CAUSE(TIMEOUT), "the tests did not end in time"},
    {VERDICT(CPU_TIME_LIMIT), CAUSE(TIMEOUT), "the tests used more CPU time than allowed"},
    {VERDICT(MEMORY_LIMIT), CAUSE(MEMORY), "the tests used more memory than allowed"},
    {VERDICT(PROCESS_LIMIT), CAUSE(PROCESSES), "the tests started more processes than allowed"},
    {VERDICT(OUTPUT_LIMIT), CAUSE(OUTPUT_LIMIT), "the tests wrote more output than allowed"},
    {VERDICT(FILE_SIZE_LIMIT), CAUSE(OTHER), "the tests wrote a file larger than allowed"},
    {VERDICT(DISK_LIMIT), CAUSE(OTHER), "the tests filled the workspace"},
    {VERDICT(SECURITY_VIOLATION), CAUSE(OTHER), "the tests made a forbidden system call"},
    {VERDICT(SIGNALED), CAUSE(OTHER), "the test process was killed by a signal of its own"},
    {VERDICT(COMPILE_ERROR), CAUSE(OTHER), "the compile stage failed"},
    {VERDICT(EXEC_FAILED), CAUSE(OTHER), "the test runner could not be started"},
    {VERDICT(COLLECT_FAILED), CAUSE(OTHER), "a required file was missing at the end"},
};

__attribute__((format(printf, 3, 4))) static void conclude(struct agt_evidence *evidence,
                                                           Crisol__Agent__V1__AttemptCause cause,
                                                           const char *format, ...)
{
    va_list args;
    size_t size;

    va_start(args, format);
    (void)vsnprintf(evidence->summary, sizeof(evidence->summary), format, args);
    va_end(args);
    size = strlen(evidence->summary);
    evidence->summary[cr_utf8_complete_prefix(evidence->summary, size)] = '\0';
    for (char *at = evidence->summary; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = ' ';
    }
    evidence->cause = cause;
}

/* The name of a test behind the last "::"; the whole id when there is none. */
static const char *short_id(const char *id)
{
    const char *at = strrchr(id, ':');

    return at && at > id && at[-1] == ':' ? at + 1 : id;
}

/* Length of the first line, at most `max`, for "%.*s": never in the middle of a character. */
static int line_size(const char *text, size_t max)
{
    size_t size = strcspn(text, "\r\n");

    return (int)cr_utf8_complete_prefix(text, size < max ? size : max);
}

/* Where in the test file a failure was seen. */
struct place {
    unsigned line;      /* 0: nowhere */
    const char *source; /* borrowed from the details, up to the end of its line; "": not shown */
};

/* The line that pytest marked with '>' before `end`, without the mark; "" when there is none. */
static const char *find_marked_line(const char *details, const char *end)
{
    const char *found = "";
    const char *at = details;

    while (at && at < end) {
        if (*at == '>')
            found = at + 1 + strspn(at + 1, " ");
        at = strchr(at, '\n');
        if (at)
            at++;
    }
    return found;
}

/* The last "test_solution.py:N:" of a traceback and the source line that stands above it. */
static struct place find_place(const char *details)
{
    struct place place = {.source = ""};
    const char *end = details;

    for (const char *at = strstr(details, AGT_TESTS_NAME ":"); at;
         at = strstr(at, AGT_TESTS_NAME ":")) { /* behind what was read */
        const char *start = at;
        unsigned line = 0;

        at += sizeof(AGT_TESTS_NAME ":") - 1;
        while (isdigit((unsigned char)*at) && line < 1000000)
            line = 10 * line + (unsigned)(*at++ - '0');
        if (*at == ':' && line > 0) {
            place.line = line;
            end = start;
        }
    }
    place.source = find_marked_line(details, end);
    return place;
}

static bool mentions(const Crisol__Sandbox__V1__TestCase *test, const char *text)
{
    return strstr(test->message, text) || strstr(test->details, text);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static Crisol__Agent__V1__AttemptCause classify(const Crisol__Sandbox__V1__TestCase *test)
{
    bool is_error = test->outcome == OUTCOME(ERROR);

    if (mentions(test, "SyntaxError:") || mentions(test, "IndentationError:") ||
        mentions(test, "TabError:"))
        return CAUSE(SYNTAX);
    if (mentions(test, "ModuleNotFoundError:") || mentions(test, "ImportError:"))
        return CAUSE(IMPORT);
    if (is_error && !strstr(test->id, "::"))
        return CAUSE(COLLECTION);
    if (starts_with(test->message, "AssertionError") || starts_with(test->message, "assert") ||
        starts_with(test->message, "Failed:") || strstr(test->details, ASSERT_LINE))
        return CAUSE(ASSERTION);
    return CAUSE(EXCEPTION);
}

/* The line of a failure that says most: the last "E" line that names an exception. */
static const char *find_reason(const Crisol__Sandbox__V1__TestCase *test)
{
    static const char *const errors[] = {
        "SyntaxError:", "IndentationError:", "TabError:", "ModuleNotFoundError:", "ImportError:"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(errors); i++) {
        const char *at = strstr(test->details, errors[i]);

        if (at)
            return at;
    }
    if (starts_with(test->message, "AssertionError: "))
        return test->message + strlen("AssertionError: ");
    return test->message[0] ? test->message : "failed without a message";
}

/*
 * What is to be said beside the source line. A text that the assertion gives is in that line
 * already; the values that pytest saw stand on an "E" line of their own in the details.
 */
static const char *find_news(const Crisol__Sandbox__V1__TestCase *test, const char *source)
{
    const char *reason = find_reason(test);
    const char *values = strstr(test->details, ASSERT_LINE);

    if (values && memmem(source, strcspn(source, "\n"), reason, strcspn(reason, "\r\n")))
        return values + sizeof(ASSERT_LINE) - sizeof("assert ");
    return reason;
}

static void conclude_from_test(const Crisol__Sandbox__V1__TestCase *test,
                               struct agt_evidence *evidence)
{
    const char *reason = find_reason(test);
    const char *name = short_id(test->id);
    struct place place = find_place(test->details);
    char where[200] = "";
    size_t max = 300;

    if (place.line > 0 && place.source[0]) {
        reason = find_news(test, place.source);
        max = 200;
        (void)snprintf(where, sizeof(where), AGT_TESTS_NAME ":%u: %.*s \u2192 ", place.line,
                       line_size(place.source, 160), place.source);
    } else if (place.line > 0) {
        (void)snprintf(where, sizeof(where), AGT_TESTS_NAME ":%u: ", place.line);
    }
    conclude(evidence, classify(test), "%s%.*s (%.*s)", where, line_size(reason, max), reason,
             line_size(name, 100), name);
}

/* The first case with this outcome, or NULL. */
static const Crisol__Sandbox__V1__TestCase *find_case(const Crisol__Sandbox__V1__TestReport *report,
                                                      Crisol__Sandbox__V1__TestOutcome outcome)
{
    for (size_t i = 0; i < report->n_cases; i++) {
        if (report->cases[i]->outcome == outcome)
            return report->cases[i];
    }
    return NULL;
}

/* A limit or a death: nothing that the report says can mend it. True when it was one. */
static bool judge_verdict(const Crisol__Sandbox__V1__ExecuteResult *result,
                          struct agt_evidence *evidence)
{
    const Crisol__Sandbox__V1__Verdict *verdict = result->verdict;

    for (size_t i = 0; i < CR_ARRAY_SIZE(limits); i++) {
        if (limits[i].code == verdict->code) {
            conclude(evidence, limits[i].cause, "%s%s%.*s", limits[i].text,
                     verdict->message[0] ? ": " : "", line_size(verdict->message, 200),
                     verdict->message);
            return true;
        }
    }
    if (verdict->code == VERDICT(OK) || verdict->code == VERDICT(NONZERO_EXIT))
        return false;
    conclude(evidence, CAUSE(OTHER), "the sandbox run ended with verdict %d%s%.*s",
             (int)verdict->code, verdict->message[0] ? ": " : "", line_size(verdict->message, 200),
             verdict->message);
    return true;
}

static void judge_missing_report(const Crisol__Sandbox__V1__ExecuteResult *result,
                                 struct agt_evidence *evidence)
{
    const char *problem = result->test_report ? result->test_report->problem : "";
    int size = line_size(problem, 200);

    if (result->exit_code == 0)
        conclude(evidence, CAUSE(TAMPER), "exit code 0 without a test report%s%.*s",
                 problem[0] ? ": " : "", size, problem);
    else if (result->exit_code == 5) /* pytest: no tests were collected */
        conclude(evidence, CAUSE(NO_TESTS), "no test was found");
    else
        conclude(evidence, CAUSE(OTHER), "exit code %d without a test report%s%.*s",
                 result->exit_code, problem[0] ? ": " : "", size, problem);
}

/* Failures and errors that the report itself admits. True when there are any. */
static bool judge_failures(const Crisol__Sandbox__V1__TestReport *report,
                           struct agt_evidence *evidence)
{
    const Crisol__Sandbox__V1__TestCase *test;

    if (report->failed == 0 && report->errors == 0)
        return false;
    test = find_case(report, OUTCOME(ERROR));
    if (!test || report->failed > 0)
        test = find_case(report, OUTCOME(FAILED)) ? find_case(report, OUTCOME(FAILED)) : test;
    if (test)
        conclude_from_test(test, evidence);
    else
        conclude(evidence, CAUSE(OTHER), "%u tests failed and %u had errors", report->failed,
                 report->errors);
    return true;
}

static void judge_report(const Crisol__Sandbox__V1__ExecuteResult *result,
                         struct agt_evidence *evidence)
{
    const Crisol__Sandbox__V1__TestReport *report = result->test_report;
    bool is_exit_ok = result->verdict->code == VERDICT(OK) && result->exit_code == 0;

    if (is_exit_ok && (report->failed > 0 || report->errors > 0))
        conclude(evidence, CAUSE(TAMPER), "exit code 0, but the report has %u failures",
                 report->failed + report->errors);
    else if (judge_failures(report, evidence))
        return;
    else if (report->tests == 0 || report->skipped == report->tests)
        conclude(evidence, CAUSE(NO_TESTS), "no test was run: %u found, %u skipped", report->tests,
                 report->skipped);
    else if (report->skipped > 0)
        conclude(evidence, CAUSE(OTHER),
                 "%u of %u tests were skipped: a skipped test shows nothing", report->skipped,
                 report->tests);
    else if (report->passed != report->tests)
        conclude(evidence, CAUSE(TAMPER), "the report does not add up: %u tests, %u passed",
                 report->tests, report->passed);
    else if (!is_exit_ok)
        conclude(evidence, CAUSE(TAMPER),
                 "the report says that all passed, but the exit code is %d", result->exit_code);
    else {
        conclude(evidence, CAUSE(UNSPECIFIED), "%u tests passed", report->passed);
        evidence->has_passed = true;
    }
}

void agt_evidence_judge(const Crisol__Sandbox__V1__ExecuteResult *result,
                        struct agt_evidence *ret_evidence)
{
    *ret_evidence = (struct agt_evidence){.has_passed = false};
    if (!result->verdict) {
        conclude(ret_evidence, CAUSE(OTHER), "the sandbox gave no verdict");
        return;
    }
    if (judge_verdict(result, ret_evidence))
        return;
    if (!result->test_report || !result->test_report->is_present)
        judge_missing_report(result, ret_evidence);
    else
        judge_report(result, ret_evidence);
}

void agt_evidence_judge_exit(const Crisol__Sandbox__V1__ExecuteResult *result,
                             struct agt_evidence *ret_evidence)
{
    agt_evidence_judge(result, ret_evidence);
    if (ret_evidence->has_passed || !result->verdict || result->verdict->code != VERDICT(OK) ||
        result->exit_code != 0)
        return;
    conclude(ret_evidence, CAUSE(UNSPECIFIED), "exit code 0; nothing else was looked at");
    ret_evidence->has_passed = true;
}
