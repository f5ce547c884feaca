/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/graph/evidence.h"
#include "tests/harness/test.h"

#include <stdint.h>
#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name
#define OUTCOME(name) CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_##name

struct run {
    Crisol__Sandbox__V1__VerdictCode verdict;
    int32_t exit_code;
    bool has_report;
    uint32_t tests;
    uint32_t passed;
    uint32_t failed;
    uint32_t errors;
    uint32_t skipped;
};

static const struct {
    struct run run;
    Crisol__Agent__V1__AttemptCause cause; /* UNSPECIFIED: passed */
    const char *summary;
} table[] = {
    {{VERDICT(OK), 0, true, 3, 3, 0, 0, 0}, CAUSE(UNSPECIFIED), "3 tests passed"},
    /* Exit status and report must agree. */
    {{VERDICT(OK), 0, false, 0, 0, 0, 0, 0}, CAUSE(TAMPER), "exit code 0 without a test report"},
    {{VERDICT(OK), 0, true, 3, 2, 1, 0, 0}, CAUSE(TAMPER), "the report has 1 failures"},
    {{VERDICT(OK), 0, true, 3, 2, 0, 1, 0}, CAUSE(TAMPER), "the report has 1 failures"},
    {{VERDICT(NONZERO_EXIT), 1, true, 3, 3, 0, 0, 0}, CAUSE(TAMPER), "the exit code is 1"},
    {{VERDICT(OK), 3, true, 3, 3, 0, 0, 0}, CAUSE(TAMPER), "the exit code is 3"},
    {{VERDICT(OK), 0, true, 3, 2, 0, 0, 0}, CAUSE(TAMPER), "does not add up"},
    {{VERDICT(OK), 0, true, 2, 3, 0, 0, 0}, CAUSE(TAMPER), "does not add up"},
    /* No proof. */
    {{VERDICT(OK), 0, true, 0, 0, 0, 0, 0}, CAUSE(NO_TESTS), "no test was run"},
    {{VERDICT(NONZERO_EXIT), 5, true, 0, 0, 0, 0, 0}, CAUSE(NO_TESTS), "no test was run"},
    {{VERDICT(NONZERO_EXIT), 5, false, 0, 0, 0, 0, 0}, CAUSE(NO_TESTS), "no test was found"},
    {{VERDICT(OK), 0, true, 2, 0, 0, 0, 2}, CAUSE(NO_TESTS), "2 found, 2 skipped"},
    {{VERDICT(OK), 0, true, 3, 2, 0, 0, 1}, CAUSE(OTHER), "1 of 3 tests were skipped"},
    /* The rest. */
    {{VERDICT(NONZERO_EXIT), 1, true, 3, 1, 2, 0, 0}, CAUSE(OTHER), "2 tests failed"},
    {{VERDICT(NONZERO_EXIT), 2, false, 0, 0, 0, 0, 0}, CAUSE(OTHER), "exit code 2 without"},
    {{VERDICT(WALL_TIME_LIMIT), 0, true, 3, 3, 0, 0, 0}, CAUSE(TIMEOUT), "did not end in time"},
    {{VERDICT(CPU_TIME_LIMIT), 0, false, 0, 0, 0, 0, 0}, CAUSE(TIMEOUT), "CPU time"},
    {{VERDICT(MEMORY_LIMIT), 0, true, 3, 3, 0, 0, 0}, CAUSE(MEMORY), "memory"},
    {{VERDICT(PROCESS_LIMIT), 1, true, 3, 3, 0, 0, 0}, CAUSE(PROCESSES), "processes"},
    {{VERDICT(OUTPUT_LIMIT), 0, true, 3, 3, 0, 0, 0}, CAUSE(OUTPUT_LIMIT), "output"},
    {{VERDICT(FILE_SIZE_LIMIT), 1, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "larger than allowed"},
    {{VERDICT(DISK_LIMIT), 1, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "workspace"},
    {{VERDICT(SECURITY_VIOLATION), 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "system call"},
    {{VERDICT(SIGNALED), 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "signal"},
    {{VERDICT(EXEC_FAILED), 0, false, 0, 0, 0, 0, 0}, CAUSE(OTHER), "could not be started"},
    {{VERDICT(UNSPECIFIED), 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "verdict 0"},
    {{VERDICT(CANCELLED), 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "verdict 40"},
    {{VERDICT(SANDBOX_ERROR), 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "verdict 50"},
    {{(Crisol__Sandbox__V1__VerdictCode)99, 0, true, 3, 3, 0, 0, 0}, CAUSE(OTHER), "verdict 99"},
};

static void judge(const struct run *run, Crisol__Sandbox__V1__TestCase *test,
                  struct agt_evidence *ret_evidence)
{
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    Crisol__Sandbox__V1__TestReport report = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;

    verdict.code = run->verdict;
    result.verdict = &verdict;
    result.exit_code = run->exit_code;
    result.test_report = &report;
    report.is_present = run->has_report;
    report.tests = run->tests;
    report.passed = run->passed;
    report.failed = run->failed;
    report.errors = run->errors;
    report.skipped = run->skipped;
    if (test) {
        report.cases = &test;
        report.n_cases = 1;
    }
    agt_evidence_judge(&result, ret_evidence);
}

static void every_row_of_the_table_is_judged_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(table); i++) {
        struct agt_evidence evidence;

        judge(&table[i].run, NULL, &evidence);
        if (evidence.cause != table[i].cause || !strstr(evidence.summary, table[i].summary))
            fail_msg("row %zu: %s '%s'", i, agt_cause_name(evidence.cause), evidence.summary);
        assert_int_equal(evidence.has_passed, table[i].cause == CAUSE(UNSPECIFIED));
    }
}

static const struct {
    const char *id;
    bool is_error;
    const char *message;
    const char *details;
    Crisol__Agent__V1__AttemptCause cause;
    const char *summary;
} failures[] = {
    {"test_solution.py::test_get_refreshes", false, "AssertionError: assert 2 == 1\n +  where",
     ">       assert f() == 1\nE       AssertionError: assert 2 == 1\n\n"
     "test_solution.py:14: AssertionError",
     CAUSE(ASSERTION),
     "test_solution.py:14: assert f() == 1 \u2192 assert 2 == 1 (test_get_refreshes)"},
    /* A text of the assertion's own stands in its line: the values say more. */
    {"test_solution.py::test_recency", false, "AssertionError: b was used least recently",
     "def test_recency():\n>       assert get(\"b\") is None, \"b was used least recently\"\n"
     "E       AssertionError: b was used least recently\nE       assert 2 is None\n\n"
     "test_solution.py:40: AssertionError",
     CAUSE(ASSERTION),
     "test_solution.py:40: assert get(\"b\") is None, \"b was used least recently\" \u2192 "
     "assert 2 is None (test_recency)"},
    {"test_solution.py::test_made_up", false, "AssertionError: 2 of 3",
     ">       assert n == m, f\"{n} of {m}\"\nE       assert 2 == 3\ntest_solution.py:5: AssertionError",
     CAUSE(ASSERTION),
     "test_solution.py:5: assert n == m, f\"{n} of {m}\" \u2192 2 of 3 (test_made_up)"},
    /* The line of the test that led there, not the line in the solution. */
    {"test_solution.py::test_deep", false, "KeyError: 'a'",
     ">       f('a')\n\ntest_solution.py:7: \n_ _ _\n>       return d[k]\nE       KeyError: 'a'\n\n"
     "solution.py:3: KeyError",
     CAUSE(EXCEPTION), "test_solution.py:7: f('a') \u2192 KeyError: 'a' (test_deep)"},
    {"test_solution.py::TestA::test_b[1::2]", false, "assert 2 == 1",
     "test_solution.py:9: \nsolution.py:3: in f\ntest_solution.py:99: AssertionError",
     CAUSE(ASSERTION), "test_solution.py:99: assert 2 == 1 (2])"},
    {"test_solution.py::test_raises", false, "Failed: DID NOT RAISE <class 'ValueError'>",
     "test_solution.py:3: Failed", CAUSE(ASSERTION),
     "test_solution.py:3: Failed: DID NOT RAISE <class 'ValueError'> (test_raises)"},
    {"test_solution.py::test_x", false, "KeyError: 'a'", "solution.py:7: KeyError",
     CAUSE(EXCEPTION), "KeyError: 'a' (test_x)"},
    {"test_solution.py", true, "collection failure",
     "E     File \"/workspace/solution.py\", line 3\nE       def f(\nE            ^\n"
     "E   SyntaxError: '(' was never closed",
     CAUSE(SYNTAX), "SyntaxError: '(' was never closed (test_solution.py)"},
    {"test_solution.py", true, "collection failure",
     "test_solution.py:1: in <module>\nE   ModuleNotFoundError: No module named 'numpy'",
     CAUSE(IMPORT),
     "test_solution.py:1: ModuleNotFoundError: No module named 'numpy' (test_solution.py)"},
    {"test_solution.py", true, "collection failure", "NameError: name 'x' is not defined",
     CAUSE(COLLECTION), "collection failure (test_solution.py)"},
    {"test_solution.py::test_x", true, "fixture 'a' not found", "", CAUSE(EXCEPTION),
     "fixture 'a' not found (test_x)"},
    {"test_solution.py::test_x", false, "cut", "test_solution.py:14", CAUSE(EXCEPTION),
     "cut (test_x)"},
    {"test_solution.py::test_x", false, "cut", "test_solution.py:", CAUSE(EXCEPTION),
     "cut (test_x)"},
    {"test_solution.py::test_x", false, "", "", CAUSE(EXCEPTION),
     "failed without a message (test_x)"},
    {"test_solution.py::test_x", false, "a\tb\x1b[31m\nmore", "", CAUSE(EXCEPTION),
     "a b [31m (test_x)"},
};

static void failing_test_gives_cause_and_summary(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(failures); i++) {
        struct run run = {VERDICT(NONZERO_EXIT), 1, true, 1, 0, 0, 0, 0};
        Crisol__Sandbox__V1__TestCase test = CRISOL__SANDBOX__V1__TEST_CASE__INIT;
        struct agt_evidence evidence;

        run.errors = failures[i].is_error;
        run.failed = !failures[i].is_error;
        test.id = (char *)(uintptr_t)failures[i].id;
        test.message = (char *)(uintptr_t)failures[i].message;
        test.details = (char *)(uintptr_t)failures[i].details;
        test.outcome = failures[i].is_error ? OUTCOME(ERROR) : OUTCOME(FAILED);
        judge(&run, &test, &evidence);
        assert_string_equal(evidence.summary, failures[i].summary);
        assert_int_equal(evidence.cause, failures[i].cause);
        assert_false(evidence.has_passed);
    }
}

static void result_without_verdict_does_not_pass(void **state)
{
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    struct agt_evidence evidence = {.has_passed = true};

    (void)state;
    agt_evidence_judge(&result, &evidence);
    assert_false(evidence.has_passed);
    assert_int_equal(evidence.cause, CAUSE(OTHER));
}

static void long_summary_is_cut_between_characters(void **state)
{
    struct run run = {VERDICT(NONZERO_EXIT), 1, true, 1, 0, 1, 0, 0};
    Crisol__Sandbox__V1__TestCase test = CRISOL__SANDBOX__V1__TEST_CASE__INIT;
    struct agt_evidence evidence;
    char message[1000];

    (void)state;
    for (size_t i = 0; i < 333; i++)
        memcpy(message + 3 * i, "漢", 3);
    message[999] = '\0';
    test.id = (char *)(uintptr_t) "test_solution.py::test_x";
    test.message = message;
    test.outcome = OUTCOME(FAILED);
    judge(&run, &test, &evidence);

    assert_int_equal(strlen(evidence.summary), 300 + strlen(" (test_x)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_table_is_judged_as_written),
        cmocka_unit_test(failing_test_gives_cause_and_summary),
        cmocka_unit_test(result_without_verdict_does_not_pass),
        cmocka_unit_test(long_summary_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
