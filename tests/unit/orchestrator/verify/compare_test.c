/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "orchestrator/verify/compare.h"
#include "tests/harness/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name
#define OUTCOME(name) CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_##name

/* A run of two tests and the canary. */
struct run {
    Crisol__Sandbox__V1__Verdict verdict;
    Crisol__Sandbox__V1__TestReport report;
    Crisol__Sandbox__V1__TestCase cases[3];
    Crisol__Sandbox__V1__TestCase *list[3];
    Crisol__Sandbox__V1__ExecuteResult result;
    char ids[3][160];
    char text[16];
};

static void init(struct run *run)
{
    static const Crisol__Sandbox__V1__TestCase blank = CRISOL__SANDBOX__V1__TEST_CASE__INIT;
    static const char *const ids[] = {"t.py::test_a", "t.py::test_b", "t.py::test_canary"};

    *run = (struct run){.text = "must-fail"};
    crisol__sandbox__v1__verdict__init(&run->verdict);
    crisol__sandbox__v1__test_report__init(&run->report);
    crisol__sandbox__v1__execute_result__init(&run->result);
    for (size_t i = 0; i < 3; i++) {
        run->cases[i] = blank;
        (void)memccpy(run->ids[i], ids[i], '\0', sizeof(run->ids[i]));
        run->cases[i].id = run->ids[i];
        run->cases[i].outcome = i < 2 ? OUTCOME(PASSED) : OUTCOME(FAILED);
        run->list[i] = &run->cases[i];
    }
    run->cases[2].message = run->text;
    run->report.is_present = true;
    run->report.tests = 3;
    run->report.passed = 2;
    run->report.failed = 1;
    run->report.cases = run->list;
    run->report.n_cases = 3;
    run->verdict.code = VERDICT(NONZERO_EXIT);
    run->result.verdict = &run->verdict;
    run->result.test_report = &run->report;
    run->result.exit_code = 1;
}

static enum agt_canary_finding judge(const struct run *run, char summary[static 200])
{
    Crisol__Sandbox__V1__TestReport before = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;
    const struct agt_canary canary = {"test_canary", "must-fail", 1};

    before.tests = 2;
    before.passed = 2;
    return agt_canary_judge(&before, &run->result, &canary, summary, 200);
}

static void one_failure_more_is_shown(void **state)
{
    struct run run;
    char summary[200];

    (void)state;
    init(&run);
    assert_int_equal(judge(&run, summary), AGT_CANARY_SHOWN);
}

/* The name of a test is cut, and not within a character. */
static void long_names_stay_utf8(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        struct run run;
        char summary[200];

        init(&run);
        (void)snprintf(run.ids[0], sizeof(run.ids[0]), "t.py::test_%.*s", (int)extra, "x");
        while (strlen(run.ids[0]) < 140)
            (void)strncat(run.ids[0], "\u00f1", sizeof(run.ids[0]) - strlen(run.ids[0]) - 1);
        run.cases[0].outcome = OUTCOME(FAILED);
        assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);
        assert_true(cr_utf8_is_valid(summary, strlen(summary)));

        run.verdict.code = VERDICT(WALL_TIME_LIMIT);
        run.verdict.message = run.ids[0];
        assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);
        assert_true(cr_utf8_is_valid(summary, strlen(summary)));
    }
}

static void hidden_failure_is_tampering(void **state)
{
    struct run run;
    char summary[200];

    (void)state;
    init(&run);
    run.cases[2].outcome = OUTCOME(PASSED);
    run.report.failed = 0;
    run.report.passed = 3;
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);
    assert_non_null(strstr(summary, "did not fail"));

    init(&run); /* another text: somebody else's failure under this name */
    run.text[0] = 'x';
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);

    init(&run);
    run.verdict.code = VERDICT(OK);
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);

    init(&run);
    run.report.n_cases = 2; /* not among the cases */
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);

    init(&run);
    run.report.is_present = false;
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);
    run.result.test_report = NULL;
    assert_int_equal(judge(&run, summary), AGT_CANARY_TAMPERED);
}

/* A runner may be patched for the tests of one file alone. */
static void every_file_has_its_failure(void **state)
{
    Crisol__Sandbox__V1__TestReport before = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;
    const struct agt_canary canary = {"test_canary", "must-fail", 2};
    struct run run;
    char summary[200];

    (void)state;
    init(&run);
    before.tests = 1;
    before.passed = 1;
    assert_int_equal(agt_canary_judge(&before, &run.result, &canary, summary, sizeof(summary)),
                     AGT_CANARY_TAMPERED);

    (void)memccpy(run.ids[1], "u.py::test_canary", '\0', sizeof(run.ids[1]));
    assert_int_equal(agt_canary_judge(&before, &run.result, &canary, summary, sizeof(summary)),
                     AGT_CANARY_TAMPERED); /* it passed there */

    run.cases[1].outcome = OUTCOME(FAILED);
    run.cases[1].message = run.text;
    run.report.passed = 1;
    run.report.failed = 2;
    assert_int_equal(agt_canary_judge(&before, &run.result, &canary, summary, sizeof(summary)),
                     AGT_CANARY_SHOWN);
}

static void other_differences_are_unstable(void **state)
{
    struct run run;
    char summary[200];

    (void)state;
    init(&run);
    run.cases[0].outcome = OUTCOME(FAILED);
    run.report.failed = 2;
    run.report.passed = 1;
    assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);
    assert_non_null(strstr(summary, "t.py::test_a"));

    init(&run);
    run.report.tests = 4;
    run.report.passed = 3;
    assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);

    init(&run);
    run.verdict.code = VERDICT(WALL_TIME_LIMIT);
    assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);
    run.result.verdict = NULL;
    assert_int_equal(judge(&run, summary), AGT_CANARY_UNSTABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_more_is_shown),
        cmocka_unit_test(hidden_failure_is_tampering),
        cmocka_unit_test(long_names_stay_utf8),
        cmocka_unit_test(every_file_has_its_failure),
        cmocka_unit_test(other_differences_are_unstable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
